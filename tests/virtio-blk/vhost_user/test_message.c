/*
 * Goal:   a message is received whole, in whatever pieces it comes, with exactly its descriptors, and nothing leaks.
 * Method: a socket pair; one end sends bytes and descriptors in chosen pieces, the other receives. After each case
 *         the process has as many descriptors as before.
 * Broken: a front end makes the device misread the stream, or run out of descriptors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "front_end_wire.h"
#include "vhost_user/message.h"

struct pair {
    int there, here;
    unsigned fds_before;
    struct vhost_user_receiver receiver;
};

static void pair_init(struct pair *pair)
{
    int ends[2];
    pair->fds_before = wire_count_fds();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pair->there = ends[0];
    pair->here = ends[1];
    vhost_user_receiver_init(&pair->receiver, pair->here);
}

static void pair_deinit(struct pair *pair)
{
    vhost_user_receiver_next(&pair->receiver);
    if (pair->there >= 0)
        close(pair->there);
    close(pair->here);
    assert_int_equal(wire_count_fds(), pair->fds_before);
}

static void hang_up(struct pair *pair)
{
    close(pair->there);
    pair->there = -1;
}

static const struct vhost_user_vring_state state = { 7, 128 };

static void assert_is_state(const struct vhost_user_message *message)
{
    assert_int_equal(message->header.request, VHOST_USER_SET_VRING_NUM);
    assert_int_equal(message->header.size_bytes, sizeof state);
    assert_memory_equal(&message->payload.state, &state, sizeof state);
}

static void whole_messages_one_after_another(void **unused)
{
    struct pair pair;
    pair_init(&pair);
    assert_int_equal(vhost_user_receive(&pair.receiver), -EAGAIN);
    for (int i = 0; i < 3; i++)
        wire_send(pair.there, VHOST_USER_SET_VRING_NUM, VHOST_USER_VERSION, &state, sizeof state, NULL, 0);
    wire_send(pair.there, VHOST_USER_GET_FEATURES, WIRE_ACK, NULL, 0, NULL, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(vhost_user_receive(&pair.receiver), 1);
        assert_int_equal(vhost_user_receive(&pair.receiver), 1); /* the same still */
        assert_is_state(&pair.receiver.message);
        vhost_user_receiver_next(&pair.receiver);
    }
    assert_int_equal(vhost_user_receive(&pair.receiver), 1);
    assert_int_equal(pair.receiver.message.header.request, VHOST_USER_GET_FEATURES);
    assert_int_equal(pair.receiver.message.header.flags, WIRE_ACK);
    vhost_user_receiver_next(&pair.receiver);
    assert_int_equal(vhost_user_receive(&pair.receiver), -EAGAIN);
    hang_up(&pair);
    assert_int_equal(vhost_user_receive(&pair.receiver), 0);
    pair_deinit(&pair);
}

static void a_message_byte_by_byte(void **unused)
{
    struct vhost_user_header header = { VHOST_USER_SET_VRING_NUM, VHOST_USER_VERSION, sizeof state };
    uint8_t bytes[sizeof header + sizeof state];
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, &state, sizeof state);
    /* The descriptor comes with each of the bytes once. */
    for (size_t with = 0; with < sizeof bytes; with++) {
        struct pair pair;
        pair_init(&pair);
        int event = eventfd(0, EFD_CLOEXEC);
        for (size_t i = 0; i < sizeof bytes; i++) {
            assert_int_equal(vhost_user_receive(&pair.receiver), -EAGAIN);
            assert_int_equal(vhost_user_receiver_has_header(&pair.receiver), i >= sizeof header);
            wire_send_bytes(pair.there, bytes + i, 1, &event, i == with);
        }
        close(event);
        assert_int_equal(vhost_user_receive(&pair.receiver), 1);
        assert_is_state(&pair.receiver.message);
        assert_int_equal(pair.receiver.message.fd_count, 1);
        assert_true(fcntl(pair.receiver.message.fds[0], F_GETFD) & FD_CLOEXEC);
        pair_deinit(&pair);
    }
}

