//! HOT PATH: the identity of a thread: its account, its connection, its name and texts.

use std::sync::atomic::Ordering::Relaxed;

use super::ThreadRef;
use crate::Engine;
use crate::memory::lost::Lost;
use crate::memory::text;
use crate::setup::actors;

/// Called by the thread itself, or by the thread that made it.
impl Engine {
    /// Sets USER and HOST. Everything the thread has counted belongs to this account from now on. Called by
    /// the thread itself, or before it runs.
    pub fn set_thread_account(&self, thread: ThreadRef, user: &[u8], host: &[u8]) {
        self.enter(thread.slab(), user, host);
        thread.slab().write_texts(self, |text| {
            text.user_len.store(text::write(&text.user, user) as u32, Relaxed);
            text.host_len.store(text::write(&text.host, host) as u32, Relaxed);
        });
    }

    /// Returns the name of the thread's instrument, NUL-terminated. Valid for the life of the process.
    pub fn thread_class_name(&self, thread: ThreadRef) -> &'static std::ffi::CStr {
        self.registry.c_name(thread.slab().class.load(Relaxed))
    }

    /// Calls `see` with user and host of the thread, without allocating. Returns false if the thread has no
    /// texts.
    pub fn with_account(&self, thread: ThreadRef, see: impl FnOnce(&[u8], &[u8]) -> bool) -> bool {
        let Some(text) = thread.slab().text(self) else { return false };
        let (mut user, mut host) = ([0; 384], [0; 256]);
        let user = text::copy(&text.user, text.user_len.load(Relaxed) as usize, &mut user);
        let host = text::copy(&text.host, text.host_len.load(Relaxed) as usize, &mut host);
        see(user, host)
    }

    /// Sets PROCESSLIST_DB; an empty name means NULL.
    pub fn set_thread_db(&self, thread: ThreadRef, db: &[u8]) {
        thread.slab().write_texts(self, |text| text.db_len.store(text::write(&text.db, db) as u32, Relaxed));
    }

    /// Sets PROCESSLIST_INFO; `None` means NULL.
    #[inline(always)]
    pub fn set_thread_info(&self, thread: ThreadRef, info: Option<&[u8]>) {
        let thread = thread.slab();
        let Some(info) = info else { return thread.info_len.store(u32::MAX, Relaxed) };
        self.set_execution_text(thread, info);
        if thread.info_len.load(Relaxed) != u32::MAX {
            self.end_statement_text(thread, info);
        }
        thread.write_texts(self, |text| {
            thread.info_len.store(text::write(&text.info, info) as u32, Relaxed);
        });
    }

    /// Stores connection attributes in the protocol's encoding. Returns true if they were truncated.
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

    /// Sets THREAD_ID, for a host that numbers threads itself. Called right after [`Engine::new_thread`],
    /// before the thread has an event; no two threads that live may have the same number.
    pub fn set_thread_id(&self, thread: ThreadRef, id: u64) {
        let thread = thread.slab();
        thread.thread_id.store(id, Relaxed);
        self.own_kept_level(thread);
    }

    /// Sets PROCESSLIST_ID.
    pub fn set_thread_processlist_id(&self, thread: ThreadRef, id: u64) {
        thread.slab().processlist_id.store(id, Relaxed);
    }

    /// Sets THREAD_OS_ID.
    pub fn set_thread_os_id(&self, thread: ThreadRef, id: u64) {
        thread.slab().os_id.store(id, Relaxed);
    }

    /// Sets PROCESSLIST_COMMAND, in the host's numbering.
    pub fn set_thread_command(&self, thread: ThreadRef, command: u32) {
        thread.slab().command.store(command.wrapping_add(1), Relaxed);
    }

    /// Sets CONNECTION_TYPE, in the host's numbering.
    pub fn set_thread_connection_type(&self, thread: ThreadRef, connection_type: u8) {
        thread.slab().connection_type.store(connection_type.wrapping_add(1), Relaxed);
    }

    /// Sets the start of the current state, in seconds since the Unix epoch.
    pub fn set_thread_start_time(&self, thread: ThreadRef, start_s: i64) {
        thread.slab().start_time_s.store(start_s, Relaxed);
    }

    /// Applies the rules of `setup_actors` to a thread that has become a connection of this account. A
    /// connection without user or host is always instrumented.
    pub fn decide_actor(&self, thread: ThreadRef, user: &[u8], host: &[u8]) {
        let (instrumented, history) = match (user, host) {
            (b"", _) | (_, b"") => (true, true),
            _ => self.actors.with(|rules| actors::decide(rules, user, host)),
        };
        self.set_thread_flags(thread, instrumented, history);
    }

    /// Sets INSTRUMENTED and HISTORY, as decided by `setup_actors` at connect.
    pub fn set_thread_flags(&self, thread: ThreadRef, instrumented: bool, history: bool) {
        let slab = thread.slab();
        let flags = [u8::from(instrumented), u8::from(history)];
        if [&slab.instrumented, &slab.history].map(|flag| flag.load(Relaxed)) == flags {
            return;
        }
        slab.instrumented.store(flags[0], Relaxed);
        slab.history.store(flags[1], Relaxed);
        self.refresh_mask(slab);
    }
}
