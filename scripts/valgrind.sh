#!/usr/bin/env bash
# Runs tests with every server that has tare under valgrind, and fails where valgrind sees a fault in tare or in the handler
# of its tables. The tests themselves may fail by time-outs (a server is some forty times slower); which do is said, and is no
# failure here.
#
# Without arguments all tests of `semantics`, which read and write every table in every way, and of `ddl`, `sessions`
# and `ends`; else the arguments are those of `cargo test -p tare-testkit`.
#
#   scripts/valgrind.sh mysql   one server of MySQL's with tare: the statements of scripts/valgrind/mysql.sql, each table of
#                               performance_schema read, reset and read again, shutdown. As root; 3 minutes.
#                               `scripts/hosts.sh mysql-tests` brings the server, its client and a valgrind that knows its C library.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'valgrind: %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }

# of_tare FILE ...: the paragraphs of what valgrind says that name one of tare's objects, or a function of tare's where it knows the
# line of the source. One fault is a paragraph.
of_tare() {
    cat "$@" | awk '
        /^==[0-9]+== *$/ { if (part ~ /(libtare_mariadb|libtare_mysql|ha_federatedx)\.so\)|: <?tare_[a-z]+::/ && part !~ /LEAK SUMMARY/) print part; part = ""; next }
        { part = part $0 "\n" }'
}

# In a root of its own, because valgrind has to find the names in the server's own C library where packages put them.
mysql() {
    local root=$PWD/.hosts/mysql-tests/root client=$PWD/.hosts/mysql-tests/bin/mysql work server table status=0
    : "${TARE_PROVIDER:=$PWD/target/release/libtare_mysql.so}"
    [ -e "$TARE_PROVIDER" ] || die "$TARE_PROVIDER is missing: build it with make provider-mysql"
    [ "${TARE_PROVIDER##*/}" = libtare_mysql.so ] || die "TARE_PROVIDER=$TARE_PROVIDER: its name must be libtare_mysql.so"
    [ -x "$root/usr/bin/valgrind.bin" ] || die "a server with valgrind is missing: scripts/hosts.sh mysql-tests"
    [ "$(id -u)" = 0 ] || die "chroot needs root"
    work=$(mktemp -d /tmp/tare-valgrind-XXXX)
    mkdir -p "$work/lib" "$root/proc" "$root/dev" "$root/tmp"
    cp "$TARE_PROVIDER" scripts/valgrind/suppressions "$work/lib/"
    local options=(--no-defaults --user=root --datadir="$work/data" --socket="$work/socket" --pid-file="$work/pid"
        --log-error="$work/log.err" --skip-networking --loose-skip-mysqlx --secure-file-priv= --innodb-buffer-pool-size=32M
        --performance-schema-instrument=%=ON)
    "$PWD/.hosts/mysql-tests/bin/mysqld" "${options[@]}" --initialize-insecure || die "no data: $work/log.err"
    # shellcheck disable=SC2016 # the inner shell's
    VALGRIND_LIB=/usr/libexec/valgrind LD_PRELOAD=$work/lib/libtare_mysql.so unshare --mount sh -c '
        root=$1; shift
        library=$LD_PRELOAD; unset LD_PRELOAD
        mount -t proc proc "$root/proc" && mount --bind /dev "$root/dev" && mount --bind /tmp "$root/tmp" || exit 1
        LD_PRELOAD=$library exec chroot "$root" "$@"' sh "$root" \
        /usr/bin/valgrind.bin --num-callers=30 --suppressions="$work/lib/suppressions" --log-file="$work/valgrind" \
        /usr/sbin/mysqld "${options[@]}" \
        --innodb-use-native-aio=0 &
    server=$!
    local asked=("$client" --no-defaults --user=root --socket="$work/socket" --force)
    for _ in {1..600}; do
        "${asked[@]}" -e 'DO 1' >/dev/null 2>&1 && break
        kill -0 "$server" 2>/dev/null || break
        sleep 1
    done
    "${asked[@]}" <scripts/valgrind/mysql.sql >"$work/said" 2>&1 || die "the statements were not done: $work/said"
    for table in $("${asked[@]}" -N -e 'SHOW TABLES FROM performance_schema'); do
        printf '%s\n' "SELECT * FROM performance_schema.$table;" "TRUNCATE performance_schema.$table;" "SELECT * FROM performance_schema.$table;"
    done | "${asked[@]}" >"$work/rows" 2>"$work/refused" || true
    say "$(wc -l <"$work/rows") lines of rows; $(grep -c . "$work/refused" || true) statements were refused, as they are without tare"
    target/release/tare status --datadir "$work/data" >"$work/status" || say "tare's socket did not answer: $work/status"
    "${asked[@]}" -e SHUTDOWN
    wait "$server" || status=$?
    [ "$status" = 0 ] || die "the server ended with $status: $work/log.err"
    grep -q 'tare: .*counts waits' "$work/log.err" || die "the server ran without tare: $work/log.err"
    rm -rf "$work/data"
    of_tare "$work/valgrind" >"$work/faults"
    say "$(grep -c 'ERROR SUMMARY' "$work/valgrind") server to its end; $(sed -n 's/.*ERROR SUMMARY: \(.*\) (supp.*/\1/p' "$work/valgrind"), in $work/valgrind"
    [ ! -s "$work/faults" ] || { head -60 "$work/faults"; die "faults in tare"; }
    say "no fault in tare"
}
if [ "${1:-}" = mysql ]; then
    mysql
    exit
fi

command -v valgrind > /dev/null || die "valgrind is missing: apt-get install valgrind"
: "${TARE_PROVIDER:=$PWD/target/release/libtare_mariadb.so}"
[ -e "$TARE_PROVIDER" ] || die "$TARE_PROVIDER is missing: build it with make provider"
[ "${TARE_PROVIDER##*/}" = libtare_mariadb.so ] ||
    die "TARE_PROVIDER=$TARE_PROVIDER: its name must be libtare_mariadb.so, by which faults are found; copy it into a folder"
[ $# -gt 0 ] || set -- --test semantics --test ddl --test sessions --test ends

# The servers write here, as an account of their own.
logs=$(mktemp -d)
chmod 777 "$logs"
export TARE_PROVIDER TARE_MARIADBD=$PWD/scripts/valgrind/mariadbd TARE_VALGRIND_LOGS=$logs
cargo test --quiet --locked --no-fail-fast -p tare-testkit "$@" 2>&1 | grep -E "^test result|^    [a-z_:]+$" || true

faults=$(of_tare "$logs"/*)
# `grep` fails where none did.
ended=$({ grep -l "ERROR SUMMARY" "$logs"/* || true; } | wc -l)
say "$(find "$logs" -type f | wc -l) servers, of which $ended to their end; logs in $logs"
[ "$ended" -gt 0 ] || die "not one server ran to its end"
[ -z "$faults" ] || { printf '%s\n' "$faults" | head -60; die "faults in tare or in the handler of its tables"; }
say "no fault in tare or in the handler of its tables"
