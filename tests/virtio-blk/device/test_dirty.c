/*
 * Goal:   whatever the device writes to guest memory while a front end logs is marked, and nothing else; logging goes on
 *         and off at a word while rings run, and a log that cannot hold a mark stops the queue.
 * Method: memory is compared with a copy from just before the request: each page with a byte that changed must be marked
 *         (what the driver itself writes meanwhile, the available ring, is left out), and each page that is marked must
 *         be one that this request may write. Then a small migration: pages are copied by their bits while requests run,
 *         and in the end the copy must be the memory.
 * Broken: a guest is migrated and goes on with old data, or with a used ring in which requests never end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "served.h"

#define PAGE UINT64_C(4096)
#define LOG_ALL (UINT64_C(1) << 26)
#define LOG_BYTES (256 * 1024) /* 8 GiB of guest memory; that of the front end begins at 4 GiB */
#define DISK_BYTES (1 << 20)

static struct sigaction ours; /* cmocka puts its own handler in its place for each test */

struct subject {
    struct served served;
    struct front_end *fe;
    char disk[64];
    int log_fd;
    uint8_t *log;
    uint8_t *before;
};

static int make_log(uint64_t size_bytes)
{
    int fd = memfd_create("log", MFD_CLOEXEC);

    assert_int_equal(ftruncate(fd, size_bytes), 0);
    return fd;
}

static void set_log(struct subject *subject, int fd, uint64_t size_bytes)
{
    const uint64_t wire[2] = { size_bytes, 0 };
    struct fe_message answer;

    assert_int_equal(fe_send(subject->fe, WIRE_SET_LOG_BASE, 0, wire, sizeof(wire), &fd, 1), 0);
    assert_int_equal(fe_recv(subject->fe, &answer), 0);
    assert_int_equal(answer.header.request, WIRE_SET_LOG_BASE);
}

static int set_features(struct subject *subject, uint64_t more)
{
    uint64_t features = fe_info(subject->fe)->features | more;

    return fe_set(subject->fe, WIRE_SET_FEATURES, &features, sizeof(features), NULL, 0);
}

/* As virtual machine monitors do it: the ring's addresses again, with or without the flag. */
static void set_ring_log(struct subject *subject, bool on, uint64_t log_guest)
{
    struct fe_queue *queue = fe_queue(subject->fe, 0);
    const struct wire_vring_addr wire = { .flags = on,
                                          .desc_user_addr = (uintptr_t)queue->desc,
                                          .avail_user_addr = (uintptr_t)queue->avail,
                                          .used_user_addr = (uintptr_t)queue->used,
                                          .log_guest_addr = log_guest };

    assert_int_equal(fe_set(subject->fe, WIRE_SET_VRING_ADDR, &wire, sizeof(wire), NULL, 0), 0);
}

static uint64_t used_guest(struct subject *subject)
{
    struct fe_queue *queue = fe_queue(subject->fe, 0);

    return fe_queue_guest_addr(queue, queue->used);
}

static void begin_format(struct subject *subject, const char *kind, bool event_idx, bool packed)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    uint64_t protocol_features;
    size_t size;

    memset(subject, 0, sizeof(*subject));
    if (strcmp(kind, "file") == 0) {
        int fd;
        uint8_t *content = malloc(DISK_BYTES);

        snprintf(subject->disk, sizeof(subject->disk), "/tmp/test_dirty.XXXXXX");
        fd = mkstemp(subject->disk);
        for (unsigned i = 0; i < DISK_BYTES; i++)
            content[i] = (uint8_t)(i * 7 + i / 512 + 1);
        assert_int_equal(write(fd, content, DISK_BYTES), DISK_BYTES);
        close(fd);
        free(content);
    }
    served_start(&subject->served,
                 &(struct vblk_device_options){ .blk_file = subject->disk[0] ? subject->disk : "null:1M" }, 1, 0);
    options.layout = (struct fe_queue_layout){ .size = 64,
                                               .slot_count = 16,
                                               .slot_bytes = 20000,
                                               .segment_bytes = 5000,
                                               .indirect = true,
                                               .event_idx = event_idx,
                                               .packed = packed };
    options.memory_region_count = 3; /* some buffers cross from one to the next */
    subject->fe = served_front_end(&subject->served, &options);
    protocol_features = fe_info(subject->fe)->protocol_features | 1 << WIRE_P_LOG_SHMFD;
    assert_int_equal(
        fe_set(subject->fe, WIRE_SET_PROTOCOL_FEATURES, &protocol_features, sizeof(protocol_features), NULL, 0), 0);
    subject->log_fd = make_log(LOG_BYTES);
    subject->log = mmap(NULL, LOG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, subject->log_fd, 0);
    fe_memory(subject->fe, &size);
    subject->before = malloc(size);
}

