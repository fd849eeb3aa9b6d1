#!/usr/bin/env bash
# Runs tests with every server that has tare under valgrind, and fails where valgrind sees a fault in tare or in the handler
# of its tables. The tests themselves may fail by time-outs (a server is some forty times slower); which do is said, and is no
# failure here.
#
# Without arguments all tests of `semantics`, which read and write every table in every way, and of `ddl`, `sessions`
# and `ends`; else the arguments are those of `cargo test -p tare-testkit`.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'valgrind: %s\n' "$*"; }
die() { say "$*" >&2; exit 1; }
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

# What valgrind says of one fault stands in a paragraph.
faults=$(cat "$logs"/* | awk '
    /^==[0-9]+== *$/ { if (part ~ /(libtare_mariadb|ha_federatedx)\.so\)/ && part !~ /LEAK SUMMARY/) print part; part = ""; next }
    { part = part $0 "\n" }')
# `grep` fails where none did.
ended=$({ grep -l "ERROR SUMMARY" "$logs"/* || true; } | wc -l)
say "$(find "$logs" -type f | wc -l) servers, of which $ended to their end; logs in $logs"
[ "$ended" -gt 0 ] || die "not one server ran to its end"
[ -z "$faults" ] || { printf '%s\n' "$faults" | head -60; die "faults in tare or in the handler of its tables"; }
say "no fault in tare or in the handler of its tables"
