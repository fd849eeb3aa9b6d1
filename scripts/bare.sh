#!/usr/bin/env bash
# tare on a bare Debian 12. Needs root, debootstrap and a network, and some minutes. The machine is made in $TARE_BARE
# (/tmp/tare-bare), unless it is there. Debian comes from the mirrors in this machine's apt configuration, or from those that
# TARE_MIRROR and TARE_SECURITY_MIRROR name.
#
#   scripts/bare.sh            in a chroot: installs the package, uses it, upgrades server and package, and takes
#                              everything off again; what it prints is the transcript in docs/how-to/install.md
#   scripts/bare.sh repository in a chroot: the same from an apt repository, served on loopback and signed with a key that is
#                              made for it; what it prints is the transcript in docs/how-to/apt-repository.md
#   scripts/bare.sh nspawn     the same with systemd itself, in a container (package systemd-container)
#   scripts/bare.sh broken     with systemd: breaks what is installed, in one way after the other; the server starts and serves
#   scripts/bare.sh recipes    in a chroot: runs docs/deploy/, the playbook with Ansible, and the Dockerfile's steps
set -euo pipefail
cd "$(dirname "$0")/.."
die() { printf 'bare: %s\n' "$*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || die "needs root"
bare=${TARE_BARE:-/tmp/tare-bare}
package=${TARE_PACKAGE:-$(ls target/package/tare_*_amd64.deb 2>/dev/null)}
[ -f "$package" ] || die "make deb first"
# shellcheck source=scripts/mirror.sh
. scripts/mirror.sh
: "${TARE_SECURITY_MIRROR:=${TARE_MIRROR:+$TARE_MIRROR-security}}"
export PATH=$PATH:/usr/sbin:/sbin

provider=/usr/lib/tare/libtare_mariadb.so
# Where the apt repository is served.
host=127.0.0.1 port=${TARE_PORT:-8470}

# The container and the first process in it, where there is one.
container='' init=''
# The web server that serves an apt repository, where there is one.
web=''
# How the doctor is told which server is meant: in a chroot no process is a unit's.
server='--socket /run/mysqld/mysqld.sock'
inside() {
    local way=(chroot "$bare")
    [ -z "$init" ] || way=(nsenter --all --target "$init")
    "${way[@]}" env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"
}
show() { printf '$ %s\n' "$*"; inside sh -c "$*"; }
quiet() { inside sh -c "$*" >"$bare.log" 2>&1 || { cat "$bare.log"; die "failed: $*"; }; }
told() { printf '$ %s\n' "$*"; quiet "$*"; }
expect() { local status=0; show "$2" || status=$?; [ "$status" = "$1" ] || die "exit status $status, not $1"; }

# What must be as before: all files but logs, caches, the server's own of a running life, and those of its packages, of
# which dpkg knows how they must be.
listing() {
    inside sh -c 'find /etc /usr /opt -xdev -type f -print0 | sort -z | xargs -0 sha256sum' |
        grep -v -e ' /usr/local/bin/systemctl$' -e '/ld.so.cache$' -e ' /etc/apt/' |
        awk 'NR == FNR { of_package[$0]; next } { path = $2; sub("^/usr/", "/", path) } !(path in of_package)' \
            <(inside sh -c "dpkg -L $(server_packages)" | sed 's,^/usr/,/,') -
    inside sh -c 'find /var/lib/mysql -mindepth 1 -type d -o -name "*.frm" -o -name "*.opt" | sort'
}
server_packages() {
    inside dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'mariadb-*' 'libmariadb*' | sed -n 's/^installed //p' | xargs
}
server_version() { inside mariadbd --version; }
user_data() { inside mariadb -NBe 'SELECT COUNT(*), SUM(CRC32(text)) FROM bare.kept'; }
as_before() {
    [ "$(user_data)" = "$data" ] || die "user data differ"
    diff <(echo "$before") <(listing) || die "files differ"
    inside sh -c '! ls -d /var/lib/tare 2>/dev/null' || die "something is left in /var/lib"
    # shellcheck disable=SC2046
    [ -z "$(inside dpkg --verify $(server_packages))" ] || die "files of the server's packages differ"
}

stop() {
    if [ -n "$container" ]; then
        # It ends its servers; the container goes with its first process.
        [ -z "$init" ] || inside systemctl poweroff 2>/dev/null || true
        wait "$container" || true
    else
        inside systemctl stop mariadb 2>/dev/null || true
        umount -q "$bare/proc" || true
    fi
    [ -z "$web" ] || kill "$web" 2>/dev/null || true
    [ -z "${GNUPGHOME:-}" ] || [ "$GNUPGHOME" != "$bare.keys" ] || { gpgconf --kill all || true; rm -rf "$GNUPGHOME" "$bare.repository"; }
}

# Debian and nothing else; no server of it listens on the network, which is the machine's own.
make_machine() {
    local mirror
    if [ ! -e "$bare/etc/debian_version" ]; then
        mirror=$(mirror TARE_MIRROR Debian Debian)
        debootstrap --variant=minbase bookworm "$bare" "$mirror" >"$bare.log"
    fi
    mkdir -p "$bare/proc" "$bare/usr/local/bin" "$bare/etc/mysql/mariadb.conf.d"
    printf '[mariadbd]\nskip-networking\n' > "$bare/etc/mysql/mariadb.conf.d/60-bare.cnf"
    rm -f "$bare/usr/sbin/policy-rc.d" "$bare/usr/local/bin/systemctl"
}

# Starts it as a container with systemd.
boot() {
    command -v systemd-nspawn >/dev/null || die "systemd-nspawn is missing: apt-get install systemd-container"
    quiet 'apt-get update && apt-get install -y --no-install-recommends systemd systemd-sysv'
    systemd-nspawn --quiet --keep-unit --register=no --boot --console=pipe --directory "$bare" </dev/null >"$bare.console" 2>&1 &
    container=$!
    server='--unit mariadb'
    for _ in $(seq 600); do
        init=$(pgrep -P "$container" || true)
        case $([ -z "$init" ] || inside systemctl is-system-running 2>/dev/null) in running | degraded) return ;; esac
        sleep 0.2
    done
    die "the container does not come up: $bare.console"
}

