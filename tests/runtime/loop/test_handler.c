/*
 * Goal: a handler is called while it is attached and never afterwards, whoever detaches it and when.
 * Method: eventfds and socket pairs; handlers that detach themselves, each other, nest passes, or are detached by another
 * thread in the middle of a callback.
 * If it fails: a callback runs on freed memory, or a stale event reaches the handler of a descriptor that has the same
 * number: the device crashes or serves the wrong queue.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rt/iothread.h"
#include "rt/loop.h"
#include "own_loop.h"
#include "until.h"

struct watched {
    struct rt_loop *loop;
    struct rt_handler *handler;
    int fd;
    _Atomic int calls;
    struct watched *victim; /* detached by the first call */
};

static bool on_io_uring(void)
{
    return strcmp(rt_loop_monitor_name(), "io_uring") == 0;
}

static bool consume(int fd)
{
    eventfd_t count;
    return eventfd_read(fd, &count) == 0;
}

static bool ready(void *opaque)
{
    struct watched *w = opaque;
    atomic_fetch_add(&w->calls, 1);
    if (w->victim) {
        struct watched *victim = w->victim;
        w->victim = NULL;
        rt_loop_detach_fd(victim->handler);
        victim->handler = NULL;
    }
    return consume(w->fd);
}

static void watch_fd(struct watched *w, struct rt_loop *loop, int fd)
{
    static const struct rt_fd_callbacks callbacks = { .ready = ready };
    *w = (struct watched){ .loop = loop, .fd = fd };
    assert_true(fd >= 0);
    assert_int_equal(rt_loop_attach_fd(loop, fd, RT_FD_OTHER, 0, 0, &callbacks, w, &w->handler), 0);
}

static void watch(struct watched *w, struct rt_loop *loop)
{
    watch_fd(w, loop, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
}

static void unwatch(struct watched *w)
{
    if (w->handler)
        rt_loop_detach_fd(w->handler);
    close(w->fd);
}

static void called_while_readable(void **state)
{
    struct rt_loop *loop = *state;
    struct watched w;
    watch(&w, loop);
    assert_false(rt_loop_pass(loop, false));
    eventfd_write(w.fd, 1);
    assert_true(rt_loop_pass(loop, true));
    assert_int_equal(w.calls, 1);
    assert_false(rt_loop_pass(loop, false));
    assert_int_equal(w.calls, 1);
    unwatch(&w);
}

static bool leave_it(void *opaque)
{
    struct watched *w = opaque;
    atomic_fetch_add(&w->calls, 1);
    return false;
}

/* Level-triggered; and what consumed nothing is told apart in the statistics: the sign of a stale descriptor. */
static void unread_is_called_again_and_counted(void **state)
{
    struct rt_loop *loop = *state;
    static const struct rt_fd_callbacks callbacks = { .ready = leave_it };
    struct watched w = { .loop = loop, .fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC) };
    assert_int_equal(rt_loop_attach_fd(loop, w.fd, RT_FD_OTHER, 0, 0, &callbacks, &w, &w.handler), 0);
    for (int i = 0; i < 3; i++)
        assert_false(rt_loop_pass(loop, true));
    assert_int_equal(w.calls, 3);
    struct rt_loop_stats stats;
    rt_loop_stats(loop, &stats);
    assert_int_equal(stats.dispatches, 3);
    assert_int_equal(stats.idle_dispatches, 3);
    unwatch(&w);
}

static void refused_descriptor_leaves_nothing(void **state)
{
    struct rt_loop *loop = *state;
    static const struct rt_fd_callbacks callbacks = { .ready = ready };
    struct watched w = { 0 };
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(rt_loop_attach_fd(loop, file, RT_FD_OTHER, 0, 0, &callbacks, &w, &w.handler), -EPERM);
    assert_null(w.handler);
    close(file);
    assert_int_equal(rt_loop_attach_fd(loop, file, RT_FD_OTHER, 0, 0, &callbacks, &w, &w.handler), -EBADF);

    if (on_io_uring())
        return; /* which watches a descriptor twice if it is told to */
    struct watched twice;
    watch(&twice, loop);
    assert_int_equal(rt_loop_attach_fd(loop, twice.fd, RT_FD_OTHER, 0, 0, &callbacks, &w, &w.handler),
                     -EEXIST);
    unwatch(&twice);
}

