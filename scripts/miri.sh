#!/usr/bin/env bash
# The unit tests of the protocols and of the engine, run by Miri, which stops at the first undefined behaviour: a read out of
# bounds, a reference that aliases, a data race. Needs a nightly toolchain with the component `miri`.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo 'test-miri: Miri is not there; rustup toolchain install nightly --component miri' >&2
    exit 1
fi
# Memory is mapped and the clock is read; addresses are kept as numbers in the arena's words, by design (SAFETY.md).
# An engine lives as long as its process, so tests leak theirs. Which orders loads and stores may be seen in is loom's to try,
# and it tries all of them.
export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-disable-weak-memory-emulation -Zmiri-ignore-leaks"
exec cargo +nightly miri test --locked --target-dir target/miri -p tare-sync -p tare-engine --lib "$@"
