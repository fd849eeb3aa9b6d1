//! The stage that a session is in, read from the session itself.
//!
//! The server saves a session's stage while another one replaces it, in an exported function. Two adjacent
//! members hold the stage: the address of the text that SHOW PROCESSLIST shows, and the stage's key. The
//! session of a thread for which the server reports none is found as the thread's own function finds it: at
//! an offset from the thread pointer.

use std::sync::OnceLock;

use tare_engine::{Session, StagedSession};
use tare_host::process::observation::{self, field, pointer};

use super::{code, session};

/// The offset of a session's stage, and of a thread's pointer to its session.
struct StageLayout {
    stage: usize,
    session: isize,
}

fn layout() -> Option<&'static StageLayout> {
    static LAYOUT: OnceLock<Option<StageLayout>> = OnceLock::new();
    LAYOUT.get_or_init(StageLayout::prove).as_ref()
}

impl StageLayout {
    fn prove() -> Option<StageLayout> {
        session::layout().ok()?;
        let saves = session::function(c"set_thd_stage_info").ok()?;
        let key = code::read_with_one_before(&observation::bytes::<112>(saves)?)?;
        let session = session::member(c"_current_thd", code::thread_local).ok()?;
        Some(StageLayout { stage: key.checked_sub(8)?, session })
    }

    /// Reads the key of the stage of the session at an address; 0 if it is in none.
    fn key(&self, session: usize) -> Option<u32> {
        key(&observation::bytes(session.checked_add(self.stage)?)?)
    }

    /// Reads the key of the stage of a session, and then whether it still is that session.
    fn key_of(&self, session: Session) -> Option<u32> {
        let thd = usize::try_from(session.handle).ok()?;
        let number = thd.checked_add(session::number_place()?)?;
        let (stage, number) = observation::two(thd.checked_add(self.stage)?, number)?;
        if u64::from_le_bytes(number) == session.processlist_id { key(&stage) } else { None }
    }
}

/// Returns the key in a copy of a stage's two members; 0: there is no stage.
fn key(stage: &[u8; 16]) -> Option<u32> {
    // An idle session still has the key of its last stage.
    let is_shown = field(stage, 0)? != 0;
    Some(if is_shown { field(stage, 8)? as u32 } else { 0 })
}

/// Returns whether the stage of sessions can be read.
pub(crate) fn is_known() -> bool {
    layout().is_some()
}

/// Returns the key of the stage that a session is in; 0 if it is in none. `None`: it is no longer that
/// session, or the layout is unknown.
pub(crate) fn of(session: StagedSession) -> Option<u32> {
    let layout = layout()?;
    match session {
        StagedSession::Named(session) => layout.key_of(session),
        StagedSession::At(thread) => {
            let thread = usize::try_from(thread).ok()?;
            match pointer(thread.checked_add_signed(layout.session)?)? {
                0 => Some(0),
                session => layout.key(session),
            }
        }
    }
}
