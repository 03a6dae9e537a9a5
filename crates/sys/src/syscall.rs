//! Numbers of system calls by name: seccomp profiles use names, filters use numbers.

macro_rules! table {
    ($($name:ident = $number:ident),* $(,)?) => { &[$((stringify!($name), libc::$number)),*] };
}

/// The number of a system call on this architecture.
pub fn number(name: &str) -> Option<i64> {
    COMMON_SYSCALLS
        .iter()
        .chain(ARCH_SYSCALLS)
        .find(|(known, _)| *known == name)
        .map(|(_, number)| *number)
}

/// All known system calls.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMON_SYSCALLS.iter().chain(ARCH_SYSCALLS).map(|(name, _)| *name)
}

#[rustfmt::skip]
const COMMON_SYSCALLS: &[(&str, i64)] = table![
    read = SYS_read, write = SYS_write, close = SYS_close, fstat = SYS_fstat, lseek = SYS_lseek,
    mmap = SYS_mmap, mprotect = SYS_mprotect, munmap = SYS_munmap, brk = SYS_brk,
    rt_sigaction = SYS_rt_sigaction, rt_sigprocmask = SYS_rt_sigprocmask,
    rt_sigreturn = SYS_rt_sigreturn, ioctl = SYS_ioctl, pread64 = SYS_pread64,
    pwrite64 = SYS_pwrite64, readv = SYS_readv, writev = SYS_writev, sched_yield = SYS_sched_yield,
    mremap = SYS_mremap, msync = SYS_msync, mincore = SYS_mincore, madvise = SYS_madvise,
    shmget = SYS_shmget, shmat = SYS_shmat, shmctl = SYS_shmctl, dup = SYS_dup,
    nanosleep = SYS_nanosleep, getitimer = SYS_getitimer, setitimer = SYS_setitimer,
    getpid = SYS_getpid, sendfile = SYS_sendfile, socket = SYS_socket, connect = SYS_connect,
    accept = SYS_accept, sendto = SYS_sendto, recvfrom = SYS_recvfrom, sendmsg = SYS_sendmsg,
    recvmsg = SYS_recvmsg, shutdown = SYS_shutdown, bind = SYS_bind, listen = SYS_listen,
    getsockname = SYS_getsockname, getpeername = SYS_getpeername, socketpair = SYS_socketpair,
    setsockopt = SYS_setsockopt, getsockopt = SYS_getsockopt, clone = SYS_clone,
    execve = SYS_execve, exit = SYS_exit, wait4 = SYS_wait4, kill = SYS_kill, uname = SYS_uname,
    semget = SYS_semget, semop = SYS_semop, semctl = SYS_semctl, shmdt = SYS_shmdt,
    msgget = SYS_msgget, msgsnd = SYS_msgsnd, msgrcv = SYS_msgrcv, msgctl = SYS_msgctl,
    fcntl = SYS_fcntl, flock = SYS_flock, fsync = SYS_fsync, fdatasync = SYS_fdatasync,
    truncate = SYS_truncate, ftruncate = SYS_ftruncate, getcwd = SYS_getcwd, chdir = SYS_chdir,
    fchdir = SYS_fchdir, fchmod = SYS_fchmod, fchown = SYS_fchown, umask = SYS_umask,
    gettimeofday = SYS_gettimeofday, getrusage = SYS_getrusage, sysinfo = SYS_sysinfo,
    times = SYS_times, ptrace = SYS_ptrace, getuid = SYS_getuid, syslog = SYS_syslog,
    getgid = SYS_getgid, setuid = SYS_setuid, setgid = SYS_setgid, geteuid = SYS_geteuid,
    getegid = SYS_getegid, setpgid = SYS_setpgid, getppid = SYS_getppid, setsid = SYS_setsid,
    setreuid = SYS_setreuid, setregid = SYS_setregid, getgroups = SYS_getgroups,
    setgroups = SYS_setgroups, setresuid = SYS_setresuid, getresuid = SYS_getresuid,
    setresgid = SYS_setresgid, getresgid = SYS_getresgid, getpgid = SYS_getpgid,
    setfsuid = SYS_setfsuid, setfsgid = SYS_setfsgid, getsid = SYS_getsid, capget = SYS_capget,
    capset = SYS_capset, rt_sigpending = SYS_rt_sigpending, rt_sigtimedwait = SYS_rt_sigtimedwait,
    rt_sigqueueinfo = SYS_rt_sigqueueinfo, rt_sigsuspend = SYS_rt_sigsuspend,
    sigaltstack = SYS_sigaltstack, personality = SYS_personality, statfs = SYS_statfs,
    fstatfs = SYS_fstatfs, getpriority = SYS_getpriority, setpriority = SYS_setpriority,
    sched_setparam = SYS_sched_setparam, sched_getparam = SYS_sched_getparam,
    sched_setscheduler = SYS_sched_setscheduler, sched_getscheduler = SYS_sched_getscheduler,
    sched_get_priority_max = SYS_sched_get_priority_max,
    sched_get_priority_min = SYS_sched_get_priority_min,
    sched_rr_get_interval = SYS_sched_rr_get_interval, mlock = SYS_mlock, munlock = SYS_munlock,
    mlockall = SYS_mlockall, munlockall = SYS_munlockall, vhangup = SYS_vhangup,
    pivot_root = SYS_pivot_root, prctl = SYS_prctl, adjtimex = SYS_adjtimex, chroot = SYS_chroot,
    sync = SYS_sync, acct = SYS_acct, settimeofday = SYS_settimeofday, mount = SYS_mount,
    umount2 = SYS_umount2, swapon = SYS_swapon, swapoff = SYS_swapoff, reboot = SYS_reboot,
    sethostname = SYS_sethostname, setdomainname = SYS_setdomainname,
    init_module = SYS_init_module, delete_module = SYS_delete_module, quotactl = SYS_quotactl,
    nfsservctl = SYS_nfsservctl, gettid = SYS_gettid, readahead = SYS_readahead,
    setxattr = SYS_setxattr, lsetxattr = SYS_lsetxattr, fsetxattr = SYS_fsetxattr,
    getxattr = SYS_getxattr, lgetxattr = SYS_lgetxattr, fgetxattr = SYS_fgetxattr,
    listxattr = SYS_listxattr, llistxattr = SYS_llistxattr, flistxattr = SYS_flistxattr,
    removexattr = SYS_removexattr, lremovexattr = SYS_lremovexattr,
    fremovexattr = SYS_fremovexattr, tkill = SYS_tkill, futex = SYS_futex,
    sched_setaffinity = SYS_sched_setaffinity, sched_getaffinity = SYS_sched_getaffinity,
    io_setup = SYS_io_setup, io_destroy = SYS_io_destroy, io_getevents = SYS_io_getevents,
    io_submit = SYS_io_submit, io_cancel = SYS_io_cancel, lookup_dcookie = SYS_lookup_dcookie,
    remap_file_pages = SYS_remap_file_pages, getdents64 = SYS_getdents64,
    set_tid_address = SYS_set_tid_address, restart_syscall = SYS_restart_syscall,
    semtimedop = SYS_semtimedop, fadvise64 = SYS_fadvise64, timer_create = SYS_timer_create,
    timer_settime = SYS_timer_settime, timer_gettime = SYS_timer_gettime,
    timer_getoverrun = SYS_timer_getoverrun, timer_delete = SYS_timer_delete,
    clock_settime = SYS_clock_settime, clock_gettime = SYS_clock_gettime,
    clock_getres = SYS_clock_getres, clock_nanosleep = SYS_clock_nanosleep,
    exit_group = SYS_exit_group, epoll_ctl = SYS_epoll_ctl, tgkill = SYS_tgkill, mbind = SYS_mbind,
    set_mempolicy = SYS_set_mempolicy, get_mempolicy = SYS_get_mempolicy, mq_open = SYS_mq_open,
    mq_unlink = SYS_mq_unlink, mq_timedsend = SYS_mq_timedsend,
    mq_timedreceive = SYS_mq_timedreceive, mq_notify = SYS_mq_notify,
    mq_getsetattr = SYS_mq_getsetattr, kexec_load = SYS_kexec_load, waitid = SYS_waitid,
    add_key = SYS_add_key, request_key = SYS_request_key, keyctl = SYS_keyctl,
    ioprio_set = SYS_ioprio_set, ioprio_get = SYS_ioprio_get,
    inotify_add_watch = SYS_inotify_add_watch, inotify_rm_watch = SYS_inotify_rm_watch,
    migrate_pages = SYS_migrate_pages, openat = SYS_openat, mkdirat = SYS_mkdirat,
    mknodat = SYS_mknodat, fchownat = SYS_fchownat, newfstatat = SYS_newfstatat,
    unlinkat = SYS_unlinkat, linkat = SYS_linkat, symlinkat = SYS_symlinkat,
    readlinkat = SYS_readlinkat, fchmodat = SYS_fchmodat, faccessat = SYS_faccessat,
    pselect6 = SYS_pselect6, ppoll = SYS_ppoll, unshare = SYS_unshare,
    set_robust_list = SYS_set_robust_list, get_robust_list = SYS_get_robust_list,
    splice = SYS_splice, tee = SYS_tee, vmsplice = SYS_vmsplice, move_pages = SYS_move_pages,
    utimensat = SYS_utimensat, epoll_pwait = SYS_epoll_pwait, timerfd_create = SYS_timerfd_create,
    fallocate = SYS_fallocate, timerfd_settime = SYS_timerfd_settime,
    timerfd_gettime = SYS_timerfd_gettime, accept4 = SYS_accept4, signalfd4 = SYS_signalfd4,
    eventfd2 = SYS_eventfd2, epoll_create1 = SYS_epoll_create1, dup3 = SYS_dup3, pipe2 = SYS_pipe2,
    inotify_init1 = SYS_inotify_init1, preadv = SYS_preadv, pwritev = SYS_pwritev,
    rt_tgsigqueueinfo = SYS_rt_tgsigqueueinfo, perf_event_open = SYS_perf_event_open,
    recvmmsg = SYS_recvmmsg, fanotify_init = SYS_fanotify_init, fanotify_mark = SYS_fanotify_mark,
    prlimit64 = SYS_prlimit64, name_to_handle_at = SYS_name_to_handle_at,
    open_by_handle_at = SYS_open_by_handle_at, clock_adjtime = SYS_clock_adjtime,
    syncfs = SYS_syncfs, sendmmsg = SYS_sendmmsg, setns = SYS_setns, getcpu = SYS_getcpu,
    process_vm_readv = SYS_process_vm_readv, process_vm_writev = SYS_process_vm_writev,
    kcmp = SYS_kcmp, finit_module = SYS_finit_module, sched_setattr = SYS_sched_setattr,
    sched_getattr = SYS_sched_getattr, renameat2 = SYS_renameat2, seccomp = SYS_seccomp,
    getrandom = SYS_getrandom, memfd_create = SYS_memfd_create,
    kexec_file_load = SYS_kexec_file_load, bpf = SYS_bpf, execveat = SYS_execveat,
    userfaultfd = SYS_userfaultfd, membarrier = SYS_membarrier, mlock2 = SYS_mlock2,
    copy_file_range = SYS_copy_file_range, preadv2 = SYS_preadv2, pwritev2 = SYS_pwritev2,
    pkey_mprotect = SYS_pkey_mprotect, pkey_alloc = SYS_pkey_alloc, pkey_free = SYS_pkey_free,
    statx = SYS_statx, rseq = SYS_rseq, pidfd_send_signal = SYS_pidfd_send_signal,
    io_uring_setup = SYS_io_uring_setup, io_uring_enter = SYS_io_uring_enter,
    io_uring_register = SYS_io_uring_register, open_tree = SYS_open_tree,
    move_mount = SYS_move_mount, fsopen = SYS_fsopen, fsconfig = SYS_fsconfig,
    fsmount = SYS_fsmount, fspick = SYS_fspick, pidfd_open = SYS_pidfd_open, clone3 = SYS_clone3,
    close_range = SYS_close_range, openat2 = SYS_openat2, pidfd_getfd = SYS_pidfd_getfd,
    faccessat2 = SYS_faccessat2, process_madvise = SYS_process_madvise,
    epoll_pwait2 = SYS_epoll_pwait2, mount_setattr = SYS_mount_setattr,
    quotactl_fd = SYS_quotactl_fd, landlock_create_ruleset = SYS_landlock_create_ruleset,
    landlock_add_rule = SYS_landlock_add_rule, landlock_restrict_self = SYS_landlock_restrict_self,
    memfd_secret = SYS_memfd_secret, process_mrelease = SYS_process_mrelease,
    futex_waitv = SYS_futex_waitv, set_mempolicy_home_node = SYS_set_mempolicy_home_node,
    mseal = SYS_mseal,
];