# Instead of systemd, a stand-in that starts the server as its unit and tare's drop-in say, the trial before it included.
stand_in() {
    mountpoint -q "$bare/proc" || mount -t proc proc "$bare/proc"
    printf '#!/bin/sh\nexit 101\n' > "$bare/usr/sbin/policy-rc.d"
    cat > "$bare/usr/local/bin/systemctl" <<'SYSTEMCTL'
#!/bin/sh
case $1 in restart|stop) ;; *) exit 0 ;; esac
pid=$(cat /run/server.pid 2>/dev/null)
if [ -n "$pid" ] && kill "$pid" 2>/dev/null; then
    while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
fi
rm -f /run/server.pid
[ "$1" != stop ] || exit 0
mkdir -p /run/mysqld && chown mysql /run/mysqld
# A container has the variable in its environment.
preload=$LD_PRELOAD
unset LD_PRELOAD
if [ -f /etc/systemd/system/mariadb.service.d/zz-tare.conf ]; then
    export $(sed -n 's/^Environment=//p' /etc/systemd/system/mariadb.service.d/zz-tare.conf)
    sed -n 's/%i/mariadb/g; s/^ExecStart\(Pre\)\{0,1\}=//p' /etc/systemd/system/tare-preload@.service | sh -e
    preload=$(sed -n 's/^LD_PRELOAD=//p' /run/tare/mariadb.env)
