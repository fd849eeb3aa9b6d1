#!/usr/bin/env bash
# What recording one transaction costs: instructions (exact), nanoseconds (of this machine), and where they go.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --quiet --locked --profile provider -p tare-counted --bin replay
replay=target/provider/replay
transactions=1000
out=$(mktemp)
trap 'rm -f "$out"' EXIT
measure() {
    echo "$1:"
    shift
    "$replay" 20000 "$@" | sed -n 1p
    valgrind --tool=callgrind --toggle-collect='*measured*' --callgrind-out-file="$out" "$replay" $transactions "$@" 2>&1 |
        awk -v n=$transactions '/Collected/ { printf "instructions per transaction: %d\n", $NF / n }'
}
measure "no instrument on" off
measure "no consumer on" no-consumers
for level in counts sums exact; do
    measure "level $level" $level
done
measure "level lean, executions of prepared statements, without texts and digests" executed
measure "level lean, executions of prepared statements" prepared
measure "level lean"
echo "of which in:"
callgrind_annotate --auto=no --threshold=100 "$out" | awk -v n=$transactions '
    # file:function [object], one line for each file that was inlined into the function
    /PROGRAM TOTALS/ { inside = 1; next }
    inside && /^ *[0-9,]+ +\(/ {
        count = $1; gsub(",", "", count)
        sub(/^[^)]*\) */, ""); sub(/ \[[^]]*\]$/, ""); sub(/^[^ ]*\.(rs|S|c|h):|^\?\?\?:/, "")
        sum[$0] += count
    }
    END { for (name in sum) printf "%8d  %s\n", sum[name] / n, name }' | sort -rn | head -20
