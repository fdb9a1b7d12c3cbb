/*
 * Goal:   a disk on an NBD server holds what was written, in pieces of any size, with or without several connections, and its
 *         server's limits, refusals and errors reach the caller.
 * Method: real nbdkit servers of many kinds (a file that is looked at behind their backs, block sizes, errors, read-only) with
 *         the disk in one loop.
 * If it fails: guests on network disks lose data, or errors.
 */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "disk_loop.h"

#define DISK_BYTES (8 << 20)
#define DEADLINE_US (60 * INT64_C(1000000))

static char directory[64], image[96], pid_file[96], spec[128];
static pid_t server;

/* nbdkit with these arguments, NULL at their end; it listens when its pid file is there. */
static void serve(const char *first, ...)
{
    const char *arguments[24] = { "nbdkit", "-f", "-U", spec + strlen("nbd:unix:"), "-P", pid_file, first };
    int64_t deadline_us = g_get_monotonic_time() + DEADLINE_US;
    unsigned count = 7;
    va_list more;

    va_start(more, first);
    while (arguments[count - 1])
        arguments[count++] = va_arg(more, const char *);
    va_end(more);
    unlink(pid_file);
    unlink(spec + strlen("nbd:unix:"));
    server = fork();
    assert_true(server >= 0);
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing assertion leaves by longjmp */
        execvp("nbdkit", (char **)arguments);
        _exit(127);
    }
    while (access(pid_file, F_OK) != 0) {
        if (waitpid(server, NULL, WNOHANG) != 0 || g_get_monotonic_time() > deadline_us)
            fail_msg("nbdkit %s did not start", first);
        g_usleep(1000);
    }
}

static void end_server(void)
{
    if (server > 0) {
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
    }
    server = 0;
}

static int set_up(void **state)
{
    (void)state;
    g_strlcpy(directory, "/var/tmp/vblk-nbd-XXXXXX", sizeof(directory));
    assert_non_null(mkdtemp(directory));
    g_snprintf(image, sizeof(image), "%s/image-XXXXXX", directory);
    g_snprintf(pid_file, sizeof(pid_file), "%s/pid", directory);
    g_snprintf(spec, sizeof(spec), "nbd:unix:%s/socket", directory);
    disk_make(image, DISK_BYTES);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    end_server();
    unlink(image);
    unlink(pid_file);
    unlink(spec + strlen("nbd:unix:"));
    rmdir(directory);
    return 0;
}

static void transfers(uint32_t align_bytes)
{
    static const struct {
        uint64_t offset;
        size_t size, piece;
    } cases[] = { { 0, 512, 512 },            { 512, 4096, 512 },         { 4096, 65536, 4096 },
                  { 1536, 3 << 20, 3 << 20 }, { 512, 3 << 20, 3 << 10 },  { 4096, 2 << 20, (1 << 20) + 512 },
                  { DISK_BYTES - 512, 512, 512 } };
    uint8_t *memory = g_malloc(4 << 20), *check = g_malloc(4 << 20);
    struct iovec iov[1024];
    struct disk_loop dl;
    int fd = open(image, O_RDONLY);

    disk_loop_open(&dl, spec, &(struct vblk_disk_options){ 0 });
    assert_string_equal(dl.facts.backend, "nbd");
    assert_int_equal(dl.facts.size_bytes, DISK_BYTES);
    assert_int_equal(dl.facts.align_bytes, align_bytes);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        int count = 0;

        for (size_t at = 0; at < cases[i].size; at += cases[i].piece)
            iov[count++] = (struct iovec){ memory + at, MIN(cases[i].piece, cases[i].size - at) };
        assert_int_equal(disk_loop_read(&dl, cases[i].offset, iov, count), 0);
        assert_int_equal(pread(fd, check, cases[i].size, cases[i].offset), cases[i].size);
        assert_memory_equal(memory, check, cases[i].size);
        for (size_t at = 0; at < cases[i].size; at++)
            memory[at] = ~memory[at] + i;
        assert_int_equal(disk_loop_write(&dl, cases[i].offset, iov, count), 0);
        assert_int_equal(disk_loop_flush(&dl), 0);
        assert_int_equal(pread(fd, check, cases[i].size, cases[i].offset), cases[i].size);
        assert_memory_equal(memory, check, cases[i].size);
    }
    disk_loop_close(&dl);
    close(fd);
    g_free(memory);
    g_free(check);
}

