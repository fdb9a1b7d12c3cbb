#include "drainer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <unistd.h>

void drainer_pass_co(void)
{
    rt_coroutine_wake(rt_coroutine_self());
    rt_coroutine_yield();
}

static void drain_repeatedly(void *opaque)
{
    struct drainer *drainer = opaque;
    struct vblk_device *device = drainer->device;

    do {
        vblk_dataplane_drain_begin_co(device);
        for (unsigned i = 0; i < device->queue_count; i++)
            if (vblk_notifier_is_attached(&device->queues[i]) || atomic_load(&device->queues[i].in_flight) > 0)
                atomic_fetch_add(&drainer->violations, 1);
        vblk_dataplane_drain_end(device);
        atomic_fetch_add(&drainer->drains, 1);
        drainer_pass_co();
    } while (!atomic_load(&drainer->leave));
    atomic_store(&drainer->ended, true);
}

static void enter_drainer(void *opaque)
{
    struct rt_coroutine *co = rt_coroutine_create(drain_repeatedly, opaque);

    if (co)
        rt_coroutine_enter(co);
}

void drainer_start(struct drainer *drainer, struct served *served)
{
    drainer->device = served->device;
    assert_int_equal(rt_loop_post(served->main_loop, enter_drainer, drainer), 0);
}

void drainer_await(struct drainer *drainer)
{
    int64_t deadline_ns = rt_clock_ns() + SERVED_DEADLINE_MS * INT64_C(1000000);

    while (!atomic_load(&drainer->ended)) {
        assert_true(rt_clock_ns() < deadline_ns);
        usleep(500);
    }
    assert_int_equal(atomic_load(&drainer->violations), 0);
}
