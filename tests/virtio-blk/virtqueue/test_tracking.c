/*
 * Goal:   a device that is killed between any two instructions leaves a ring and an in-flight region from which the next
 *         one does exactly what is left: nothing is lost, nothing is done for the driver twice.
 * Method: a child takes and gives back chains out of order, as compiled for use, and is stepped through instruction by
 *         instruction. Whenever shared memory has changed, that is what a kill would leave: a copy of it is given to a
 *         new virtqueue, which must find each request that the driver waits for, once, either in the used ring or to be
 *         done, the old ones first and in their order. On split and packed rings, with chains that are shown one by one and in
 *         batches. Further: regions that cannot be believed, and the fault.
 * Broken: a restart loses a request (the guest hangs) or completes one twice (the guest's data is wrong).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>

#include "packed_guest.h"
#include "vhost_user/inflight_split.h"

#define SIZE 8
#define TURNS 6
#define BASE 0xfffc /* the indices wrap on the way */
#define BASE_PACKED 0x8006
#define PACKED_CHAIN 2 /* descriptors of a chain on a packed ring */

static struct sigaction guarding; /* memory_guard.c's, which cmocka replaces by its own for each test */

/* A guest with a region. */
struct world {
    struct guest guest;
    struct vhost_user_inflight inflight;
    uint8_t *part; /* queue 1's */
    int region_fd;
    bool is_packed;
    unsigned heads; /* chains that may be out */
};

/* What the driver knows. */
struct driver {
    uint16_t seen;         /* used index, or position */
    unsigned offered;      /* so far */
    int sequence_of[SIZE]; /* by head or buffer id; -1: the driver has it; else when it was offered */
};

static struct driver new_driver(bool is_packed)
{
    struct driver driver = { .seen = is_packed ? BASE_PACKED : BASE };
    memset(driver.sequence_of, -1, sizeof driver.sequence_of);
    return driver;
}

static void make_world(struct world *world, bool is_packed)
{
    const struct vhost_user_inflight_description asked = { .queue_count = 2, .queue_size = SIZE };
    struct vhost_user_inflight_description answer;
    const char *reason;
    *world = (struct world){ .is_packed = is_packed, .heads = is_packed ? SIZE / PACKED_CHAIN : SIZE };
    guest_init(&world->guest, SIZE, is_packed ? GUEST_F_PACKED : 0, is_packed ? BASE_PACKED : BASE);
    vblk_virtqueue_destroy(world->guest.vq);
    world->guest.vq = NULL;
    assert_int_equal(vhost_user_inflight_create_fd(&asked, is_packed, &answer, &world->region_fd), 0);
    assert_int_equal(vhost_user_inflight_map(&answer, world->region_fd, &world->inflight, &reason), 0);
    world->part = vhost_user_inflight_queue(&world->inflight, 1, is_packed, SIZE, &reason);
    for (unsigned i = 0; i < SIZE && !is_packed; i++)
        guest_desc(&world->guest, i, GUEST_DATA + i * 512, 512, 2 /* writable */, 0);
}

static void end_world(struct world *world)
{
    guest_deinit(&world->guest);
    vhost_user_inflight_unmap(&world->inflight);
    close(world->region_fd);
}

static struct vblk_virtqueue *serve(struct world *world, bool faulty)
{
    /* The base is what a front end knows that was not told: where it believes us to have been at first. */
    const struct vblk_virtqueue_config config = { .size = SIZE,
                                                  .base = world->is_packed ? BASE_PACKED * 0x10001u : BASE,
                                                  .features = world->is_packed ? GUEST_F_PACKED : 0,
                                                  .desc_user = GUEST_DESC + GUEST_USER_OFFSET,
                                                  .avail_user = GUEST_AVAIL + GUEST_USER_OFFSET,
                                                  .used_user = GUEST_USED + GUEST_USER_OFFSET,
                                                  .inflight = &world->inflight,
                                                  .index = 1,
                                                  .forget_slot_zero = faulty };
    struct vblk_virtqueue *vq;
    assert_int_equal(vblk_virtqueue_create(&config, world->guest.map, &vq), 0);
    return vq;
}

