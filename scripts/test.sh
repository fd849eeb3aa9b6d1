#!/usr/bin/env bash
# Runs every test: the protocols between threads through every interleaving (tare-sync, as shipped, on loom's atomics), then
# the workspace. Shows a line for each program of tests, what failed, and why a test was skipped; ends with one line: how
# many passed, failed and were skipped. A test that cannot take part here prints `skipped: REASON` and returns; one that has
# a target of its own carries `#[ignore = "REASON"]`. Arguments go to the workspace's `cargo test`.
# Programs of tests run side by side: scripts/side_by_side.py. `--build`, alone, only builds all of this.
set -uo pipefail
cd "$(dirname "$0")/.."

# In a folder of its own: with other flags, cargo would build everything anew.
loom() { RUSTFLAGS='--cfg loom' cargo test --locked --release --target-dir target/loom -p tare-sync --lib "$@"; }

if [ "$*" = --build ]; then
    # Quiet about the names of a hundred programs.
    cargo test --locked --workspace --no-run 2> >(grep -v '^  Executable ' >&2) && loom --no-run
    exit
fi

(
    failed=0
    loom -- --show-output || failed=$?
    printf 'test: compiling the tests, without a word: if they are not built yet, this takes some minutes\n'
    scripts/side_by_side.py "$@" || failed=$?
    exit "$failed"
) 2>&1 | awk -f scripts/test.awk