static void ids_are_never_used_again(void **state)
{
    struct rt_loop *loop = *state;
    uint64_t last_id = 0;
    for (int i = 0; i < 3; i++) {
        struct watched w;
        watch(&w, loop);
        assert_true(rt_handler_id(w.handler) > last_id);
        last_id = rt_handler_id(w.handler);
        unwatch(&w);
    }
}

static void may_detach_itself(void **state)
{
    struct rt_loop *loop = *state;
    struct watched w;
    watch(&w, loop);
    w.victim = &w;
    eventfd_write(w.fd, 1);
    assert_true(rt_loop_pass(loop, true));
    eventfd_write(w.fd, 1);
    assert_false(rt_loop_pass(loop, false));
    assert_int_equal(w.calls, 1);
    unwatch(&w);
}

/* Both are in one batch from the kernel; whichever is first detaches the other, whose event is stale then. */
static void stale_event_of_the_same_batch_is_dropped(void **state)
{
    struct rt_loop *loop = *state;
    struct watched a, b;
    watch(&a, loop);
    watch(&b, loop);
    a.victim = &b;
    b.victim = &a;
    eventfd_write(a.fd, 1);
    eventfd_write(b.fd, 1);
    assert_true(rt_loop_pass(loop, true));
    assert_int_equal(a.calls + b.calls, 1);
    unwatch(&a);
    unwatch(&b);
}

struct replacing {
    struct watched old, fresh, trigger;
};

static bool replace(void *opaque)
{
    struct replacing *r = opaque;
    consume(r->trigger.fd);
    if (r->old.handler) {
        rt_loop_detach_fd(r->old.handler);
        r->old.handler = NULL;
        /* The same number, another file, attached before the batch with the old one's event is through. */
        assert_int_equal(dup3(r->fresh.fd, r->old.fd, O_CLOEXEC), r->old.fd);
        close(r->fresh.fd);
        watch_fd(&r->fresh, r->trigger.loop, r->old.fd);
    }
    return true;
}

static void reused_descriptor_number_gets_no_old_event(void **state)
{
    struct rt_loop *loop = *state;
    static const struct rt_fd_callbacks callbacks = { .ready = replace };
    struct replacing r = { .trigger = { .loop = loop, .fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC) },
                           .fresh = { .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) } };
    /* Reported in the order in which they became ready: the trigger first. */
    assert_int_equal(
        rt_loop_attach_fd(loop, r.trigger.fd, RT_FD_OTHER, 0, 0, &callbacks, &r, &r.trigger.handler), 0);
    watch(&r.old, loop);
    eventfd_write(r.old.fd, 1);
    assert_true(rt_loop_pass(loop, true));
    assert_int_equal(r.old.calls, 0);
    assert_false(rt_loop_pass(loop, false));
    assert_int_equal(r.fresh.calls, 0);
    eventfd_write(r.fresh.fd, 1);
    assert_true(rt_loop_pass(loop, true));
    assert_int_equal(r.fresh.calls, 1);
    unwatch(&r.fresh);
    unwatch(&r.trigger);
}

/* The historical stale descriptor: closed while it is watched, and somebody else (a front end) still holds the file. The
 * loop must survive and show it: dispatches without progress. Nothing can make epoll forget it; io_uring can. */
