/*
 * Goal: nobody starves anybody in a loop. One pass does a bounded amount of each kind of work, whoever is left out comes first
 * in the next one, and what keeps itself busy comes behind those that wait.
 * Method: floods of posts, coroutines, timers and descriptors that are always ready, together with one of each other kind;
 * counts after every pass.
 * If it fails: one busy queue, timer or thread stops all others of its IOThread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rt/coroutine.h"
#include "rt/loop.h"
#include "own_loop.h"
#include "until.h"

enum { WORK_BOUND = 256, DESCRIPTOR_BOUND = 64 };

/* One of each kind that wants a turn in every pass. */
struct modest {
    struct rt_loop *loop;
    struct rt_handler *handler;
    struct rt_bh *bh;
    struct rt_timer *timer;
    int fd;
    uint64_t descriptor_turns, bh_turns, timer_turns;
};

static bool descriptor_turn(void *opaque)
{
    struct modest *modest = opaque;
    modest->descriptor_turns++;
    return false; /* stays readable */
}

static void bh_turn(void *opaque)
{
    struct modest *modest = opaque;
    modest->bh_turns++;
    rt_bh_schedule(modest->bh);
}

static void timer_turn(void *opaque)
{
    struct modest *modest = opaque;
    modest->timer_turns++;
    rt_timer_arm(modest->timer, rt_clock_ns());
}

static void modest_begin(struct modest *modest, struct rt_loop *loop)
{
    static const struct rt_fd_callbacks callbacks = { .ready = descriptor_turn };
    *modest = (struct modest){ .loop = loop, .fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC) };
    modest->bh = rt_bh_create(loop, bh_turn, modest);
    modest->timer = rt_timer_create(loop, timer_turn, modest);
    assert_int_equal(
        rt_loop_attach_fd(loop, modest->fd, RT_FD_OTHER, 0, 0, &callbacks, modest, &modest->handler), 0);
    rt_bh_schedule(modest->bh);
    rt_timer_arm(modest->timer, 1);
}

static void modest_end(struct modest *modest)
{
    rt_loop_detach_fd(modest->handler);
    rt_bh_destroy(modest->bh);
    rt_timer_destroy(modest->timer);
    close(modest->fd);
}

static uint64_t count;

static void count_up(void *opaque)
{
    count++;
}

/* What is queued before a pass is too much for it: the others get their turns all the same. */
static void flood_of_posts(void **state)
{
    enum { POSTS = 10 * WORK_BOUND };
    struct rt_loop *loop = *state;
    struct modest modest;
    count = 0;
    modest_begin(&modest, loop);
    for (int i = 0; i < POSTS; i++)
        assert_int_equal(rt_loop_post(loop, count_up, NULL), 0);
    for (uint64_t pass = 1; count < POSTS; pass++) {
        uint64_t before = count;
        assert_true(rt_loop_pass(loop, true));
        assert_in_range(count - before, 1, WORK_BOUND);
        assert_int_equal(modest.descriptor_turns, pass);
        assert_int_equal(modest.timer_turns, pass);
        assert_true(modest.bh_turns >= pass * WORK_BOUND / (POSTS + 1)); /* its turn comes round with the queue */
    }
    assert_true(modest.bh_turns >= 1);
    modest_end(&modest);
}

struct greedy {
    struct rt_bh *bh;
    struct rt_timer *timer;
    struct rt_coroutine *co;
    uint64_t turns;
    bool end;
};

/* No count of any two may differ by more than one turn. */
static void assert_even(const struct greedy *greedy, int greedy_count)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (int i = 0; i < greedy_count; i++) {
        least = greedy[i].turns < least ? greedy[i].turns : least;
        most = greedy[i].turns > most ? greedy[i].turns : most;
    }
    assert_true(most - least <= 1);
}

static uint64_t turns_of(const struct greedy *greedy, int greedy_count)
{
    uint64_t sum = 0;
    for (int i = 0; i < greedy_count; i++)
        sum += greedy[i].turns;
    return sum;
}