static void begin(struct subject *subject, const char *kind, bool event_idx)
{
    begin_format(subject, kind, event_idx, false);
}

static void end(struct subject *subject)
{
    fe_destroy(subject->fe);
    served_stop(&subject->served);
    munmap(subject->log, LOG_BYTES);
    close(subject->log_fd);
    free(subject->before);
    if (subject->disk[0])
        unlink(subject->disk);
}

static void start_logging(struct subject *subject)
{
    set_log(subject, subject->log_fd, LOG_BYTES);
    assert_int_equal(set_features(subject, LOG_ALL), 0);
    set_ring_log(subject, true, used_guest(subject));
    memset(subject->log, 0, LOG_BYTES);
}

static bool is_marked(const struct subject *subject, uint64_t page)
{
    return subject->log[page / 8] >> page % 8 & 1;
}

static unsigned count_marks(const struct subject *subject)
{
    unsigned count = 0;

    for (unsigned i = 0; i < LOG_BYTES; i++)
        count += __builtin_popcount(subject->log[i]);
    return count;
}

static bool in_range(uint64_t page, uint64_t address, uint64_t size_bytes)
{
    return size_bytes > 0 && page >= address / PAGE && page <= (address + size_bytes - 1) / PAGE;
}

/* One request with the log looked at: see at the top. */
static uint8_t logged_request(struct subject *subject, uint32_t type, uint64_t sector, uint32_t bytes, bool rings)
{
    struct fe_queue *queue = fe_queue(subject->fe, 0);
    uint64_t base = fe_memory_guest_addr(subject->fe), first = base / PAGE;
    bool packed = queue->layout.packed;
    /* Of a packed ring: what is said about events by the driver, and by the device. */
    size_t avail_bytes = packed ? 4 : 4 + 2 * queue->layout.size + 2, size;
    size_t used_bytes = packed ? 4 : 4 + 8 * queue->layout.size + 2;
    uint8_t *memory = fe_memory(subject->fe, &size), status;
    unsigned changed_count = 0;
    uint16_t slot;

    memset(subject->log, 0, LOG_BYTES);
    slot = served_submit(subject->fe, 0, type, sector, NULL, bytes);
    if (type != VIRTIO_BLK_T_OUT)
        memset(queue->slots[slot].data, 0, bytes);
    memcpy(subject->before, memory, size);
    assert_int_equal(served_reap(subject->fe, 0), slot);
    status = *queue->slots[slot].status;
    memcpy(subject->before + ((uint8_t *)queue->avail - memory), queue->avail, avail_bytes);
    for (uint64_t page = 0; page < LOG_BYTES * 8; page++) {
        bool inside = page >= first && page < first + size / PAGE, changed = false, may;

        if (inside)
            changed = memcmp(memory + (page - first) * PAGE, subject->before + (page - first) * PAGE, PAGE) != 0;
        may = (rings && in_range(page, used_guest(subject), used_bytes)) ||
              (rings && packed &&
               in_range(page, fe_queue_guest_addr(queue, queue->desc), 16 * (uint64_t)queue->layout.size)) ||
              in_range(page, fe_queue_guest_addr(queue, queue->slots[slot].status), 1) ||
              (type != VIRTIO_BLK_T_OUT &&
               in_range(page, fe_queue_guest_addr(queue, queue->slots[slot].data), bytes));
        changed_count += changed;
        if (changed && !rings && in_range(page, used_guest(subject), used_bytes) && !is_marked(subject, page))
            continue; /* the ring is not to be logged */
        if (changed && !is_marked(subject, page))
            fail_msg("request type %u, sector %llu, %u bytes: page %llu was written and is not marked", type,
                     (unsigned long long)sector, bytes, (unsigned long long)(page - first));
        if (!may && is_marked(subject, page))
            fail_msg("request type %u, sector %llu, %u bytes: page %lld is marked and none of its", type,
                     (unsigned long long)sector, bytes, (long long)(page - first));
    }
    assert_true(changed_count > 0);
    fe_queue_give(queue, slot);
    return status;
}