static void closed_before_detach_is_survived_and_counted(void **state)
{
    struct rt_loop *loop = *state;
    struct rt_loop_stats stats;
    struct watched w;
    watch(&w, loop);
    int other = dup(w.fd); /* as the front end holds a queue's eventfd */
    rt_loop_pass(loop, false);
    eventfd_write(w.fd, 1);
    close(w.fd);
    for (int i = 0; i < 3; i++)
        assert_false(rt_loop_pass(loop, true));
    assert_int_equal(w.calls, 3);
    rt_loop_stats(loop, &stats);
    assert_int_equal(stats.idle_dispatches, 3);

    rt_loop_detach_fd(w.handler);
    for (int i = 0; i < 3; i++)
        assert_false(rt_loop_pass(loop, false));
    assert_int_equal(w.calls, 3);
    rt_loop_stats(loop, &stats);
    assert_int_equal(stats.dispatches, on_io_uring() ? 3 : 6);
    assert_int_equal(stats.idle_dispatches, stats.dispatches);
    close(other);
}

/* The same, and the number is in use again: the detach must not take the new descriptor out of the loop instead. */
static void closed_before_detach_and_reused_leaves_the_new_one_alone(void **state)
{
    struct rt_loop *loop = *state;
    struct watched old, fresh;
    watch(&old, loop);
    int other = dup(old.fd);
    int file = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_int_equal(dup3(file, old.fd, O_CLOEXEC), old.fd); /* closes what old.fd was */
    close(file);
    watch_fd(&fresh, loop, old.fd);
    rt_loop_detach_fd(old.handler);
    assert_false(rt_loop_pass(loop, false)); /* a pass, so that what was detached would be freed */

    eventfd_write(other, 1); /* which epoll still reports */
    assert_false(rt_loop_pass(loop, false));
    assert_int_equal(old.calls, 0);
    assert_int_equal(fresh.calls, 0);
    eventfd_write(fresh.fd, 1);
    assert_true(rt_loop_pass(loop, false));
    assert_int_equal(fresh.calls, 1);
    close(other);
    unwatch(&fresh);
}

struct nesting {
    struct watched w;
    _Atomic bool hang_up;
    int other_end;
    bool nested;
    int passes;
    bool inner_done;
};

static void finish_inner(void *opaque)
{
    struct nesting *n = opaque;
    n->inner_done = true;
}

static bool nest(void *opaque)
{
    struct nesting *n = opaque;
    assert_false(n->nested); /* callbacks of one handler do not nest */
    n->nested = true;
    atomic_fetch_add(&n->w.calls, 1);
    close(n->other_end); /* readable, and hung up: level-triggered twice over */
    struct rt_timer *timer = rt_timer_create(n->w.loop, finish_inner, n);
    rt_timer_arm(timer, rt_clock_ns() + 30000000);
    while (!n->inner_done) {
        rt_loop_pass(n->w.loop, true);
        n->passes++;
    }
    rt_timer_destroy(timer);
    n->nested = false;
    return false;
}

/* It waits in a nested pass while its own descriptor stays readable: not called again, and no busy loop. */
static void nested_pass_leaves_its_own_handler_alone(void **state)
{
    struct rt_loop *loop = *state;
    static const struct rt_fd_callbacks callbacks = { .ready = nest };
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    struct nesting n = { .w = { .loop = loop, .fd = ends[0] }, .other_end = ends[1] };
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(rt_loop_attach_fd(loop, n.w.fd, RT_FD_OTHER, 0, 0, &callbacks, &n, &n.w.handler), 0);
    rt_loop_pass(loop, true);
    assert_int_equal(n.w.calls, 1);
    assert_true(n.passes <= 4); /* two reports at most, then the timer; a busy loop makes thousands */
    /* Afterwards it is watched again: still readable. */
    n.inner_done = true;
    rt_loop_pass(loop, true);
    assert_int_equal(n.w.calls, 2);
    unwatch(&n.w);
}

struct crossing {
    struct watched w;
    _Atomic bool inside, go_on, left, detached;
};

static bool stay_inside(void *opaque)
{
    struct crossing *c = opaque;
    consume(c->w.fd);
    atomic_store(&c->inside, true);
    UNTIL(atomic_load(&c->go_on));
    atomic_store(&c->left, true);
    return true;
}

