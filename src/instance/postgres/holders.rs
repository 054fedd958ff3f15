//! Who holds a file as standard input.
//!
//! PostgreSQL's processes are in sessions of their own, and once the first of them has died they are nobody's children: neither a process group nor parents
//! tell which they are. What they are started with, they and all their children keep.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::process::{Pid, getpid};

/// The other processes whose standard input is the file with this number on this device. One that has ended and was not reaped yet holds nothing.
pub(super) fn of(device: u64, inode: u64) -> io::Result<Vec<Pid>> {
    let holds = |pid: &Pid| {
        let input = fs::metadata(format!("/proc/{}/fd/0", pid.as_raw_nonzero()));
        input.is_ok_and(|input| (input.dev(), input.ino()) == (device, inode))
    };
    let pids = fs::read_dir("/proc")?
        .filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?));
    Ok(pids.filter(|pid| *pid != getpid() && holds(pid)).collect())
}
