/*
 * Goal:   exactly the pages that were written are marked in the front end's bitmap, whatever their place, and a page that
 *         cannot be marked is told.
 * Method: ranges at and around the edges of pages, bytes of the log, the log itself and 64 bits are marked and the whole
 *         bitmap is compared with one that is computed page by page; the log's file is cut.
 * Broken: a guest is migrated and goes on with pages as they were before their last write.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>

#include "vhost_user/dirty_log.h"

#define PAGE UINT64_C(4096)
#define LOG_BYTES 1024
#define LOG_OFFSET 4099 /* no multiple of anything: legal */
#define FILE_BYTES (LOG_OFFSET + LOG_BYTES + 100)

static struct sigaction ours; /* cmocka puts its own handler in its place for each test */

struct shared {
    int fd;
    struct vhost_user_dirty_log *log;
};

static void shared_init(struct shared *shared)
{
    const char *reason = NULL;
    shared->fd = memfd_create("log", MFD_CLOEXEC);
    assert_int_equal(ftruncate(shared->fd, FILE_BYTES), 0);
    assert_int_equal(vhost_user_dirty_log_create(shared->fd, LOG_OFFSET, LOG_BYTES, &shared->log, &reason), 0);
}

static void shared_deinit(struct shared *shared)
{
    vhost_user_dirty_log_destroy(shared->log);
    close(shared->fd);
}

/* The file must hold these pages' bits and no other one anywhere. */
static void must_hold(struct shared *shared, uint64_t first_page, uint64_t page_count)
{
    uint8_t got[FILE_BYTES], expected[FILE_BYTES] = { 0 };
    for (uint64_t page = first_page; page < first_page + page_count; page++)
        expected[LOG_OFFSET + page / 8] |= 1 << page % 8;
    assert_int_equal(pread(shared->fd, got, sizeof got, 0), sizeof got);
    assert_memory_equal(got, expected, sizeof got);
}

static void marks_each_page_that_is_touched(void **state)
{
    static const struct {
        uint64_t address, size_bytes, first_page, page_count;
    } cases[] = {
        { 0, 0, 0, 0 },
        { 0, 1, 0, 1 },
        { PAGE - 1, 1, 0, 1 },
        { PAGE - 1, 2, 0, 2 },
        { PAGE, PAGE, 1, 1 },
        { PAGE, PAGE + 1, 1, 2 },
        { 7 * PAGE, 2 * PAGE, 7, 2 },               /* the next byte of the log */
        { 3 * PAGE + 5, 5 * PAGE - 5, 3, 5 },       /* up to its last bit */
        { 8 * PAGE, 8 * PAGE, 8, 8 },               /* a byte */
        { 5 * PAGE, 40 * PAGE, 5, 40 },             /* several, and parts of two */
        { LOG_BYTES * 8 * PAGE - 1, 1, LOG_BYTES * 8 - 1, 1 },
        { 0, LOG_BYTES * 8 * PAGE, 0, LOG_BYTES * 8 },
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct shared shared;
        shared_init(&shared);
        vhost_user_dirty_log_mark(shared.log, cases[i].address, cases[i].size_bytes);
        must_hold(&shared, cases[i].first_page, cases[i].page_count);
        vhost_user_dirty_log_mark(shared.log, cases[i].address, cases[i].size_bytes); /* again changes nothing */
        must_hold(&shared, cases[i].first_page, cases[i].page_count);
        assert_null(vhost_user_dirty_log_failure(shared.log));
        shared_deinit(&shared);
    }
}

static void bits_of_others_stay(void **state)
{
    struct shared shared;
    shared_init(&shared);
    vhost_user_dirty_log_mark(shared.log, 9 * PAGE, 1);
    vhost_user_dirty_log_mark(shared.log, 10 * PAGE, 1);
    vhost_user_dirty_log_mark(shared.log, 12 * PAGE, 1);
    uint8_t byte;
    assert_int_equal(pread(shared.fd, &byte, 1, LOG_OFFSET + 1), 1);
    assert_int_equal(byte, 1 << 1 | 1 << 2 | 1 << 4);
    byte = 0x80; /* the front end takes what it has seen */
    assert_int_equal(pwrite(shared.fd, &byte, 1, LOG_OFFSET + 1), 1);
    vhost_user_dirty_log_mark(shared.log, 12 * PAGE, 1);
    assert_int_equal(pread(shared.fd, &byte, 1, LOG_OFFSET + 1), 1);
    assert_int_equal(byte, 0x80 | 1 << 4);
    shared_deinit(&shared);
}