static void *detach_it(void *opaque)
{
    struct crossing *c = opaque;
    rt_loop_detach_fd(c->w.handler);
    assert_true(atomic_load(&c->left)); /* not before the callback is over */
    atomic_store(&c->detached, true);
    return NULL;
}

static void detach_by_another_thread_waits_for_the_callback(void **state)
{
    static const struct rt_fd_callbacks callbacks = { .ready = stay_inside };
    struct rt_iothread *io;
    assert_int_equal(rt_iothread_create("crossing", 0, &io), 0);
    struct crossing c = { .w = { .loop = rt_iothread_loop(io),
                                 .fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC) } };
    assert_int_equal(rt_loop_attach_fd(c.w.loop, c.w.fd, RT_FD_OTHER, 0, 0, &callbacks, &c, &c.w.handler), 0);
    UNTIL(atomic_load(&c.inside));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, detach_it, &c), 0);
    /* It cannot have returned: the callback is still inside. Give it the chance to be wrong. */
    for (int i = 0; i < 1000; i++) {
        sched_yield();
        assert_false(atomic_load(&c.detached));
    }
    atomic_store(&c.go_on, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    eventfd_write(c.w.fd, 1);
    atomic_store(&c.inside, false);
    rt_iothread_destroy(io);
    assert_false(atomic_load(&c.inside));
    close(c.w.fd);
}

/* More than one wait reports, always ready: everyone gets a turn, and nobody two before the others had one. */
static void no_handler_starves_another(void **state)
{
    struct rt_loop *loop = *state;
    static const struct rt_fd_callbacks callbacks = { .ready = leave_it };
    enum { COUNT = 200, ROUNDS = 10 };
    static struct watched w[COUNT];
    for (int i = 0; i < COUNT; i++) {
        w[i] = (struct watched){ .loop = loop, .fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC) };
        assert_int_equal(
            rt_loop_attach_fd(loop, w[i].fd, RT_FD_OTHER, 0, 0, &callbacks, &w[i], &w[i].handler), 0);
    }
    struct rt_loop_stats stats;
    do {
        rt_loop_pass(loop, true);
        rt_loop_stats(loop, &stats);
        for (int i = 0; i < COUNT; i++)
            assert_true((uint64_t)w[i].calls <= stats.dispatches / COUNT + 1);
    } while (stats.dispatches < COUNT * ROUNDS);
    for (int i = 0; i < COUNT; i++) {
        assert_true(w[i].calls >= ROUNDS - 1);
        unwatch(&w[i]);
    }
}

/* Detached handlers are freed by the loop between passes; one that sleeps is woken for it now and then, or, to change what
 * io_uring watches, each time. */
static void sleeping_loop_frees_what_others_detach(void **state)
{
    struct rt_iothread *io;
    assert_int_equal(rt_iothread_create("sleeper", 0, &io), 0);
    struct rt_loop *loop = rt_iothread_loop(io);
    struct rt_loop_stats before, after;
    rt_loop_stats(loop, &before);
    enum { ROUNDS = 1000 };
    for (int i = 0; i < ROUNDS; i++) {
        struct watched w;
        watch(&w, loop);
        unwatch(&w);
    }
    UNTIL((rt_loop_stats(loop, &after), after.passes > before.passes));
    if (!on_io_uring())
        assert_true(after.passes - before.passes < ROUNDS / 10);
    rt_iothread_destroy(io);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(called_while_readable, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unread_is_called_again_and_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused_descriptor_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ids_are_never_used_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(may_detach_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stale_event_of_the_same_batch_is_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reused_descriptor_number_gets_no_old_event, set_up, tear_down),
        cmocka_unit_test_setup_teardown(closed_before_detach_is_survived_and_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(closed_before_detach_and_reused_leaves_the_new_one_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nested_pass_leaves_its_own_handler_alone, set_up, tear_down),
        cmocka_unit_test(detach_by_another_thread_waits_for_the_callback),
        cmocka_unit_test_setup_teardown(no_handler_starves_another, set_up, tear_down),
        cmocka_unit_test(sleeping_loop_frees_what_others_detach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
