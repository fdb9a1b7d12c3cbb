/*
 * Goal:   a front end gets a region that it can keep and give back, and a wrong one is refused and harms nothing.
 * Method: a session with a stub device; the region is asked for in both lengths of the message that front ends use,
 *         looked at through its descriptor, given back, and given back wrongly in every way.
 * Broken: a front end that keeps our requests cannot reconnect, or one that lies makes us read outside its memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errno.h>
#include <fcntl.h>

#include "front_end_wire.h"
#include "served_stub.h"

/* The reply with its descriptor; -1: none came. */
static int get_region(const struct vhost_user_inflight_description *asked, uint32_t size_bytes,
                      struct vhost_user_inflight_description *answer_out)
{
    struct {
        struct vhost_user_header header;
        struct vhost_user_inflight_description answer;
    } __attribute__((packed)) reply = { 0 };
    union {
        char bytes[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = { &reply, sizeof reply };
    struct msghdr to = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control };
    int region = -1;
    wire_send(fd, VHOST_USER_GET_INFLIGHT_FD, VHOST_USER_VERSION, asked, size_bytes, NULL, 0);
    assert_int_equal(recvmsg(fd, &to, MSG_CMSG_CLOEXEC), sizeof reply.header + size_bytes);
    assert_int_equal(reply.header.request, VHOST_USER_GET_INFLIGHT_FD);
    assert_int_equal(reply.header.flags, VHOST_USER_VERSION | VHOST_USER_REPLY);
    assert_int_equal(reply.header.size_bytes, size_bytes);
    struct cmsghdr *header = CMSG_FIRSTHDR(&to);
    if (header) {
        assert_int_equal(header->cmsg_len, CMSG_LEN(sizeof(int)));
        memcpy(&region, CMSG_DATA(header), sizeof region);
    }
    *answer_out = reply.answer;
    return region;
}

static int64_t set_region(const struct vhost_user_inflight_description *said, int region)
{
    return wire_ask(fd, VHOST_USER_SET_INFLIGHT_FD, said, VHOST_USER_INFLIGHT_DESCRIPTION_BYTES, &region, 1);
}

static void a_region_goes_out_and_comes_back(void **state)
{
    const uint32_t lengths[] = { VHOST_USER_INFLIGHT_DESCRIPTION_BYTES, sizeof(struct vhost_user_inflight_description) };
    for (unsigned i = 0; i < 2; i++) {
        const struct vhost_user_inflight_description asked = { .queue_count = 3, .queue_size = 128 };
        struct vhost_user_inflight_description answer;
        struct stat status;
        int region = get_region(&asked, lengths[i], &answer);
        assert_true(region >= 0 && fstat(region, &status) == 0);
        assert_int_equal(answer.queue_count, 3);
        assert_int_equal(answer.queue_size, 128);
        assert_int_equal(answer.offset_bytes, 0);
        assert_int_equal(answer.size_bytes, status.st_size);
        assert_int_equal(answer.size_bytes, 3 * vhost_user_inflight_stride_bytes(false, 128));
        assert_int_equal(ftruncate(region, 0), -1); /* nobody can cut it off */
        assert_int_equal(set_region(&answer, region), 0);
        close(region);
    }
    assert_int_equal(stub_count(&stub, "inflight 3 128"), 2);
}

/* The ring's format is not known yet: there must be room for the larger one. */
static void a_region_that_is_asked_for_early_fits_both_formats(void **state)
{
    const uint64_t packed = UINT64_C(1) << 34;
    const struct vhost_user_inflight_description asked = { .queue_count = 1, .queue_size = 64 };
    struct vhost_user_inflight_description answer;
    bool offered = wire_ask(fd, VHOST_USER_GET_FEATURES, NULL, 0, NULL, 0) & packed;
    close(fd);
    fd = stub_connect(path);
    uint64_t protocol = 1 << VHOST_USER_PROTOCOL_F_INFLIGHT_SHMFD;
    wire_send(fd, VHOST_USER_SET_PROTOCOL_FEATURES, VHOST_USER_VERSION, &protocol, sizeof protocol, NULL, 0);
    int region = get_region(&asked, sizeof asked, &answer);
    assert_int_equal(answer.size_bytes, vhost_user_inflight_stride_bytes(offered, 64));
    close(region);
}

static void wrong_regions_are_refused(void **state)
{
    const uint64_t stride = vhost_user_inflight_stride_bytes(false, 16);
    const struct vhost_user_inflight_description good = { stride * 2, 0, 2, 16, 0 };
    int region = memfd_create("region", MFD_CLOEXEC), small = memfd_create("small", MFD_CLOEXEC);
    assert_int_equal(ftruncate(region, 0x10000), 0);
    assert_int_equal(ftruncate(small, (off_t)stride), 0);
    const struct vhost_user_inflight_description wrong[] = {
        { stride * 2, 0, 0, 16, 0 },                 /* no queue */
        { stride * 2, 0, STUB_QUEUES + 1, 16, 0 },   /* more than there are */
        { stride * 2, 0, 2, 0, 0 },                  /* no entries */
        { stride * 2, 0, 2, 32769, 0 },              /* more than a ring may have */
        { stride * 2 - 1, 0, 2, 16, 0 },             /* too small */
        { 0, 0, 2, 16, 0 },                          /* nothing */
        { stride * 2, 4, 2, 16, 0 },                 /* not aligned */
        { stride * 2, 0x10000, 2, 16, 0 },           /* behind the file's end */
        { stride * 2, UINT64_MAX - 7, 2, 16, 0 },    /* overflow */
        { UINT64_MAX, 8, 2, 16, 0 },
    };
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(set_region(&wrong[i], region), 1);
    assert_int_equal(set_region(&good, small), 1);
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(set_region(&good, pipes[0]), 1); /* no memory */
    assert_int_equal(fcntl(region, F_GETFL) & O_ACCMODE, O_RDWR);
    assert_int_equal(stub_count(&stub, "inflight"), 0);

    stub_set_fail(&stub, -EBUSY);
    assert_int_equal(set_region(&good, region), 1);
    stub_set_fail(&stub, 0);
    assert_int_equal(set_region(&good, region), 0);
    assert_int_equal(stub_count(&stub, "inflight 2 16"), 2); /* the device refused the first */

    /* A question that cannot be answered with no, and a message without its descriptor. */
    const struct vhost_user_inflight_description asked = { .queue_count = STUB_QUEUES + 1, .queue_size = 16 };
    wire_send(fd, VHOST_USER_GET_INFLIGHT_FD, VHOST_USER_VERSION, &asked, sizeof asked, NULL, 0);
    assert_true(wire_ended(fd));
    close(fd);
    fd = stub_connect(path);
    wire_negotiate(fd, STUB_FEATURES);
    wire_send(fd, VHOST_USER_SET_INFLIGHT_FD, VHOST_USER_VERSION, &good, sizeof good, NULL, 0);
    assert_true(wire_ended(fd));
    close(region);
    close(small);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STUB_TEST(a_region_goes_out_and_comes_back),
        STUB_TEST(a_region_that_is_asked_for_early_fits_both_formats),
        STUB_TEST(wrong_regions_are_refused),
    };
    return served_stub_run(tests);
}