static void requests_are_marked(const char *kind, bool event_idx, bool packed)
{
    struct subject subject;

    begin_format(&subject, kind, event_idx, packed);
    start_logging(&subject);
    /* More than the ring has entries, so that each place of it is used; slots are dealt out in turn. */
    for (unsigned i = 0; i < 70; i++) {
        uint32_t bytes = 512 * (1 + i * 5 % 39);

        assert_int_equal(logged_request(&subject, VIRTIO_BLK_T_IN, i, bytes, true), VIRTIO_BLK_S_OK);
        assert_int_equal(logged_request(&subject, VIRTIO_BLK_T_OUT, i, bytes, true), VIRTIO_BLK_S_OK);
    }
    assert_int_equal(logged_request(&subject, VIRTIO_BLK_T_FLUSH, 0, 0, true), VIRTIO_BLK_S_OK);
    assert_int_equal(logged_request(&subject, VIRTIO_BLK_T_GET_ID, 0, 20, true), VIRTIO_BLK_S_OK);
    assert_int_equal(logged_request(&subject, VIRTIO_BLK_T_GET_ID, 0, 20000, true), VIRTIO_BLK_S_OK);
    assert_int_equal(logged_request(&subject, 77, 0, 4096, true), VIRTIO_BLK_S_UNSUPP);
    assert_int_equal(logged_request(&subject, VIRTIO_BLK_T_IN, UINT64_MAX, 512, true), VIRTIO_BLK_S_IOERR);
    end(&subject);
}

static void of_a_file(void **state)
{
    requests_are_marked("file", true, false);
}

static void of_a_file_without_event_indices(void **state)
{
    requests_are_marked("file", false, false);
}

static void of_a_null_disk(void **state)
{
    requests_are_marked("null", true, false);
}

static void on_a_packed_ring(void **state)
{
    requests_are_marked("file", true, true);
}

static void on_a_packed_ring_without_event_indices(void **state)
{
    requests_are_marked("file", false, true);
}

static uint8_t plain_request(struct subject *subject)
{
    uint8_t data[4096];

    return served_request(subject->fe, 0, VIRTIO_BLK_T_IN, 0, data, sizeof(data));
}

static void logging_begins_and_ends_at_a_word(void **state)
{
    struct subject subject;

    begin(&subject, "file", true);
    assert_int_equal(plain_request(&subject), VIRTIO_BLK_S_OK);
    set_log(&subject, subject.log_fd, LOG_BYTES);
    assert_int_equal(plain_request(&subject), VIRTIO_BLK_S_OK);
    assert_int_equal(count_marks(&subject), 0); /* there is a log, and nobody asked for marks */
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(set_features(&subject, LOG_ALL), 0);
        assert_int_equal(logged_request(&subject, VIRTIO_BLK_T_IN, 0, 4096, false), VIRTIO_BLK_S_OK);
        set_ring_log(&subject, true, used_guest(&subject));
        /* What the ring's memory got before it was logged is marked by this alone. */
        assert_true(is_marked(&subject, used_guest(&subject) / PAGE));
        assert_int_equal(logged_request(&subject, VIRTIO_BLK_T_IN, 0, 4096, true), VIRTIO_BLK_S_OK);
        /* The other order, too: first the feature, then the ring. */
        assert_int_equal(set_features(&subject, 0), 0);
        memset(subject.log, 0, LOG_BYTES);
        assert_int_equal(plain_request(&subject), VIRTIO_BLK_S_OK);
        assert_int_equal(count_marks(&subject), 0);
        set_ring_log(&subject, false, 0);
        assert_int_equal(plain_request(&subject), VIRTIO_BLK_S_OK);
        assert_int_equal(count_marks(&subject), 0);
    }
    end(&subject);
}

