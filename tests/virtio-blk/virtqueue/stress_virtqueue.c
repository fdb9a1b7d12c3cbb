/*
 * Goal:   driver and device on two threads lose no request, no kick and no interrupt, and see each other's data whole;
 *         and a driver that changes descriptors while they are read gains nothing.
 * Method: a driver thread offers requests in random batches and sleeps until it is interrupted; the device sleeps until
 *         it is kicked. Data is accessed plainly, so that ThreadSanitizer sees a missing order (ORDER virtqueue.avail,
 *         .used); a lost notification (.event) shows as a wait that ends by its deadline. In the second test a thread
 *         writes descriptors between good and wild values all the time.
 * Broken: a guest hangs once in a billion requests, reads old data, or escapes from its memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/virtio_ring.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "guest.h"
#include "packed_guest.h"

#define PATIENCE_MS 20000
/* Sanitizers judge each access, not how often they come: they need fewer, and take five times as long. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define ROUNDS_SHARE 4
#else
#define ROUNDS_SHARE 1
#endif
#define REQUESTS (50000 / ROUNDS_SHARE)
#define SIZE 16
#define PACKED_SIZE 17 /* no power of two; chains wrap around in the middle */
#define BEGIN 0x8000

static unsigned seed;

/* ---- nothing is lost ---- */

/*
 * Who sleeps when there is nothing to do. If both do, a race between the two sides' last looks is rare; if one spins and
 * there is one request at a time, it reacts just when the other is about to sleep.
 */
enum sleepers { BOTH_SLEEP, DEVICE_SLEEPS, DRIVER_SLEEPS };

struct pair {
    struct guest guest;
    bool packed, event_idx;
    enum sleepers sleepers;
    int kick, call;
    unsigned kicks, calls; /* of their writers */
};

