//! What the engine asks of its host.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use tare_engine::snapshot::{Kind, WaitClass};
use tare_engine::{Demand, DigestHash, Host, HostLock, RowLockWait, RunningTokens, Session, StagedSession};
use tare_words::stage;

use super::presence::while_there;
use super::thread::ServerThread;
use super::{digest, events, lock_waits, metadata_locks, routing};
use crate::abi::layout::layout;

/// The engine's host. Sessions, metadata locks and everything else that is not an event are the built-in's:
/// the host knows of these what the active session history shows, and reads it in the built-in's memory.
pub(crate) struct ServerHost;

impl Host for ServerHost {
    fn demand_changed(&self, kind: Kind, demand: Demand) {
        routing::decide(kind, demand);
    }

    fn stop_reporting_stages(&self) -> bool {
        routing::stop_reporting_stages();
        true
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
        let thread = ServerThread::of_handle(handle)?;
        let key = while_there(|| thread.number(layout().thread.stage).load(Relaxed))?;
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
        let thread = ServerThread::of_handle(session.handle)?;
        while_there(|| lock_waits::wait(thread)).flatten()
    }

    fn is_lock_in_the_way(&self, namespace: u8, wanted: u8, held: u8, is_granted: bool) -> bool {
        metadata_locks::is_in_the_way(namespace, wanted, held, is_granted)
    }

    fn metadata_locks(&self) -> Option<Vec<HostLock>> {
        Some(while_there(metadata_locks::awaited).unwrap_or_default())
    }

    fn is_lock_still(&self, lock: &HostLock) -> bool {
        while_there(|| metadata_locks::is_still(lock)).unwrap_or(false)
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
