/*
 * Goal:   no write to memory is missed by a front end that takes bits and copies pages meanwhile, and threads that mark
 *         neighbouring pages at the same time lose no bit.
 * Method: writer threads, each with pages of its own in shared bytes of the log, write an increasing number into a page
 *         and mark it. A front end exchanges words of the log with 0 and copies each page whose bit it took. When the
 *         writers have ended it takes once more, and every page's copy must be its last number.
 *         ORDER dirty_log.mark; pages are accessed by relaxed atomics here, since both sides may have one at a time.
 * Broken: a guest is migrated and goes on with an old page.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "vhost_user/dirty_log.h"

#define WRITERS 3
#define PAGES_EACH 11
#define PAGES (WRITERS * PAGES_EACH)
#define ROUNDS 60000
#define LOG_WORDS 2

static struct vhost_user_dirty_log *dirty_log;
static _Atomic uint64_t *words; /* the front end's mapping of the log */
static _Atomic uint64_t pages[PAGES], copies[PAGES];
static _Atomic unsigned writing;

static void *write_pages(void *opaque)
{
    unsigned writer = (unsigned)(uintptr_t)opaque;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        /* Interleaved, so that a byte of the log holds pages of all writers. */
        unsigned page = (unsigned)(round % PAGES_EACH) * WRITERS + writer;
        atomic_store_explicit(&pages[page], round, memory_order_relaxed);
        vhost_user_dirty_log_mark(dirty_log, (uint64_t)page * VHOST_USER_DIRTY_LOG_PAGE_BYTES, 1);
    }
    atomic_fetch_sub(&writing, 1);
    return NULL;
}

static void take(void)
{
    for (unsigned word = 0; word < LOG_WORDS; word++) {
        /* ORDER dirty_log.mark, front end's side */
        uint64_t bits = atomic_exchange_explicit(&words[word], 0, memory_order_acquire);
        for (; bits; bits &= bits - 1) {
            unsigned page = word * 64 + (unsigned)__builtin_ctzll(bits);
            assert_true(page < PAGES);
            atomic_store(&copies[page], atomic_load_explicit(&pages[page], memory_order_relaxed));
        }
    }
}

static void every_last_write_is_copied(void **state)
{
    pthread_t threads[WRITERS];
    const char *reason;
    int fd = memfd_create("log", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, LOG_WORDS * 8), 0);
    assert_int_equal(vhost_user_dirty_log_create(fd, 0, LOG_WORDS * 8, &dirty_log, &reason), 0);
    words = mmap(NULL, LOG_WORDS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(words, MAP_FAILED);
    writing = WRITERS;
    for (unsigned i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_pages, (void *)(uintptr_t)i), 0);
    while (atomic_load(&writing) > 0)
        take();
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    take();
    for (unsigned page = 0; page < PAGES; page++)
        assert_int_equal(copies[page], pages[page]);
    assert_null(vhost_user_dirty_log_failure(dirty_log));
    vhost_user_dirty_log_destroy(dirty_log);
    munmap((void *)words, LOG_WORDS * 8);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_last_write_is_copied) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