static void descriptors_keep_to_their_message(void **unused)
{
    struct pair pair;
    pair_init(&pair);
    int events[VHOST_USER_FDS_MAX];
    struct stat sent, got;
    for (unsigned i = 0; i < VHOST_USER_FDS_MAX; i++) {
        char path[] = "/tmp/test_message.XXXXXX";
        events[i] = mkstemp(path);
        assert_true(events[i] >= 0);
        unlink(path);
    }
    wire_send(pair.there, VHOST_USER_SET_VRING_NUM, VHOST_USER_VERSION, &state, sizeof state, events, 1);
    wire_send(pair.there, VHOST_USER_SET_VRING_NUM, VHOST_USER_VERSION, &state, sizeof state, NULL, 0);
    wire_send(pair.there, VHOST_USER_SET_VRING_NUM, VHOST_USER_VERSION, &state, sizeof state, events,
              VHOST_USER_FDS_MAX);
    const unsigned expected[] = { 1, 0, VHOST_USER_FDS_MAX };
    for (unsigned m = 0; m < 3; m++) {
        assert_int_equal(vhost_user_receive(&pair.receiver), 1);
        assert_int_equal(pair.receiver.message.fd_count, expected[m]);
        for (unsigned i = 0; i < expected[m]; i++) {
            assert_int_equal(fstat(events[i], &sent), 0);
            assert_int_equal(fstat(pair.receiver.message.fds[i], &got), 0);
            assert_int_equal(sent.st_ino, got.st_ino);
        }
        if (m == 2) { /* what is taken stays open */
            int fd = vhost_user_message_take_fd(&pair.receiver.message, 3);
            vhost_user_receiver_next(&pair.receiver);
            assert_int_equal(fstat(fd, &got), 0);
            close(fd);
        } else {
            vhost_user_receiver_next(&pair.receiver);
        }
    }
    for (unsigned i = 0; i < VHOST_USER_FDS_MAX; i++)
        close(events[i]);
    pair_deinit(&pair);
}

static void too_many_descriptors_are_closed(void **unused)
{
    /* In one piece (the kernel cuts), and in two that are too many together (we do). */
    for (unsigned first = 0; first <= 5; first += 5) {
        struct pair pair;
        pair_init(&pair);
        struct vhost_user_header header = { VHOST_USER_SET_MEM_TABLE, VHOST_USER_VERSION, sizeof state };
        int events[20];
        for (unsigned i = 0; i < 20; i++)
            events[i] = eventfd(0, EFD_CLOEXEC);
        if (first)
            wire_send_bytes(pair.there, &header, sizeof header, events, first);
        else
            wire_send_bytes(pair.there, &header, sizeof header, events, 20);
        if (first)
            wire_send_bytes(pair.there, &state, sizeof state, events, 4);
        assert_int_equal(vhost_user_receive(&pair.receiver), -EPROTO);
        for (unsigned i = 0; i < 20; i++)
            close(events[i]);
        pair_deinit(&pair);
    }
}

