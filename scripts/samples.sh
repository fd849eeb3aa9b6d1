#!/usr/bin/env bash
# Where in tare a server under load spends its time, by sampling it: what no count shows, such as a line that comes from another
# processor or from memory. A sample is booked on the instruction after the one that took long; the source given is that one's.
# Needs perf (apt-get install linux-perf), but no counters of the processor's: it works in virtual machines.
#
# samples.sh [TARE_OPTIONS]. WORKLOAD (oltp_point_select), THREADS (2) and SECONDS_LONG (15) say what sysbench does.
name=samples programs='perf addr2line' packages='linux-perf binutils' rows=100000
. "$(dirname "$0")/loaded.sh"

: "${THREADS:=2}" "${SECONDS_LONG:=15}"
start env LD_PRELOAD="$TARE_PROVIDER" TARE_OPTIONS="${1:-}"
load --threads="$THREADS" --time=2 run
load --threads="$THREADS" --time=$((SECONDS_LONG + 2)) run &
sleep 1
perf record -q -e cpu-clock:u -F 9000 -p $server -o "$work/samples" -- sleep "$SECONDS_LONG" > "$work/perf" 2>&1 ||
    die "perf: $(tail -1 "$work/perf")"
loaded_at=$(awk -v of="$(readlink -f "$TARE_PROVIDER")" '$6 == of && $3 + 0 == 0 { sub(/-.*/, "", $1); print $1; exit }' /proc/$server/maps)
wait $!
stop

library=$(basename "$TARE_PROVIDER")
perf script -i "$work/samples" -F ip,sym,dso 2> /dev/null > "$work/script"
all=$(wc -l < "$work/script")
say "$WORKLOAD, $THREADS connections: of the time the server spends in itself and its libraries, tare is"
grep -cF "$library" "$work/script" | awk -v all="$all" '{ printf "%8.2f%%\n", 100 * $1 / all }'
say "by function"
grep -F "$library" "$work/script" | sed -E 's/^ *[0-9a-f]+ (.*) \(.*\)$/\1/' | sort | uniq -c | sort -rn | head -25 |
    awk -v all="$all" '{ share = 100 * $1 / all; $1 = ""; printf "%8.2f%% %s\n", share, $0 }'
say "by instruction: where it is in the source, and from where that was inlined"
grep -F "$library" "$work/script" | awk '{ print $1 }' | sort | uniq -c | sort -rn | head -40 |
    while read -r count address; do
        lines=$(source_of "$(printf '0x%x' $((0x$address - 0x$loaded_at - 1)))")
        awk -v n="$count" -v all="$all" -v lines="$lines" 'BEGIN { printf "%8.3f%% %s\n", 100 * n / all, lines }'
    done
