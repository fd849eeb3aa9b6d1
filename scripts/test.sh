#!/usr/bin/env bash
# Runs every test: the protocols between threads through every interleaving (tare-sync, as shipped, on loom's atomics), then
# the workspace. Shows a line for each program of tests, what failed, and why a test was skipped; ends with one line: how
# many passed, failed and were skipped. A test that cannot take part here prints `skipped: REASON` and returns; one that has
# a target of its own carries `#[ignore = "REASON"]`. Arguments go to the workspace's `cargo test`.
# Programs of tests run side by side: scripts/side_by_side.py.
set -uo pipefail
cd "$(dirname "$0")/.."

(
    failed=0
    # In a folder of its own: with other flags, cargo would build everything anew.
    RUSTFLAGS='--cfg loom' cargo test --locked --release --target-dir target/loom -p tare-sync --lib -- --show-output \
        || failed=$?
    printf 'test: compiling the tests; this takes a minute or more, without a word\n'
    scripts/side_by_side.py "$@" || failed=$?
    exit "$failed"
) 2>&1 | awk -f scripts/test.awk
