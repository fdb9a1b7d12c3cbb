#include "gate.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <unistd.h>

#include "served.h"

static struct {
    pthread_mutex_t lock;
    bool closed;
    struct rt_coroutine *waiting[64];
    unsigned count;
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER };
static _Atomic int attach_failures_after = -1;

int __real_vblk_disk_read_co(struct vblk_disk_loop *context, uint64_t offset, const struct iovec *iov, int count);
int __wrap_vblk_disk_read_co(struct vblk_disk_loop *context, uint64_t offset, const struct iovec *iov, int count);
int __real_vblk_disk_attach_loop(struct vblk_disk *disk, struct rt_loop *loop, struct vblk_disk_loop **context_out);
int __wrap_vblk_disk_attach_loop(struct vblk_disk *disk, struct rt_loop *loop, struct vblk_disk_loop **context_out);

int __wrap_vblk_disk_read_co(struct vblk_disk_loop *context, uint64_t offset, const struct iovec *iov, int count)
{
    bool wait;

    pthread_mutex_lock(&gate.lock);
    wait = gate.closed;
    if (wait)
        gate.waiting[gate.count++] = rt_coroutine_self();
    pthread_mutex_unlock(&gate.lock);
    if (wait)
        rt_coroutine_yield();
    return __real_vblk_disk_read_co(context, offset, iov, count);
}

int __wrap_vblk_disk_attach_loop(struct vblk_disk *disk, struct rt_loop *loop, struct vblk_disk_loop **context_out)
{
    int left = atomic_load(&attach_failures_after);

    if (left == 0)
        return -EMFILE;
    if (left > 0)
        atomic_store(&attach_failures_after, left - 1);
    return __real_vblk_disk_attach_loop(disk, loop, context_out);
}

void gate_close(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.closed = true;
    pthread_mutex_unlock(&gate.lock);
}

void gate_open(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.closed = false;
    for (unsigned i = 0; i < gate.count; i++)
        rt_coroutine_wake(gate.waiting[i]);
    gate.count = 0;
    pthread_mutex_unlock(&gate.lock);
}

void gate_await(unsigned count)
{
    int64_t deadline_ns = rt_clock_ns() + SERVED_DEADLINE_MS * INT64_C(1000000);
    unsigned now;

    do {
        pthread_mutex_lock(&gate.lock);
        now = gate.count;
        pthread_mutex_unlock(&gate.lock);
        assert_true(rt_clock_ns() < deadline_ns);
        usleep(500);
    } while (now < count);
}

void gate_refuse_attach_after(int count)
{
    atomic_store(&attach_failures_after, count);
}
