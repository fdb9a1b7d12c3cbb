/* Messages that are right one by one, while requests are in flight: resets, other logs and memory, in-flight regions of
 * another shape or with changing content, full rings whose front end goes away. */
#include <errno.h>
#include <linux/vhost_types.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "battery.h"
#include "fe_control.h"

#define MIB 0x100000u

static struct fe_options two_rings(const struct attempt *attempt, bool packed)
{
    struct fe_options options = attempt_options(attempt);

    options.queue_count = 2;
    options.layout.packed = packed;
    return options;
}

/* Reads of all that is free; nobody waits for them. */
static void fill(struct attempt *attempt, unsigned queue_index)
{
    struct fe_queue *queue = fe_queue(attempt->fe, queue_index);
    uint16_t slot;

    while ((slot = fe_queue_take(queue)) != FE_NO_SLOT) {
        fe_queue_prepare(queue, slot, VIRTIO_BLK_T_IN, 8, 4096, FE_FROM_DEVICE);
        fe_queue_submit(queue, slot);
        fe_queue_publish(queue);
    }
    fe_queue_kick(queue);
}

/* Those of them that are complete. */
static void empty(struct attempt *attempt, unsigned queue_index)
{
    struct fe_queue *queue = fe_queue(attempt->fe, queue_index);
    uint16_t slot;

    while (fe_queue_reap(queue, &slot, 1) > 0)
        fe_queue_give(queue, slot);
}

/* Everything is answered, and the next request too; or a ring broke. */
static enum seen finish(struct attempt *attempt)
{
    struct pollfd error = { .fd = fe_err_fd(attempt->fe), .events = POLLIN };

    for (unsigned i = 0; i < 2; i++)
        for (unsigned waited_ms = 0; empty(attempt, i), fe_queue(attempt->fe, i)->in_flight > 0; waited_ms++) {
            if (poll(&error, 1, 1) > 0)
                return BROKEN;
            if (waited_ms == HOSTILE_DEADLINE_MS)
                return STUCK;
        }
    return attempt_read(attempt, 0);
}

/* Refused is fine. */
static bool is_gone(int result)
{
    return result < 0 && result != -EREMOTEIO;
}

/* ---- in-flight regions ---- */

struct region {
    struct wire_inflight said;
    int fd;
};

static bool get_region(struct attempt *attempt, uint16_t queue_count, uint16_t queue_size, struct region *region_out)
{
    const struct wire_inflight asked = { .queue_count = queue_count, .queue_size = queue_size };

    return fe_get_fd(attempt->fe, WIRE_GET_INFLIGHT_FD, &asked, sizeof(asked), &region_out->said,
                     sizeof(region_out->said), &region_out->fd) == 0;
}

static enum seen set_region(struct attempt *attempt, const struct region *region)
{
    return attempt_message(attempt, WIRE_SET_INFLIGHT_FD, &region->said, sizeof(region->said), &region->fd, 1);
}

enum shape { AS_IT_WAS, OTHER_FORMAT, OTHER_SIZE, LARGER, OTHER_COUNT, OTHER_OFFSET, IN_USE };

/* A region that one connection left in the middle of its requests, for another with other rings. */
static enum seen act_other_region(struct attempt *attempt, const void *argument)
{
    enum shape shape = (enum shape)((uintptr_t)argument & 0xff);
    bool packed = (uintptr_t)argument & 0x100;
    struct fe_options options = two_rings(attempt, packed);
    struct region region;

