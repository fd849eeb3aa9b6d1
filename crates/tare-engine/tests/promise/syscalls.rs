//! No system call, and so no lock anyone waits for: a child under a filter that kills it at the first one.
#![allow(unsafe_code)] // fork, seccomp

use tare_engine::snapshot::Grouping;

use crate::routine::{COMMANDS, EventRoutine};

const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// From now on the calling process may only end itself. False where the kernel does not offer that.
fn forbid_system_calls() -> bool {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        step(LOAD_NUMBER, 0, 0, 0),
        step(JUMP_EQUAL, 0, 1, libc::SYS_exit_group as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: a plain flag of the calling process.
    let no_new_privileges = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: `filter` points to `program`, alive during the call, which copies it.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
    no_new_privileges == 0 && set == 0
}

/// Exit code of a child that could not set the filter.
const NO_FILTER: i32 = 77;

/// Runs `f` in a child process without system calls. Returns its wait status.
fn without_system_calls(f: impl FnOnce()) -> i32 {
    // SAFETY: the child is the only thread of its process; it calls nothing but `f`, which neither allocates
    // (see `allocations`) nor locks, and `_exit`.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            if !forbid_system_calls() {
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(NO_FILTER) };
            }
            f();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) }
        }
        child => {
            let mut status = 0;
            // SAFETY: a child of this process; `status` is there for the call to fill.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            status
        }
    }
}

/// The child was killed by the kernel for a system call.
fn was_killed(status: i32) -> bool {
    libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSYS
}

fn is_offered() -> bool {
    let status = without_system_calls(|| {});
    let offered = !(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == NO_FILTER);
    if !offered {
        println!("skipped: the kernel offers no seccomp filters here");
    }
    offered
}

#[test]
fn the_filter_kills_at_a_system_call() {
    if is_offered() {
        // SAFETY: asks for a number.
        let status = without_system_calls(|| _ = unsafe { libc::syscall(libc::SYS_getppid) });
        assert!(was_killed(status), "{status:x}");
        let status = without_system_calls(std::thread::yield_now);
        assert!(was_killed(status), "{status:x}");
    }
}

#[test]
fn hot_calls_make_no_system_call() {
    for routine in EventRoutine::both() {
        routine.rig.set_current_thread(Some(routine.thread));
        hot_calls_of_a_shape_make_no_system_call(&routine);
    }
}

fn hot_calls_of_a_shape_make_no_system_call(routine: &EventRoutine) {
    // The first events happen here: the promise begins after them. So does the sight of an old epoch.
    routine.command(0);
    for level in [Grouping::Thread, Grouping::Global] {
        routine.truncate(level);
        if is_offered() {
            let status = without_system_calls(|| (0..COMMANDS).for_each(|n| routine.command(n)));
            assert_eq!(status, 0, "killed: {}", was_killed(status));
        }
    }
}

#[test]
fn even_the_first_events_make_no_system_call() {
    let routine = EventRoutine::new();
    if is_offered() {
        let status = without_system_calls(|| routine.command(0));
        assert_eq!(status, 0, "killed: {}", was_killed(status));
    }
}
