//! The one dangerous crate: every `unsafe` and every operating system call of
//! Tiphys, as safe functions. One file per area.

pub mod capability;
pub mod cgroup;
mod count;
pub mod descriptor;
mod device_filter;
pub mod disk;
pub mod landlock;
pub mod mount;
pub mod namespace;
pub mod netlink;
pub mod nft;
pub mod process;
pub mod seccomp;
pub mod spawn;
pub mod stdio;
mod syscall;

pub use self::count::{Counting, live};