enum { GREEDY = 600, PASSES = 50 };

static struct greedy *greedy_begin(void)
{
    static struct greedy greedy[GREEDY];
    for (int i = 0; i < GREEDY; i++)
        greedy[i] = (struct greedy){ 0 };
    return greedy;
}

/* Passes in which greedy ones of one kind take no more than their bound, evenly, and leave the modest their turns. */
static void passes_are_fair(struct rt_loop *loop, const struct greedy *greedy, struct modest *modest)
{
    for (uint64_t pass = 1; pass <= PASSES; pass++) {
        uint64_t before = turns_of(greedy, GREEDY);
        assert_true(rt_loop_pass(loop, true));
        assert_in_range(turns_of(greedy, GREEDY) - before, 1, WORK_BOUND);
        assert_even(greedy, GREEDY);
        assert_int_equal(modest->descriptor_turns, pass);
    }
    /* Even the one of their own kind: at worst behind all of them and those that ran in the same pass. */
    uint64_t rounds = PASSES * WORK_BOUND / (GREEDY + 1 + WORK_BOUND);
    assert_true(modest->bh_turns >= rounds);
    assert_true(modest->timer_turns >= rounds);
}

static void schedule_again(void *opaque)
{
    struct greedy *greedy = opaque;
    greedy->turns++;
    rt_bh_schedule(greedy->bh);
}

static void bottom_halves_that_schedule_themselves(void **state)
{
    struct rt_loop *loop = *state;
    struct greedy *greedy = greedy_begin();
    struct modest modest;
    for (int i = 0; i < GREEDY; i++) {
        greedy[i].bh = rt_bh_create(loop, schedule_again, &greedy[i]);
        rt_bh_schedule(greedy[i].bh);
    }
    modest_begin(&modest, loop);
    passes_are_fair(loop, greedy, &modest);
    assert_int_equal(modest.timer_turns, PASSES);
    modest_end(&modest);
    for (int i = 0; i < GREEDY; i++)
        rt_bh_destroy(greedy[i].bh);
}

static void arm_again(void *opaque)
{
    struct greedy *greedy = opaque;
    greedy->turns++;
    rt_timer_arm(greedy->timer, 1); /* long ago: before everybody else's deadline */
}

static void timers_that_are_always_due(void **state)
{
    struct rt_loop *loop = *state;
    struct greedy *greedy = greedy_begin();
    struct modest modest;
    for (int i = 0; i < GREEDY; i++) {
        greedy[i].timer = rt_timer_create(loop, arm_again, &greedy[i]);
        rt_timer_arm(greedy[i].timer, 1);
    }
    modest_begin(&modest, loop);
    passes_are_fair(loop, greedy, &modest);
    assert_int_equal(modest.bh_turns, PASSES);
    modest_end(&modest);
    for (int i = 0; i < GREEDY; i++)
        rt_timer_destroy(greedy[i].timer);
}

static void wake_again(void *opaque)
{
    struct greedy *greedy = opaque;
    while (!greedy->end) {
        greedy->turns++;
        rt_coroutine_wake(rt_coroutine_self());
        rt_coroutine_yield();
    }
    greedy->co = NULL;
}

static void coroutines_that_wake_themselves(void **state)
{
    struct rt_loop *loop = *state;
    struct greedy *greedy = greedy_begin();
    struct modest modest;
    for (int i = 0; i < GREEDY; i++) {
        greedy[i].co = rt_coroutine_create(wake_again, &greedy[i]);
        assert_non_null(greedy[i].co);
        rt_coroutine_enter(greedy[i].co);
    }
    modest_begin(&modest, loop);
    passes_are_fair(loop, greedy, &modest);
    assert_int_equal(modest.bh_turns, PASSES);
    assert_int_equal(modest.timer_turns, PASSES);
    modest_end(&modest);
    for (int i = 0; i < GREEDY; i++) {
        greedy[i].end = true;
        PASS_UNTIL(loop, greedy[i].co == NULL);
    }
}

