#!/usr/bin/env bash
# Installs the package on a bare Debian 12 in a chroot, and takes everything off again; prints a transcript. Needs root,
# debootstrap and a network, and some minutes. The chroot is made in $TARE_BARE (/tmp/tare-bare), unless it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" -eq 0 ] || { echo "bare: needs root" >&2; exit 1; }
bare=${TARE_BARE:-/tmp/tare-bare}
package=${TARE_PACKAGE:-$(ls target/package/tare_*_amd64.deb 2>/dev/null)}
[ -f "$package" ] || { echo "bare: make deb first" >&2; exit 1; }
mirror=${TARE_MIRROR:-http://deb.debian.org/debian}
export PATH=$PATH:/usr/sbin:/sbin

inside() { chroot "$bare" env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive "$@"; }
show() { printf '$ %s\n' "$*"; inside sh -c "$*"; }
quiet() { printf '$ %s\n' "$*"; inside sh -c "$*" >"$bare.log" 2>&1 || { cat "$bare.log"; exit 1; }; }
expect() { local status=0; show "$2" || status=$?; [ "$status" = "$1" ] || { echo "bare: exit status $status, not $1" >&2; exit 1; }; }

# What must be as before: all files but logs, caches and the server's own of a running life.
listing() {
    inside sh -c 'find /etc /usr /opt /lib/systemd -xdev -type f -print0 | sort -z | xargs -0 sha256sum' |
        grep -v -e ' /usr/local/bin/server$' -e '/ld.so.cache$'
    inside sh -c 'find /var/lib/mysql -mindepth 1 -type d -o -name "*.frm" -o -name "*.opt" | sort'
}
user_data() { inside mariadb -NBe 'SELECT COUNT(*), SUM(CRC32(text)) FROM bare.kept'; }

stop() { inside server stop 2>/dev/null || true; umount -q "$bare/proc" || true; }
trap stop EXIT

[ -e "$bare/etc/debian_version" ] || debootstrap --variant=minbase bookworm "$bare" "$mirror" >"$bare.log"
mkdir -p "$bare/proc"
mountpoint -q "$bare/proc" || mount -t proc proc "$bare/proc"
printf '#!/bin/sh\nexit 101\n' > "$bare/usr/sbin/policy-rc.d"
chmod 755 "$bare/usr/sbin/policy-rc.d"
mkdir -p "$bare/usr/local/bin"
# A stand-in for systemd: starts the server with the unit's drop-in.
cat > "$bare/usr/local/bin/server" <<'SERVER'
#!/bin/sh
pid=$(cat /run/server.pid 2>/dev/null)
if [ -n "$pid" ] && kill "$pid" 2>/dev/null; then
    while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
fi
rm -f /run/server.pid
[ "$1" != stop ] || exit 0
mkdir -p /run/mysqld && chown mysql /run/mysqld
preload=$(sed -n 's/^Environment=LD_PRELOAD=//p' /etc/systemd/system/mariadb.service.d/zz-tare.conf 2>/dev/null)
LD_PRELOAD=$preload setsid mariadbd --user=mysql --skip-networking --log-error=/var/lib/mysql/server.err </dev/null >/dev/null 2>&1 &
echo $! >/run/server.pid
for _ in $(seq 300); do mariadb-admin ping >/dev/null 2>&1 && exit 0; sleep 0.1; done
exit 1
SERVER
chmod 755 "$bare/usr/local/bin/server"
cp "$package" "$bare/root/tare.deb"

quiet 'apt-get update && apt-get install -y --no-install-recommends mariadb-server'
inside server restart
inside mariadb -e "CREATE DATABASE IF NOT EXISTS bare; USE bare;
    CREATE OR REPLACE TABLE kept (id INT PRIMARY KEY, text TEXT) SELECT seq AS id, MD5(seq) AS text FROM seq_1_to_1000"
before=$(listing); data=$(user_data)

quiet 'apt-get install -y --no-install-recommends /root/tare.deb'
expect 1 'tare doctor --unit mariadb'
expect 0 'tare install --dry-run'
expect 0 'tare install --restart --restart-command "server restart"'
expect 0 'for i in $(seq 20); do mariadb -e "SELECT COUNT(*) FROM bare.kept WHERE id > $i" >/dev/null; done'
expect 0 "mariadb -te \"SELECT DIGEST_TEXT, COUNT_STAR FROM performance_schema.events_statements_summary_by_digest WHERE DIGEST_TEXT LIKE '%kept%'\""
expect 0 'tare doctor --socket /run/mysqld/mysqld.sock'
quiet 'apt-get install -y --reinstall mariadb-server mariadb-server-core && server restart'
expect 0 'tare doctor --socket /run/mysqld/mysqld.sock'
quiet 'apt-get install -y --reinstall /root/tare.deb && server restart'
expect 0 'tare doctor --socket /run/mysqld/mysqld.sock'
expect 0 'tare uninstall --restart --restart-command "server restart"'
quiet 'apt-get purge -y tare'
[ "$(user_data)" = "$data" ] || { echo 'bare: user data differ' >&2; exit 1; }
after=$(listing)
diff <(echo "$before") <(echo "$after") || { echo 'bare: files differ' >&2; exit 1; }
echo 'Every file is as it was before, and so is the data.'
