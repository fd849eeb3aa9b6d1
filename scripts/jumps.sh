#!/usr/bin/env bash
# Jumps that tare takes for a statement: calls, returns, and jumps that lead elsewhere, by function and by place. A processor
# foresees a jump by a table it keeps of those it has taken, and a server takes more for a statement than the table's fast part
# holds: each costs some nanoseconds, where an instruction in a straight line costs a tenth of one. So what is usual has to go
# straight on. Counted by callgrind, exactly; docs/lab-notes/cost.md says what is known of it.
#
# jumps.sh [TARE_OPTIONS]. WORKLOAD (oltp_point_select) and EVENTS ("1000 3000": what is between the two is counted) say what
# sysbench does.
name=jumps programs='valgrind addr2line' packages='valgrind binutils' rows=20000
. "$(dirname "$0")/loaded.sh"

read -r few many <<< "${EVENTS:=1000 3000}"
for events in $few $many; do
    # What tare writes into the server's code when it is loaded has to be seen.
    count "$events" env LD_PRELOAD="$TARE_PROVIDER" TARE_OPTIONS="${1:-}" valgrind --tool=callgrind --dump-instr=yes \
        --collect-jumps=yes --compress-pos=no --smc-check=all --callgrind-out-file="$work/out.$events"
done

# Two kinds of lines: of a function its instructions, calls, returns and other jumps; of a place where it jumps how often, and
# its address.
awk '
    function named(text,   id) {
        id = substr(text, 1, index(text, ")"))
        if (length(text) > length(id)) names[id] = substr(text, length(id) + 2)
        return names[id]
    }
    FNR == 1 { sign = NR == 1 ? -1 : 1; delete names }
    /^fn=/ { of = named(substr($0, 4)); next }
    /^cfn=/ { called = named(substr($0, 5)); next }
    /^calls=/ { split(substr($0, 7), part, " "); calls[of] += sign * part[1]; returns[called] += sign * part[1]; is_cost = 1; next }
    /^jcnd=|^jump=/ { split(substr($0, 6), part, "[/ ]"); taken = sign * part[1]; is_place = 1; next }
    /^0x/ && is_place { jumps[of] += taken; places[of "\t" $1] += taken; is_place = 0; next }
    /^0x/ && is_cost { is_cost = 0; next }
    /^0x/ { instructions[of] += sign * $3 }
    END {
        for (of in instructions) if (of ~ /tare_/)
            print "function\t" instructions[of] "\t" calls[of] "\t" returns[of] "\t" jumps[of] "\t" of
        for (place in places) if (place ~ /tare_/) print "place\t" places[place] "\t" place
    }' "$work/out.$few" "$work/out.$many" > "$work/taken"

n=$((many - few))
printf '%12s %9s %9s %9s  %s\n' instructions calls returns jumps "$WORKLOAD, an event"
row='%12.1f %9.1f %9.1f %9.1f  %s\n'
awk -F'\t' -v n=$n -v row="$row" '$1 == "function" { for (at = 2; at <= 5; at++) sum[at] += $at / n }
    END { printf row, sum[2], sum[3], sum[4], sum[5], "tare" }' "$work/taken"
awk -F'\t' -v n=$n -v row="$row" '$1 == "function" && $3 + $4 + $5 >= n {
    printf row, $2 / n, $3 / n, $4 / n, $5 / n, $6 }' "$work/taken" | sort -k4,4nr | head -40
say "jumps by place: how often, where it is in the source, and from where that was inlined"
awk -F'\t' -v n=$n '$1 == "place" && $2 >= n / 2 { printf "%.1f %s\n", $2 / n, $4 }' "$work/taken" | sort -nr | head -40 |
    while read -r taken address; do
        printf '%8s %s\n' "$taken" "$(source_of "$address")"
    done
