/*
 * Goal:   a file's bytes are read and written where they belong, in both cache modes, and each failure reaches the caller.
 * Method: real files with known bytes: pieces beyond what the kernel takes in one call, many transfers at once (more than the
 *         ring holds), files that are cut short or have no room (RLIMIT_FSIZE), files that cannot be served.
 * If it fails: guests lose data, hang, or are told that all is well when it is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <limits.h>
#include <liburing.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "disk_loop.h"
#include "loop/without_syscall.h"
#include "rt/coroutine.h"

#define DISK_BYTES (1 << 20)

static char path[64];

static int set_up(void **state)
{
    (void)state;
    g_strlcpy(path, "/var/tmp/vblk-file-XXXXXX", sizeof(path)); /* not tmpfs: direct I/O */
    disk_make(path, DISK_BYTES);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static bool open_in_mode(struct disk_loop *dl, enum vblk_disk_cache cache)
{
    int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);

    if (fd < 0 && cache == VBLK_DISK_CACHE_NONE) {
        print_message("no direct I/O in /var/tmp: only the page cache is tested\n");
        return false;
    }
    close(fd);
    disk_loop_open(dl, path, &(struct vblk_disk_options){ .cache = cache });
    assert_int_equal(dl->facts.size_bytes, DISK_BYTES);
    assert_string_equal(dl->facts.backend, "file");
    return true;
}

static void read_and_write(enum vblk_disk_cache cache)
{
    static const struct {
        uint64_t offset;
        size_t size;
        unsigned memory_skip;
    } cases[] = { { 0, 512, 0 },     { 512, 512, 1 },        { 4096, 4096, 0 },
                  { 4096, 4096, 8 }, { 3584, 1024, 3 },      { DISK_BYTES - 512, 512, 0 },
                  { 512, 65536, 5 }, { 0, DISK_BYTES, 0 },   { 1024, DISK_BYTES - 2048, 7 } };
    struct disk_loop dl;
    uint8_t *memory = NULL;

    if (!open_in_mode(&dl, cache))
        return;
    assert_int_equal(posix_memalign((void **)&memory, 4096, DISK_BYTES + 4096), 0);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint8_t *at = memory + cases[i].memory_skip;
        const struct iovec iov[2] = { { at, cases[i].size / 2 }, { at + cases[i].size / 2, cases[i].size / 2 } };

        for (unsigned pieces = 1; pieces <= 2; pieces++) {
            const struct iovec whole = { at, cases[i].size };

            memset(at, 0, cases[i].size);
            assert_int_equal(disk_loop_read(&dl, cases[i].offset, pieces == 1 ? &whole : iov, (int)pieces), 0);
            for (size_t j = 0; j < cases[i].size; j++)
                if (at[j] != disk_byte(cases[i].offset + j))
                    fail_msg("case %u: byte %zu", i, j);
            assert_int_equal(disk_loop_write(&dl, cases[i].offset, pieces == 1 ? &whole : iov, (int)pieces), 0);
        }
    }
    assert_int_equal(disk_loop_flush(&dl), 0);
    disk_loop_close(&dl);
    /* Everything was written back as it was: nothing moved. */
    disk_loop_open(&dl, path, &(struct vblk_disk_options){ 0 });
    assert_int_equal(disk_loop_read(&dl, 0, &(struct iovec){ memory, DISK_BYTES }, 1), 0);
    for (size_t j = 0; j < DISK_BYTES; j++)
        if (memory[j] != disk_byte(j))
            fail_msg("afterwards: byte %zu", j);
    disk_loop_close(&dl);
    free(memory);
}

static void test_page_cache(void **state)
{
    (void)state;
    read_and_write(VBLK_DISK_CACHE_WRITEBACK);
}

static void test_direct(void **state)
{
    (void)state;
    read_and_write(VBLK_DISK_CACHE_NONE);
}

