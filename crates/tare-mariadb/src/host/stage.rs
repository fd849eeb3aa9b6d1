//! The stage a session is in, as the session itself says it.
//!
//! The server saves a session's stage while another one takes its place, by an exported function: two members side by side, the
//! address of what SHOW PROCESSLIST shows, and the stage's key. The session of a thread that the server names none for is where
//! the thread's own function finds it: at a distance from the thread's pointer.

use std::sync::OnceLock;

use tare_engine::StagedSession;

use super::observation::{self, field, pointer};
use super::{code, session};

/// Where a session has its stage, and a thread the pointer to its session.
struct Layout {
    stage: usize,
    session: isize,
}

fn layout() -> Option<&'static Layout> {
    static LAYOUT: OnceLock<Option<Layout>> = OnceLock::new();
    LAYOUT.get_or_init(Layout::prove).as_ref()
}

impl Layout {
    fn prove() -> Option<Layout> {
        session::layout().ok()?;
        let saves = session::function(c"set_thd_stage_info").ok()?;
        let key = code::read_with_one_before(&observation::bytes::<112>(saves)?)?;
        let session = session::member(c"_current_thd", code::thread_local).ok()?;
        Some(Layout { stage: key.checked_sub(8)?, session })
    }

    /// The key of the stage of the session there; 0: it is in none.
    fn key(&self, session: usize) -> Option<u32> {
        let stage = observation::bytes::<16>(session.checked_add(self.stage)?)?;
        // A session that is idle still has the key of its last stage.
        let is_shown = field(&stage, 0)? != 0;
        Some(if is_shown { field(&stage, 8)? as u32 } else { 0 })
    }
}

/// Whether sessions say which stage they are in.
pub(crate) fn is_known() -> bool {
    layout().is_some()
}

/// The key of the stage a session is in; 0: in none. `None`: it is not that session any more, or nobody knows.
pub(super) fn of(session: StagedSession) -> Option<u32> {
    let layout = layout()?;
    match session {
        StagedSession::Named(session) => {
            let key = layout.key(usize::try_from(session.handle).ok()?)?;
            session::is(session).then_some(key)
        }
        StagedSession::At(thread) => {
            let thread = usize::try_from(thread).ok()?;
            match pointer(thread.checked_add_signed(layout.session)?)? {
                0 => Some(0),
                session => layout.key(session),
            }
        }
    }
}
