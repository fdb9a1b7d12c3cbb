/*
 * Goal:   what one process writes into a ring the other reads, unchanged, whole and in order, however far one runs ahead;
 *         the end of a writer is noticed.
 * Method: a forked writer sends records of many sizes, several times the ring's length; a reader that lags, and one that
 *         has to wait, compare them. Then a writer that dies without a word.
 * Breaks: events would be lost or torn between decoding and judging, or the program would wait for ever.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "input/ring.h"

#define RECORDS 30000

struct record {
    uint32_t size_bytes;
    uint32_t number;
    uint8_t bytes[];
};

static uint32_t size_of(unsigned number)
{
    return number % 1000 == 999 ? RING_RECORD_BYTES_MAX : sizeof(struct record) + number % 601;
}

static void write_records(struct ring *ring, unsigned pause_every)
{
    for (unsigned i = 0; i < RECORDS; i++) {
        struct record *record = ring_reserve(ring, size_of(i));

        record->size_bytes = size_of(i);
        record->number = i;
        memset(record->bytes, (int)(i & 0xFF), size_of(i) - sizeof(*record));
        ring_commit(ring);
        if (pause_every && i % pause_every == 0)
            ring_flush(ring);
    }
    ring_flush(ring);
}

static bool writer_lives(void *data)
{
    pid_t *pid = data;

    if (*pid && waitpid(*pid, NULL, WNOHANG) == *pid)
        *pid = 0;
    return *pid != 0;
}

static void read_all(unsigned pause_every)
{
    struct ring *ring = ring_create();
    pid_t pid;

    assert_non_null(ring);
    pid = fork();
    if (pid == 0) {
        write_records(ring, pause_every);
        _exit(0);
    }
    assert_true(pid > 0);
    for (unsigned i = 0; i < RECORDS; i++) {
        const struct record *record = ring_peek(ring, writer_lives, &pid);

        assert_non_null(record);
        assert_int_equal(record->number, i);
        assert_int_equal(record->size_bytes, size_of(i));
        for (size_t at = 0; at < size_of(i) - sizeof(*record); at += 37)
            assert_int_equal(record->bytes[at], i & 0xFF);
        ring_consume(ring);
    }
    assert_null(ring_peek(ring, writer_lives, &pid));
    ring_destroy(ring);
}

static void test_everything_arrives_in_order(void **state)
{
    read_all(0);
}

static void test_a_reader_that_waits_is_woken(void **state)
{
    read_all(1);
}

static void test_a_dead_writer_is_noticed(void **state)
{
    struct ring *ring = ring_create();
    struct record *record;
    pid_t pid = fork();

    if (pid == 0) {
        record = ring_reserve(ring, 64);
        record->size_bytes = 64;
        record->number = 7;
        ring_commit(ring);
        ring_flush(ring);
        _exit(1);
    }
    assert_true(pid > 0);
    record = ring_peek(ring, writer_lives, &pid);
    assert_non_null(record);
    assert_int_equal(record->number, 7);
    ring_consume(ring);
    assert_null(ring_peek(ring, writer_lives, &pid));
    ring_destroy(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_arrives_in_order),
        cmocka_unit_test(test_a_reader_that_waits_is_woken),
        cmocka_unit_test(test_a_dead_writer_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