    if (!attempt_prepare(attempt, &options) || !get_region(attempt, 2, 16, &region))
        return STUCK;
    enum seen seen = set_region(attempt, &region);
    if (seen != WORKS || fe_start(attempt->fe) != 0)
        return STUCK;
    for (unsigned round = 0; round < 5; round++) {
        fill(attempt, 0);
        fill(attempt, 1);
        empty(attempt, 0);
    }
    struct front_end *first = attempt->fe;
    if (shape != IN_USE) {
        fe_destroy(first);
        first = NULL;
    } else { /* a second one cannot be there at a time: the same rings once more, from their beginning */
        uint16_t base;

        if (fe_queue_stop(first, 0, &base) < 0 || fe_queue_stop(first, 1, &base) < 0)
            return STUCK;
        memset(fe_queue(first, 0)->desc, 0x5a, 64);
        seen = set_region(attempt, &region);
        close(region.fd);
        if (seen != WORKS || fe_start(first) < 0)
            return seen;
        return attempt_ask(attempt);
    }
    options.layout.packed = packed != (shape == OTHER_FORMAT);
    if (shape == OTHER_SIZE)
        options.layout.size = 8;
    if (shape == LARGER)
        options.layout.size = 32;
    if (!attempt_prepare(attempt, &options))
        return STUCK;
    if (shape == OTHER_SIZE)
        region.said.queue_size = 8;
    if (shape == LARGER)
        region.said.queue_size = 32;
    if (shape == OTHER_COUNT)
        region.said.queue_count = 1;
    if (shape == OTHER_OFFSET)
        region.said.mmap_offset = 8, region.said.mmap_size -= 8;
    seen = set_region(attempt, &region);
    close(region.fd);
    if (seen != WORKS)
        return seen;
    if (fe_start(attempt->fe) < 0)
        return attempt_ask(attempt);
    for (unsigned i = 0; i < 2; i++)
        fe_queue_kick(fe_queue(attempt->fe, i));
    /* A packed ring is where the region says, which is not where this new driver's begins: nothing needs to come of it. */
    return packed ? attempt_ask(attempt) : attempt_read(attempt, 1);
}

struct scribbler {
    uint8_t *bytes;
    size_t size_bytes;
    unsigned seed;
    _Atomic bool stop;
};

static void *scribble(void *opaque)
{
    struct scribbler *scribbler = opaque;
    unsigned seed = scribbler->seed;

    while (!atomic_load(&scribbler->stop)) {
        size_t at = (size_t)rand_r(&seed) % (scribbler->size_bytes / 2);

        ((volatile uint16_t *)scribbler->bytes)[at] = (uint16_t)(rand_r(&seed) % 4 ? rand_r(&seed) % 20 : rand_r(&seed));
    }
    return NULL;
}

/* A region whose content changes while the rings run, and what it became for the next start. */
static enum seen act_scribble(struct attempt *attempt, const void *argument)
{
    struct fe_options options = two_rings(attempt, (uintptr_t)argument & 1);
    struct scribbler scribbler = { .seed = (unsigned)(uintptr_t)argument };
    struct region region;
    pthread_t thread;
    enum seen seen = STUCK;
    bool has_map = false;

    for (unsigned round = 0; round < 10; round++) {
        if (!attempt_prepare(attempt, &options) || (!has_map && !get_region(attempt, 2, 16, &region)))
            return STUCK;
        if (!has_map) {
            scribbler.size_bytes = region.said.mmap_size;
            scribbler.bytes = mmap(NULL, scribbler.size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region.fd, 0);
            if (scribbler.bytes == MAP_FAILED)
                return STUCK;
            has_map = true;
        }
        seen = set_region(attempt, &region);
        if (seen != WORKS || fe_start(attempt->fe) < 0)
            break;
        atomic_store(&scribbler.stop, false);
        if (pthread_create(&thread, NULL, scribble, &scribbler) != 0)
            return STUCK;
        for (unsigned i = 0; i < 200; i++) {
            fill(attempt, i % 2);
            empty(attempt, i % 2);
        }
        seen = attempt_ask(attempt);
        atomic_store(&scribbler.stop, true);
        pthread_join(thread, NULL);
        if (seen != WORKS)
            break;
        if (round + 1 < 10) {
            fe_destroy(attempt->fe);
            attempt->fe = NULL;
        }
        /* Every other start finds a region that could be one. */
        if (round % 2)
            memset(scribbler.bytes, 0, scribbler.size_bytes);
    }
    munmap(scribbler.bytes, scribbler.size_bytes);
    close(region.fd);
    return seen;
}

/* ---- resets ---- */

enum reset { RESET, STATUS_0, OWNER };

/* With requests in flight and a region that notes them; then a new driver, again and again. */
static enum seen act_reset(struct attempt *attempt, const void *argument)
{
    enum reset reset = (enum reset)((uintptr_t)argument & 0xff);
    struct fe_options options = two_rings(attempt, (uintptr_t)argument & 0x100);
    struct region region;

