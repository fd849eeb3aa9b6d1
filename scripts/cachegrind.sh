#!/usr/bin/env bash
# What a statement costs a server in instructions and in misses of simulated caches, without tare and with it: exact figures,
# whatever else the machine does. Between two calls a server runs through more than the first caches hold, so a call costs
# what the lines it touches cost, of code (I1) and of data (D1). docs/price.md says what is known of it.
#
# cachegrind.sh [TARE_OPTIONS ...]: one server for each, such as "level=sums"; without arguments off, sums and lean.
# WORKLOAD (oltp_point_select; workloads/procedure_loop.lua with EVENTS="4 24", workloads/events.lua with "200 600") and EVENTS
# ("2000 8000": what is between the two is counted) say what sysbench does.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'cachegrind: %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }
for program in valgrind sysbench mariadb-install-db; do
    command -v $program > /dev/null || die "$program is missing: make setup, and apt-get install valgrind sysbench"
done
: "${TARE_PROVIDER:=$PWD/target/release/libtare_mariadb.so}" "${TARE_MARIADBD:=/usr/sbin/mariadbd}"
: "${WORKLOAD:=oltp_point_select}" "${EVENTS:=2000 8000}"
[ -e "$TARE_PROVIDER" ] || die "$TARE_PROVIDER is missing: build it with make provider"
[ $# -gt 0 ] || set -- "instrument=%=OFF;consumer=%=OFF" "level=sums" "level=lean"
read -r few many <<< "$EVENTS"

work=$(mktemp -d /tmp/tare-cachegrind-XXXX)
server=
# A server that is asked to end writes what it counted; one that is killed does not.
trap '[ -z "$server" ] || kill -9 $server 2> /dev/null; rm -rf "$work"' EXIT
user=()
[ "$(id -u)" -ne 0 ] || user=(--user=root)
size=()
[[ $WORKLOAD != oltp_* ]] || size=(--table-size=20000)
load() { sysbench "$WORKLOAD" --mysql-socket="$work/s" --mysql-user=root "${size[@]}" "$@" > "$work/sysbench"; }

# start NAME ENVIRONMENT...: a server on a copy of the data.
start() {
    local out=$1
    shift
    rm -rf "$work/data"
    cp -r "$work/fresh" "$work/data"
    # The caches of a processor of today; the last level is what one processor has for itself.
    env "$@" valgrind --tool=cachegrind --cache-sim=yes --I1=32768,8,64 --D1=49152,12,64 --LL=1048576,16,64 \
        --cachegrind-out-file="$out" "$TARE_MARIADBD" --no-defaults "${user[@]}" --datadir="$work/data" --socket="$work/s" \
        --skip-networking --innodb-buffer-pool-size=64M --loose-innodb-buffer-pool-size-max=64M --innodb-use-native-aio=0 \
        --innodb-flush-log-at-trx-commit=0 --performance-schema=OFF --plugin-load-add=ha_federatedx \
        > "$work/log" 2>&1 &
    server=$!
    for _ in $(seq 300); do
        mariadb --no-defaults -S "$work/s" -u root -e 'DO 1' 2> /dev/null && return
        sleep 0.2
    done
    tail "$work/log" >&2
    die "the server does not answer"
}

stop() {
    mariadb-admin --no-defaults -S "$work/s" -u root shutdown
    wait "$server" || true
    server=
}

mariadb-install-db --no-defaults "${user[@]}" --datadir="$work/fresh" --auth-root-authentication-method=normal > "$work/log" 2>&1 ||
    die "no data directory: $(tail -1 "$work/log")"
"$TARE_MARIADBD" --no-defaults "${user[@]}" --datadir="$work/fresh" --socket="$work/s" --skip-networking > "$work/log" 2>&1 &
server=$!
for _ in $(seq 100); do mariadb --no-defaults -S "$work/s" -u root -e 'CREATE DATABASE sbtest' 2> /dev/null && break; sleep 0.1; done
load prepare
stop

# measure NAME ENVIRONMENT...: two runs, and the difference between them for an event.
measure() {
    local name=$1
    shift
    for events in $few $many; do
        start "$work/out.$events" "$@"
        load --threads=1 --rand-seed=5 --time=0 --events="$events" run
        stop
    done
    cg_diff "$work/out.$few" "$work/out.$many" > "$work/difference"
    awk -v n=$((many - few)) -v name="$name" '/^summary:/ {
        printf "%-44s %9.0f %9.1f %9.1f %9.1f\n", name, $2 / n, $3 / n, $6 / n, $9 / n }' "$work/difference"
}

printf '%-44s %9s %9s %9s %9s\n' "$WORKLOAD, an event" instructions "I1 misses" "D1 reads" writes
measure "without tare" TARE_OPTIONS=
for options in "$@"; do
    measure "$options" LD_PRELOAD="$TARE_PROVIDER" TARE_OPTIONS="$options"
done
say "of the last one, by function of tare's: instructions, misses of code, of data read, written"
awk -v n=$((many - few)) '
    /^fn=/ { name = substr($0, 4); sub(/^[^:]*:_ZN/, "_ZN", name); next }
    /^[0-9]/ && name ~ /tare_/ { count[name] += $2; misses[name] += $3; read[name] += $6; written[name] += $9 }
    END { for (name in count) if (misses[name] / n >= 1) {
        short = name; sub(/17h[0-9a-f]+E?$/, "", short); gsub(/_ZN|\$[A-Za-z0-9]+\$|[0-9]+/, " ", short); gsub(/ +/, " ", short)
        printf "%9.0f %9.1f %9.1f %9.1f %s\n", count[name] / n, misses[name] / n, read[name] / n, written[name] / n, short } }' "$work/difference" | sort -k2,2nr | head -40
