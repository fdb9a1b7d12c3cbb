/*
 * Goal:   readers share, a writer is alone, nobody is overtaken in either direction, and the counts are right.
 * Method: in one thread, coroutines named by letters take the lock and write down when; a script enters them one after
 *         the other. Capitals write. Threads: stress_co_rwlock.
 * Broken: if this fails a writer meets somebody, starves behind readers, or a waiter is forgotten.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <string.h>

#include "journal.h"
#include "rt/coroutine.h"
#include "rt/lock.h"

static struct rt_co_rwlock lock;
static struct rt_coroutine *coroutines[128]; /* by letter */
static int readers, writers;

static int begin(void **state)
{
    *state = journal_begin();
    readers = writers = 0;
    rt_co_rwlock_init(&lock, "test");
    return 0;
}

static int finish(void **state)
{
    assert_int_equal(lock.info.waiters, 0);
    assert_int_equal(lock.info.owner_coroutine_id, 0);
    rt_co_rwlock_deinit(&lock);
    rt_loop_destroy(*state);
    return 0;
}

static void hold_over_yield(void *opaque)
{
    char letter = *(char *)opaque;
    bool writes = isupper((unsigned char)letter);

    if (writes) {
        rt_co_rwlock_write_co(&lock);
        assert_int_equal(readers + writers++, 0);
        assert_int_equal(lock.info.owner_coroutine_id, rt_coroutine_id(rt_coroutine_self()));
    } else {
        rt_co_rwlock_read_co(&lock);
        assert_int_equal(writers, 0);
        assert_int_equal(lock.info.owner_coroutine_id, 0);
        readers++;
    }
    note(letter);
    rt_coroutine_yield();
    if (writes)
        writers--;
    else
        readers--;
    rt_co_rwlock_unlock(&lock);
}

/* Each letter is a coroutine that takes the lock, or lines up for it. */
static void arrive(const char *letters)
{
    static char names[128];

    for (; *letters; letters++) {
        unsigned char letter = (unsigned char)*letters;

        names[letter] = (char)letter;
        coroutines[letter] = rt_coroutine_create(hold_over_yield, &names[letter]);
        rt_coroutine_enter(coroutines[letter]);
    }
}

/* They give it back, and whoever may go then, goes. */
static void leave(struct rt_loop *loop, const char *letters)
{
    for (; *letters; letters++) {
        rt_coroutine_enter(coroutines[(unsigned char)*letters]);
        run_pending(loop);
    }
}

static void test_readers_share_and_writers_do_not(void **state)
{
    arrive("abA");
    assert_string_equal(journal, "ab");
    leave(*state, "a");
    assert_string_equal(journal, "ab");
    leave(*state, "b");
    assert_string_equal(journal, "abA");
    arrive("B");
    assert_string_equal(journal, "abA");
    leave(*state, "A");
    assert_string_equal(journal, "abAB");
    leave(*state, "B");
    assert_int_equal(lock.info.acquisitions, 4);
    assert_int_equal(lock.info.contentions, 2);
}

/* A stream of readers would keep a writer out for ever. */
static void test_readers_wait_behind_a_writer_that_waits(void **state)
{
    arrive("aAbcBd");
    assert_string_equal(journal, "a");
    leave(*state, "a");
    assert_string_equal(journal, "aA");
    leave(*state, "A"); /* those that stand together in line go in together */
    assert_string_equal(journal, "aAbc");
    leave(*state, "c");
    assert_string_equal(journal, "aAbc");
    leave(*state, "b");
    assert_string_equal(journal, "aAbcB");
    leave(*state, "B");
    assert_string_equal(journal, "aAbcBd");
    leave(*state, "d");
    assert_int_equal(lock.info.contentions, 5);
    assert_true(lock.info.wait_ns > 0);
}

/* From the unlock on it belongs to the next one, though that runs later. */
static void test_nobody_overtakes_the_next_owner(void **state)
{
    arrive("AB");
    rt_coroutine_enter(coroutines['A']);
    assert_string_equal(journal, "A"); /* queued, not run */
    arrive("cC");
    assert_string_equal(journal, "A");
    run_pending(*state);
    assert_string_equal(journal, "AB");
    leave(*state, "B");
    leave(*state, "c");
    leave(*state, "C");
    assert_string_equal(journal, "ABcC");
}

static void try_both(void *opaque)
{
    const bool *expected = opaque;
    bool got;

    got = rt_co_rwlock_try_read(&lock);
    assert_int_equal(got, expected[0]);
    if (got)
        rt_co_rwlock_unlock(&lock);
    got = rt_co_rwlock_try_write(&lock);
    assert_int_equal(got, expected[1]);
    if (got)
        rt_co_rwlock_unlock(&lock);
    note('.');
}

