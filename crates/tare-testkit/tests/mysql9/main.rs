//! The shape `extended` beside MySQL 9, whose tables it has.
//!
//! ALONE: which statement of a digest was the slowest is compared, and on a busy machine that is another one.

#![allow(clippy::unwrap_used)] // in a test a failure is a panic

mod histograms;
mod oracle;
mod sys;

use tare_testkit::server::{Server, StartSettings};
use tare_testkit::subject::TestProvider;

/// A server in the shape `extended`; `None`, with a word, where the built-in is under test or its tables are
/// not on the server's port.
fn extended() -> Option<Server> {
    if !TestProvider::under_test().is_tare() {
        println!("skipped: the built-in has no such shape");
        return None;
    }
    let options = vec![("shape".to_owned(), "extended".to_owned())];
    Server::start(StartSettings::new(TestProvider::Tare(options))).unwrap().on_its_port()
}
