# What `cargo test -- --show-output` prints, made short: failures whole, reasons of what was skipped, a line a program, and
# at the end the sums. Exits with 1 when no test ran.

function skip(name, reason) {
    if (!(name in reasons)) order[++skipped] = name
    reasons[name] = reasons[name] (reasons[name] == "" ? "" : "; ") reason
}

# Cargo's own lines: programs of tests, and what the compiler has to say.
/^ +(Running|Doc-tests) / {
    program = $0
    sub(/ \(.*/, "", program)
    sub(/^ +(Running )?/, "", program)
    # A program that was killed has left the last one's output unfinished.
    inside = successes = failing = 0
    before = failed
    next
}
/^ +(Compiling|Finished|Blocking|Downloading|Downloaded|Locking|Updating|Fresh|Adding) / { next }

/^running [0-9]+ tests?$/ { inside = 1; next }
inside && /^test .* \.\.\. ok$/ { next }
inside && /^test .* \.\.\. ignored/ {
    name = $2
    reason = $0
    sub(/^.* \.\.\. ignored(, )?/, "", reason)
    skip(program ": " name, reason == "" ? "no reason given" : reason)
    ignored++
    next
}
inside && /^successes:$/ { inside = 0; successes = 1; next }
(inside || successes) && /^failures:$/ { inside = successes = 0; failing = 1 }
successes && /^---- .* stdout ----$/ { name = $2; next }
successes && /^skipped: / { if (!(program ": " name in reasons)) passed--; skip(program ": " name, substr($0, 10)); next }
/^test result: / {
    inside = successes = failing = 0
    passed += $4
    failed += $6
    programs++
    if ($4 + $6 > 0) printf "%-60s %4d passed, %d failed, %s\n", program, $4, $6, $NF
    fflush()
    next
}
# What failed without saying which test: it crashed, hung or could not be started.
/^error: test / {
    if (failed == before) failed++
    inside = successes = 0
}
# What failed, and passed when it was repeated.
/^wavered: / { failed--; wavered++; again[wavered] = substr($0, 10); next }
successes || (/^$/ && !failing) { next }
{ print; fflush() }

END {
    for (number = 1; number <= skipped; number++) printf "skipped: %s: %s\n", order[number], reasons[order[number]]
    for (number = 1; number <= wavered; number++) printf "wavered: %s\n", again[number]
    if (wavered) printf "tests: %d passed, %d failed, %d wavered, %d skipped\n", passed, failed, wavered, skipped
    else printf "tests: %d passed, %d failed, %d skipped\n", passed, failed, skipped
    exit passed + failed == 0
}