static void the_used_ring_is_marked_where_the_front_end_says(void **state)
{
    struct subject subject;
    const uint64_t elsewhere = 5 * PAGE - 2;

    begin(&subject, "null", true);
    start_logging(&subject);
    set_ring_log(&subject, true, elsewhere);
    assert_int_equal(plain_request(&subject), VIRTIO_BLK_S_OK);
    assert_true(is_marked(&subject, 4)); /* flags */
    assert_true(is_marked(&subject, 5)); /* index, elements, event */
    assert_false(is_marked(&subject, 6));
    assert_false(is_marked(&subject, used_guest(&subject) / PAGE));
    end(&subject);
}

static void another_log_takes_over(void **state)
{
    struct subject subject;
    int fd = make_log(LOG_BYTES), old_fd;
    uint8_t *log = mmap(NULL, LOG_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), *old;

    begin(&subject, "file", true);
    start_logging(&subject);
    assert_int_equal(logged_request(&subject, VIRTIO_BLK_T_IN, 0, 4096, true), VIRTIO_BLK_S_OK);
    set_log(&subject, fd, LOG_BYTES);
    memset(subject.log, 0, LOG_BYTES);
    assert_int_equal(plain_request(&subject), VIRTIO_BLK_S_OK);
    assert_int_equal(count_marks(&subject), 0);
    old = subject.log;
    old_fd = subject.log_fd;
    subject.log = log;
    subject.log_fd = fd;
    assert_int_equal(logged_request(&subject, VIRTIO_BLK_T_IN, 0, 4096, true), VIRTIO_BLK_S_OK);
    munmap(old, LOG_BYTES);
    close(old_fd);
    end(&subject);
}

static bool is_broken(struct vblk_device *device)
{
    return atomic_load(&device->queues[0].broken);
}

static void a_log_that_cannot_hold_a_mark_stops_the_queue(void **state)
{
    sigaction(SIGBUS, &ours, NULL);
    for (unsigned truncated = 0; truncated < 2; truncated++) {
        struct subject subject;
        struct front_end *again;
        uint64_t size_bytes = truncated ? LOG_BYTES : 64;
        int fd = make_log(size_bytes);

        begin(&subject, "file", true);
        set_log(&subject, fd, size_bytes);
        if (truncated)
            assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(set_features(&subject, LOG_ALL), 0);
        served_submit(subject.fe, 0, VIRTIO_BLK_T_IN, 0, NULL, 4096);
        fe_queue_publish(fe_queue(subject.fe, 0));
        served_wait(&subject.served, is_broken, "a queue that is broken");
        /* The next front end finds a device that works. */
        fe_destroy(subject.fe);
        again = served_front_end(&subject.served, NULL);
        subject.fe = again;
        assert_int_equal(plain_request(&subject), VIRTIO_BLK_S_OK);
        close(fd);
        end(&subject);
    }
}

static void marks_are_told_of(void **state)
{
    struct subject subject;
    int event = eventfd(0, EFD_CLOEXEC);
    struct pollfd told = { .fd = event, .events = POLLIN };
    uint64_t count;

    begin(&subject, "null", true);
    assert_int_equal(fe_set(subject.fe, WIRE_SET_LOG_FD, NULL, 0, &event, 1), 0);
    assert_int_equal(plain_request(&subject), VIRTIO_BLK_S_OK);
    assert_int_equal(poll(&told, 1, 0), 0);
    start_logging(&subject);
    assert_int_equal(plain_request(&subject), VIRTIO_BLK_S_OK);
    assert_int_equal(poll(&told, 1, SERVED_DEADLINE_MS), 1);
    assert_int_equal(read(event, &count, sizeof(count)), sizeof(count));
    /* One that is full for ever: marks and requests go on. */
    count = UINT64_MAX - 1;
    assert_int_equal(write(event, &count, sizeof(count)), sizeof(count));
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(logged_request(&subject, VIRTIO_BLK_T_IN, 0, 4096, true), VIRTIO_BLK_S_OK);
    close(event);
    end(&subject);
}