#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ARCH_SYSCALLS: &[(&str, i64)] = table![
    open = SYS_open, stat = SYS_stat, lstat = SYS_lstat, poll = SYS_poll, access = SYS_access,
    pipe = SYS_pipe, select = SYS_select, dup2 = SYS_dup2, pause = SYS_pause, alarm = SYS_alarm,
    fork = SYS_fork, vfork = SYS_vfork, getdents = SYS_getdents, rename = SYS_rename,
    mkdir = SYS_mkdir, rmdir = SYS_rmdir, creat = SYS_creat, link = SYS_link, unlink = SYS_unlink,
    symlink = SYS_symlink, readlink = SYS_readlink, chmod = SYS_chmod, chown = SYS_chown,
    lchown = SYS_lchown, getrlimit = SYS_getrlimit, getpgrp = SYS_getpgrp, utime = SYS_utime,
    mknod = SYS_mknod, uselib = SYS_uselib, ustat = SYS_ustat, sysfs = SYS_sysfs,
    modify_ldt = SYS_modify_ldt, _sysctl = SYS__sysctl, arch_prctl = SYS_arch_prctl,
    setrlimit = SYS_setrlimit, iopl = SYS_iopl, ioperm = SYS_ioperm, getpmsg = SYS_getpmsg,
    putpmsg = SYS_putpmsg, afs_syscall = SYS_afs_syscall, tuxcall = SYS_tuxcall,
    security = SYS_security, time = SYS_time, set_thread_area = SYS_set_thread_area,
    get_thread_area = SYS_get_thread_area, epoll_create = SYS_epoll_create,
    epoll_ctl_old = SYS_epoll_ctl_old, epoll_wait_old = SYS_epoll_wait_old,
    epoll_wait = SYS_epoll_wait, utimes = SYS_utimes, vserver = SYS_vserver,
    inotify_init = SYS_inotify_init, futimesat = SYS_futimesat, renameat = SYS_renameat,
    sync_file_range = SYS_sync_file_range, signalfd = SYS_signalfd, eventfd = SYS_eventfd,
    fchmodat2 = SYS_fchmodat2,
];

#[cfg(not(target_arch = "x86_64"))]
const ARCH_SYSCALLS: &[(&str, i64)] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown() {
        assert_eq!(number("openat2"), Some(libc::SYS_openat2));
        assert_eq!(number("fly"), None);
    }
}
