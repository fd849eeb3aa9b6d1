//! The server as the engine's readers see it: names for numbers, texts for tokens.

use std::sync::OnceLock;

use tare_engine::snapshot::{Kind, WaitClass};
use tare_engine::{
    CachedHost, Demand, DigestHash, Host, Replica, ReplicaWorker, RowLockWait, RunningTokens, Session,
    SessionCounter, SessionCounters, SessionValue, StagedSession, SystemThread,
};
use tare_host::governor::Governed;
use tare_host::process::observation;

use super::{routing, synch};
use crate::host::digest::{self, Tokens};
use crate::host::{charset, host_cache, names, replica, row_lock, session, stage, user_variable};

/// The running server.
pub(crate) struct ServerHost;

/// Returns the server's digest functions, looked up at the first call, when the server is up.
fn digests() -> Option<&'static digest::DigestFunctions> {
    static FUNCTIONS: OnceLock<Option<digest::DigestFunctions>> = OnceLock::new();
    FUNCTIONS.get_or_init(digest::DigestFunctions::resolve).as_ref()
}

/// Returns the server's functions for character sets, looked up at the first call.
fn charsets() -> Option<&'static charset::CharsetFunctions> {
    static FUNCTIONS: OnceLock<Option<charset::CharsetFunctions>> = OnceLock::new();
    FUNCTIONS.get_or_init(charset::CharsetFunctions::resolve).as_ref()
}

impl Governed for ServerHost {
    fn lacks_locks(&self) -> bool {
        synch::are_left()
    }
}

impl Host for ServerHost {
    fn demand_changed(&self, kind: Kind, demand: Demand) {
        routing::decide(kind, demand);
    }

    fn stop_reporting_stages(&self) -> bool {
        let can_say = stage::is_known();
        if can_say {
            routing::stop_reporting_stages();
        }
        can_say
    }

    fn session_stage(&self, session: StagedSession) -> Option<u32> {
        stage::of(session)
    }

    fn digest(&self, tokens: &[u8], charset: u32) -> Option<DigestHash> {
        Some(digests()?.hash(Tokens { bytes: tokens, charset, full: false }).into())
    }

    fn hash_of_tokens(&self, tokens: &[u8]) -> Option<DigestHash> {
        Some(digest::hash(tokens).into())
    }

    fn digest_text(&self, tokens: &[u8], charset: u32, cut: bool) -> Option<String> {
        Some(digests()?.text(Tokens { bytes: tokens, charset, full: cut }))
    }

    fn running_tokens(&self, address: usize) -> Option<RunningTokens> {
        digest::copied(address)
    }

    fn command_name(&self, command: u32) -> Option<&'static str> {
        Some(tare_words::command::name(command.cast_signed()))
    }

    fn system_thread(&self, name: &str) -> Option<SystemThread> {
        names::system_thread(name)
    }

    fn session_number(&self, session: u64) -> Option<u64> {
        session::number(session)
    }

    fn connection_type_name(&self, connection_type: u8) -> Option<&'static str> {
        names::connection_type(i32::from(connection_type))
    }

    fn isolation_name(&self, isolation: u8) -> Option<&'static str> {
        names::isolation_level(i32::from(isolation))
    }

    fn xa_state_name(&self, state: u8) -> Option<&'static str> {
        Some(names::xa_state(i32::from(state)))
    }

    fn lock_namespace_name(&self, namespace: u8) -> Option<&'static str> {
        names::mdl_namespace(namespace)
    }

    fn lock_type_name(&self, namespace: u8, lock_type: u8) -> Option<&'static str> {
        names::mdl_type(namespace, i32::from(lock_type))
    }

    fn lock_duration_name(&self, duration: u8) -> Option<&'static str> {
        names::mdl_duration(i32::from(duration))
    }

    fn lock_status_name(&self, status: u8) -> Option<&'static str> {
        names::mdl_status(i32::from(status))
    }

    fn characters(&self, text: &[u8], charset: u32, most: usize) -> usize {
        charsets().map_or(text.len().min(most), |charsets| charsets.characters(text, charset, most))
    }

    fn to_utf8(&self, text: &[u8], charset: u32, most: usize) -> String {
        let converted = charsets().and_then(|charsets| charsets.to_utf8(text, charset, most));
        converted.unwrap_or_else(|| tare_engine::shown(text).chars().take(most).collect())
    }

    fn source_file(&self, address: usize) -> Option<String> {
        let mut name = [0; SOURCE_FILE_MAX];
        let len = observation::copy(address, &mut name);
        let name = name[..len].split(|byte| *byte == 0).next().unwrap_or_default();
        let printable = name.iter().all(|byte| byte.is_ascii_graphic());
        (!name.is_empty() && printable).then(|| String::from_utf8_lossy(name).into_owned())
    }

    fn session_counters(&self) -> &[SessionCounter] {
        session::counters()
    }

    fn read_session_counters(&self, session: Session, into: &mut SessionCounters) -> bool {
        session::read_counters(session, into)
    }

    fn session_variables(&self, session: Session) -> Option<Vec<(String, SessionValue)>> {
        user_variable::read(session)
    }

    fn cached_hosts(&self) -> Option<Vec<CachedHost>> {
        host_cache::read()
    }

    fn replicas(&self) -> Option<Vec<Replica>> {
        replica::replicas()
    }

    fn replica_workers(&self) -> Option<Vec<ReplicaWorker>> {
        replica::workers()
    }

    fn flushes(&self) -> u64 {
        session::flushes()
    }

    fn may_have_flushed(&self) -> bool {
        session::may_have_flushed()
    }

    fn is_working_command(&self, command: u32) -> bool {
        names::is_working_command(command.cast_signed())
    }

    fn stage_wait(&self, stage: &str) -> Option<WaitClass> {
        names::stage_wait(stage)
    }

    fn is_lock_in_the_way(&self, namespace: u8, wanted: u8, held: u8, is_granted: bool) -> bool {
        names::mdl_rules(namespace).is_in_the_way(wanted.into(), held.into(), is_granted)
    }

    fn row_lock_wait(&self, session: Session, does_wait: bool) -> Option<RowLockWait> {
        row_lock::wait(session, does_wait)
    }
}

/// The longest name of a source file that is read, in bytes; the base name, which is shown, is at its end.
const SOURCE_FILE_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_where_there_are_some_and_nothing_faults() {
        let name = c"/build/sql/sql_class.cc";
        let read = |address: usize| ServerHost.source_file(address);
        assert_eq!(read(name.as_ptr().addr()).as_deref(), Some("/build/sql/sql_class.cc"));
        assert_eq!(read(0), None);
        assert_eq!(read(16), None);
        assert_eq!(read(usize::MAX - 4095), None);
    }
}
