//! What the engine asks of its host.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use tare_engine::snapshot::{Kind, WaitClass};
use tare_engine::{Demand, DigestHash, Host, RowLockWait, RunningTokens, Session, StagedSession};
use tare_words::stage;

use super::thread::ServerThread;
use super::{digest, events, lock_waits, routing};
use crate::abi::events::THREAD_STAGE;

/// The engine's host. Of sessions, metadata locks and everything else that is not an event it knows nothing:
/// these are the built-in's.
pub(crate) struct ServerHost;

impl Host for ServerHost {
    fn demand_changed(&self, kind: Kind, demand: Demand) {
        routing::decide(kind, demand);
    }

    fn digest(&self, tokens: &[u8], _: u32) -> Option<DigestHash> {
        digest::of(tokens)
    }

    fn hash_of_tokens(&self, tokens: &[u8]) -> Option<DigestHash> {
        Some(digest::of_own(tokens))
    }

    fn digest_text(&self, tokens: &[u8], charset: u32, is_cut: bool) -> Option<String> {
        digest::text(tokens, charset, is_cut)
    }

    fn running_tokens(&self, address: usize) -> Option<RunningTokens> {
        digest::running(address)
    }

    fn command_name(&self, _: u32) -> Option<&'static str> {
        None
    }

    fn connection_type_name(&self, _: u8) -> Option<&'static str> {
        None
    }

    fn isolation_name(&self, isolation: u8) -> Option<&'static str> {
        let names = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];
        names.get(usize::from(isolation)).copied()
    }

    fn xa_state_name(&self, state: u8) -> Option<&'static str> {
        // The engine ends one with 4 after a commit, and 3 after a rollback.
        let names = ["ACTIVE", "IDLE", "PREPARED", "ROLLBACK ONLY", "COMMITTED"];
        Some(names.get(usize::from(state)).copied().unwrap_or("NOTR"))
    }

    fn lock_namespace_name(&self, _: u8) -> Option<&'static str> {
        None
    }

    fn lock_type_name(&self, _: u8, _: u8) -> Option<&'static str> {
        None
    }

    fn lock_duration_name(&self, _: u8) -> Option<&'static str> {
        None
    }

    fn lock_status_name(&self, _: u8) -> Option<&'static str> {
        None
    }

    fn knows_stages(&self) -> bool {
        true
    }

    fn session_stage(&self, session: StagedSession) -> Option<u32> {
        let StagedSession::Named(Session { handle, .. }) = session else { return None };
        let key = ServerThread::of_handle(handle)?.number(THREAD_STAGE).load(Relaxed);
        events::known_stage(key).map(u32::from)
    }

    fn is_idle_command(&self, command: u32) -> bool {
        // A statement is in progress while a client's command is worked on. The others are the server's own:
        // Connect, Binlog Dump, Connect Out, Register Replica, Daemon, Binlog Dump GTID, Clone, Group
        // Replication.
        !matches!(command, 11 | 18 | 20 | 21 | 29 | 30 | 32 | 33)
    }

    fn stage_wait(&self, stage: &str) -> Option<WaitClass> {
        stage::wait_class(stage.strip_prefix("stage/sql/")?).and_then(WaitClass::named)
    }

    fn row_lock_wait(&self, session: Session, _: bool) -> Option<RowLockWait> {
        // Whose lock it is only InnoDB's lock system knows.
        let waits = ServerThread::of_handle(session.handle).is_some_and(lock_waits::waits);
        waits.then_some(RowLockWait { holder: None })
    }

    fn characters(&self, text: &[u8], _: u32, most: usize) -> usize {
        text.len().min(most)
    }

    fn to_utf8(&self, text: &[u8], _: u32, most: usize) -> String {
        String::from_utf8_lossy(text).chars().take(most).collect()
    }

    fn source_file(&self, address: usize) -> Option<String> {
        // A plugin's text may have gone with it: only the program's and those of libraries that stay are
        // read.
        let symbol = tare_host::process::Symbol::at(std::ptr::without_provenance(address))?;
        if symbol.object.to_bytes().windows(8).any(|part| part == b"/plugin/") {
            return None;
        }
        // SAFETY: the server passed this address of a NUL-terminated constant with an event, and the object
        // that covers it is loaded.
        let path = unsafe { CStr::from_ptr(std::ptr::with_exposed_provenance(address)) };
        let path = path.to_string_lossy();
        Some(path.rsplit('/').next().unwrap_or_default().to_owned())
    }
}
