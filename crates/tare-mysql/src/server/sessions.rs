//! The threads that the built-in knows, as its table `threads` shows them: also those without a session, and
//! those without an event.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use tare_host::process::observation::{block, pointer, word};

use super::lists::{Copied, Record, THREADS};
use super::{events, instruments};
use crate::abi::Class;
use crate::abi::layout::layout;

/// A row of `threads`.
#[derive(Debug, Default)]
pub(crate) struct SessionRow {
    pub(crate) thread_id: u64,
    pub(crate) name: String,
    /// 0: it serves no client.
    pub(crate) processlist_id: u64,
    pub(crate) user: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) schema: Option<String>,
    pub(crate) command: Option<&'static str>,
    /// In seconds.
    pub(crate) time: Option<u64>,
    pub(crate) state: Option<String>,
    pub(crate) info: Option<String>,
    pub(crate) parent: u64,
    pub(crate) is_instrumented: bool,
    pub(crate) has_history: bool,
    pub(crate) connection: Option<&'static str>,
    pub(crate) os_id: u64,
    pub(crate) group: Option<String>,
    pub(crate) is_secondary: bool,
    /// Controlled memory in bytes and its peak, then all memory.
    pub(crate) memory: [u64; 4],
    pub(crate) has_telemetry: bool,
    /// The built-in's host, user and account of the thread, by address.
    pub(crate) owners: [usize; 3],
}

/// How often a record is copied whose session or statement changes meanwhile. After that its texts are NULL,
/// as in the server's table.
const COPIES: usize = 20;

/// The type of `get_vio_type_name`.
pub(crate) type ConnectionName = unsafe extern "C" fn(c_uint, *mut *const c_char, *mut c_int);

/// The server's function that names a CONNECTION_TYPE.
pub(crate) static CONNECTION_NAME: OnceLock<ConnectionName> = OnceLock::new();

/// Names of commands, by number.
static COMMANDS: OnceLock<Vec<String>> = OnceLock::new();

/// The number of commands that the server names, and the last one of these, which stands for all others.
const COMMANDS_NAMED: usize = 35;
/// The size of a `std::string`, which begins with the address and the length of its text.
const STRING: usize = 32;

/// Reads the names of commands from the server's array of them. Returns false if it is not as expected.
pub(crate) fn read_commands(array: usize) -> bool {
    let name = |number: usize| {
        let at = array + number * STRING;
        let length = word(at + 8).filter(|length| *length < 64)?;
        String::from_utf8(block(pointer(at)?, length as usize)?).ok()
    };
    let Some(names) = (0..COMMANDS_NAMED).map(name).collect::<Option<Vec<_>>>() else { return false };
    let is_expected = names[0] == "Sleep" && names[3] == "Query" && names[COMMANDS_NAMED - 1] == "Error";
    is_expected && COMMANDS.set(names).is_ok()
}

/// Returns PROCESSLIST_COMMAND.
fn command(number: u32) -> Option<&'static str> {
    COMMANDS.get()?.get((number as usize).min(COMMANDS_NAMED - 1)).map(String::as_str)
}

/// Returns CONNECTION_TYPE.
fn connection(number: u32) -> Option<&'static str> {
    let (mut start, mut length) = (std::ptr::null(), 0);
    // SAFETY: the server's function, which reads a constant table and writes to both places.
    unsafe { CONNECTION_NAME.get()?(number, &raw mut start, &raw mut length) };
    let length = usize::try_from(length).ok().filter(|length| *length > 0 && !start.is_null())?;
    // SAFETY: a constant of the program, as long as the function says.
    let name = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
    str::from_utf8(name).ok()
}

/// Returns the rows of all threads. Call it within [`super::presence::while_there`].
pub(crate) fn all() -> Vec<SessionRow> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut rows = Vec::new();
    THREADS.each(|record| rows.extend(settled(record).and_then(|copied| row(&copied, now))));
    rows
}

/// Copies a thread, if possible while neither its session nor its statement changes.
fn settled(record: Record) -> Option<Copied> {
    let at = &layout().thread;
    let versions = [at.session_version, at.statement_version];
    let is_settled = |copied: &Copied| versions.iter().all(|version| copied.is_settled(*version));
    let mut copied = record.copy(at.part(), &versions)?;
    for _ in 1..COPIES {
        if is_settled(&copied) {
            break;
        }
        copied = record.copy(at.part(), &versions)?;
    }
    Some(copied)
}

fn row(copied: &Copied, now: u64) -> Option<SessionRow> {
    let at = &layout().thread;
    let class = std::ptr::with_exposed_provenance::<Class>(copied.word(at.class) as usize);
    // SAFETY: a thread in use has an instrument, and the built-in never removes one while it is there.
    let name = instruments::name(unsafe { class.as_ref() }?)?.to_owned();
    let (has_session, has_statement) =
        (copied.is_settled(at.session_version), copied.is_settled(at.statement_version));
    let of_session = |text| if has_session { copied.text(text) } else { None };
    let characters = |from: usize, length_at: usize| {
        let length = copied.number(length_at) as usize;
        (1..=length_at - from).contains(&length).then(|| copied.characters(from, length))
    };
    let processlist_id = copied.word(at.processlist_id);
    let since = copied.word(at.since);
    let memory = |member: usize| copied.word(at.memory + member);
    Some(SessionRow {
        thread_id: copied.word(at.id),
        name,
        processlist_id,
        user: of_session(at.user),
        host: of_session(at.host),
        schema: if has_statement { copied.text(at.schema) } else { None },
        command: if processlist_id == 0 { None } else { command(copied.number(at.command)) },
        time: (since != 0).then(|| now.saturating_sub(since)),
        state: events::state(copied.number(at.stage)),
        info: characters(at.info, at.info_length).filter(|_| has_statement),
        parent: copied.word(at.parent),
        is_instrumented: copied.byte(at.instrumented) != 0,
        has_history: copied.byte(at.history) != 0,
        connection: connection(copied.number(at.connection)),
        os_id: copied.word(at.os_id),
        group: characters(at.group, at.group_length).filter(|_| has_session),
        is_secondary: copied.byte(at.secondary) != 0,
        memory: [memory(0), memory(8).max(memory(0x18)), memory(0x20), memory(0x28).max(memory(0x38))],
        has_telemetry: copied.word(at.telemetry) != 0,
        owners: at.owners.map(|at| copied.word(at) as usize),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_commands_are_read_if_they_are_the_servers() {
        let texts: Vec<&'static str> = (0..COMMANDS_NAMED)
            .map(|number| match number {
                0 => "Sleep",
                3 => "Query",
                34 => "Error",
                _ => "Other",
            })
            .collect();
        let string = |text: &&'static str| [text.as_ptr().expose_provenance(), text.len(), 0, 0];
        let mut array: Vec<[usize; 4]> = texts.iter().map(string).collect();
        array[3] = string(&"Kill");
        assert!(!read_commands(array.as_ptr().expose_provenance()));
        array[3] = string(&"Query");
        assert!(read_commands(array.as_ptr().expose_provenance()));
        assert_eq!([0, 3, 5, 34, 99].map(command), ["Sleep", "Query", "Other", "Error", "Error"].map(Some));
        assert!(!read_commands(0));
    }
}
