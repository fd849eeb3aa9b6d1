//! The double of a host.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};

use tare_engine::snapshot::Kind;
use tare_engine::{
    CounterForm, Demand, Host, Replica, Session, SessionCounter, SessionCounters, StagedSession,
};

use crate::SOURCE_FILE;

/// Returns the double's hash of tokens: their last sixteen bytes.
pub fn last_bytes(tokens: &[u8]) -> [u8; 16] {
    *tokens.last_chunk().expect("more than are kept")
}

/// Returns what the double says of its replicas.
type AskReplicas = Box<dyn Fn() -> Vec<Replica> + Send>;

/// A host that answers as a server would; the text of a digest is its tokens.
#[derive(Default)]
pub struct Double {
    /// Counters of its sessions, by handle.
    pub sessions: Mutex<HashMap<u64, Vec<u64>>>,
    /// Number of times that it has emptied its own sums of them.
    pub flush: AtomicU64,
    /// Whether it knows which stages its sessions are in.
    pub knows_stages: AtomicBool,
    /// Stages that its sessions are in, by handle.
    pub stages: Mutex<HashMap<u64, u32>>,
    /// Whether it reports no stage.
    pub unreported: AtomicBool,
    /// Number of hashes that it has made.
    pub hashed: AtomicU64,
    /// Number of digest texts that it has made.
    pub spelled: AtomicU64,
    /// What it says of its replicas.
    pub replicas: Mutex<Option<AskReplicas>>,
}

impl Host for Double {
    fn demand_changed(&self, kind: Kind, demand: Demand) {
        if kind == Kind::Stage && demand != Demand::Nothing {
            self.unreported.store(false, Relaxed);
        }
    }
    fn stop_reporting_stages(&self) -> bool {
        let knows = self.knows_stages.load(Relaxed);
        self.unreported.store(knows, Relaxed);
        knows
    }
    fn replicas(&self) -> Option<Vec<Replica>> {
        self.replicas.lock().expect("no panic").as_ref().map(|ask| ask())
    }
    fn session_stage(&self, session: StagedSession) -> Option<u32> {
        let at = match session {
            StagedSession::Named(session) => session.handle,
            StagedSession::At(place) => place,
        };
        self.stages.lock().expect("no panic").get(&at).copied()
    }
    fn digest(&self, tokens: &[u8], charset: u32) -> Option<tare_engine::DigestHash> {
        self.hashed.fetch_add(1, Relaxed);
        Some((u128::from(charset) << 96 | tokens.len() as u128).to_be_bytes().into())
    }
    fn digest_text(&self, tokens: &[u8], _: u32, cut: bool) -> Option<String> {
        self.spelled.fetch_add(1, Relaxed);
        Some(String::from_utf8_lossy(tokens).into_owned() + if cut { "..." } else { "" })
    }
    fn command_name(&self, command: u32) -> Option<&'static str> {
        ["Sleep", "Quit", "Init DB", "Query"].get(command as usize).copied()
    }
    fn connection_type_name(&self, connection_type: u8) -> Option<&'static str> {
        ["TCP/IP", "Socket"].get(connection_type as usize).copied()
    }
    fn isolation_name(&self, isolation: u8) -> Option<&'static str> {
        ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
            .get(isolation as usize)
            .copied()
    }
    fn xa_state_name(&self, state: u8) -> Option<&'static str> {
        ["NOTR", "ACTIVE", "IDLE", "PREPARED", "COMMITTED", "ROLLBACK ONLY"].get(state as usize).copied()
    }
    fn lock_namespace_name(&self, namespace: u8) -> Option<&'static str> {
        ["GLOBAL", "TABLESPACE", "SCHEMA", "TABLE"].get(namespace as usize).copied()
    }
    fn lock_type_name(&self, _namespace: u8, lock_type: u8) -> Option<&'static str> {
        ["INTENTION_EXCLUSIVE", "SHARED"].get(lock_type as usize).copied()
    }
    fn lock_duration_name(&self, duration: u8) -> Option<&'static str> {
        ["STATEMENT", "TRANSACTION"].get(duration as usize).copied()
    }
    fn lock_status_name(&self, status: u8) -> Option<&'static str> {
        ["PENDING", "GRANTED"].get(status as usize).copied()
    }
    fn characters(&self, text: &[u8], _charset: u32, most: usize) -> usize {
        text.len().min(most)
    }
    fn to_utf8(&self, text: &[u8], _charset: u32, _most: usize) -> String {
        String::from_utf8_lossy(text).into_owned()
    }
    fn source_file(&self, address: usize) -> Option<String> {
        (address == SOURCE_FILE.as_ptr().addr()).then(|| SOURCE_FILE.to_str().expect("ASCII").to_owned())
    }
    fn session_counters(&self) -> &[SessionCounter] {
        static NAMES: LazyLock<[SessionCounter; 2]> = LazyLock::new(|| {
            ["Questions", "Rows_sent"]
                .map(|name| SessionCounter { name: name.to_owned(), form: CounterForm::Count })
        });
        &*NAMES
    }
    fn read_session_counters(&self, session: Session, into: &mut SessionCounters) -> bool {
        let sessions = self.sessions.lock().expect("no panic");
        let counters = sessions.get(&session.handle);
        counters.inspect(|counters| into[..counters.len()].copy_from_slice(counters)).is_some()
    }
    fn flushes(&self) -> u64 {
        self.flush.load(Relaxed)
    }
}
