//! The exact cost of a stream: instructions that a statement takes the endpoint's thread, against the figures on record, and how
//! often a digest is spelled.

#[path = "../../tare-engine/tests/callgrind/mod.rs"]
mod callgrind;

use callgrind::{Figures, NO_VALGRIND, counting, example, output, said};

const STATEMENTS: u64 = 20_000;
/// Digests that the example's statements have.
const DIGESTS: u64 = 40;

#[test]
fn a_statement_costs_no_more_instructions_than_on_record() {
    let example = example("tare-wire", "stream");
    let record = Figures(include_str!("cost.toml"));
    let is_compared = record.are_compared();
    for (mode, times) in
        [("full", STATEMENTS), ("normalised", STATEMENTS), ("none", STATEMENTS), ("polls", 200)]
    {
        let mut valgrind = counting("*answer*query*");
        let Some(output) = output(valgrind.arg(&example).arg(times.to_string()).arg(mode)) else {
            println!("{NO_VALGRIND}");
            return;
        };
        let (now, before) = (said(&output, "Collected :") / times, record.number(mode));
        println!("instructions, {mode}: {now}, on record {before}");
        // Each digest once for each connection, however many statements have it; all ask for DIGEST.
        let spelled = said(&output, "digests spelled");
        assert!(spelled <= DIGESTS, "{spelled} digests were spelled for {mode}");
        let most = before * (100 + record.number("tolerance_percent")) / 100;
        assert!(now <= most || !is_compared, "{now} instructions for {mode}, {before} on record");
    }
}
