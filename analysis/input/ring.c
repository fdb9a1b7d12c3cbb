#include "input/ring.h"

#include <errno.h>
#include <glib.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A power of two of pages. Small enough for a cache, large enough that neither side often waits. */
#define RING_BYTES (2u << 20)
/* How much one side does before it tells the other: telling may mean a system call. */
#define PORTION_BYTES (64u << 10)
#define LOOK_NS 50000000 /* between two looks whether the other side lives */

G_STATIC_ASSERT(RING_RECORD_BYTES_MAX <= RING_BYTES / 2);

/* ORDER: each side publishes its position, then looks whether the other sleeps; the sleeper says so, then looks at the
 * position again. Both are sequentially consistent, so one of them sees the other: no wake-up is lost. */
struct shared {
    _Alignas(64) _Atomic uint64_t written; /* bytes since the begin, published by the writer */
    _Atomic uint32_t reader_sleeps;
    _Alignas(64) _Atomic uint64_t consumed;
    _Atomic uint32_t writer_sleeps;
};

struct ring {
    struct shared *shared;
    uint8_t *bytes; /* mapped twice in a row, so that no record is split */
    /* one side's own: positions that are not published yet, and the other side's as last seen */
    uint64_t position, published, other;
    size_t record_bytes;
};

static uint8_t *map_twice(int fd)
{
    uint8_t *bytes = mmap(NULL, 2 * RING_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (bytes == MAP_FAILED)
        return NULL;
    for (int half = 0; half < 2; half++)
        if (mmap(bytes + half * RING_BYTES, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                 0) == MAP_FAILED) {
            (void)munmap(bytes, 2 * RING_BYTES);
            return NULL;
        }
    return bytes;
}

struct ring *ring_create(void)
{
    int fd = memfd_create("vblkscope-ring", MFD_CLOEXEC);
    struct ring *ring = g_new0(struct ring, 1);

    if (fd >= 0 && ftruncate(fd, RING_BYTES) == 0)
        ring->bytes = map_twice(fd);
    if (fd >= 0)
        close(fd);
    ring->shared = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!ring->bytes || ring->shared == MAP_FAILED) {
        ring_destroy(ring);
        return NULL;
    }
    return ring;
}

void ring_destroy(struct ring *ring)
{
    if (!ring)
        return;
    if (ring->bytes)
        (void)munmap(ring->bytes, 2 * RING_BYTES);
    if (ring->shared != MAP_FAILED)
        (void)munmap(ring->shared, sizeof(struct shared));
    g_free(ring);
}

static void sleep_on(_Atomic uint32_t *word)
{
    const struct timespec limit = { .tv_nsec = LOOK_NS };

    (void)syscall(SYS_futex, word, FUTEX_WAIT, 1, &limit, NULL, 0);
}

static void wake(_Atomic uint32_t *word)
{
    if (atomic_load(word) && atomic_exchange(word, 0))
        (void)syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void ring_flush(struct ring *ring)
{
    if (ring->published == ring->position)
        return;
    ring->published = ring->position;
    atomic_store(&ring->shared->written, ring->position);
    wake(&ring->shared->reader_sleeps);
}

void *ring_reserve(struct ring *ring, size_t size_bytes)
{
    ring->record_bytes = (size_bytes + 7) & ~(size_t)7;
    while (G_UNLIKELY(ring->position + ring->record_bytes - ring->other > RING_BYTES)) {
        ring->other = atomic_load(&ring->shared->consumed);
        if (ring->position + ring->record_bytes - ring->other <= RING_BYTES)
            break;
        ring_flush(ring);
        atomic_store(&ring->shared->writer_sleeps, 1);
        ring->other = atomic_load(&ring->shared->consumed);
        if (ring->position + ring->record_bytes - ring->other > RING_BYTES)
            sleep_on(&ring->shared->writer_sleeps);
        atomic_store(&ring->shared->writer_sleeps, 0);
    }
    return ring->bytes + (ring->position & (RING_BYTES - 1));
}

void ring_commit(struct ring *ring)
{
    ring->position += ring->record_bytes;
    if (ring->position - ring->published >= PORTION_BYTES)
        ring_flush(ring);
}

static void give_back(struct ring *ring)
{
    if (ring->published == ring->position)
        return;
    ring->published = ring->position;
    atomic_store(&ring->shared->consumed, ring->position);
    wake(&ring->shared->writer_sleeps);
}

void *ring_peek(struct ring *ring, bool (*alive)(void *data), void *data)
{
    while (G_UNLIKELY(ring->position == ring->other)) {
        bool lives;

        ring->other = atomic_load(&ring->shared->written);
        if (ring->position != ring->other)
            break;
        give_back(ring);
        lives = alive(data); /* asked first: what a dead writer wrote before it died is seen after that */
        atomic_store(&ring->shared->reader_sleeps, 1);
        ring->other = atomic_load(&ring->shared->written);
        if (ring->position == ring->other) {
            if (!lives)
                return NULL;
            sleep_on(&ring->shared->reader_sleeps);
        }
        atomic_store(&ring->shared->reader_sleeps, 0);
    }
    return ring->bytes + (ring->position & (RING_BYTES - 1));
}

void ring_consume(struct ring *ring)
{
    /* each record is rounded up to 8 bytes by its writer, and begins with its size */
    ring->position += (*(uint32_t *)(ring->bytes + (ring->position & (RING_BYTES - 1))) + 7) & ~UINT64_C(7);
    if (ring->position - ring->published >= RING_BYTES / 4)
        give_back(ring);
}
