#!/usr/bin/env bash
# Runs the suite `perfschema` of the server's own tests on the built-in, then on tare, and holds what differs against the
# list of known failures, scripts/mtr/failures: one more, or one that passes, and this fails. What does not pass on the
# built-in of this server is no measure and left out. Arguments go to the test runner, such as the name of a test.
set -euo pipefail
cd "$(dirname "$0")/.."

here=$PWD
suite=/usr/share/mysql/mysql-test
: "${TARE_PROVIDER:=$here/target/release/libtare_mariadb.so}" "${TARE_MARIADBD:=/usr/sbin/mariadbd}"
export TARE_PROVIDER TARE_MARIADBD
unset MTR_BINDIR

say() { printf 'mtr: %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }
[ -x "$suite/mariadb-test-run" ] || die "the server's tests are missing: apt-get install mariadb-test"
[ -e "$TARE_PROVIDER" ] || die "$TARE_PROVIDER is missing: build it with make provider"

# The runner makes socket names of this; they have to be short.
work=$(mktemp -d /tmp/tare-mtr-XXXX)
# A runner that is root writes what it got beside what it expected.
trap 'rm -rf "$work" "$suite"/suite/perfschema/r/*.reject' EXIT

# The runner looks for a server below this folder; all but the server is the system's.
mkdir -p "$work/server/sbin"
for name in bin lib share; do ln -s "/usr/$name" "$work/server/$name"; done
ln -s "$suite" "$work/server/mysql-test"
ln -s "$here/scripts/mtr/mariadbd" "$work/server/sbin/mariadbd"

# run NAME [ARGUMENT ...]: runs tests; lines of `test status` in $work/NAME, what was printed in $work/NAME.out. A test
# with combinations is called test,combination, as the runner itself takes it.
run() {
    local name=$1
    shift
    (cd "$suite" && ./mariadb-test-run --vardir="$work/var" --parallel="$(nproc)" --force --max-test-fail=0 --retry=0 \
        --nowarnings --testcase-timeout=3 --max-save-datadir=0 "$@") >"$work/$name.out" 2>&1 || true
    sed -nE "s/^perfschema\.([^ ]+)( '([^']+)')? .*\[ (pass|fail|skipped) \].*/\1,\3 \4/p" "$work/$name.out" \
        | sed 's/, / /' | sort -u >"$work/$name"
    rm -rf "$work/var"
    [ -s "$work/$name" ] || { cat "$work/$name.out"; die "the runner ran no test"; }
}
on_tare() { MTR_BINDIR=$work/server run "$@"; }
with_status() { awk -v status="$2" '$2 == status { print $1 }' "$work/$1"; }
count() { grep -cE "$2" "$1" || true; }

tests=("$@")
[ "$#" -gt 0 ] || tests=(--suite=perfschema)
run builtin "${tests[@]}"
with_status builtin pass | sort >"$work/measure"
say "the built-in passes $(count "$work/measure" .), skips $(with_status builtin skipped | grep -c . || true)," \
    "fails $(with_status builtin fail | grep -c . || true)"
on_tare tare "${tests[@]}"
with_status tare pass | sort | comm -12 - "$work/measure" >"$work/passed"
comm -23 "$work/measure" "$work/passed" >"$work/failed"

awk '/^[^#]/ { print $1 }' scripts/mtr/failures | sort >"$work/listed"
comm -12 "$work/listed" "$work/measure" >"$work/expected"
# A test that surprises gets a second chance: the machine may have been busy.
comm -3 "$work/expected" "$work/failed" | tr -d '\t' | sed 's/^/perfschema./' >"$work/surprises"
if [ -s "$work/surprises" ]; then
    mapfile -t surprises <"$work/surprises"
    on_tare again "${surprises[@]}"
    with_status again pass | sort >"$work/passed.again"
    with_status again fail | sort >"$work/failed.again"
    sort -u "$work/failed" "$work/failed.again" | comm -23 - "$work/passed.again" >"$work/failed.last"
    mv "$work/failed.last" "$work/failed"
    comm -23 "$work/measure" "$work/failed" >"$work/passed"
fi

# summary NAME PATTERN: how many of the tests whose names match (or, with -v, do not) pass.
summary() {
    local name=$1
    shift
    say "$name: tare passes $(grep -cE "$@" "$work/passed" || true) of $(grep -cE "$@" "$work/measure" || true)"
}
summary 'dml_* and ddl_*, who may write what' '^(dml|ddl)_'
summary 'the others' -v '^(dml|ddl)_'

status=0
for test in $(comm -13 "$work/expected" "$work/failed"); do
    status=1
    say "$test fails and is not in scripts/mtr/failures"
    awk -v test="$test" '
        /^perfschema\./ { name = $1; sub(/^perfschema\./, "", name)
                          if ($2 ~ /^\x27/) { gsub(/\x27/, "", $2); name = name "," $2 }
                          on = name == test && /\[ fail \]/; lines = 0 }
        on && lines++ < 40' "$work/$([ -e "$work/again.out" ] && echo again || echo tare).out"
done
for test in $(comm -23 "$work/expected" "$work/failed"); do
    status=1
    say "$test passes: take it out of scripts/mtr/failures"
done
exit "$status"