    if (!attempt_prepare(attempt, &options))
        return STUCK;
    struct front_end *fe = attempt->fe;
    for (unsigned round = 0; round < 20; round++) {
        if (!get_region(attempt, 2, 16, &region))
            return STUCK;
        enum seen seen = set_region(attempt, &region);
        close(region.fd);
        if (seen != WORKS || fe_start(fe) < 0)
            return STUCK;
        for (unsigned i = 0; i < 2; i++)
            fill(attempt, i);
        int result = reset == RESET ? fe_reset_device(fe) : reset == STATUS_0 ? fe_set_status(fe, 0)
                                                                            : fe_set(fe, WIRE_RESET_OWNER, NULL, 0, NULL, 0);
        if (result < 0)
            return STUCK;
        fe_destroy(fe);
        attempt->fe = NULL;
        if (!attempt_prepare(attempt, &options))
            return STUCK;
        fe = attempt->fe;
    }
    return fe_start(fe) == 0 ? attempt_read(attempt, 1) : STUCK;
}

/* ---- the dirty log ---- */

static enum seen act_logs(struct attempt *attempt, const void *argument)
{
    struct fe_options options = two_rings(attempt, (uintptr_t)argument);
    uint64_t features;

    if (!attempt_open(attempt, &options))
        return STUCK;
    features = fe_info(attempt->fe)->features | UINT64_C(1) << VHOST_F_LOG_ALL;
    for (unsigned round = 0; round < 100; round++) {
        /* Covers all of guest memory, or a page of it only. */
        const uint64_t log[2] = { round % 3 ? UINT64_C(1) << 20 : 8, 0 };
        int fd = memfd_create("log", MFD_CLOEXEC);

        fill(attempt, round % 2);
        if (ftruncate(fd, 1 << 20) != 0)
            return STUCK;
        enum seen seen = attempt_message(attempt, WIRE_SET_LOG_BASE, log, sizeof(log), &fd, 1);
        if (seen == WORKS && round % 5 == 0) {
            uint64_t flipped = features ^ (round % 2 ? UINT64_C(1) << VHOST_F_LOG_ALL : 0);

            seen = attempt_message(attempt, WIRE_SET_FEATURES, &flipped, sizeof(flipped), NULL, 0);
        }
        if (round % 7 == 3 && ftruncate(fd, 0) != 0) /* cut under the device */
            return STUCK;
        close(fd);
        if (seen != WORKS)
            return seen;
        empty(attempt, round % 2);
    }
    return finish(attempt);
}

/* ---- memory ---- */

/* Slots come and go, also the ones that the rings and the requests' data lie in. */
static enum seen act_slots(struct attempt *attempt, const void *argument)
{
    bool takes_rings = (uintptr_t)argument & 1;
    struct fe_options options = two_rings(attempt, (uintptr_t)argument & 2);

    if (!attempt_open(attempt, &options))
        return STUCK;
    size_t size;
    uint8_t *memory = fe_memory(attempt->fe, &size);
    uint64_t step = size / 4 / 4096 * 4096;
    for (unsigned round = 0; round < 60; round++) {
        const struct wire_memory_region other = { .guest_addr = UINT64_C(0x7000000000) + round % 3 * MIB,
                                                  .size_bytes = MIB,
                                                  .user_addr = UINT64_C(0x1000) + round % 3 * MIB };
        const struct wire_memory_region own = { .guest_addr = fe_memory_guest_addr(attempt->fe),
                                                .size_bytes = step,
                                                .user_addr = (uintptr_t)memory };
        int fd = memfd_create("slot", MFD_CLOEXEC);

        if (ftruncate(fd, MIB) != 0)
            return STUCK;
        fill(attempt, round % 2);
        int result = fe_add_memory(attempt->fe, &other, fd);
        if (round % 4 == 1 && ftruncate(fd, 0) != 0)
            return STUCK;
        close(fd);
        if (is_gone(result))
            return attempt_ask(attempt);
        if (round % 2 && is_gone(fe_remove_memory(attempt->fe, &other, -1)))
            return attempt_ask(attempt);
        if (takes_rings && round % 10 == 9) {
            if (is_gone(fe_remove_memory(attempt->fe, &own, -1)) ||
                is_gone(fe_add_memory(attempt->fe, &own, fe_memory_fd(attempt->fe))))
                return attempt_ask(attempt);
        }
        empty(attempt, round % 2);
    }
    if (takes_rings)
        return attempt_ask(attempt);
    return finish(attempt);
}

