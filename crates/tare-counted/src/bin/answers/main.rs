//! What the endpoint's answers cost: `answers stream …` or `answers digests …`; each of the modules says what
//! follows. One program, because linking takes long.

mod digests;
mod stream;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((what, arguments)) if what == "stream" => stream::run(arguments),
        Some((what, arguments)) if what == "digests" => digests::run(arguments).expect("answers"),
        _ => panic!("answers stream | digests"),
    }
}