static void test_several_connections(void **state)
{
    (void)state;
    serve("file", image, NULL);
    transfers(1);
}

static void test_one_connection(void **state)
{
    (void)state;
    serve("--filter=multi-conn", "file", image, "multi-conn-mode=disable", NULL);
    transfers(1);
}

static void test_block_size_limits(void **state)
{
    (void)state;
    serve("--filter=blocksize-policy", "file", image, "blocksize-minimum=4096", "blocksize-preferred=64K",
          "blocksize-maximum=1M", "blocksize-error-policy=error", NULL);
    transfers(4096);
}

static void test_trim_and_zero(void **state)
{
    uint8_t *bytes = g_malloc(DISK_BYTES);
    struct disk_loop dl;
    struct stat before, after;
    const struct iovec iov = { bytes, DISK_BYTES };

    (void)state;
    serve("file", image, NULL);
    disk_loop_open(&dl, spec, &(struct vblk_disk_options){ 0 });
    assert_true(dl.facts.discard);
    assert_int_equal(disk_loop_flush(&dl), 0);
    assert_int_equal(stat(image, &before), 0);
    assert_int_equal(disk_loop_discard(&dl, 1 << 20, 4 << 20), 0);
    assert_int_equal(stat(image, &after), 0);
    assert_true(after.st_blocks <= before.st_blocks - (4 << 20) / 512);
    assert_int_equal(disk_loop_write_zeroes(&dl, 512, 1024, false), 0);
    assert_int_equal(disk_loop_write_zeroes(&dl, 6 << 20, 1 << 20, true), 0);
    assert_int_equal(disk_loop_read(&dl, 0, &iov, 1), 0);
    for (unsigned i = 0; i < DISK_BYTES; i++)
        if ((i >= 512 && i < 1536) || (i >= 6 << 20 && i < 7 << 20)) {
            assert_int_equal(bytes[i], 0);
        } else if (i < 1 << 20 || i >= 5 << 20) {
            assert_int_equal(bytes[i], disk_byte(i));
        }
    disk_loop_close(&dl);
    g_free(bytes);
}

/* Zeros are written, discards do nothing. */
static void test_a_server_without_trim_and_zero(void **state)
{
    uint8_t bytes[8192];
    const struct iovec iov = { bytes, sizeof(bytes) };
    struct disk_loop dl;

    (void)state;
    serve("--filter=nozero", "--filter=nofilter", "eval", "get_size=echo 1M", "pread=dd if=/dev/zero count=$3 iflag=count_bytes",
          "pwrite=dd of=/dev/null", NULL);
    disk_loop_open(&dl, spec, &(struct vblk_disk_options){ 0 });
    assert_false(dl.facts.discard);
    assert_int_equal(disk_loop_discard(&dl, 0, 4096), 0);
    assert_int_equal(disk_loop_write_zeroes(&dl, 0, 8192, true), 0);
    assert_int_equal(disk_loop_read(&dl, 0, &iov, 1), 0);
    disk_loop_close(&dl);
}

static void test_errors_of_the_server(void **state)
{
    uint8_t bytes[4096] = { 0 };
    const struct iovec iov = { bytes, sizeof(bytes) };
    struct disk_loop dl;

    (void)state;
    serve("--filter=error", "memory", "8M", "error-pwrite=ENOSPC", "error-pwrite-rate=100%", "error-pread=EIO",
          "error-pread-rate=100%", NULL);
    disk_loop_open(&dl, spec, &(struct vblk_disk_options){ 0 });
    assert_int_equal(disk_loop_write(&dl, 0, &iov, 1), -ENOSPC);
    assert_int_equal(disk_loop_read(&dl, 0, &iov, 1), -EIO);
    assert_int_equal(disk_loop_flush(&dl), 0);
    disk_loop_close(&dl);
}

static void refuse(const char *words)
{
    struct vblk_disk *disk = NULL;
    char *message = NULL;

    assert_true(vblk_disk_open(spec, &(struct vblk_disk_options){ 0 }, &disk, &message) < 0);
    assert_null(disk);
    if (!strstr(message, words) || !g_str_has_prefix(message, spec))
        fail_msg("'%s' does not say '%s'", message, words);
    g_free(message);
}

