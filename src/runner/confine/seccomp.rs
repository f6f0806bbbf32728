//! The system calls that a process may make, limited by seccomp (seccomp(2)).

use std::collections::BTreeMap;

use super::Network;
use crate::error::{Error, Result, error};
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
pub fn allow_computing() -> Result<()> {
    hide_clone3()?;
    let mut rules: Rules = COMPUTING.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    // A thread, and no namespace.
    rules.insert(libc::SYS_clone, vec![when(0, SeccompCmpOp::MaskedEq(NAMESPACES), 0)?]);
    install(rules, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))
}

/// Makes `clone3` look like a call of a later kernel. Its flags are in memory, where a filter cannot read them, and one of
/// them makes a user namespace. The C library then makes threads and processes with `clone`.
fn hide_clone3() -> Result<()> {
    let rules = [(libc::SYS_clone3, Vec::new())].into();
    install(with_x32(rules), SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow)
}

/// The flags of `clone` that make namespaces.
const NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u64;

/// Calls with which a program reaches others. Even connections to a local service are refused, because it may act for its
/// callers, as Docker's does.
const CONVERSING: &[libc::c_long] = &[
    libc::SYS_connect,
    // A message may have an address, and may carry descriptors. Both are in memory, where a filter cannot read them.
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
];

/// Calls that change the mode or the owner of a file. Landlock does not check them, nor other attributes. A descriptor that may
/// only be read allows them, too. So not even a program's own files can be changed. PyTorch 2.11 needs none of these calls,
/// with torch.compile, autotuning, NVRTC and CUDA graphs (H200, 2026-11-28).
const RIGHTS: &[libc::c_long] =
    &[libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchmodat2, libc::SYS_fchown, libc::SYS_fchownat];

