//! What tables and tools ask of the engine. Everything here runs on a reader's thread and takes its time.

use std::ops::ControlFlow;

use crate::Engine;
use crate::snapshot::*;

/// Receives the rows of a summary one by one.
pub type Sink<'a, S> = &'a mut dyn FnMut(Summary<S>) -> ControlFlow<()>;

#[allow(missing_docs, unused_variables, clippy::missing_const_for_fn)]
impl Engine {
    pub fn instruments(&self) -> Vec<Instrument> { vec![] }
    pub fn set_instrument(&self, id: ClassId, enabled: Option<bool>, timed: Option<bool>) {}
    pub fn consumer(&self, consumer: Consumer) -> bool { false }
    pub fn set_consumer(&self, consumer: Consumer, on: bool) {}
    pub fn threads(&self) -> Vec<ThreadRow> { vec![] }
    /// False when the thread is gone.
    pub fn set_thread(&self, thread_id: u64, instrumented: Option<bool>, history: Option<bool>) -> bool { false }
    pub fn waits(&self, scope: Scope) -> Vec<WaitRow> { vec![] }
    pub fn stages(&self, scope: Scope) -> Vec<StageRow> { vec![] }
    pub fn statements(&self, scope: Scope) -> Vec<StatementRow> { vec![] }
    pub fn transactions(&self, scope: Scope) -> Vec<TransactionRow> { vec![] }
    /// Every instrument of the type appears for every owner, zeros included, in the order of `instruments`.
    pub fn wait_summary(&self, level: Level, sink: Sink<'_, Stat>) {}
    pub fn stage_summary(&self, level: Level, sink: Sink<'_, Stat>) {}
    pub fn statement_summary(&self, level: Level, sink: Sink<'_, StatementStat>) {}
    pub fn transaction_summary(&self, level: Level, sink: Sink<'_, TransactionStat>) {}
    pub fn memory_summary(&self, level: Level, sink: Sink<'_, MemoryStat>) {}
    pub fn digests(&self) -> Vec<DigestRow> { vec![] }
    pub fn files(&self) -> Vec<FileRow> { vec![] }
    pub fn file_summary(&self) -> Vec<(&'static str, IoStat)> { vec![] }
    pub fn sockets(&self) -> Vec<SocketRow> { vec![] }
    pub fn socket_summary(&self) -> Vec<(&'static str, IoStat)> { vec![] }
    pub fn tables(&self) -> Vec<TableRow> { vec![] }
    pub fn synchs(&self) -> Vec<SyncRow> { vec![] }
    pub fn timers(&self) -> Vec<TimerRow> { vec![] }
    pub fn lost(&self) -> Vec<LostRow> { vec![] }
    /// Bytes of memory the engine holds: (resident-capable bytes in use, cap).
    pub fn memory(&self) -> (u64, u64) { (0, 0) }
    pub fn reset(&self, what: Reset) {}
}