static void test_more_pieces_than_the_kernel_takes(void **state)
{
    static struct iovec iov[IOV_MAX * 2];
    uint8_t *memory = g_malloc(IOV_MAX * 2 * 512);
    struct disk_loop dl;

    (void)state;
    disk_loop_open(&dl, path, &(struct vblk_disk_options){ 0 });
    assert_true(IOV_MAX * 2 * 512 <= DISK_BYTES);
    /* Backwards, so that order matters. */
    for (unsigned i = 0; i < IOV_MAX * 2; i++)
        iov[i] = (struct iovec){ memory + (IOV_MAX * 2 - 1 - i) * 512, 512 };
    assert_int_equal(disk_loop_read(&dl, 0, iov, IOV_MAX * 2), 0);
    for (unsigned i = 0; i < IOV_MAX * 2; i++)
        assert_int_equal(((uint8_t *)iov[i].iov_base)[9], disk_byte(i * 512 + 9));
    assert_int_equal(disk_loop_write(&dl, 0, iov, IOV_MAX * 2), 0);
    disk_loop_close(&dl);
    g_free(memory);
}

/* ---- many at once ---- */

struct many {
    struct disk_loop *dl;
    unsigned begun, ended, failed;
    bool done;
};

#define MANY 3000

static void read_one(void *opaque)
{
    struct many *many = opaque;
    uint64_t offset = (uint64_t)(many->begun++ * 37 % (DISK_BYTES / 512)) * 512;
    uint8_t buffer[512];
    const struct iovec iov = { buffer, sizeof(buffer) };

    if (vblk_disk_read_co(many->dl->context, offset, &iov, 1) != 0 || buffer[3] != disk_byte(offset + 3))
        many->failed++;
    many->done = ++many->ended == MANY;
}

static void test_more_than_the_ring_holds(void **state)
{
    struct disk_loop dl;
    struct many many = { .dl = &dl };

    (void)state;
    disk_loop_open(&dl, path, &(struct vblk_disk_options){ 0 });
    for (unsigned i = 0; i < MANY; i++)
        rt_coroutine_enter(rt_coroutine_create(read_one, &many));
    disk_loop_wait(&dl, &many.done);
    assert_int_equal(many.failed, 0);
    disk_loop_close(&dl);
}

static unsigned busy_count;
static bool sync_fails;

int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);

int __wrap_io_uring_submit(struct io_uring *ring)
{
    if (busy_count > 0) {
        busy_count--;
        return -EBUSY;
    }
    /* No descriptor: the kernel itself refuses. */
    for (unsigned i = ring->sq.sqe_head; sync_fails && i != ring->sq.sqe_tail; i++) {
        struct io_uring_sqe *sqe = &ring->sq.sqes[i & ring->sq.ring_mask];

        if (sqe->opcode == IORING_OP_FSYNC) {
            sqe->fd = -1;
            sqe->flags = 0;
        }
    }
    return __real_io_uring_submit(ring);
}

/* A full submission queue that the kernel does not take yet: requests wait in the loop, which goes on. */
static void test_a_busy_kernel(void **state)
{
    struct disk_loop dl;
    struct many many = { .dl = &dl };

    (void)state;
    disk_loop_open(&dl, path, &(struct vblk_disk_options){ 0 });
    busy_count = 3000;
    for (unsigned i = 0; i < MANY; i++)
        rt_coroutine_enter(rt_coroutine_create(read_one, &many));
    disk_loop_wait(&dl, &many.done);
    assert_int_equal(many.failed, 0);
    assert_int_equal(busy_count, 0);
    disk_loop_close(&dl);
}

/* ---- failures ---- */

