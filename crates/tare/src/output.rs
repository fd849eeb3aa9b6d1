//! Standard output that nobody reads any more, as in `tare doctor | head`: that is the end, and no error.

use std::any::Any;
use std::panic::{UnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::process::ExitCode;

/// What a shell reports for a program ended by SIGPIPE.
const CLOSED: u8 = 141;

/// Runs a command until its output is closed. The standard library panics then: whatever was started is stopped on the way
/// out as after any panic, but without a word.
pub(crate) fn until_closed(run: impl FnOnce() -> ExitCode + UnwindSafe) -> ExitCode {
    let say = take_hook();
    set_hook(Box::new(move |panic| {
        if !is_closed(panic.payload()) {
            say(panic);
        }
    }));
    catch_unwind(run).unwrap_or_else(|payload| match is_closed(&*payload) {
        true => ExitCode::from(CLOSED),
        false => resume_unwind(payload),
    })
}

fn is_closed(payload: &(dyn Any + Send)) -> bool {
    let said = payload.downcast_ref::<String>();
    said.is_some_and(|said| said.starts_with("failed printing to stdout") && said.contains("Broken pipe"))
}