static void offer(struct world *world, struct driver *driver, uint16_t head)
{
    driver->sequence_of[head] = (int)driver->offered++;
    if (world->is_packed)
        packed_offer(&world->guest,
                     (struct packed_part[]){ { GUEST_DATA + head * 1024u, 256, 0 },
                                             { GUEST_DATA + head * 1024u + 512, 512, 2 /* writable */ } },
                     PACKED_CHAIN, head);
    else
        guest_offer(&world->guest, head);
}

static bool next_used(const struct world *world, struct driver *driver, uint32_t *head_out)
{
    uint16_t id;
    uint32_t size_bytes;
    if (world->is_packed) {
        if (!packed_used(&world->guest, driver->seen, &id, &size_bytes))
            return false;
        driver->seen = packed_advance(&world->guest, driver->seen, PACKED_CHAIN);
        *head_out = id;
        return true;
    }
    if (driver->seen == guest_used_index(&world->guest))
        return false;
    *head_out = guest_used_head(&world->guest, driver->seen++);
    return true;
}

/* Take what the device gave back; each must be one that it had. */
static void reap(struct world *world, struct driver *driver)
{
    uint32_t head;
    while (next_used(world, driver, &head)) {
        assert_true(head < SIZE && driver->sequence_of[head] >= 0);
        driver->sequence_of[head] = -1;
    }
}

/* ---- the device that is killed ---- */

static struct vblk_element *must_pop(struct vblk_virtqueue *vq)
{
    const char *reason;
    int error;
    struct vblk_element *element = vblk_virtqueue_pop(vq, &error, &reason);
    if (!element)
        _exit(2);
    return element;
}

/* Turn by turn: the driver has offered all that it has; some are taken, some given back, the oldest not first. */
static void device_child(struct world *world)
{
    struct vblk_element *out[SIZE];
    unsigned count = 0, random = 12345;
    struct vblk_virtqueue *vq = serve(world, false);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        raise(SIGSTOP); /* the driver's turn */
        while (count < world->heads / 2 + 1)
            out[count++] = must_pop(vq);
        while (count > 1) {
            random = random * 1103515245 + 12345;
            unsigned at = (random >> 16) % count;
            /* In turn: each at once; all together by the last one; all together by asking about interrupts. */
            if (turn % 3 == 0 || (turn % 3 == 1 && count == 2))
                vblk_virtqueue_push(vq, out[at], 512);
            else
                vblk_virtqueue_push_unseen(vq, out[at], 512);
            out[at] = out[--count];
        }
        (void)vblk_virtqueue_should_interrupt(vq);
    }
    _exit(0);
}

/* ---- what a kill would leave ---- */

/* The head of each ring area, which holds the whole of a small ring. */
struct image {
    uint8_t desc[SIZE * 16], avail[64], used[128];
    uint8_t part[32 + SIZE * 32];
};

static void take_image(const struct world *world, struct image *image)
{
    memcpy(image->desc, guest_at(&world->guest, GUEST_DESC), sizeof image->desc);
    memcpy(image->avail, guest_at(&world->guest, GUEST_AVAIL), sizeof image->avail);
    memcpy(image->used, guest_at(&world->guest, GUEST_USED), sizeof image->used);
    memcpy(image->part, world->part, sizeof image->part);
}

/* Of a driver that is at @avail_index. */
static void put_image(struct world *world, const struct image *image, uint16_t avail_index)
{
    memcpy(guest_at(&world->guest, GUEST_DESC), image->desc, sizeof image->desc);
    memcpy(guest_at(&world->guest, GUEST_AVAIL), image->avail, sizeof image->avail);
    memcpy(guest_at(&world->guest, GUEST_USED), image->used, sizeof image->used);
    memcpy(world->part, image->part, sizeof image->part);
    world->guest.avail_index = avail_index;
}

/* The next device, on a copy: it finishes everything, and the driver gets each request back once. Returns how many it
 * found in flight. */