static void test_a_file_that_was_cut_short(void **state)
{
    uint8_t buffer[4096];
    const struct iovec iov = { buffer, sizeof(buffer) };
    struct disk_loop dl;

    (void)state;
    disk_loop_open(&dl, path, &(struct vblk_disk_options){ 0 });
    assert_int_equal(truncate(path, DISK_BYTES / 2 + 1024), 0);
    assert_int_equal(disk_loop_read(&dl, 0, &iov, 1), 0);
    assert_int_equal(disk_loop_read(&dl, DISK_BYTES / 2, &iov, 1), -EIO); /* half of it is there */
    assert_int_equal(disk_loop_read(&dl, DISK_BYTES - 4096, &iov, 1), -EIO);
    assert_int_equal(disk_loop_write(&dl, DISK_BYTES - 4096, &iov, 1), 0); /* grows again */
    assert_int_equal(disk_loop_read(&dl, DISK_BYTES - 4096, &iov, 1), 0);
    disk_loop_close(&dl);
}

/* A thread with one processor does not poll while the kernel's thread, which shares it, writes; reads after that are polled for
 * as before (the loop's end checks that nothing holds its polling). */
static void test_writes_of_a_pinned_thread(void **state)
{
    static uint8_t buffer[64 << 10];
    const struct iovec iov = { buffer, sizeof(buffer) };
    cpu_set_t all, one;
    struct disk_loop dl;
    unsigned cpu = 0;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    disk_loop_open(&dl, path, &(struct vblk_disk_options){ 0 });
    rt_loop_set_poll(dl.loop, 1000000);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(disk_loop_write(&dl, i % 16 * sizeof(buffer), &iov, 1), 0);
        assert_int_equal(disk_loop_read(&dl, 0, &iov, 1), 0);
    }
    disk_loop_close(&dl);
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

/* Completions are found where requests are submitted, before a monitor tells that the ring's descriptor is ready. Such a
 * report must not look like a descriptor that nobody reads. */
static void test_no_dispatch_looks_vain(void **state)
{
    static const enum rt_loop_monitor monitors[] = { RT_LOOP_MONITOR_EPOLL, RT_LOOP_MONITOR_IO_URING };
    uint8_t buffer[4096];
    const struct iovec iov = { buffer, sizeof(buffer) };

    (void)state;
    for (unsigned i = 0; i < G_N_ELEMENTS(monitors); i++) {
        struct rt_loop_stats before, after;
        struct disk_loop dl;
        int error = rt_loop_configure(&(struct rt_loop_policies){ .monitor = monitors[i] });

        if (error) {
            print_message("without io_uring monitor: %s\n", rt_loop_monitor_hint(error));
            continue;
        }
        disk_loop_open(&dl, path, &(struct vblk_disk_options){ 0 });
        rt_loop_stats(dl.loop, &before);
        for (unsigned j = 0; j < 1000; j++)
            assert_int_equal(disk_loop_read(&dl, 0, &iov, 1), 0);
        rt_loop_stats(dl.loop, &after);
        disk_loop_close(&dl);
        assert_int_equal(after.idle_dispatches - before.idle_dispatches, 0);
    }
    assert_int_equal(rt_loop_configure(&(struct rt_loop_policies){ 0 }), 0);
}

static void test_no_room(void **state)
{
    const struct rlimit small = { .rlim_cur = DISK_BYTES / 2, .rlim_max = RLIM_INFINITY };
    struct rlimit before;
    uint8_t buffer[4096] = { 0 };
    const struct iovec iov = { buffer, sizeof(buffer) };
    struct disk_loop dl;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    disk_loop_open(&dl, path, &(struct vblk_disk_options){ 0 });
    getrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_true(disk_loop_write(&dl, DISK_BYTES - 4096, &iov, 1) < 0);
    assert_int_equal(disk_loop_write(&dl, 0, &iov, 1), 0);
    setrlimit(RLIMIT_FSIZE, &before);
    disk_loop_close(&dl);
}

/* What the page cache could not write is gone, and the kernel says so once: no flush after it may succeed. */
static void test_a_failed_sync_stays(void **state)
{
    struct disk_loop dl;

    (void)state;
    for (enum vblk_disk_cache cache = VBLK_DISK_CACHE_WRITEBACK; cache <= VBLK_DISK_CACHE_NONE; cache++) {
        if (!open_in_mode(&dl, cache))
            return;
        assert_int_equal(disk_loop_flush(&dl), 0);
        sync_fails = true;
        assert_int_equal(disk_loop_flush(&dl), -EBADF);
        sync_fails = false;
        assert_int_equal(disk_loop_flush(&dl), cache == VBLK_DISK_CACHE_WRITEBACK ? -EBADF : 0);
        disk_loop_close(&dl);
    }
}

