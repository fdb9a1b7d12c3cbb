/*
 * Goal: no descriptor that a front end shares can hang a thread: if this fails, one hostile front end stops every disk
 * whose queues run in the same IOThread, and SIGTERM.
 * Method: eventfds whose O_NONBLOCK was taken away, empty for reads and full for writes; the sampler's look is called by
 * hand as soon as the writer is seen inside its write.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/event.h"

#define COUNTER_FULL (UINT64_MAX - 1)

static void test_read_does_not_wait(void **state)
{
    int fd = eventfd(0, 0); /* blocks, as after fcntl() by the other side */

    (void)state;
    assert_int_equal(vblk_event_read(fd), -EAGAIN);
    assert_int_equal(eventfd_write(fd, 3), 0);
    assert_int_equal(vblk_event_read(fd), 0);
    assert_int_equal(vblk_event_read(fd), -EAGAIN);
    close(fd);
}

static void test_read_of_a_pipe_without_writer_is_an_error(void **state)
{
    int fds[2];

    (void)state;
    assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
    close(fds[1]);
    assert_int_equal(vblk_event_read(fds[0]), -EPROTO);
    close(fds[0]);
    assert_int_equal(vblk_event_read(fds[0]), -EBADF);
}

static void test_write_to_a_full_counter_that_does_not_block(void **state)
{
    struct vblk_event_guard guard = { 0 };
    int fd = eventfd(0, EFD_NONBLOCK);

    (void)state;
    assert_int_equal(eventfd_write(fd, COUNTER_FULL), 0);
    assert_int_equal(vblk_event_write(&guard, fd), 0);
    close(fd);
}

struct writer {
    struct vblk_event_guard guard;
    int fd;
    int result;
};

static void *write_one(void *opaque)
{
    struct writer *writer = opaque;

    writer->result = vblk_event_write(&writer->guard, writer->fd);
    return NULL;
}

static void test_blocked_writer_is_freed_at_the_second_look(void **state)
{
    struct writer writer = { .fd = eventfd(0, 0), .result = 1 };
    pthread_t thread;

    (void)state;
    assert_int_equal(eventfd_write(writer.fd, COUNTER_FULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, write_one, &writer), 0);
    while (atomic_load(&writer.guard.sequence) % 2 == 0)
        sched_yield();
    vblk_event_guard_look(&writer.guard);
    assert_int_equal(atomic_load(&writer.guard.freed), 0); /* it might just be slow */
    vblk_event_guard_look(&writer.guard);
    pthread_join(thread, NULL);
    assert_int_equal(writer.result, -ETIMEDOUT);

    /* The counter holds the writer's own 1: the next write is plain again. */
    assert_int_equal(vblk_event_write(&writer.guard, writer.fd), 0);
    assert_int_equal(vblk_event_read(writer.fd), 0);
    close(writer.fd);
}

static void test_looks_between_writes_free_nothing(void **state)
{
    struct vblk_event_guard guard = { 0 };
    int fd = eventfd(0, EFD_NONBLOCK);

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(vblk_event_write(&guard, fd), 0);
        vblk_event_guard_look(&guard);
    }
    assert_int_equal(atomic_load(&guard.freed), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_does_not_wait),
        cmocka_unit_test(test_read_of_a_pipe_without_writer_is_an_error),
        cmocka_unit_test(test_write_to_a_full_counter_that_does_not_block),
        cmocka_unit_test(test_blocked_writer_is_freed_at_the_second_look),
        cmocka_unit_test(test_looks_between_writes_free_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
