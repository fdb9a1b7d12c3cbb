/* The system calls of vblk_confine_system_calls(): what the device, LTTng's library, libnbd and the C library make. */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "operation/confine.h"

/* One a line, by what needs it. Unknown to this architecture or to libseccomp: skipped. */
static const char *const allowed[] = {
    /* memory: stacks and their guards, the guest's memory, libraries that are loaded late */
    "brk", "madvise", "mincore", "mmap", "mmap2", "mprotect", "mremap", "msync", "munmap", "mlock", "mlock2", "munlock",
    "membarrier", "memfd_create",
    /* threads, signals, time */
    "exit", "exit_group", "futex", "futex_time64", "futex_waitv", "get_robust_list", "set_robust_list", "set_tid_address",
    "rseq", "gettid", "getpid", "getppid", "gettimeofday", "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep",
    "time", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait", "sigaltstack", "tgkill",
    "signalfd", "signalfd4", "timerfd_create", "timerfd_settime", "timerfd_gettime", "restart_syscall", "pause",
    "sched_yield", "sched_getaffinity", "sched_setaffinity", "sched_getparam", "sched_getscheduler", "sched_setscheduler",
    "sched_get_priority_max", "sched_get_priority_min", "getpriority", "getcpu", "getrusage", "times", "arch_prctl", "prctl",
    "setitimer", "getitimer",
    /* waiting for descriptors, and io_uring */
    "epoll_create1", "epoll_create", "epoll_ctl", "epoll_ctl_old", "epoll_pwait", "epoll_pwait2", "epoll_wait", "poll", "ppoll",
    "select", "pselect6", "eventfd2", "eventfd", "io_uring_enter", "io_uring_register", "io_uring_setup",
    /* files and descriptors */
    "access", "faccessat", "faccessat2", "close", "close_range", "dup", "dup2", "dup3", "fcntl", "fcntl64", "flock", "fallocate",
    "fadvise64", "fstat", "fstat64", "fstatfs", "newfstatat", "stat", "lstat", "statx", "statfs", "fsync", "fdatasync",
    "sync_file_range", "ftruncate", "getcwd", "getdents64", "lseek", "_llseek", "open", "openat", "openat2", "pipe", "pipe2",
    "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readv", "write", "writev", "readlink",
    "readlinkat", "unlink", "unlinkat", "mkdir", "mkdirat", "chmod", "fchmod", "fchmodat", "chown", "fchown", "fchownat",
    "rename", "renameat", "renameat2", "umask", "copy_file_range", "sendfile",
    /* sockets: front ends, control, network disks and names' addresses, LTTng's session daemon */
    "accept4", "accept", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recvfrom", "recvmmsg",
    "recvmsg", "recv", "sendmmsg", "sendmsg", "sendto", "send", "setsockopt", "shutdown", "socketpair",
    /* the machine */
    "getrandom", "sysinfo", "uname", "getuid", "geteuid", "getgid", "getegid", "getgroups", "getresuid", "getresgid",
    "capget", "getrlimit", "prlimit64", "ugetrlimit",
};

/* A file would be executed, or another process looked into: no mistake does that. */
static const char *const killing[] = { "execve", "execveat", "process_vm_readv", "process_vm_writev" };

static int allow(scmp_filter_ctx filter, const char *name)
{
    int number = seccomp_syscall_resolve_name(name);

    return number == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
}

/* Requests that have no business here, typing into our starter's terminal above all, are left out. */
static const unsigned long allowed_ioctls[] = {
    FIONREAD, FIONBIO, TCGETS, BLKGETSIZE64, BLKGETSIZE, BLKSSZGET, BLKPBSZGET, BLKBSZGET, BLKIOMIN, BLKIOOPT, BLKALIGNOFF,
    BLKROGET, BLKDISCARD, BLKZEROOUT, BLKDISCARDZEROES, BLKFLSBUF, FS_IOC_FIEMAP, FIGETBSZ,
};

static const int allowed_families[] = { AF_UNIX, AF_INET, AF_INET6, AF_VSOCK, AF_NETLINK };

/* clone3 hides its flags in memory: the C library then takes clone, whose flags can be judged. */
static int add_special_rules(scmp_filter_ctx filter)
{
    int error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                                 SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));

    if (error == 0)
        error = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    /* The kernel looks at the lower half only, so must the filter. */
    for (unsigned i = 0; error == 0 && i < G_N_ELEMENTS(allowed_ioctls); i++)
        error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                                 SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, allowed_ioctls[i]));
    for (unsigned i = 0; error == 0 && i < G_N_ELEMENTS(allowed_families); i++)
        error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                                 SCMP_A0(SCMP_CMP_EQ, allowed_families[i]));
    return error;
}

int vblk_confine_system_calls(char **message_out)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int error = filter ? 0 : -ENOMEM;

    for (unsigned i = 0; error == 0 && i < G_N_ELEMENTS(allowed); i++)
        error = allow(filter, allowed[i]);
    for (unsigned i = 0; error == 0 && i < G_N_ELEMENTS(killing); i++)
        error = seccomp_rule_add(filter, SCMP_ACT_KILL_PROCESS, seccomp_syscall_resolve_name(killing[i]), 0);
    if (error == 0)
        error = add_special_rules(filter);
    /* Older kernels slow down every process that has a filter, against one that runs foreign code inside it: here
     * none does. Refused calls are told to the audit log. A tree instead of a list: the last rule costs what the first does. */
    if (error == 0)
        (void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
    if (error == 0)
        (void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_LOG, 1);
    if (error == 0)
        (void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    /* A library may have started a thread already. */
    if (error == 0)
        error = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (error == 0)
        error = seccomp_load(filter);
    seccomp_release(filter);
    if (error < 0)
        *message_out = g_strdup_printf("cannot limit system calls: %s%s", g_strerror(-error),
                                       error == -EINVAL || error == -ENOSYS ? " (this kernel has no seccomp filters: "
                                                                              "--sandbox=off)" : "");
    return error;
}