static unsigned check_recovery(struct world *heir, const struct image *image, const struct driver *before,
                               uint16_t avail_index)
{
    struct driver driver = *before;
    struct vblk_element *out[SIZE + 1], *element;
    unsigned count = 0, recovered = 0, announced;
    const char *reason;
    int error, sequence = -1;
    put_image(heir, image, avail_index);
    reap(heir, &driver); /* what was given back before the kill */
    struct vblk_virtqueue *vq = serve(heir, false);
    bool resumed = vblk_virtqueue_resumed(vq, &announced);
    assert_true(resumed || announced == 0);
    while ((element = vblk_virtqueue_pop(vq, &error, &reason))) {
        assert_true(count < SIZE);
        out[count++] = element;
        /* The driver waits for it, and it comes in the order in which it was offered. */
        assert_true(driver.sequence_of[element->head] > sequence);
        sequence = driver.sequence_of[element->head];
        assert_true(!element->recovered || recovered == count - 1);
        recovered += element->recovered;
    }
    assert_int_equal(error, 0);
    assert_int_equal(recovered, announced);
    while (count)
        vblk_virtqueue_push(vq, out[--count], 512);
    reap(heir, &driver);
    for (unsigned head = 0; head < SIZE; head++)
        assert_int_equal(driver.sequence_of[head], -1); /* none is lost */
    assert_int_equal(driver.seen, avail_index); /* none came twice */
    vblk_virtqueue_destroy(vq);
    return recovered;
}

