//! The exact cost of what outlets read: instructions that a statement of a stream and a digest of a scrape
//! take the endpoint's thread, against the figures on record, and how often a digest is spelled.

use tare_rig::callgrind::{InstructionCounts, NO_VALGRIND, counted, counting, output, said};

const STATEMENTS: u64 = 20_000;
/// Digests that statements of `answers stream` have.
const DIGESTS: u64 = 40;

#[test]
fn a_statement_costs_no_more_instructions_than_on_record() {
    let answers = counted("answers");
    let record = InstructionCounts(include_str!("cost.toml"));
    for (mode, times) in [
        ("blocks", STATEMENTS),
        ("full", STATEMENTS),
        ("normalised", STATEMENTS),
        ("none", STATEMENTS),
        ("polls", 200),
    ] {
        let mut valgrind = counting("*answer*query*");
        let Some(output) = output(valgrind.arg(&answers).args(["stream", &times.to_string(), mode])) else {
            println!("{NO_VALGRIND}");
            return;
        };
        record.hold(
            &format!("instructions, {mode}"),
            said(&output, "Collected :") / times,
            record.number(mode),
        );
        // Each digest once for each connection, however many statements have it; all ask for DIGEST.
        let spelled = said(&output, "digests spelled");
        assert!(spelled <= DIGESTS, "{spelled} digests were spelled for {mode}");
    }
}

/// Digests of `answers digests`, and how often all are asked for. The first time takes longer: it reads who
/// they are.
const ROWS: u64 = 5_000;
const SCRAPES: u64 = 20;

#[test]
fn a_digest_costs_a_scrape_no_more_instructions_than_on_record() {
    let answers = counted("answers");
    let record = InstructionCounts(include_str!("cost.toml"));
    for (shape, question, key) in [
        ("strict", "highest", "strict"),
        ("extended", "highest", "extended"),
        ("strict", "all", "strict_sent"),
        ("extended", "all", "extended_sent"),
    ] {
        let mut valgrind = counting("*answer*query*");
        let arguments = ["digests", &ROWS.to_string(), &SCRAPES.to_string(), shape, question];
        let Some(output) = output(valgrind.arg(&answers).args(arguments)) else {
            println!("{NO_VALGRIND}");
            return;
        };
        let now = said(&output, "Collected :") / (ROWS * SCRAPES);
        record.hold(&format!("instructions, a digest, {shape}, {question}"), now, record.number(key));
    }
}
