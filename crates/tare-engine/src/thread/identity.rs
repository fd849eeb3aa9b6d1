//! HOT PATH: who a thread is: its account, its connection, what it says of itself.

use std::sync::atomic::Ordering::Relaxed;

use super::ThreadRef;
use crate::Engine;
use crate::memory::lost::Lost;
use crate::memory::text;

/// What connects and identifies a thread; called by the thread itself or by the one that made it.
impl Engine {
    /// USER and HOST. All the thread has counted counts for this account from now on. Called by the thread itself, or
    /// before it runs.
    pub fn set_thread_account(&self, thread: ThreadRef, user: &[u8], host: &[u8]) {
        self.enter(thread.slab(), user, host);
        thread.slab().write_texts(self, |text| {
            text.user_len.store(text::write(&text.user, user) as u32, Relaxed);
            text.host_len.store(text::write(&text.host, host) as u32, Relaxed);
        });
    }

    /// Name of the thread's instrument, NUL-terminated, for ever.
    pub fn thread_class_name(&self, thread: ThreadRef) -> &'static std::ffi::CStr {
        self.registry.c_name(thread.slab().class.load(Relaxed))
    }

    /// Hands user and host of the thread to `see`, without allocating.
    pub fn with_account(&self, thread: ThreadRef, see: impl FnOnce(&[u8], &[u8]) -> bool) -> bool {
        let Some(text) = thread.slab().text(self) else { return false };
        let (mut user, mut host) = ([0; 384], [0; 256]);
        let user = text::copy(&text.user, text.user_len.load(Relaxed) as usize, &mut user);
        let host = text::copy(&text.host, text.host_len.load(Relaxed) as usize, &mut host);
        see(user, host)
    }

    /// PROCESSLIST_DB; empty: NULL.
    pub fn set_thread_db(&self, thread: ThreadRef, db: &[u8]) {
        thread.slab().write_texts(self, |text| text.db_len.store(text::write(&text.db, db) as u32, Relaxed));
    }

    /// PROCESSLIST_INFO; `None`: NULL.
    #[inline(always)]
    pub fn set_thread_info(&self, thread: ThreadRef, info: Option<&[u8]>) {
        let thread = thread.slab();
        let Some(info) = info else { return thread.info_len.store(u32::MAX, Relaxed) };
        self.set_execution_text(thread, info);
        thread.write_texts(self, |text| {
            thread.info_len.store(text::write(&text.info, info) as u32, Relaxed);
        });
    }

    /// Connection attributes in the protocol's encoding; true when they were cut.
    pub fn set_thread_connect_attrs(&self, thread: ThreadRef, attributes: &[u8], charset: u32) -> bool {
        let bound = self.connect_attrs_size.load(Relaxed) as usize;
        let kept = &attributes[..attributes.len().min(bound)];
        let mut written = 0;
        thread.slab().write_texts(self, |text| {
            written = text::write(&text.attributes, kept);
            text.attributes_len.store(written as u32, Relaxed);
            text.attributes_charset.store(charset, Relaxed);
        });
        let cut = written < attributes.len();
        if cut {
            self.losses.count(Lost::SessionConnectAttrs);
        }
        cut
    }

    /// PROCESSLIST_ID.
    pub fn set_thread_processlist_id(&self, thread: ThreadRef, id: u64) {
        thread.slab().processlist_id.store(id, Relaxed);
    }

    /// THREAD_OS_ID.
    pub fn set_thread_os_id(&self, thread: ThreadRef, id: u64) {
        thread.slab().os_id.store(id, Relaxed);
    }

    /// PROCESSLIST_COMMAND, as the host numbers commands.
    pub fn set_thread_command(&self, thread: ThreadRef, command: u32) {
        thread.slab().command.store(command.wrapping_add(1), Relaxed);
    }

    /// CONNECTION_TYPE, as the host numbers them.
    pub fn set_thread_connection_type(&self, thread: ThreadRef, connection_type: u8) {
        thread.slab().connection_type.store(connection_type.wrapping_add(1), Relaxed);
    }

    /// The moment the current state began, seconds since the epoch.
    pub fn set_thread_start_time(&self, thread: ThreadRef, start_s: i64) {
        thread.slab().start_time_s.store(start_s, Relaxed);
    }

    /// INSTRUMENTED and HISTORY, as `setup_actors` decides at connect.
    pub fn set_thread_flags(&self, thread: ThreadRef, instrumented: bool, history: bool) {
        let slab = thread.slab();
        slab.instrumented.store(u8::from(instrumented), Relaxed);
        slab.history.store(u8::from(history), Relaxed);
        self.refresh_mask(slab);
    }
}
