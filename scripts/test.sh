#!/usr/bin/env bash
# Runs `cargo test` with the arguments given. Shows a line for each program of tests, what failed, and why a test was skipped;
# ends with one line: how many passed, failed and were skipped. A test that cannot take part here prints `skipped: REASON`
# and returns; one that has a target of its own carries `#[ignore = "REASON"]`.
set -uo pipefail
cd "$(dirname "$0")/.."

printf 'test: compiling the tests; this takes a minute or more, without a word\n'
cargo test --locked --no-fail-fast "$@" -- --show-output 2>&1 | awk -f scripts/test.awk
statuses=("${PIPESTATUS[@]}")
exit $((statuses[0] != 0 ? statuses[0] : statuses[1]))
