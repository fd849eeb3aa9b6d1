#!/usr/bin/env bash
# What a statement costs a server in instructions and in misses of simulated caches, without tare and with it: exact figures,
# whatever else the machine does. Between two calls a server runs through more than the first caches hold, so a call costs
# what the lines it touches cost, of code (I1) and of data (D1). docs/lab-notes/cost.md says what is known of it.
#
# cachegrind.sh [TARE_OPTIONS ...]: one server for each, such as "level=sums"; without arguments off, sums and lean.
# WORKLOAD (oltp_point_select; workloads/procedure_loop.lua with EVENTS="4 24", workloads/events.lua with "200 600") and EVENTS
# ("2000 8000": what is between the two is counted) say what sysbench does.
name=cachegrind programs=valgrind packages=valgrind rows=20000
. "$(dirname "$0")/loaded.sh"

[ $# -gt 0 ] || set -- "instrument=%=OFF;consumer=%=OFF" "level=sums" "level=lean"
read -r few many <<< "${EVENTS:=2000 8000}"

# measure NAME ENVIRONMENT...: two runs, and the difference between them for an event.
measure() {
    local of=$1
    shift
    for events in $few $many; do
        # The caches of a processor of today; the last level is what one processor has for itself.
        count "$events" env "$@" valgrind --tool=cachegrind --cache-sim=yes --I1=32768,8,64 --D1=49152,12,64 --LL=1048576,16,64 \
            --cachegrind-out-file="$work/out.$events"
    done
    cg_diff "$work/out.$few" "$work/out.$many" > "$work/difference"
    awk -v n=$((many - few)) -v of="$of" '/^summary:/ {
        printf "%-44s %9.0f %9.1f %9.1f %9.1f\n", of, $2 / n, $3 / n, $6 / n, $9 / n }' "$work/difference"
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
