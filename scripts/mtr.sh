#!/usr/bin/env bash
# Runs tests of the server's own on the built-in, then on tare, at its default level and at `lean` (TARE_TEST_LEVEL=LEVEL: at that
# one only), and holds what differs against the list of known failures,
# scripts/mtr/failures: one more, or one that passes, and this fails. What does not pass on the built-in of this server is no
# measure and left out.
#
# Without arguments: the suites `perfschema` and `sysschema`, which are about the tables, then the tests of other suites in
# scripts/mtr/host, which are about the server and show that tare does not hurt it. Those are stopped after
# TARE_MTR_MINUTES (15) each time; how many there was no time for is said. Arguments go to the test runner
# instead, such as the name of a test.
#
#   scripts/mtr.sh mysql [ARGUMENT ...]   the same for MySQL 9, or the series that TARE_MYSQL names (8.4, 8), whose tests
#                                         `scripts/hosts.sh mysql-tests` brings: its two suites, held against
#                                         scripts/mtr/mysql-failures
#
# TARE_MTR_OUTPUT names a folder: what the runner prints is added to the files builtin.out, tare.out and again.out there, with the
# differences of all tests that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

here=$PWD
product=mariadb
series=''
if [ "${1:-}" = mysql ]; then
    product=mysql
    shift
fi
read -ra levels <<<"${TARE_TEST_LEVEL:-sampled lean}"
unset MTR_BINDIR