static void try_expecting(bool read, bool write)
{
    bool expected[2] = { read, write };

    rt_coroutine_enter(rt_coroutine_create(try_both, expected));
}

static void test_trying_never_waits_and_never_overtakes(void **state)
{
    try_expecting(true, true);
    arrive("a");
    try_expecting(true, false);
    arrive("A");
    try_expecting(false, false); /* the reader holds it, but a writer waits */
    leave(*state, "a");
    try_expecting(false, false);
    leave(*state, "A");
    try_expecting(true, true);
    assert_string_equal(journal, ".a..A..");
    assert_int_equal(lock.info.contentions, 1);
}

static void write_then_read(void *opaque)
{
    rt_co_rwlock_write_co(&lock);
    note('W');
    rt_coroutine_yield();
    rt_co_rwlock_downgrade(&lock);
    assert_int_equal(lock.info.owner_coroutine_id, 0);
    note('r');
    rt_coroutine_yield();
    rt_co_rwlock_unlock(&lock);
}

static void test_downgrade_lets_readers_in_and_no_writer(void **state)
{
    coroutines['W'] = rt_coroutine_create(write_then_read, NULL);
    rt_coroutine_enter(coroutines['W']);
    arrive("abAc");
    leave(*state, "W");
    assert_string_equal(journal, "Wrab");
    leave(*state, "ab");
    assert_string_equal(journal, "Wrab");
    leave(*state, "W");
    assert_string_equal(journal, "WrabA");
    leave(*state, "Ac");

    /* And without anybody in line. */
    journal[0] = 0;
    coroutines['W'] = rt_coroutine_create(write_then_read, NULL);
    rt_coroutine_enter(coroutines['W']);
    leave(*state, "W");
    arrive("aA");
    assert_string_equal(journal, "Wra");
    leave(*state, "aWA");
    assert_string_equal(journal, "WraA");
}

static void read_then_write(void *opaque)
{
    rt_co_rwlock_read_co(&lock);
    note('r');
    rt_coroutine_yield();
    while (!rt_co_rwlock_try_upgrade(&lock)) {
        note('-');
        rt_coroutine_yield();
    }
    assert_int_equal(lock.info.owner_coroutine_id, rt_coroutine_id(rt_coroutine_self()));
    note('W');
    rt_coroutine_yield();
    rt_co_rwlock_unlock(&lock);
}

static void test_only_a_lone_reader_is_upgraded(void **state)
{
    coroutines['r'] = rt_coroutine_create(read_then_write, NULL);
    rt_coroutine_enter(coroutines['r']);
    arrive("a");
    leave(*state, "r");
    assert_string_equal(journal, "ra-");
    arrive("Ab"); /* they wait behind it */
    leave(*state, "r");
    leave(*state, "a");
    assert_string_equal(journal, "ra--");
    leave(*state, "r");
    assert_string_equal(journal, "ra--W");
    leave(*state, "r");
    assert_string_equal(journal, "ra--WA");
    leave(*state, "A");
    leave(*state, "b");
    try_expecting(true, true);
}

/* Held is from the first reader to the last: 17 readings make one measured one, wherever they overlap; those that were let
 * in from the line are measured always. */
static void test_the_time_that_readers_hold_it_is_counted(void **state)
{
    int64_t begin_ns, held_ns;
    uint64_t before;

    arrive("Aab");
    leave(*state, "A");
    before = lock.info.hold_ns;
    begin_ns = rt_clock_ns();
    while (rt_clock_ns() - begin_ns < 1000000)
        ;
    leave(*state, "a");
    assert_int_equal(lock.info.hold_ns, before); /* b is still there */
    leave(*state, "b");
    held_ns = (int64_t)(lock.info.hold_ns - before);
    assert_true(held_ns >= 1000000);

    before = lock.info.hold_ns;
    for (int i = 0; i < 17; i++) {
        arrive("a");
        leave(*state, "a");
    }
    assert_int_equal(lock.info.acquisitions, 20);
    assert_true(lock.info.hold_ns > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_readers_share_and_writers_do_not, begin, finish),
        cmocka_unit_test_setup_teardown(test_readers_wait_behind_a_writer_that_waits, begin, finish),
        cmocka_unit_test_setup_teardown(test_nobody_overtakes_the_next_owner, begin, finish),
        cmocka_unit_test_setup_teardown(test_trying_never_waits_and_never_overtakes, begin, finish),
        cmocka_unit_test_setup_teardown(test_downgrade_lets_readers_in_and_no_writer, begin, finish),
        cmocka_unit_test_setup_teardown(test_only_a_lone_reader_is_upgraded, begin, finish),
        cmocka_unit_test_setup_teardown(test_the_time_that_readers_hold_it_is_counted, begin, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