static void test_read_only(void **state)
{
    uint8_t buffer[512] = { 0 };
    const struct iovec iov = { buffer, sizeof(buffer) };
    struct disk_loop dl;

    (void)state;
    chmod(path, 0400);
    disk_loop_open(&dl, path, &(struct vblk_disk_options){ .read_only = true });
    assert_true(dl.facts.read_only);
    assert_int_equal(disk_loop_read(&dl, 0, &iov, 1), 0);
    assert_int_equal(disk_loop_write(&dl, 0, &iov, 1), -EBADF);
    disk_loop_close(&dl);
}

static void refuse(const char *spec, enum vblk_disk_cache cache, int error, const char *words)
{
    struct vblk_disk *disk = NULL;
    char *message = NULL;
    int result = vblk_disk_open(spec, &(struct vblk_disk_options){ .cache = cache }, &disk, &message);

    assert_int_equal(result, error);
    assert_null(disk);
    assert_true(g_str_has_prefix(message, spec));
    if (!strstr(message, words))
        fail_msg("'%s' does not say '%s'", message, words);
    g_free(message);
}

static void test_what_is_no_disk(void **state)
{
    (void)state;
    refuse("/nonexistent", VBLK_DISK_CACHE_WRITEBACK, -ENOENT, "create it first");
    refuse("/tmp", VBLK_DISK_CACHE_WRITEBACK, -EISDIR, "directory");
    refuse("/dev/null", VBLK_DISK_CACHE_WRITEBACK, -ENOTBLK, "neither a file nor a block device");
    assert_int_equal(truncate(path, 0), 0);
    refuse(path, VBLK_DISK_CACHE_WRITEBACK, -EINVAL, "size of 0 bytes");
    assert_int_equal(truncate(path, 1000), 0);
    refuse(path, VBLK_DISK_CACHE_WRITEBACK, -EINVAL, "multiple of 512");
}

/* Found out before anybody connects, and where making a ring is allowed and using it is not. */
static void test_io_uring_is_forbidden(void **state)
{
    static const int calls[] = { __NR_io_uring_setup, __NR_io_uring_enter };

    (void)state;
    for (unsigned i = 0; i < G_N_ELEMENTS(calls); i++) {
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
            char *message = NULL;
            struct vblk_disk *disk;
            int error;

            if (!without_syscall(calls[i]))
                _exit(77);
            error = vblk_disk_open(path, &(struct vblk_disk_options){ 0 }, &disk, &message);
            _exit(error == -ENOSYS && strstr(message, path) && strstr(message, "io_uring_enter") ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
            skip(); /* no seccomp here */
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void test_a_pipe_does_not_hang(void **state)
{
    (void)state;
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    refuse(path, VBLK_DISK_CACHE_WRITEBACK, -ENOTBLK, "neither a file nor a block device");
    struct vblk_disk *disk = NULL;
    char *message = NULL;
    assert_int_equal(vblk_disk_open(path, &(struct vblk_disk_options){ .read_only = true }, &disk, &message), -ENOTBLK);
    g_free(message);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_page_cache),
        TEST(test_direct),
        TEST(test_more_pieces_than_the_kernel_takes),
        TEST(test_more_than_the_ring_holds),
        TEST(test_a_busy_kernel),
        TEST(test_a_file_that_was_cut_short),
        TEST(test_writes_of_a_pinned_thread),
        TEST(test_no_dispatch_looks_vain),
        TEST(test_no_room),
        TEST(test_a_failed_sync_stays),
        TEST(test_read_only),
        TEST(test_what_is_no_disk),
        TEST(test_io_uring_is_forbidden),
        TEST(test_a_pipe_does_not_hang),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