fi
LD_PRELOAD=$preload setsid mariadbd --user=mysql --log-error=/var/lib/mysql/server.err </dev/null >/dev/null 2>&1 &
echo $! >/run/server.pid
for _ in $(seq 600); do mariadb-admin ping >/dev/null 2>&1 && exit 0; sleep 0.1; done
exit 1
SYSTEMCTL
    chmod 755 "$bare/usr/sbin/policy-rc.d" "$bare/usr/local/bin/systemctl"
}

# Writes the package to $1, and the same one under the next number. Their versions are $this and $next.
packages() {
    local files
    this=$(dpkg-deb -f "$package" Version)
    this=${this%-*} next=${this%.*}.$((${this##*.} + 1))
    cp "$package" "$1/tare_$this.deb"
    files=$(mktemp -d)
    dpkg-deb -R "$package" "$files/all"
    sed -i "s/^Version: .*/Version: $next-1/" "$files/all/DEBIAN/control"
    dpkg-deb --root-owner-group -Znone -b "$files/all" "$1/tare_$next.deb" >/dev/null
    rm -rf "$files"
}

# A database of the user's, and what must be as before in the end.
user_database() {
    quiet 'systemctl restart mariadb'
    inside mariadb -e "CREATE DATABASE IF NOT EXISTS bare; USE bare;
        CREATE OR REPLACE TABLE kept (id INT PRIMARY KEY, text TEXT) SELECT seq AS id, MD5(seq) AS text FROM seq_1_to_1000"
    before=$(listing); data=$(user_data)
}

transcript() {
    packages "$bare/root"

    # All that Debian has, but for security updates of the server: these come in between.
    local updates=/etc/apt/sources.list.d/security.list later=/etc/apt/preferences.d/later security
    security=$(mirror TARE_SECURITY_MIRROR Debian Debian-Security)
    quiet "echo 'deb $security bookworm-security main' > $updates
        printf 'Package: mariadb-* libmariadb*\nPin: release l=Debian-Security\nPin-Priority: 1\n' > $later
        apt-get update && apt-get upgrade -y"
    told 'apt-get update && apt-get install -y --no-install-recommends mariadb-server'
    user_database

    told "apt-get install -y --no-install-recommends /root/tare_$this.deb"
    expect 1 'tare doctor --unit mariadb'
    expect 0 'tare install --dry-run'
    expect 0 'tare install --restart'
    # shellcheck disable=SC2016
    expect 0 'for i in $(seq 8); do yes "SELECT COUNT(*) FROM bare.kept WHERE id > 500;" | head -n 2500 | mariadb >/dev/null & done
mariadb -e "SELECT * FROM performance_schema.events_waits_history_long" >/dev/null && tare top --once >/dev/null && wait'
    expect 0 "mariadb -te \"SELECT DIGEST_TEXT, COUNT_STAR FROM performance_schema.events_statements_summary_by_digest WHERE DIGEST_TEXT LIKE '%kept%'\""
    expect 0 "tare doctor $server"
    local old; old=$(server_version)
    quiet "rm $later && apt-get update"
    told 'apt-get upgrade -y && systemctl restart mariadb'
    inside apt-cache policy mariadb-server | awk '/Installed:/ { it = $2 } /Candidate:/ { is_newest = it == $2 } END { exit !is_newest }' \
        || die "there is a newer server, and it was not installed"
    expect 0 "tare doctor $server"
    [ "$old" = "$(server_version)" ] || inside sh -c "tare doctor $server" | grep -q '^  update: since the start before, the server ' \
        || die "the doctor does not say that the server was updated"
    told "apt-get install -y /root/tare_$next.deb"
    expect 1 "tare doctor $server"
    told 'systemctl restart mariadb'
    expect 0 "tare doctor $server"
    expect 0 'tare uninstall --restart'
    told 'apt-get purge -y tare'
    as_before
    echo 'Every file is as it was before, and so is the data.'

    # The package goes while a server has tare in its memory: that one goes on, and its next start is without.
    quiet "apt-get install -y --no-install-recommends /root/tare_$next.deb"
    quiet 'tare install --restart && apt-get purge -y tare'
    quiet 'mariadb -e "SELECT * FROM performance_schema.tare_status" | grep -q active'
    quiet 'systemctl restart mariadb'
    as_before
}

# Makes a repository of packages and signs it with the key, both by the scripts that make a real one.
publish() { TARE_REPOSITORY=$bare.repository TARE_SIGNING_KEY=$key scripts/repository.sh "$@" 2>>"$bare.log" || { cat "$bare.log"; die "no repository"; }; }

# A throw-away key, and a web server on loopback, which a chroot shares with this machine.
serve() {
    command -v python3 >/dev/null || die "python3 is missing, which serves the repository: apt-get install python3"
    export GNUPGHOME=$bare.keys
    rm -rf "$GNUPGHOME" && mkdir -m 700 "$GNUPGHOME"
    gpg --batch --quiet --passphrase '' --quick-generate-key 'A test <test@tare.invalid>' default default 1d 2>>"$bare.log"
    key=$(gpg --batch --list-secret-keys --with-colons | awk -F: '/^fpr/ { print $10; exit }')
    mkdir -p "$bare.repository"
    python3 -m http.server --bind "$host" --directory "$bare.repository" "$port" >>"$bare.log" 2>&1 &
    web=$!
    for _ in $(seq 100); do
        ! (: </dev/tcp/"$host/$port") 2>/dev/null || break
        sleep 0.1
    done
    kill -0 "$web" 2>/dev/null || die "port $port is in use: TARE_PORT names another one"
}

# What an administrator does with a repository: adds it, installs from it, looks, upgrades, and takes all off again.
repository() {
    local at=http://$host:$port list=/etc/apt/sources.list.d/tare.list asc=/etc/apt/keyrings/tare.asc folder
    folder=$(mktemp -d)
    packages "$folder"
    publish "$folder/tare_$this.deb"
    quiet "rm -f $list $asc"
    told 'apt-get update && apt-get install -y --no-install-recommends mariadb-server curl'
    user_database

    expect 0 "curl -sS -o $asc $at/tare.asc"
    expect 0 "echo 'deb [signed-by=$asc] $at stable main' > $list"
    told 'apt-get update'
    expect 0 'apt-cache policy tare'
    told 'apt-get install -y tare'
    expect 0 'tare install --restart | grep "^[a-z]"'
    expect 0 "tare doctor $server"
    expect 0 "yes 'SELECT COUNT(*) FROM bare.kept WHERE id > 500;' | head -n 2500 | mariadb >/dev/null"
    expect 0 "mariadb -te \"SELECT DIGEST_TEXT, COUNT_STAR FROM performance_schema.events_statements_summary_by_digest WHERE DIGEST_TEXT LIKE '%kept%'\""
    expect 0 'tare top --once >/dev/null && tare status | grep -E "^(version|server_version|state|level|tables|lost) "'

    # The next version comes into the repository, beside the one before.
    publish "$folder"/tare_*.deb
    told 'apt-get update && apt-get install -y --only-upgrade tare'
    expect 1 "tare doctor $server"
    told 'systemctl restart mariadb'
    expect 0 "tare doctor $server"
    expect 0 'tare uninstall --restart | grep "^[a-z]"'
    told 'apt-get purge -y tare'
    told "rm $list $asc"
    as_before
    echo 'Every file is as it was before, and so is the data.'
    rm -rf "$folder"
}

# Restarts the server after something was done to it; it serves, and the doctor ends with a status and has a word for it.
restarted() {
    local status=0 said
    printf '$ %s\n' "$3"
    quiet "$3"
    quiet 'systemctl daemon-reload && systemctl restart mariadb'
    [ "$(inside mariadb -NBe 'SELECT 1')" = 1 ] || die "the server does not serve"
    said=$(show "${doctor:-tare doctor} $server") || status=$?
    printf '%s\n' "$said"
    [ "$status" = "$1" ] || die "exit status $status, not $1"
    grep -qF -- "$2" <<<"$said" || die "not a word of: $2"
}

# What of a provider or its surroundings breaks after the installation. cargo test -p tare --test broken has all ten set-ups.
broken() {
    local unit=/etc/systemd/system/mariadb.service.d
    cp "$package" "$bare/root/tare.deb"
    quiet 'apt-get update && apt-get install -y --no-install-recommends mariadb-server'
    quiet 'systemctl restart mariadb'
    before=$(listing)
    quiet 'apt-get install -y --no-install-recommends /root/tare.deb && tare install --restart'
    restarted 0 'active and complete' "cp -a $provider /root/whole.so"
    show "cat $unit/zz-tare.conf /etc/systemd/system/tare-preload@.service /run/tare/mariadb.env"
    # The name of a version of the C library, and its hash, by which the loader finds it.
    cat > "$bare/root/newer.pl" <<'PERL'
sub hash { my $h = 0; for (unpack "C*", shift) { $h = ($h << 4) + $_; my $top = $h & 0xf0000000; $h ^= $top >> 24; $h &= 0x0fffffff } pack "V", $h }
my ($from, $to) = (hash("GLIBC_2.34"), hash("GLIBC_2.99"));
s/\Q$from\E/$to/; s/GLIBC_2\.34\0/GLIBC_2.99\0/;
PERL
    local whole="cp -a /root/whole.so $provider.new && mv $provider.new $provider"

    restarted 1 'is cut off' "head -c 65536 /root/whole.so > $provider.new && mv $provider.new $provider"
    show 'journalctl -q -o cat -u tare-preload@mariadb | grep "^tare:" | tail -n 1'
    # systemd itself restarts a server that fell.
    # shellcheck disable=SC2016
    quiet 'systemctl kill -s SEGV mariadb && for i in $(seq 60); do sleep 1; mariadb -e "SELECT 1" && exit; done; exit 1'
    restarted 0 'active and complete' "$whole"
    restarted 1 'needs GLIBC_2.99' "perl -0777 -p /root/newer.pl /root/whole.so > $provider.new && mv $provider.new $provider"
    restarted 1 'No such file' "rm $provider"
    restarted 1 'belongs to nobody' "$whole && chown nobody $provider"
    restarted 1 'MemoryDenyWriteExecute=yes' "chown root $provider && printf '[Service]\nMemoryDenyWriteExecute=yes\n' > $unit/hard.conf"
    # The doctor is the program that is missing: it is asked by another name.
    doctor='tare.away doctor' restarted 1 'was started without tare' "rm $unit/hard.conf && mv /usr/bin/tare /usr/bin/tare.away"
    quiet 'mv /usr/bin/tare.away /usr/bin/tare'
    restarted 0 'active and complete' 'true'

    # Another object that is preloaded stays, behind tare's, and alone where tare's is broken.
    local other=/lib/x86_64-linux-gnu/libm.so.6
    quiet "printf '[Service]\nEnvironment=LD_PRELOAD=$other\n' > $unit/other.conf && tare install --restart"
    preloaded() { inside sh -c "tr '\\0' '\\n' < /proc/\$(systemctl show -P MainPID mariadb)/environ | sed -n 's/^LD_PRELOAD=//p'"; }
    [ "$(preloaded)" = "$provider:$other" ] || die "preloaded is $(preloaded)"
    restarted 1 'is cut off' "head -c 65536 /root/whole.so > $provider.new && mv $provider.new $provider"
    [ "$(preloaded)" = "$other" ] || die "preloaded is $(preloaded)"
    quiet "rm $unit/other.conf && $whole && tare install --restart"

    # A newer provider: the server is restarted for it, once; one that does nothing goes again.
    quiet "$whole"
    expect 1 "tare doctor $server"
    expect 0 'tare install --restart'
    expect 0 "tare doctor $server"
    quiet "cp -a $other $provider.new && mv $provider.new $provider"
    expect 1 'tare install --restart --limit 5s'
    expect 0 "tare doctor $server"
    inside cmp $provider /root/whole.so || die "the provider before was not put back"

    restarted 1 'is cut off' "head -c 65536 /root/whole.so > $provider.new && mv $provider.new $provider"
    inside systemctl --failed --no-legend | grep -q tare-preload@mariadb || die "systemd does not list the trial that failed"
    expect 0 'tare uninstall --restart'
    [ -z "$(inside systemctl --failed --no-legend)" ] || die "systemd knows of a trial still"
    quiet 'apt-get purge -y tare && rm /root/whole.so /root/newer.pl'
    diff <(echo "$before") <(listing) || die "files differ"
    inside sh -c '! ls -d /run/tare /var/lib/tare 2>/dev/null' || die "something is left in /run or /var/lib"
    echo 'Every file is as it was before.'
}

# A page has what was printed: other processes, the patch level Debian has, and whether it has a newer one, are no difference.
as_documented() {
    local masked=(sed -E 's/process [0-9]+/process N/; s/(10\.11)\.[0-9]+/\1.N/g; s/ +$//; /^  update: /d')
    diff <(sed '1,/^## A transcript/d; /^```/d' "$1" | sed -n '/^\$ /,$p' | "${masked[@]}") \
        <("${masked[@]}" "$bare.transcript") || die "$1 has another transcript: $bare.transcript is what was printed"
}

# Three tasks of Ansible, twice: the second time nothing changes. Then a container's files instead of a package.
recipes() {
    quiet 'apt-get update && apt-get install -y --no-install-recommends mariadb-server ansible-core python3-apt'
    cp "$package" "$bare/root/tare.deb"
    cp docs/deploy/playbook.yml "$bare/root/"
    quiet 'systemctl restart mariadb'
    local play='cd /root && LC_ALL=C.UTF-8 ansible-playbook -c local -i localhost, playbook.yml -e package=/root/tare.deb -e "server=\"--socket /run/mysqld/mysqld.sock\""'
    # A chroot sees the processes of the whole machine: the doctor is told which server is meant.
    show "$play" | tee "$bare.log"
    grep -q 'changed=2 .*unreachable=0 .*failed=0' "$bare.log" || die "the playbook did not change what it should"
    show "$play" | tee "$bare.log"
    grep -q 'changed=0 .*unreachable=0 .*failed=0' "$bare.log" || die "a second run changed something"
    quiet 'tare uninstall --restart && apt-get purge -y tare'

    local from; from=$(ls -d target/package/tare-*-x86_64-linux) || die "make release first: the Dockerfile takes the tarball's files"
    local environment=() step rest
    while read -r step rest; do
        case $step in
            COPY) read -r source place <<<"$rest"; mkdir -p "$bare$(dirname "$place")"; cp "$from/$source" "$bare$place" ;;
            RUN) inside sh -c "$rest" ;;
            ENV) environment+=("$rest") ;;
            FROM | '#'* | '') ;;
            *) die "the Dockerfile has a step this does not know: $step" ;;
        esac
        printf 'Dockerfile: %s %s\n' "$step" "$rest"
    done < docs/deploy/Dockerfile
    inside env "${environment[@]}" systemctl restart mariadb
    expect 0 "tare doctor $server"
    inside sh -c 'rm -r /usr/local/bin/tare /usr/local/lib/tare /etc/mysql/conf.d/90-tare.cnf'
}

trap stop EXIT
make_machine
case ${1:-} in
    '') stand_in; transcript | tee "$bare.transcript"; as_documented docs/how-to/install.md ;;
    repository) stand_in; serve; repository | tee "$bare.transcript"; as_documented docs/how-to/apt-repository.md ;;
    nspawn) boot; transcript ;;
    broken) boot; broken ;;
    recipes) stand_in; recipes ;;
    *) die "nothing is called $1" ;;
esac