say() { printf 'mtr: %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }

# Where the tests are, what runs them, and below which folder the runner looks for the server and all that belongs to it.
if [ $product = mysql ]; then
    series=${TARE_MYSQL:-9}
    host=$here/.hosts/mysql-tests
    [ "$series" = 9 ] || host+=-$series
    suite=$host/root/usr/lib/mysql-test
    runner=(perl ./mysql-test-run.pl "--client-bindir=$host/bin" --suite-timeout=120 --max-save-core=0)
    failures=scripts/mtr/mysql-failures
    : "${TARE_PROVIDER:=$here/target/release/libtare_mysql.so}" "${TARE_MYSQLD:=$host/bin/mysqld}"
    export TARE_PROVIDER TARE_MYSQLD PERL5LIB=$host/root/usr/share/perl5
    [ -e "$suite/mysql-test-run.pl" ] || die "the server's tests are missing: scripts/hosts.sh mysql-tests"
    [ -e "$TARE_PROVIDER" ] || die "$TARE_PROVIDER is missing: build it with make provider-mysql"
else
    host=/usr
    suite=/usr/share/mysql/mysql-test
    runner=(./mariadb-test-run)
    failures=scripts/mtr/failures
    : "${TARE_PROVIDER:=$here/target/release/libtare_mariadb.so}" "${TARE_MARIADBD:=/usr/sbin/mariadbd}"
    export TARE_PROVIDER TARE_MARIADBD
    [ -x "$suite/mariadb-test-run" ] || die "the server's tests are missing: apt-get install mariadb-test"
    [ -e "$TARE_PROVIDER" ] || die "$TARE_PROVIDER is missing: build it with make provider"
fi

# The runner makes socket names of this; they have to be short.
work=$(mktemp -d /tmp/tare-mtr-XXXX)
# A runner that is root writes what it got beside what it expected.
trap 'rm -rf "$work"; find "$suite" -newer "$work.began" -name "*.reject" -delete; rm -f "$work.began"' EXIT
touch "$work.began"

# The runner looks for a server below this folder; all but the server is the system's.
mkdir -p "$work/server/sbin"
for name in bin lib share; do ln -s "$host/$name" "$work/server/$name"; done
ln -s "$suite" "$work/server/mysql-test"
[ $product = mysql ] && program=mysqld || program=mariadbd
ln -s "$here/scripts/mtr/$program" "$work/server/sbin/$program"

# run NAME [ARGUMENT ...]: runs tests; lines of `test status` in $work/NAME, what was printed in $work/NAME.out. A test is
# called suite.test, one with combinations suite.test,combination, as the runner itself takes it. MySQL's runner says before each
# how far it is, and runs `shutdown_report`, which is in no suite, at the end.
run() {
    local name=$1
    shift
    (cd "$suite" && "${runner[@]}" --vardir="$work/var" --parallel="$(nproc)" --force --max-test-fail=0 --retry=0 \
        --nowarnings --testcase-timeout=3 --max-save-datadir=0 "$@") 2>&1 | sed -E 's/^\[ *[0-9]+%\] //' >"$work/$name.out" || true
    sed -nE "s/^([a-z_]+\.[^ ]+)( '([^']+)')? .*\[ (pass|fail|skipped) \].*/\1,\3 \4/p" "$work/$name.out" \
        | sed 's/, / /' | sort -u >"$work/$name"
    rm -rf "$work/var"
    [ -z "${TARE_MTR_OUTPUT:-}" ] || cat "$work/$name.out" >>"$TARE_MTR_OUTPUT/$name.out"
    [ -s "$work/$name" ] || { cat "$work/$name.out"; die "the runner ran no test"; }
}
on_builtin() { if [ $product = mysql ]; then MTR_BINDIR=$host run "$@"; else run "$@"; fi; }
on_tare() { MTR_BINDIR=$work/server run "$@"; }
with_status() { awk -v status="$2" '$2 == status { print $1 }' "$work/$1" | sort; }

# MySQL's list says after each test with which series it fails, separated by commas.
awk -v series="$series" '/^[^#]/ && (series == "" || index("," $2 ",", "," series ",")) { print $1 }' $failures \
    | sort >"$work/listed"
status=0

# compare TITLE [ARGUMENT ...]: on the built-in, then on tare at each level; says how many passed, and what surprises.
compare() {
    local title=$1
    shift
    on_builtin builtin "$@"
    with_status builtin pass >"$work/passed.builtin"
    for TARE_TEST_LEVEL in "${levels[@]}"; do
        export TARE_TEST_LEVEL
        hold "$title, $TARE_TEST_LEVEL" "$@"
    done
}

# hold TITLE [ARGUMENT ...]: as compare, of tare at the level of the environment.
hold() {
    local title=$1
    shift
    rm -f "$work/again" "$work/again.out"
    find "$suite" -newer "$work.began" -name "*.reject" -delete
    on_tare tare "$@"
    # What tare was not asked, because the time was up, is no measure either.
    awk '{ print $1 }' "$work/tare" | sort -u | comm -12 - "$work/passed.builtin" >"$work/measure"
    with_status tare pass | comm -12 - "$work/measure" >"$work/passed"
    comm -23 "$work/measure" "$work/passed" >"$work/failed"
    comm -12 "$work/listed" "$work/measure" >"$work/expected"
    ask_again
    but_for_words
    say "$title: tare passes $(wc -l <"$work/passed") of $(wc -l <"$work/measure"), which the built-in passes" \
        "($(wc -l <"$work/worded") of them but for the words of column comments);" \
        "it fails $(with_status builtin fail | wc -l) and skips $(with_status builtin skipped | wc -l)"
    surprises
}

# What a column holds is said in tare's words: the server's are its own text, under its own licence. So a test that shows
# comments of columns is held against what it expects without them.
but_for_words() {
    local test name
    : >"$work/worded"
    while read -r test; do
        name=${test#*.}
        name=$suite/suite/${test%%.*}/r/${name%%,*}
        if [ -e "$name.reject" ] && cmp -s <(without_comments "$name.result") <(without_comments "$name.reject"); then
            echo "$test" >>"$work/worded"
        fi
    done <"$work/failed"
    comm -23 "$work/failed" "$work/worded" >"$work/failed.last"
    mv "$work/failed.last" "$work/failed"
    comm -23 "$work/measure" "$work/failed" >"$work/passed"
}
without_comments() {
    awk -F '\t' -v OFS='\t' '
        NF != fields { fields = 0 }
        fields { $column = "" }
        { for (at = 1; NF > 1 && at <= NF; at++) if (tolower($at) == "column_comment") { fields = NF; column = at } }
        { print }' "$1"
}

# A test that surprises gets a second chance: the machine may have been busy.
ask_again() {
    rm -f "$work/again" "$work/again.out"
    comm -3 "$work/expected" "$work/failed" | tr -d '\t' >"$work/surprises"
    [ -s "$work/surprises" ] || return 0
    local names
    mapfile -t names <"$work/surprises"
    on_tare again "${names[@]}"
    with_status again fail | sort -u "$work/failed" - | comm -23 - <(with_status again pass) >"$work/failed.last"
    mv "$work/failed.last" "$work/failed"
    comm -23 "$work/measure" "$work/failed" >"$work/passed"
}

surprises() {
    local test
    for test in $(comm -13 "$work/expected" "$work/failed"); do
        status=1
        say "$test fails${series:+ with $series} and is not in $failures"
        awk -v test="$test" '
            /^[a-z_]+\.[^ ]+ / { name = $1
                                 if ($2 ~ /^\x27/) { gsub(/\x27/, "", $2); name = name "," $2 }
                                 on = name == test && /\[ fail \]/; lines = 0 }
            on && lines++ < 40' "$work/$([ -e "$work/again.out" ] && echo again || echo tare).out"
    done
    for test in $(comm -23 "$work/expected" "$work/failed"); do
        status=1
        say "$test passes: take it${series:+ with $series} out of $failures"
    done
}

# The part of $work/measure that matches, or with -v does not.
part() {
    local title=$1
    shift
    say "  $title: $(grep -cE "$@" "$work/passed" || true) of $(grep -cE "$@" "$work/measure" || true)"
}

if [ "$#" -gt 0 ]; then
    compare "$*" "$@"
    exit "$status"
fi
compare 'the suite perfschema' --suite=perfschema
part 'of which dml_* and ddl_*, who may write what' '^perfschema\.(dml|ddl)_'
part 'the others' -v '^perfschema\.(dml|ddl)_'
compare 'the suite sysschema' --suite=sysschema
[ $product = mariadb ] || exit "$status"
mapfile -t host < <(awk '/^[^#]/ { print $1 }' scripts/mtr/host)
compare "${#host[@]} tests of other suites" --suite-timeout="${TARE_MTR_MINUTES:-15}" "${host[@]}"
ran=$(awk '{ sub(/,.*/, "", $1); print $1 }' "$work/tare" | sort -u | wc -l)
[ "$ran" -ge "${#host[@]}" ] || say "  there was no time for $((${#host[@]} - ran)) of them: raise TARE_MTR_MINUTES"
exit "$status"