/* The kernel drops what this process has no room for and says only that something is missing. */
static void no_descriptor_left_is_an_error(void **unused)
{
    struct pair pair;
    struct rlimit before, none;
    pair_init(&pair);
    int event = eventfd(0, EFD_CLOEXEC);
    wire_send(pair.there, VHOST_USER_SET_VRING_NUM, VHOST_USER_VERSION, &state, sizeof state, &event, 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int got = vhost_user_receive(&pair.receiver);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(got, -EPROTO);
    close(event);
    pair_deinit(&pair);
}

static void a_stream_that_cannot_go_on(void **unused)
{
    const struct {
        struct vhost_user_header header;
        int error;
    } cases[] = {
        { { 1, 0, 0 }, -EPROTO },
        { { 1, 2, 0 }, -EPROTO },
        { { 1, 3, 0 }, -EPROTO },
        { { 1, VHOST_USER_VERSION | VHOST_USER_REPLY, 0 }, -EPROTO },
        { { 1, VHOST_USER_VERSION, VHOST_USER_PAYLOAD_BYTES_MAX + 1 }, -EMSGSIZE },
        { { 1, VHOST_USER_VERSION, UINT32_MAX }, -EMSGSIZE },
        { { 1, VHOST_USER_VERSION, VHOST_USER_PAYLOAD_BYTES_MAX }, -EAGAIN },
        { { UINT32_MAX, VHOST_USER_VERSION | 0xfffffff0u, 1 }, -EAGAIN },
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pair pair;
        pair_init(&pair);
        int event = eventfd(0, EFD_CLOEXEC);
        wire_send_bytes(pair.there, &cases[i].header, sizeof cases[i].header, &event, 1);
        close(event);
        assert_int_equal(vhost_user_receive(&pair.receiver), cases[i].error);
        assert_true(vhost_user_receiver_has_header(&pair.receiver));
        pair_deinit(&pair);
    }
}

static void an_end_in_the_middle_is_told_from_one_between(void **unused)
{
    struct vhost_user_header header = { VHOST_USER_SET_VRING_NUM, VHOST_USER_VERSION, sizeof state };
    for (size_t sent = 0; sent <= sizeof header; sent++) {
        struct pair pair;
        pair_init(&pair);
        int event = eventfd(0, EFD_CLOEXEC);
        if (sent)
            wire_send_bytes(pair.there, &header, sent, &event, 1);
        close(event);
        hang_up(&pair);
        assert_int_equal(vhost_user_receive(&pair.receiver), sent ? -ECONNRESET : 0);
        pair_deinit(&pair);
    }
}

static void the_largest_payload_is_read_whole(void **unused)
{
    struct pair pair;
    pair_init(&pair);
    uint8_t bytes[VHOST_USER_PAYLOAD_BYTES_MAX];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7);
    wire_send(pair.there, 9999, VHOST_USER_VERSION, bytes, sizeof bytes, NULL, 0);
    assert_int_equal(vhost_user_receive(&pair.receiver), 1);
    assert_memory_equal(pair.receiver.message.payload.bytes, bytes, sizeof bytes);
    pair_deinit(&pair);
}

static void replies_go_out_whole(void **unused)
{
    struct pair pair;
    struct vhost_user_sender sender;
    struct vhost_user_header request = { VHOST_USER_GET_CONFIG, WIRE_ACK, 0 };
    uint8_t payload[sizeof(struct vhost_user_config)], got[sizeof payload];
    uint32_t answered;
    pair_init(&pair);
    memset(payload, 0xa5, sizeof payload);
    /* As many as fit; then the one that did not goes on where it stopped. */
    unsigned sent = 0, received = 0;
    int result;
    for (;;) {
        vhost_user_sender_init(&sender, pair.here, &request, payload, sizeof payload);
        result = vhost_user_send(&sender);
        if (result != 1)
            break;
        sent++;
    }
    assert_int_equal(result, -EAGAIN);
    assert_true(sent > 10);
    for (; received < sent; received++)
        assert_int_equal(wire_receive(pair.there, &answered, got), sizeof payload);
    assert_int_equal(vhost_user_send(&sender), 1);
    assert_int_equal(wire_receive(pair.there, &answered, got), sizeof payload);
    assert_int_equal(answered, VHOST_USER_GET_CONFIG);
    assert_memory_equal(got, payload, sizeof payload);
    hang_up(&pair);
    vhost_user_sender_init(&sender, pair.here, &request, payload, 0);
    assert_int_equal(vhost_user_send(&sender), -EPIPE); /* and no signal */
    pair_deinit(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_messages_one_after_another),
        cmocka_unit_test(a_message_byte_by_byte),
        cmocka_unit_test(descriptors_keep_to_their_message),
        cmocka_unit_test(too_many_descriptors_are_closed),
        cmocka_unit_test(no_descriptor_left_is_an_error),
        cmocka_unit_test(a_stream_that_cannot_go_on),
        cmocka_unit_test(an_end_in_the_middle_is_told_from_one_between),
        cmocka_unit_test(the_largest_payload_is_read_whole),
        cmocka_unit_test(replies_go_out_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