/// Calls that no confined program needs, and calls that would bypass the other limits: attributes of files, other processes, the
/// kernel's own interfaces.
const REACHING_OUT: &[libc::c_long] = &[
    libc::SYS_inotify_add_watch,
    libc::SYS_fanotify_init,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
    // What these make stays when the program has ended.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
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

/// System calls that the C library's headers do not name yet.
const SETXATTRAT: libc::c_long = 463;
/// See [`SETXATTRAT`].
const REMOVEXATTRAT: libc::c_long = 466;
/// See [`SETXATTRAT`].
const FILE_SETATTR: libc::c_long = 469;

/// The `ioctl` requests that change attributes of a file through a descriptor that may only be read (linux/fs.h):
/// FS_IOC_SETFLAGS, FS_IOC32_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_SETVERSION and FS_IOC32_SETVERSION.
const FILE_ATTRIBUTES: [u64; 5] = [0x4008_6602, 0x4004_6602, 0x401c_5820, 0x4008_7602, 0x4004_7602];

/// Older calls for file permissions, which only x86_64 has.
#[cfg(target_arch = "x86_64")]
const OLDER_RIGHTS: &[libc::c_long] = &[libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown];

#[cfg(not(target_arch = "x86_64"))]
const OLDER_RIGHTS: &[libc::c_long] = &[];

/// Denies this process, and everything that it will start, the system calls that bypass other limits, and the network beyond
/// what it may reach.
pub fn deny_reaching_out(network: Option<Network>) -> Result<()> {
    hide_clone3()?;
    let rights: Rules = RIGHTS.iter().chain(OLDER_RIGHTS).map(|call| (*call, Vec::new())).collect();
    // What converses uses git, npm and editors, which stop where a mode cannot be set. They are told that it was.
    let told = if network.is_some() { SeccompAction::Errno(0) } else { SeccompAction::Errno(libc::EPERM as u32) };
    install(with_x32(rights), told, SeccompAction::Allow)?;
    let mut rules: Rules = REACHING_OUT.iter().map(|call| (*call, Vec::new())).collect();
    let is_other = |argument| when_short(argument, SeccompCmpOp::Ne, 0);
    // A datagram to an address, which is the fifth argument. A connection's data has none.
    let mut addressed = vec![when(4, SeccompCmpOp::Ne, 0)?];
    match network {
        None => {
            rules.extend(CONVERSING.iter().map(|call| (*call, Vec::new())));
            // The CUDA driver opens and binds a local socket when it starts (H200, driver 580.159.04). It connects to nothing.
            rules.insert(libc::SYS_socket, vec![when_short(0, SeccompCmpOp::Ne, libc::AF_UNIX as u64)?]);
        }
        Some(network) => {
            rules.extend(sockets(network)?);
            if network == Network::All {
                addressed.clear();
            } else {
                // A socket without an address gets one of every network when it listens, which Landlock does not check.
                rules.insert(libc::SYS_listen, Vec::new());
            }
            // Opens a connection past Landlock.
            let fast = |argument| when_short(argument, SeccompCmpOp::MaskedEq(MSG_FASTOPEN), MSG_FASTOPEN);
            rules.insert(libc::SYS_sendmsg, vec![fast(2)?]);
            rules.insert(libc::SYS_sendmmsg, vec![fast(3)?]);
            addressed.push(fast(3)?);
        }
    }
    rules.insert(libc::SYS_sendto, addressed);
    // Limits, priorities and memory of other processes. 0 stands for the caller.
    rules.insert(libc::SYS_prlimit64, vec![is_other(0)?]);
    rules.insert(libc::SYS_setpriority, vec![is_other(0)?, is_other(1)?]);
    rules.insert(libc::SYS_ioprio_set, vec![is_other(1)?]);
    rules.insert(libc::SYS_migrate_pages, vec![is_other(0)?]);
    rules.insert(libc::SYS_move_pages, vec![is_other(0)?]);
    let namespaces = (0..64).map(|bit| 1 << bit).filter(|flag| NAMESPACES & flag != 0);
    let namespaces = namespaces.map(|flag| when(0, SeccompCmpOp::MaskedEq(flag), flag));
    rules.insert(libc::SYS_clone, namespaces.collect::<Result<_, _>>()?);
    let attributes = FILE_ATTRIBUTES.iter().map(|request| when_short(1, SeccompCmpOp::Eq, *request));
    rules.insert(libc::SYS_ioctl, attributes.collect::<Result<_, _>>()?);
    install(with_x32(rules), SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

/// The flag of a message that opens its connection.
const MSG_FASTOPEN: u64 = libc::MSG_FASTOPEN as u64;

/// The bits of a socket's type that are no flags.
const TYPE: u64 = 0xf;

/// Returns the sockets that are denied to a program that converses: local ones, which lead to services of this machine, and all
/// that Landlock does not know. Pairs that are connected from the beginning stay, which connect a program with its children.
fn sockets(network: Network) -> Result<Rules> {
    let is = |argument, value: libc::c_int| condition(argument, SeccompCmpOp::Eq, value as u64);
    let is_not = |argument, value: libc::c_int| condition(argument, SeccompCmpOp::Ne, value as u64);
    let types = |allowed: &[libc::c_int]| {
        let denied = (0..=TYPE).filter(|kind| !allowed.iter().any(|one| *one as u64 == *kind));
        denied.map(|kind| condition(1, SeccompCmpOp::MaskedEq(TYPE), kind)).collect::<Vec<_>>()
    };
    let mut denied = Vec::new();
    match network {
        Network::Port(_) => {
            denied.push(vec![is_not(0, libc::AF_INET)?, is_not(0, libc::AF_INET6)?]);
            // Landlock limits TCP alone, and not its kin.
            denied.push(vec![is_not(2, 0)?, is_not(2, libc::IPPROTO_TCP)?]);
            for kind in types(&[libc::SOCK_STREAM]) {
                denied.push(vec![kind?]);
            }
        }
        Network::All => {
            denied.push(vec![is_not(0, libc::AF_INET)?, is_not(0, libc::AF_INET6)?, is_not(0, libc::AF_NETLINK)?]);
            // The C library asks for the addresses of this machine before it looks a name up.
            denied.push(vec![is(0, libc::AF_NETLINK)?, is_not(2, libc::NETLINK_ROUTE)?]);
            for kind in types(&[libc::SOCK_STREAM, libc::SOCK_DGRAM]) {
                denied.push(vec![is_not(0, libc::AF_NETLINK)?, kind?]);
            }
        }
    }
    let denied = denied.into_iter().map(|conditions| SeccompRule::new(conditions).map_err(wrong));
    // A pair of datagram sockets could be connected to something else.
    let pairs = types(&[libc::SOCK_STREAM, libc::SOCK_SEQPACKET]);
    let pairs = pairs.into_iter().map(|kind| SeccompRule::new(vec![kind?]).map_err(wrong));
    Ok([
        (libc::SYS_socket, denied.collect::<Result<_, _>>()?),
        (libc::SYS_socketpair, pairs.collect::<Result<_, _>>()?),
    ]
    .into())
}

/// Adds the numbers that the same calls have in the x32 ABI, where a kernel has it: those with a bit more, and those of its
/// own, from 512 on.
#[cfg(target_arch = "x86_64")]
fn with_x32(rules: Rules) -> Rules {
    const X32: libc::c_long = 0x4000_0000;
    let twins: Vec<_> = rules.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
    let own = (512..548).map(|call| (call | X32, Vec::new()));
    rules.into_iter().chain(own).chain(twins).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn with_x32(rules: Rules) -> Rules {
    rules
}

/// Makes a rule on one argument of a system call.
fn when(argument: u8, comparison: SeccompCmpOp, value: u64) -> Result<SeccompRule> {
    rule(argument, SeccompCmpArgLen::Qword, comparison, value)
}

/// Makes a rule on the lower half of an argument, which is all that the kernel reads of it.
fn when_short(argument: u8, comparison: SeccompCmpOp, value: u64) -> Result<SeccompRule> {
    rule(argument, SeccompCmpArgLen::Dword, comparison, value)
}

/// Makes a condition on the lower half of an argument, for a rule of several.
fn condition(argument: u8, comparison: SeccompCmpOp, value: u64) -> Result<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value).map_err(wrong)
}

fn rule(argument: u8, length: SeccompCmpArgLen, comparison: SeccompCmpOp, value: u64) -> Result<SeccompRule> {
    let condition = SeccompCondition::new(argument, length, comparison, value);
    condition.and_then(|condition| SeccompRule::new(vec![condition])).map_err(wrong)
}

fn wrong(error: BackendError) -> Error {
    error!("its filter is wrong: {error}")
}

/// What must hold of the arguments of a system call, by its number: any of the rules, or nothing if there are none.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn install(rules: Rules, listed: SeccompAction, others: SeccompAction) -> Result<()> {
    let filter = TargetArch::try_from(std::env::consts::ARCH)
        .and_then(|arch| SeccompFilter::new(rules, others, listed, arch)?.try_into())
        .map_err(wrong)?;
    let filter: BpfProgram = filter;
    seccompiler::apply_filter(&filter).map_err(|error| error!("the kernel refuses it: {error}"))
}