static void test_what_is_refused(void **state)
{
    uint8_t bytes[512];
    const struct iovec iov = { bytes, sizeof(bytes) };
    struct disk_loop dl;

    (void)state;
    refuse("cannot connect");
    serve("-r", "file", image, NULL);
    refuse("--read-only");
    disk_loop_open(&dl, spec, &(struct vblk_disk_options){ .read_only = true });
    assert_true(dl.facts.read_only);
    assert_false(dl.facts.discard);
    assert_int_equal(disk_loop_read(&dl, 512, &iov, 1), 0);
    assert_int_equal(bytes[7], disk_byte(519));
    disk_loop_close(&dl);
    end_server();
    serve("memory", "1000", NULL);
    refuse("multiple of 512");
}

/* Requests fail from when it is given up until there is a connection again. */
static void read_when_it_is_back(struct disk_loop *dl)
{
    int64_t deadline_us = g_get_monotonic_time() + DEADLINE_US;
    uint8_t bytes[512];
    const struct iovec iov = { bytes, sizeof(bytes) };

    while (disk_loop_read(dl, 512, &iov, 1) != 0) {
        assert_true(g_get_monotonic_time() < deadline_us);
        for (unsigned i = 0; i < 10; i++)
            (void)rt_loop_pass(dl->loop, false);
        g_usleep(1000);
    }
    assert_int_equal(bytes[7], disk_byte(519));
}

/* Nobody waits: the server is gone. It comes back, and so does the disk. */
static void lost_and_found(bool several_connections)
{
    const char *filter = several_connections ? "--filter=nofilter" : "--filter=multi-conn";
    const char *mode = several_connections ? NULL : "multi-conn-mode=disable";
    uint8_t bytes[512];
    const struct iovec iov = { bytes, sizeof(bytes) };
    struct disk_loop dl;

    serve(filter, "file", image, mode, NULL);
    disk_loop_open(&dl, spec, &(struct vblk_disk_options){ 0 });
    assert_int_equal(disk_loop_read(&dl, 0, &iov, 1), 0);
    end_server();
    assert_int_equal(disk_loop_read(&dl, 0, &iov, 1), -EIO);
    assert_int_equal(disk_loop_write(&dl, 0, &iov, 1), -EIO);
    serve(filter, "file", image, mode, NULL);
    read_when_it_is_back(&dl);
    disk_loop_close(&dl);
}

static void test_lost_and_found(void **state)
{
    (void)state;
    lost_and_found(true);
}

static void test_lost_and_found_with_one_connection(void **state)
{
    (void)state;
    lost_and_found(false);
}

/* Memory that the kernel cannot read, as a front end leaves it that made its memory's file shorter: libnbd has sent half a command
 * then and gives the connection up, the next one, too. It ends, and the one after it finds a server. */
static void lose_it_each_time(bool several_connections)
{
    void *nothing = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct iovec bad = { nothing, 1 << 20 };
    int64_t begun_us = g_get_monotonic_time();
    struct disk_loop dl;

    assert_ptr_not_equal(nothing, MAP_FAILED);
    serve(several_connections ? "--filter=nofilter" : "--filter=multi-conn", "file", image,
          several_connections ? NULL : "multi-conn-mode=disable", NULL);
    disk_loop_open(&dl, spec, &(struct vblk_disk_options){ .nbd_reconnect_s = 1 });
    assert_int_equal(disk_loop_write(&dl, 0, &bad, 1), -EIO);
    assert_int_equal(disk_loop_read(&dl, 0, &bad, 1), -EIO);
    assert_true(g_get_monotonic_time() - begun_us >= 2 * 1000000); /* each was given its second */
    read_when_it_is_back(&dl); /* on a busy machine its second may have passed before there was a connection */
    disk_loop_close(&dl);
    munmap(nothing, 1 << 20);
}

static void test_a_command_that_loses_the_server(void **state)
{
    (void)state;
    lose_it_each_time(true);
}

static void test_a_command_that_loses_the_only_connection(void **state)
{
    (void)state;
    lose_it_each_time(false);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_several_connections),
        TEST(test_one_connection),
        TEST(test_block_size_limits),
        TEST(test_trim_and_zero),
        TEST(test_a_server_without_trim_and_zero),
        TEST(test_errors_of_the_server),
        TEST(test_what_is_refused),
        TEST(test_lost_and_found),
        TEST(test_lost_and_found_with_one_connection),
        TEST(test_a_command_that_loses_the_server),
        TEST(test_a_command_that_loses_the_only_connection),
    };

    char *nbdkit = g_find_program_in_path("nbdkit");
    if (!nbdkit) {
        puts("nbdkit is missing");
        return 77;
    }
    g_free(nbdkit);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
