//! The system calls that a process may make, limited by seccomp (seccomp(2)).

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// What NVRTC and Tera need: memory, threads, clocks, the pipes, and reading files. The list is that of `strace` on
/// NVRTC 13.0, and the calls that other versions of the C library make for the same purposes. Programs, sockets,
/// signals to other processes, mounts, io_uring, BPF and all future calls are not on it.
const COMPUTING: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_openat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_get_priority_max,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrusage,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_prctl,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_kill,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_ppoll,
];

/// Older calls for the same purposes, which only x86_64 has.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_poll,
    libc::SYS_getrlimit,
    libc::SYS_arch_prctl,
    libc::SYS_time,
];

#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Denies this process every system call except those of a computation. A denied call fails with EPERM, so a library
/// can go on without it.
pub fn allow_computing() -> Result<(), String> {
    let rules = COMPUTING.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    install(rules, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))
}

/// Calls that no program that only computes needs, and calls that would bypass the other limits: the network, other
/// processes, the kernel's own interfaces. Even connections to a local service are refused, because it may act for its
/// callers, as Docker's does.
const REACHING_OUT: &[libc::c_long] = &[
    libc::SYS_connect,
    libc::SYS_inotify_add_watch,
    libc::SYS_fanotify_init,
    // Landlock does not check changes to the permissions and attributes of a file.
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
];

/// Older calls for file permissions, which only x86_64 has.
#[cfg(target_arch = "x86_64")]
const OLDER_RIGHTS: &[libc::c_long] = &[libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown];

#[cfg(not(target_arch = "x86_64"))]
const OLDER_RIGHTS: &[libc::c_long] = &[];

/// Denies this process, and everything that it will start, the network and the system calls that bypass other limits.
pub fn deny_reaching_out() -> Result<(), String> {
    let wrong = |error: BackendError| format!("its filter is wrong: {error}");
    // The CUDA driver opens and binds a local socket when it starts (H200, driver 580.159.04). It connects to nothing.
    let domain = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, libc::AF_UNIX as u64);
    let not_local = domain.and_then(|domain| SeccompRule::new(vec![domain])).map_err(wrong)?;
    let unless_null = |argument| {
        let given = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
        given.and_then(|given| SeccompRule::new(vec![given])).map_err(wrong)
    };
    let mut rules: Rules = REACHING_OUT.iter().chain(OLDER_RIGHTS).map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_socket, vec![not_local]);
    // Limits of another process can kill it. Its number is the first argument, and 0 for the caller.
    rules.insert(libc::SYS_prlimit64, vec![unless_null(0)?]);
    // A datagram to an address, which is the fifth argument.
    rules.insert(libc::SYS_sendto, vec![unless_null(4)?]);
    install(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

/// What must hold of the arguments of a system call, by its number: any of the rules, or nothing if there are none.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn install(rules: Rules, listed: SeccompAction, others: SeccompAction) -> Result<(), String> {
    let filter = TargetArch::try_from(std::env::consts::ARCH)
        .and_then(|arch| SeccompFilter::new(rules, others, listed, arch)?.try_into())
        .map_err(|error: BackendError| format!("its filter is wrong: {error}"))?;
    let filter: BpfProgram = filter;
    seccompiler::apply_filter(&filter).map_err(|error| format!("the kernel refuses it: {error}"))
}