static bool stay_ready(void *opaque)
{
    struct greedy *greedy = opaque;
    greedy->turns++;
    return true;
}

/* More than one wait reports; test_handler looks at those among themselves. */
static void descriptors_that_are_always_ready(void **state)
{
    enum { DESCRIPTORS = 3 * DESCRIPTOR_BOUND };
    static const struct rt_fd_callbacks callbacks = { .ready = stay_ready };
    struct rt_loop *loop = *state;
    struct greedy *greedy = greedy_begin();
    struct rt_handler *handlers[DESCRIPTORS];
    int fds[DESCRIPTORS];
    struct modest modest;
    for (int i = 0; i < DESCRIPTORS; i++) {
        fds[i] = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
        assert_int_equal(
            rt_loop_attach_fd(loop, fds[i], RT_FD_OTHER, 0, 0, &callbacks, &greedy[i], &handlers[i]), 0);
    }
    modest_begin(&modest, loop);
    for (uint64_t pass = 1; pass <= PASSES; pass++) {
        uint64_t before = turns_of(greedy, DESCRIPTORS) + modest.descriptor_turns;
        assert_true(rt_loop_pass(loop, true));
        assert_in_range(turns_of(greedy, DESCRIPTORS) + modest.descriptor_turns - before, 1, DESCRIPTOR_BOUND);
        assert_even(greedy, DESCRIPTORS);
        assert_int_equal(modest.bh_turns, pass);
        assert_int_equal(modest.timer_turns, pass);
    }
    assert_true(modest.descriptor_turns >= PASSES * DESCRIPTOR_BOUND / (DESCRIPTORS + 1) - 1);
    modest_end(&modest);
    for (int i = 0; i < DESCRIPTORS; i++) {
        rt_loop_detach_fd(handlers[i]);
        close(fds[i]);
    }
}

struct flooder {
    struct rt_loop *loop;
    _Atomic uint64_t posted, ran;
    _Atomic bool stop;
};

static void ran(void *opaque)
{
    struct flooder *flooder = opaque;
    atomic_fetch_add(&flooder->ran, 1);
}

/* Always some thousands ahead of the loop. */
static void *flood(void *opaque)
{
    struct flooder *flooder = opaque;
    while (!atomic_load(&flooder->stop)) {
        if (atomic_load(&flooder->posted) - atomic_load(&flooder->ran) > 20 * WORK_BOUND) {
            sched_yield();
            continue;
        }
        assert_int_equal(rt_loop_post(flooder->loop, ran, flooder), 0);
        atomic_fetch_add(&flooder->posted, 1);
    }
    return NULL;
}

static void flood_from_another_thread(void **state)
{
    struct rt_loop *loop = *state;
    struct flooder flooder = { .loop = loop };
    struct modest modest;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, flood, &flooder), 0);
    UNTIL(atomic_load(&flooder.posted) > 10 * WORK_BOUND);
    modest_begin(&modest, loop);
    for (uint64_t pass = 1; pass <= PASSES; pass++) {
        uint64_t before = atomic_load(&flooder.ran);
        assert_true(rt_loop_pass(loop, true));
        assert_true(atomic_load(&flooder.ran) - before <= WORK_BOUND);
        assert_int_equal(modest.descriptor_turns, pass);
        assert_int_equal(modest.timer_turns, pass);
    }
    atomic_store(&flooder.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    PASS_UNTIL(loop, atomic_load(&flooder.ran) == atomic_load(&flooder.posted)); /* none was lost */
    assert_true(modest.bh_turns > 0);
    modest_end(&modest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(flood_of_posts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bottom_halves_that_schedule_themselves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(timers_that_are_always_due, set_up, tear_down),
        cmocka_unit_test_setup_teardown(coroutines_that_wake_themselves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(descriptors_that_are_always_ready, set_up, tear_down),
        cmocka_unit_test_setup_teardown(flood_from_another_thread, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