static void kill_at_any_instruction(bool is_packed)
{
    struct world world, heir;
    static struct image image, now;
    struct driver driver = new_driver(is_packed);
    unsigned turns = 0, images = 0, recovered = 0;
    int status;
    make_world(&world, is_packed);
    make_world(&heir, is_packed);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
            _exit(77);
        raise(SIGSTOP);
        device_child(&world);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(); /* no process may be traced here */
    take_image(&world, &image);
    bool first = true;
    while (WIFSTOPPED(status)) {
        if (WSTOPSIG(status) == SIGSTOP && !first) {
            turns++;
            reap(&world, &driver);
            for (unsigned i = 0; i < world.heads; i++) {
                uint16_t head = (uint16_t)((i * 3 + turns) % world.heads);
                if (driver.sequence_of[head] < 0)
                    offer(&world, &driver, head);
            }
        } else if (WSTOPSIG(status) != SIGTRAP && !first) {
            fail_msg("the device got signal %d", WSTOPSIG(status));
        }
        first = false;
        take_image(&world, &now);
        if (memcmp(&now, &image, sizeof now) != 0) {
            image = now;
            images++;
            recovered += check_recovery(&heir, &image, &driver, world.guest.avail_index);
        }
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(turns, TURNS);
    print_message("%u states of memory, %u requests recovered\n", images, recovered);
    assert_true(images > TURNS * 2 * 6 && recovered > images);
    end_world(&world);
    end_world(&heir);
}

static void a_kill_at_any_instruction_loses_nothing(void **state)
{
    kill_at_any_instruction(false);
}

static void nor_does_one_on_a_packed_ring(void **state)
{
    kill_at_any_instruction(true);
}

/* ---- what else a start may find ---- */

static void first_start(struct world *world, struct driver *driver, unsigned taken)
{
    make_world(world, false);
    *driver = new_driver(false);
    for (uint16_t head = 0; head < SIZE; head++)
        offer(world, driver, head);
    struct vblk_virtqueue *vq = serve(world, false);
    struct vblk_element *out[SIZE];
    for (unsigned i = 0; i < taken; i++)
        out[i] = must_pop(vq);
    /* Put aside what it has given back, as if it had been killed before. */
    static struct image image;
    take_image(world, &image);
    while (taken)
        vblk_virtqueue_push(vq, out[--taken], 0);
    vblk_virtqueue_destroy(vq);
    put_image(world, &image, world->guest.avail_index);
}

/* --fault=inflight-slot-zero */
static void the_fault_forgets_slot_zero(void **state)
{
    struct world world;
    struct driver driver;
    struct vblk_element *out[SIZE], *element;
    unsigned count = 0;
    const char *reason;
    int error;
    first_start(&world, &driver, 3);
    struct vblk_virtqueue *vq = serve(&world, true);
    while ((element = vblk_virtqueue_pop(vq, &error, &reason)))
        out[count++] = element;
    assert_int_equal(count, SIZE - 1);
    for (unsigned i = 0; i < count; i++)
        assert_int_not_equal(out[i]->head, 0);
    while (count)
        vblk_virtqueue_push(vq, out[--count], 0);
    vblk_virtqueue_destroy(vq);
    end_world(&world);
}

static void a_region_that_cannot_be_believed_breaks_the_queue(void **state)
{
    struct world world;
    struct driver driver;
    const char *reason;
    int error;
    first_start(&world, &driver, 3);
    struct vhost_user_inflight_split *part = (struct vhost_user_inflight_split *)world.part;
    for (unsigned i = 0; i < 3; i++) {
        part->version = i == 0 ? 2 : 1;
        part->used_idx = (uint16_t)(BASE - (i == 1 ? 1 : 0));
        part->last_batch_head = i == 1 ? SIZE : 0;
        if (i == 2)
            world.inflight.queue_count = 1; /* no room for queue 1 */
        struct vblk_virtqueue *vq = serve(&world, false);
        assert_null(vblk_virtqueue_pop(vq, &error, &reason));
        assert_int_equal(error, -EPROTO);
        assert_non_null(strstr(reason, "in-flight region"));
        vblk_virtqueue_destroy(vq);
    }
    end_world(&world);
}

static void a_region_that_is_cut_off_breaks_the_queue(void **state)
{
    struct world world;
    struct driver driver = new_driver(false);
    const struct vhost_user_inflight_description said = { 4096, 0, 2, SIZE, 0 };
    const char *reason;
    int error, fd = memfd_create("unsealed", MFD_CLOEXEC);
    make_world(&world, false);
    vhost_user_inflight_unmap(&world.inflight);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(vhost_user_inflight_map(&said, fd, &world.inflight, &reason), 0);
    offer(&world, &driver, 0);
    offer(&world, &driver, 1);
    struct vblk_virtqueue *vq = serve(&world, false);
    struct vblk_element *element = must_pop(vq);
    sigaction(SIGBUS, &guarding, NULL);
    assert_int_equal(ftruncate(fd, 0), 0);
    vblk_virtqueue_push(vq, element, 0); /* no SIGBUS, and the driver gets it back */
    assert_int_equal(guest_used_index(&world.guest), (uint16_t)(BASE + 1));
    assert_null(vblk_virtqueue_pop(vq, &error, &reason));
    assert_int_equal(error, -EPROTO);
    vblk_virtqueue_destroy(vq);
    close(fd);
    end_world(&world);
}

/* A chain that cannot be had now stays pending. */
static void pending_is_pending(void **state)
{
    struct world world;
    struct driver driver;
    unsigned recovered;
    first_start(&world, &driver, SIZE);
    struct vblk_virtqueue *vq = serve(&world, false);
    assert_true(vblk_virtqueue_resumed(vq, &recovered));
    assert_int_equal(recovered, SIZE);
    assert_int_equal(vblk_virtqueue_popped_index(vq), (uint16_t)(BASE + SIZE));
    for (unsigned i = 0; i < SIZE; i++) {
        assert_true(vblk_virtqueue_pending(vq));
        assert_true(vblk_virtqueue_enable_notifications(vq));
        struct vblk_element *element = must_pop(vq);
        assert_true(element->recovered);
        vblk_virtqueue_push(vq, element, 0);
    }
    assert_false(vblk_virtqueue_pending(vq));
    assert_false(vblk_virtqueue_enable_notifications(vq));
    vblk_virtqueue_destroy(vq);
    end_world(&world);
}

int main(void)
{
    struct world world;
    make_world(&world, false);
    end_world(&world);
    sigaction(SIGBUS, NULL, &guarding);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_at_any_instruction_loses_nothing),
        cmocka_unit_test(nor_does_one_on_a_packed_ring),
        cmocka_unit_test(the_fault_forgets_slot_zero),
        cmocka_unit_test(a_region_that_cannot_be_believed_breaks_the_queue),
        cmocka_unit_test(a_region_that_is_cut_off_breaks_the_queue),
        cmocka_unit_test(pending_is_pending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