static void lost(const char *what)
{
    fprintf(stderr, "a %s was lost (seed %u)\n", what, seed);
    abort();
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void wait_for(int event, const char *what)
{
    struct pollfd ready = { .fd = event, .events = POLLIN };
    eventfd_t count;
    if (poll(&ready, 1, PATIENCE_MS) != 1)
        lost(what);
    eventfd_read(event, &count);
}

/* Move the last look before sleep across the other side's reaction, which takes some hundred ns. */
static void dawdle(unsigned *random)
{
    for (volatile unsigned left = (unsigned)rand_r(random) % 1024; left; left--)
        ;
}

/* ---- the driver's side of either format; @used is where it looks for what is used next ---- */

/* Two descriptors for one request. Split: in the ring, to be published; packed: published. */
static void offer(struct pair *pair, uint16_t head)
{
    struct guest *guest = &pair->guest;
    uint64_t out = GUEST_DATA + head * 64u, in = out + 32;
    if (pair->packed) {
        packed_offer(guest, (struct packed_part[]){ { out, 8, 0 }, { in, 8, VRING_DESC_F_WRITE } }, 2, head);
        return;
    }
    guest_desc(guest, head, out, 8, VRING_DESC_F_NEXT, head + 1);
    guest_desc(guest, head + 1u, in, 8, VRING_DESC_F_WRITE, 0);
    guest_ring_entry(guest, guest->avail_index, head);
    guest->avail_index++;
}

/* Split: all of a batch at once. ORDER virtqueue.avail and .event, driver's sides: seq_cst. */
static bool publish(struct pair *pair, unsigned count)
{
    struct guest *guest = &pair->guest;
    uint16_t before = (uint16_t)(guest->avail_index - count);
    if (pair->packed)
        return packed_need_kick(guest, 2 * count);
    guest_set_avail_index(guest, guest->avail_index);
    return pair->event_idx ? guest_need_event(guest_avail_event(guest), guest->avail_index, before)
                           : !(guest_used_flags(guest) & VRING_USED_F_NO_NOTIFY);
}

static bool is_used(struct pair *pair, uint16_t used)
{
    uint16_t id;
    uint32_t size_bytes;
    return pair->packed ? packed_used(&pair->guest, used, &id, &size_bytes)
                        : guest_used_index(&pair->guest) != used;
}

static bool take_used(struct pair *pair, uint16_t *used, uint16_t *head_out, uint32_t *size_bytes_out)
{
    struct guest *guest = &pair->guest;
    if (pair->packed) {
        if (!packed_used(guest, *used, head_out, size_bytes_out))
            return false;
        *used = packed_advance(guest, *used, 2);
        return true;
    }
    if (guest_used_index(guest) == *used)
        return false;
    *head_out = (uint16_t)guest_used_head(guest, *used);
    *size_bytes_out = guest_used_bytes(guest, *used);
    ++*used;
    return true;
}

static void ask_for_interrupt(struct pair *pair, uint16_t used)
{
    if (pair->packed) {
        packed_set_driver_event(&pair->guest,
                                pair->event_idx ? VRING_PACKED_EVENT_FLAG_DESC : VRING_PACKED_EVENT_FLAG_ENABLE,
                                used);
        return;
    }
    guest_set_avail_flags(&pair->guest, 0);
    guest_set_used_event(&pair->guest, used);
}

static void ask_for_silence(struct pair *pair)
{
    if (pair->packed)
        packed_set_driver_event(&pair->guest, VRING_PACKED_EVENT_FLAG_DISABLE, 0);
    else if (!pair->event_idx)
        guest_set_avail_flags(&pair->guest, VRING_AVAIL_F_NO_INTERRUPT);
}

/* Each request is one descriptor to read, with its number, and one to write, for the answer. */
static void *drive(void *opaque)
{
    struct pair *pair = opaque;
    struct guest *guest = &pair->guest;
    uint64_t offered = 0, done = 0;
    unsigned random = seed, in_flight = 0;
    uint16_t used = pair->packed ? BEGIN : 0;
    uint16_t free_heads[SIZE / 2];
    unsigned free_count = SIZE / 2;
    uint64_t number_of[SIZE];
    for (unsigned i = 0; i < SIZE / 2; i++)
        free_heads[i] = (uint16_t)(2 * i);
    while (done < REQUESTS) {
        unsigned batch = pair->sleepers == BOTH_SLEEP ? (unsigned)rand_r(&random) % (SIZE / 2) + 1 : 1;
        unsigned count = 0;
        while (batch-- && free_count && offered < REQUESTS) {
            uint16_t head = free_heads[--free_count];
            *(uint64_t *)guest_at(guest, GUEST_DATA + head * 64u) = ++offered;
            number_of[head] = offered;
            offer(pair, head);
            in_flight++;
            count++;
        }
        if (count && publish(pair, count)) {
            pair->kicks++;
            eventfd_write(pair->kick, 1);
        }

        if (pair->sleepers == DEVICE_SLEEPS) {
            int64_t deadline = now_ms() + PATIENCE_MS;
            while (!is_used(pair, used))
                if (now_ms() > deadline)
                    lost("kick");
        } else if (!is_used(pair, used) && in_flight) {
            dawdle(&random);
            /* ORDER virtqueue.event: ask for the next, then look again. */
            ask_for_interrupt(pair, used);
            if (!is_used(pair, used))
                wait_for(pair->call, "interrupt");
            ask_for_silence(pair);
        }
        uint16_t head;
        uint32_t size_bytes;
        while (take_used(pair, &used, &head, &size_bytes)) {
            if (head >= SIZE || head % 2 || size_bytes != 8 ||
                *(uint64_t *)guest_at(guest, GUEST_DATA + head * 64u + 32) != ~number_of[head]) {
                fprintf(stderr, "head %u: a wrong answer (seed %u)\n", head, seed);
                abort();
            }
            free_heads[free_count++] = head;
            in_flight--;
            done++;
        }
    }
    return NULL;
}

static void serve(struct pair *pair)
{
    struct vblk_virtqueue *vq = pair->guest.vq;
    unsigned random = seed + 1;
    uint64_t done = 0;
    while (done < REQUESTS) {
        struct vblk_element *element;
        int error = 0;
        const char *reason = "";
        unsigned pushed = 0;
        vblk_virtqueue_disable_notifications(vq);
        while ((element = vblk_virtqueue_pop(vq, &error, &reason))) {
            uint64_t number;
            assert_int_equal(element->out_bytes, 8);
            assert_int_equal(element->in_bytes, 8);
            memcpy(&number, element->out[0].iov_base, 8);
            number = ~number;
            memcpy(element->in[0].iov_base, &number, 8);
            vblk_virtqueue_push(vq, element, 8);
            done++;
            /* Sometimes at once, sometimes for several. */
            if (++pushed % (1 + (unsigned)rand_r(&random) % 4) == 0 && vblk_virtqueue_should_interrupt(vq)) {
                pair->calls++;
                eventfd_write(pair->call, 1);
            }
        }
        assert_int_equal(error, 0);
        if (vblk_virtqueue_should_interrupt(vq)) {
            pair->calls++;
            eventfd_write(pair->call, 1);
        }
        dawdle(&random);
        if (done < REQUESTS && pair->sleepers != DRIVER_SLEEPS && !vblk_virtqueue_enable_notifications(vq))
            wait_for(pair->kick, "kick");
    }
}

static void run_pair(bool packed, bool event_idx, enum sleepers sleepers)
{
    struct pair pair = { .packed = packed, .event_idx = event_idx, .sleepers = sleepers };
    uint64_t features = event_idx ? GUEST_F_EVENT_IDX : 0;
    pthread_t driver;
    if (packed)
        guest_init(&pair.guest, PACKED_SIZE, features | GUEST_F_PACKED, BEGIN);
    else
        guest_init(&pair.guest, SIZE, features, 0);
    pair.kick = eventfd(0, EFD_CLOEXEC);
    pair.call = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(pthread_create(&driver, NULL, drive, &pair), 0);
    serve(&pair);
    pthread_join(driver, NULL);
    print_message("%u requests, %u kicks, %u interrupts\n", REQUESTS, pair.kicks, pair.calls);
    close(pair.kick);
    close(pair.call);
    guest_deinit(&pair.guest);
}

static void run_pairs(bool packed, bool event_idx)
{
    for (int sleepers = BOTH_SLEEP; sleepers <= DRIVER_SLEEPS; sleepers++)
        run_pair(packed, event_idx, sleepers);
}

static void nothing_is_lost_with_flags(void **state)
{
    run_pairs(false, false);
}

static void nothing_is_lost_with_event_indexes(void **state)
{
    run_pairs(false, true);
}

static void nothing_is_lost_in_a_packed_ring_with_flags(void **state)
{
    run_pairs(true, false);
}

static void nothing_is_lost_in_a_packed_ring_with_event_positions(void **state)
{
    run_pairs(true, true);
}

/* ---- descriptors that change while they are read ---- */

#define TABLE (GUEST_DATA + 0x20000)
#define POPS (100000 / ROUNDS_SHARE)

struct flipper {
    struct guest *guest;
    bool packed;
    _Atomic bool stop;
};

static void *flip(void *opaque)
{
    struct flipper *flipper = opaque;
    static const uint64_t addresses[] = {
        GUEST_DATA, GUEST_DATA + 0x1000, GUEST_HIGH - 8, GUEST_FAR, GUEST_FAR - 4096, UINT64_MAX - 7, 0, TABLE
    };
    static const uint32_t sizes[] = { 16, 512, 4096, 1, 0, UINT32_MAX, 64, 17 };
    static const uint16_t flags[] = { 0,
                                      VRING_DESC_F_NEXT,
                                      VRING_DESC_F_WRITE,
                                      VRING_DESC_F_NEXT | VRING_DESC_F_WRITE,
                                      VRING_DESC_F_INDIRECT,
                                      VRING_DESC_F_NEXT };
    /* Chains rarely go on in a descriptor that is available, too. */
    static const uint16_t packed_flags[] = { 0, 0, VRING_DESC_F_WRITE, VRING_DESC_F_WRITE, VRING_DESC_F_INDIRECT,
                                             VRING_DESC_F_NEXT };
    unsigned random = seed + 2;
    while (!atomic_load_explicit(&flipper->stop, memory_order_relaxed)) {
        unsigned r = (unsigned)rand_r(&random);
        /* Mostly good, so that the device comes far. */
        unsigned wild = r >> 8 & 15 ? 4 : 8;
        if (flipper->packed) {
            uint16_t turn = r & 1 ? packed_available((uint16_t)(r >> 9)) : 0;
            packed_desc_at(flipper->guest, r & 1 ? GUEST_DESC : TABLE, r >> 1 & (r & 1 ? 15 : 3),
                           addresses[(r >> 12) % wild], sizes[(r >> 16) % wild],
                           (uint16_t)((r >> 27 & 15) == 0 ? 77 : r >> 7 & 15),
                           packed_flags[(r >> 20) % (r & 1 ? 6 : 4)] | turn);
            continue;
        }
        guest_desc_at(flipper->guest, r & 1 ? GUEST_DESC : TABLE, r >> 1 & 3, addresses[(r >> 12) % wild],
                      sizes[(r >> 16) % wild], flags[(r >> 20) % (r & 1 ? 6 : 4)],
                      (r >> 24 & 63) == 0 ? 999 : r >> 3 & 3);
        guest_ring_entry(flipper->guest, (uint16_t)(r >> 5),
                         (uint16_t)((r >> 27 & 15) == 0 ? 77 : r >> 7 & 3));
    }
    return NULL;
}

static void change_descriptors(bool packed)
{
    struct guest guest;
    uint64_t features = GUEST_F_INDIRECT | (packed ? GUEST_F_PACKED : 0);
    guest_init(&guest, SIZE, features, packed ? BEGIN : 0);
    struct flipper flipper = { .guest = &guest, .packed = packed };
    pthread_t thread;
    unsigned popped = 0, broken = 0;
    assert_int_equal(pthread_create(&thread, NULL, flip, &flipper), 0);
    while (popped + broken < POPS) {
        int error = 0;
        const char *reason = NULL;
        if (!packed)
            guest_set_avail_index(&guest, guest.avail_index + 1);
        struct vblk_element *element = vblk_virtqueue_pop(guest.vq, &error, &reason);
        if (element) {
            popped++;
            assert_true(guest_is_sound(&guest, element));
            vblk_virtqueue_push(guest.vq, element, element->in_bytes);
            continue;
        }
        if (packed && !error)
            continue; /* whether the next descriptor is available changes, too */
        broken++;
        assert_int_equal(error, -EPROTO);
        /* Go on behind it, or anywhere: not at what broke it. */
        uint32_t base = packed ? (broken % SIZE | (broken & SIZE ? BEGIN : 0)) * 0x10001u : guest.avail_index;
        struct vblk_virtqueue_config config = guest_config(&guest, features, base);
        vblk_virtqueue_destroy(guest.vq);
        assert_int_equal(vblk_virtqueue_create(&config, guest.map, &guest.vq), 0);
    }
    atomic_store(&flipper.stop, true);
    pthread_join(thread, NULL);
    print_message("%u chains accepted, %u refused\n", popped, broken);
    assert_true(popped > POPS / 100 && broken > POPS / 100); /* or the test has shown nothing */
    guest_deinit(&guest);
}

static void changing_descriptors_gain_nothing(void **state)
{
    change_descriptors(false);
}

static void changing_packed_descriptors_gain_nothing(void **state)
{
    change_descriptors(true);
}

int main(void)
{
    seed = (unsigned)getpid() ^ (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_with_flags),
        cmocka_unit_test(nothing_is_lost_with_event_indexes),
        cmocka_unit_test(nothing_is_lost_in_a_packed_ring_with_flags),
        cmocka_unit_test(nothing_is_lost_in_a_packed_ring_with_event_positions),
        cmocka_unit_test(changing_descriptors_gain_nothing),
        cmocka_unit_test(changing_packed_descriptors_gain_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