static void other_features_stay_while_rings_run(void **state)
{
    struct subject subject;
    uint64_t fewer;

    begin(&subject, "null", true);
    fewer = fe_info(subject.fe)->features & ~(UINT64_C(1) << VIRTIO_RING_F_EVENT_IDX);
    assert_int_not_equal(fe_set(subject.fe, WIRE_SET_FEATURES, &fewer, sizeof(fewer), NULL, 0), 0);
    assert_int_equal(set_features(&subject, 0), 0); /* the same once more is no change */
    assert_int_equal(plain_request(&subject), VIRTIO_BLK_S_OK);
    assert_int_equal(fe_stop(subject.fe), 0);
    assert_int_equal(fe_set(subject.fe, WIRE_SET_FEATURES, &fewer, sizeof(fewer), NULL, 0), 0);
    end(&subject);
}

/* ---- a small migration ---- */

static void copy_marked(struct subject *subject, uint8_t *copy, size_t size)
{
    uint64_t first = fe_memory_guest_addr(subject->fe) / PAGE;
    const uint8_t *memory = fe_memory(subject->fe, NULL);

    for (uint64_t page = 0; page < size / PAGE; page += 8) {
        uint8_t bits = __atomic_exchange_n(&subject->log[(first + page) / 8], 0, __ATOMIC_ACQUIRE);

        for (unsigned bit = 0; bit < 8; bit++)
            if (bits >> bit & 1)
                memcpy(copy + (page + bit) * PAGE, memory + (page + bit) * PAGE, PAGE);
    }
}

static void a_copy_by_marks_is_the_memory(void **state)
{
    struct subject subject;
    struct fe_queue *queue;
    size_t size;
    uint8_t *memory, *copy;

    begin(&subject, "file", true);
    queue = fe_queue(subject.fe, 0);
    memory = fe_memory(subject.fe, &size);
    copy = malloc(size);
    start_logging(&subject);
    memcpy(copy, memory, size);
    for (unsigned round = 0; round < 300; round++) {
        unsigned count = 1 + round % 8;

        for (unsigned i = 0; i < count; i++)
            served_submit(subject.fe, 0, VIRTIO_BLK_T_IN, (round * 31 + i * 17) % 1800, NULL, 512 * (1 + (round + i) % 39));
        fe_queue_publish(queue);
        copy_marked(&subject, copy, size); /* while they run */
        for (unsigned i = 0; i < count; i++)
            fe_queue_give(queue, served_reap(subject.fe, 0));
    }
    assert_int_equal(fe_stop(subject.fe), 0);
    copy_marked(&subject, copy, size);
    for (unsigned i = 0; i < queue->layout.slot_count; i++) {
        const struct fe_slot *slot = &queue->slots[i];

        assert_memory_equal(copy + (slot->data - memory), slot->data, queue->layout.slot_bytes);
        assert_int_equal(copy[slot->status - memory], *slot->status);
    }
    assert_memory_equal(copy + ((uint8_t *)queue->used - memory), queue->used, 4 + 8 * queue->layout.size + 2);
    free(copy);
    end(&subject);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_file),
        cmocka_unit_test(of_a_file_without_event_indices),
        cmocka_unit_test(of_a_null_disk),
        cmocka_unit_test(on_a_packed_ring),
        cmocka_unit_test(on_a_packed_ring_without_event_indices),
        cmocka_unit_test(logging_begins_and_ends_at_a_word),
        cmocka_unit_test(the_used_ring_is_marked_where_the_front_end_says),
        cmocka_unit_test(another_log_takes_over),
        cmocka_unit_test(a_log_that_cannot_hold_a_mark_stops_the_queue),
        cmocka_unit_test(marks_are_told_of),
        cmocka_unit_test(other_features_stay_while_rings_run),
        cmocka_unit_test(a_copy_by_marks_is_the_memory),
    };

    struct vhost_user_dirty_log *first;
    const char *reason;
    int fd = memfd_create("log", MFD_CLOEXEC);

    /* The first one installs the handler of SIGBUS. */
    if (ftruncate(fd, 8) != 0 || vhost_user_dirty_log_create(fd, 0, 8, &first, &reason) != 0)
        return 1;
    vhost_user_dirty_log_destroy(first);
    close(fd);
    sigaction(SIGBUS, NULL, &ours);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
