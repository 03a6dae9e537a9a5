//! System calls: every `unsafe` and every operating system call of Tiphys, wrapped in safe functions. One file per
//! area.

pub mod capability;
pub mod cgroup;
pub mod container_file;
mod count;
pub mod coverage;
pub mod descriptor;
mod device_filter;
pub mod disk;
pub mod durable_record;
pub mod executable;
pub mod keyring;
pub mod landlock;
pub mod memory;
pub mod mount;
pub mod namespace;
pub mod netlink;
pub mod nft;
pub mod process;
pub mod resource_limit;
pub mod seccomp;
pub mod seccomp_exemption;
pub mod spawn;
pub mod stdio;
mod syscall;
pub mod tree;

pub use self::count::{CountingAllocator, allocated_bytes};
