//! An empty file system and an empty network for this process, by namespaces (namespaces(7), pivot_root(2)).

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, StatVfsMountFlags, statvfs};
use rustix::io;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change, mount_remount, unmount,
};
use rustix::process::{getgid, getuid, pivot_root};
use rustix::thread::UnshareFlags;

use super::capabilities;
use crate::error::{Result, error};

/// Where the folder appears in the empty file system.
const FOLDER: &str = "/include";

/// Detaches this process from the machine's files and network. Only `folder` stays, read-only. Returns its new path.
pub fn enter(folder: Option<&Path>) -> Result<Option<PathBuf>> {
    isolate().map_err(|error| error!("the kernel refuses a user namespace: {error}"))?;
    empty_root(folder).map_err(|error| error!("the kernel refuses mounts in a user namespace: {error}"))?;
    // The capabilities of the namespace have served their purpose.
    capabilities::drop_all().map_err(|error| error!("capabilities cannot be dropped: {error}"))?;
    Ok(folder.map(|_| PathBuf::from(FOLDER)))
}

/// Enters new namespaces as the same user.
fn isolate() -> io::Result<()> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let parts = UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWNET | UnshareFlags::NEWIPC;
    #[expect(deprecated, reason = "it is unsafe for file descriptors only, which stay shared")]
    rustix::thread::unshare(parts)?;
    let write = |file: &str, text: String| fs::write(file, text).map_err(|error| errno(&error));
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Makes an empty file system the root, with `folder` mounted in it.
fn empty_root(folder: Option<&Path>) -> io::Result<()> {
    // Opened first: the new root may be mounted over a parent of the folder.
    let folder = folder.map(|folder| rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()));
    let folder = folder.transpose()?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let root = std::env::temp_dir();
    mount("none", &root, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"size=64k,mode=0755")?;
    if let Some(folder) = folder {
        let target = root.join(FOLDER.trim_start_matches('/'));
        fs::create_dir(&target).map_err(|error| errno(&error))?;
        mount_bind_recursive(format!("/proc/self/fd/{}", folder.as_raw_fd()), &target)?;
        mount_remount(&target, MountFlags::BIND | MountFlags::RDONLY | kept_flags(&target)?, "")?;
    }
    rustix::process::chdir(&root)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    mount_remount("/", MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV, "")?;
    rustix::process::chdir("/")
}

/// Returns the flags that a mount has inherited. A user namespace may not drop them.
fn kept_flags(target: &Path) -> io::Result<MountFlags> {
    let found = statvfs(target)?.f_flag;
    let flags = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ];
    let kept = flags.into_iter().filter(|(found_flag, _)| found.contains(*found_flag));
    Ok(kept.fold(MountFlags::empty(), |all, (_, flag)| all | flag))
}

fn errno(error: &std::io::Error) -> io::Errno {
    io::Errno::from_io_error(error).unwrap_or(io::Errno::IO)
}