static void a_page_beyond_the_log_is_told(void **state)
{
    static const struct {
        uint64_t address, size_bytes;
    } cases[] = {
        { LOG_BYTES * 8 * PAGE, 1 },
        { LOG_BYTES * 8 * PAGE - 1, 2 },
        { UINT64_MAX, 1 },
        { UINT64_MAX, 2 },
        { 1, UINT64_MAX },
        { 4096, UINT64_MAX },
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct shared shared;
        shared_init(&shared);
        vhost_user_dirty_log_mark(shared.log, cases[i].address, cases[i].size_bytes);
        must_hold(&shared, 0, 0);
        assert_string_equal(vhost_user_dirty_log_failure(shared.log),
                            "memory was written that lies outside the dirty log");
        shared_deinit(&shared);
    }
}

static void memory_is_marked_by_its_guest_address(void **state)
{
    struct shared shared;
    const char *reason;
    unsigned at;
    int memory = memfd_create("memory", MFD_CLOEXEC);
    assert_int_equal(ftruncate(memory, 8 * PAGE), 0);
    /* Behind each other in the guest, the other way round in the file. */
    const struct vhost_user_memory_region regions[2] = { { 16 * PAGE, 4 * PAGE, 0x10000, 4 * PAGE },
                                                         { 20 * PAGE, 4 * PAGE, 0x90000, 0 } };
    struct vhost_user_memory_map *map;
    assert_int_equal(vhost_user_memory_map_create(regions, (int[]){ memory, memory }, 2, &map, &reason, &at), 0);
    shared_init(&shared);
    struct iovec iov[4];
    assert_int_equal(vhost_user_memory_map_translate(map, 18 * PAGE + 1, 3 * PAGE, iov, 4), 2);
    for (unsigned i = 0; i < 2; i++)
        vhost_user_dirty_log_mark_memory(shared.log, map, iov[i].iov_base, iov[i].iov_len);
    must_hold(&shared, 18, 4);
    vhost_user_dirty_log_mark_memory(shared.log, map, &shared, 0);
    assert_null(vhost_user_dirty_log_failure(shared.log));
    vhost_user_dirty_log_mark_memory(shared.log, map, &shared, 1); /* no guest's memory */
    assert_non_null(vhost_user_dirty_log_failure(shared.log));
    must_hold(&shared, 18, 4);
    shared_deinit(&shared);
    vhost_user_memory_map_unref(map);
    close(memory);
}

static void a_log_that_is_cut_off_is_told(void **state)
{
    sigaction(SIGBUS, &ours, NULL);
    struct shared shared;
    shared_init(&shared);
    assert_int_equal(ftruncate(shared.fd, 0), 0);
    assert_null(vhost_user_dirty_log_failure(shared.log));
    vhost_user_dirty_log_mark(shared.log, 0, 100 * PAGE);
    assert_string_equal(vhost_user_dirty_log_failure(shared.log), "the dirty log is gone (its file was truncated)");
    shared_deinit(&shared);
}

static void refuses_what_is_no_log(void **state)
{
    struct vhost_user_dirty_log *log = NULL;
    const char *reason = NULL;
    int fd = memfd_create("log", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 100), 0);
    assert_int_equal(vhost_user_dirty_log_create(fd, 0, 0, &log, &reason), -EINVAL);
    assert_string_equal(reason, "its size is 0");
    assert_int_equal(vhost_user_dirty_log_create(fd, 1, 100, &log, &reason), -EINVAL);
    assert_string_equal(reason, "it ends past the end of its file");
    assert_null(log);
    vhost_user_dirty_log_destroy(NULL);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_each_page_that_is_touched),
        cmocka_unit_test(bits_of_others_stay),
        cmocka_unit_test(a_page_beyond_the_log_is_told),
        cmocka_unit_test(memory_is_marked_by_its_guest_address),
        cmocka_unit_test(a_log_that_is_cut_off_is_told),
        cmocka_unit_test(refuses_what_is_no_log),
    };
    struct shared first; /* installs the handler of SIGBUS */
    shared_init(&first);
    shared_deinit(&first);
    sigaction(SIGBUS, NULL, &ours);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
