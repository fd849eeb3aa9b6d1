# A server of its own that sysbench loads, for scripts that count or sample it. They source this, and say before what they are
# called (name), which programs they need besides (programs, and from which packages), and how many rows a table has (rows).
# TARE_PROVIDER, TARE_MARIADBD and WORKLOAD (oltp_point_select) say what is run. $work is a folder that goes in the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '%s: %s\n' "$name" "$*"; }
die() { say "$*" >&2; exit 1; }
for program in $programs sysbench mariadb-install-db; do
    command -v "$program" > /dev/null || die "$program is missing: make setup, and apt-get install $packages sysbench"
done
: "${TARE_PROVIDER:=$PWD/target/release/libtare_mariadb.so}" "${TARE_MARIADBD:=/usr/sbin/mariadbd}"
: "${WORKLOAD:=oltp_point_select}"
[ -e "$TARE_PROVIDER" ] || die "$TARE_PROVIDER is missing: build it with make provider"

work=$(mktemp -d "/tmp/tare-$name-XXXX")
server=
# A server that is asked to end writes what valgrind counted; one that is killed does not.
trap '[ -z "$server" ] || kill -9 $server 2> /dev/null; rm -rf "$work"' EXIT
user=()
[ "$(id -u)" -ne 0 ] || user=(--user=root)
size=()
[[ $WORKLOAD != oltp_* ]] || size=(--table-size="$rows")

load() { sysbench "$WORKLOAD" --mysql-socket="$work/s" --mysql-user=root "${size[@]}" "$@" > "$work/load"; }

# run DATA COMMAND...: a server on this data, run by COMMAND, or by nothing else.
run() {
    local data=$1
    shift
    "$@" "$TARE_MARIADBD" --no-defaults "${user[@]}" --datadir="$data" --socket="$work/s" --skip-networking \
        --performance-schema=OFF --plugin-load-add=ha_federatedx --innodb-flush-log-at-trx-commit=0 \
        --innodb-buffer-pool-size=64M --loose-innodb-buffer-pool-size-max=64M --innodb-use-native-aio=0 \
        --max-connections=1000 > "$work/log" 2>&1 &
    server=$!
    for _ in $(seq 600); do
        mariadb --no-defaults -S "$work/s" -u root -e 'DO 1' 2> /dev/null && return
        sleep 0.1
    done
    tail "$work/log" >&2
    die "the server does not answer"
}

# start COMMAND...: a server on a copy of the data, as it was when this was read.
start() {
    rm -rf "$work/data"
    cp -r "$work/fresh" "$work/data"
    run "$work/data" "$@"
}

# count EVENTS COMMAND...: a server run by COMMAND, which counts, while one connection does as much.
count() {
    local events=$1
    shift
    start "$@"
    load --threads=1 --rand-seed=5 --time=0 --events="$events" run
    stop
}

# source_of ADDRESS: where in the source an address of the provider is, and from where that was inlined.
source_of() {
    addr2line -i -e "$TARE_PROVIDER" "$1" | grep -v '/library/' |
        sed -E 's#^.*crates/tare-##; s#/src/#/#; s# \(discriminator.*##' | head -4 | paste -sd '<' | sed 's/</ < /g'
}

stop() {
    mariadb-admin --no-defaults -S "$work/s" -u root shutdown
    wait "$server" || true
    server=
}

mariadb-install-db --no-defaults "${user[@]}" --datadir="$work/fresh" --auth-root-authentication-method=normal > "$work/log" 2>&1 ||
    die "no data directory: $(tail -1 "$work/log")"
run "$work/fresh" env
mariadb --no-defaults -S "$work/s" -u root -e 'CREATE DATABASE sbtest'
load prepare || die "no load: $(tail -1 "$work/load")"
stop
