/*
 * Goal:   a front end that truncates the file of its memory cannot kill the process, nor use up its mappings;
 *         a SIGBUS of other origin still ends it.
 * Method: shared files are cut under a registered range and touched; the flag, the neighbours and the number of
 *         mappings are looked at. What must die does so in a child.
 * Broken: one guest takes down every disk of the process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "vhost_user/memory_guard.h"

#define PAGE 4096
#define PAGES 256

static struct sigaction ours; /* cmocka puts its own handler in its place for each test */

struct range {
    int fd;
    volatile uint8_t *bytes;
    _Atomic bool broken;
    struct vhost_user_memory_guard *guard;
};

static void range_init(struct range *range)
{
    range->fd = memfd_create("guarded", MFD_CLOEXEC);
    assert_int_equal(ftruncate(range->fd, PAGES * PAGE), 0);
    range->bytes = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, range->fd, 0);
    assert_ptr_not_equal(range->bytes, MAP_FAILED);
    range->broken = false;
    range->guard = vhost_user_memory_guard_add((void *)range->bytes, PAGES * PAGE, PAGE, &range->broken);
    assert_non_null(range->guard);
}

static void range_deinit(struct range *range)
{
    vhost_user_memory_guard_remove(range->guard);
    munmap((void *)range->bytes, PAGES * PAGE);
    close(range->fd);
}

static unsigned count_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned count = 0;
    while (fgets(line, sizeof line, maps))
        count++;
    fclose(maps);
    return count;
}

static void a_truncated_page_reads_as_zeros(void **state)
{
    sigaction(SIGBUS, &ours, NULL);
    struct range range, other;
    range_init(&range);
    range_init(&other);
    range.bytes[0] = 1;
    range.bytes[100 * PAGE] = 2;
    other.bytes[100 * PAGE] = 3;
    assert_int_equal(ftruncate(range.fd, 50 * PAGE), 0);
    assert_false(range.broken);
    assert_int_equal(range.bytes[100 * PAGE], 0);
    assert_true(range.broken);
    range.bytes[100 * PAGE + 1] = 4; /* and can be written */
    assert_int_equal(range.bytes[100 * PAGE + 1], 4);
    /* What is still there is still shared. */
    uint8_t got;
    assert_int_equal(range.bytes[0], 1);
    range.bytes[1] = 5;
    assert_int_equal(pread(range.fd, &got, 1, 1), 1);
    assert_int_equal(got, 5);
    assert_false(other.broken);
    assert_int_equal(other.bytes[100 * PAGE], 3);
    range_deinit(&range);
    range_deinit(&other);
}

static void mappings_are_not_used_up(void **state)
{
    sigaction(SIGBUS, &ours, NULL);
    struct range range;
    range_init(&range);
    unsigned before = count_mappings();
    assert_int_equal(ftruncate(range.fd, 0), 0);
    for (unsigned page = 0; page < PAGES; page += 2)
        assert_int_equal(range.bytes[page * PAGE], 0);
    assert_in_range(count_mappings(), before, before + 4);
    range_deinit(&range);
}

static void *touch_all(void *opaque)
{
    struct range *range = opaque;
    unsigned sum = 0;
    for (unsigned page = 0; page < PAGES; page++)
        sum += __atomic_load_n(&range->bytes[page * PAGE], __ATOMIC_RELAXED);
    return (void *)(uintptr_t)sum;
}

/* Threads fault in the same range while another one comes and goes beside it. */
static void threads_may_fault_at_once(void **state)
{
    sigaction(SIGBUS, &ours, NULL);
    for (unsigned round = 0; round < 20; round++) {
        struct range range;
        pthread_t threads[3];
        range_init(&range);
        assert_int_equal(ftruncate(range.fd, 0), 0);
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, touch_all, &range), 0);
        for (unsigned i = 0; i < 50; i++) {
            struct range other;
            range_init(&other);
            range_deinit(&other);
        }
        for (unsigned i = 0; i < 3; i++) {
            void *sum;
            pthread_join(threads[i], &sum);
            assert_null(sum);
        }
        assert_true(range.broken);
        range_deinit(&range);
    }
}

/* ---- what must die, or not, does so in children that are made before the handler exists in this process
 * ---- */

static volatile sig_atomic_t seen;

static void see(int number)
{
    seen = 1;
}

static void touch_registered(struct range *range)
{
    if (ftruncate(range->fd, 0) == 0)
        (void)range->bytes[0];
}

static void touch_unregistered(struct range *range)
{
    vhost_user_memory_guard_remove(range->guard);
    touch_registered(range);
}

static void send_sigbus(struct range *range)
{
    raise(SIGBUS);
}

/* The wait status of a child in which @handler was there first and that runs @what. */
static int run_child(void (*handler)(int number), void (*what)(struct range *range))
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit no_core = { 0, 0 };
        struct range range;
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGBUS, handler);
        range_init(&range);
        what(&range);
        _exit(seen ? 2 : 0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static int healed, unregistered, sent, sent_to_earlier_handler;

static void other_causes_still_end_the_process(void **state)
{
    assert_true(WIFEXITED(healed) && WEXITSTATUS(healed) == 0);
    assert_true(WIFSIGNALED(unregistered) && WTERMSIG(unregistered) == SIGBUS);
    assert_true(WIFSIGNALED(sent) && WTERMSIG(sent) == SIGBUS);
}

static void an_earlier_handler_is_called(void **state)
{
    assert_true(WIFEXITED(sent_to_earlier_handler) && WEXITSTATUS(sent_to_earlier_handler) == 2);
}

int main(void)
{
    healed = run_child(SIG_DFL, touch_registered);
    unregistered = run_child(SIG_DFL, touch_unregistered);
    sent = run_child(SIG_DFL, send_sigbus);
    sent_to_earlier_handler = run_child(see, send_sigbus);

    struct range range;
    range_init(&range); /* installs the handler */
    range_deinit(&range);
    sigaction(SIGBUS, NULL, &ours);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_causes_still_end_the_process), cmocka_unit_test(an_earlier_handler_is_called),
        cmocka_unit_test(a_truncated_page_reads_as_zeros),    cmocka_unit_test(mappings_are_not_used_up),
        cmocka_unit_test(threads_may_fault_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