/* ---- full rings ---- */

/* All that the rings hold in flight, and the front end is gone. */
static enum seen act_full(struct attempt *attempt, const void *argument)
{
    struct fe_options options = attempt_options(attempt);

    options.queue_count = HOSTILE_QUEUES;
    options.layout.packed = (uintptr_t)argument;
    options.layout.size = 1024;
    options.layout.slot_count = 1024;
    for (unsigned round = 0; round < 5; round++) {
        if (!attempt_open(attempt, &options))
            return STUCK;
        for (unsigned i = 0; i < HOSTILE_QUEUES; i++)
            fill(attempt, i);
        fe_destroy(attempt->fe);
        attempt->fe = NULL;
    }
    return attempt_open(attempt, &options) ? attempt_read(attempt, 0) : STUCK;
}

#define CASE(name, seen, act, argument) { name, seen, NULL, act, (const void *)(argument), 0, 0 }
#define PACKED 0x100

const struct hostile_case combined_cases[] = {
    CASE("an in-flight region of another connection", WORKS, act_other_region, AS_IT_WAS),
    CASE("a split ring's in-flight region for packed ones", HARMLESS, act_other_region, OTHER_FORMAT),
    CASE("an in-flight region for smaller rings", HARMLESS, act_other_region, OTHER_SIZE),
    CASE("an in-flight region for larger rings", HARMLESS, act_other_region, LARGER),
    CASE("an in-flight region for fewer rings", HARMLESS, act_other_region, OTHER_COUNT),
    CASE("an in-flight region that begins elsewhere", HARMLESS, act_other_region, OTHER_OFFSET),
    CASE("an in-flight region again, with other rings", HARMLESS, act_other_region, IN_USE),
    CASE("packed: an in-flight region of another connection", HARMLESS, act_other_region, PACKED | AS_IT_WAS),
    CASE("packed: an in-flight region for split rings", HARMLESS, act_other_region, PACKED | OTHER_FORMAT),
    CASE("packed: an in-flight region for smaller rings", HARMLESS, act_other_region, PACKED | OTHER_SIZE),
    CASE("packed: an in-flight region for larger rings", HARMLESS, act_other_region, PACKED | LARGER),
    CASE("packed: an in-flight region that begins elsewhere", HARMLESS, act_other_region, PACKED | OTHER_OFFSET),
    CASE("packed: an in-flight region again, with other rings", HARMLESS, act_other_region, PACKED | IN_USE),
    CASE("an in-flight region that changes, split", HARMLESS, act_scribble, 2),
    CASE("an in-flight region that changes, packed", HARMLESS, act_scribble, 3),
    CASE("resets with requests in flight", WORKS, act_reset, RESET),
    CASE("packed: resets with requests in flight", WORKS, act_reset, PACKED | RESET),
    CASE("a status of 0 with requests in flight", WORKS, act_reset, STATUS_0),
    CASE("packed: a status of 0 with requests in flight", WORKS, act_reset, PACKED | STATUS_0),
    CASE("owner resets with requests in flight", WORKS, act_reset, OWNER),
    CASE("dirty logs that are replaced and cut under load", BROKEN, act_logs, 0),
    CASE("packed: dirty logs that are replaced and cut under load", BROKEN, act_logs, 1),
    CASE("memory slots that come and go under load", WORKS, act_slots, 0),
    CASE("packed: memory slots that come and go under load", WORKS, act_slots, 2),
    CASE("the rings' memory slots that come and go under load", HARMLESS, act_slots, 1),
    CASE("packed: the rings' memory slots that come and go under load", HARMLESS, act_slots, 3),
    CASE("full rings of size 1024 left behind", WORKS, act_full, 0),
    CASE("packed: full rings of size 1024 left behind", WORKS, act_full, 1),
};
const unsigned combined_case_count = sizeof(combined_cases) / sizeof(combined_cases[0]);
