/*
 * Goal:   the channel on which the back end speaks first says what it has to, and nothing that the front end does with its
 *         end (closing, filling, rubbish) blocks, kills or leaks.
 * Method: the channel on a socket pair, then a session with a stub device whose front end misbehaves in each way.
 * Broken: a guest does not see that its disk has grown, or a front end stops the process that serves it and others.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "front_end_wire.h"
#include "served_stub.h"
#include "rt/loop.h"
#include "vhost_user/backend_channel.h"

#define ASKS (VHOST_USER_VERSION | VHOST_USER_NEED_REPLY)

struct answer {
    struct vhost_user_header header;
    uint32_t verdict[2];
};

static const struct answer right = { { VHOST_USER_BACKEND_CONFIG_CHANGE_MSG, VHOST_USER_VERSION | VHOST_USER_REPLY, 8 },
                                     { 0, 0 } };

static void make_channel(struct vhost_user_backend_channel *channel, int *there)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(vhost_user_backend_channel_check(ends[0]), 0);
    vhost_user_backend_channel_open(channel, ends[0]);
    *there = ends[1];
}

static void expect_message(int there, uint32_t flags)
{
    struct vhost_user_header message;
    assert_int_equal(recv(there, &message, sizeof message, MSG_WAITALL), sizeof message);
    assert_int_equal(message.request, VHOST_USER_BACKEND_CONFIG_CHANGE_MSG);
    assert_int_equal(message.flags, flags);
    assert_int_equal(message.size_bytes, 0);
}

static void messages_and_answers(void **state)
{
    struct vhost_user_backend_channel channel;
    struct answer refused = right;
    uint64_t verdict;
    int there;
    make_channel(&channel, &there);
    assert_int_equal(vhost_user_backend_channel_receive(&channel, &verdict), -EAGAIN);
    assert_int_equal(vhost_user_backend_channel_tell(&channel, false), 0);
    expect_message(there, VHOST_USER_VERSION);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(vhost_user_backend_channel_tell(&channel, true), 0);
    expect_message(there, ASKS);
    expect_message(there, ASKS);
    /* Byte by byte, and the next one behind it. */
    for (unsigned i = 0; i < sizeof right; i++) {
        assert_int_equal(vhost_user_backend_channel_receive(&channel, &verdict), -EAGAIN);
        assert_int_equal(write(there, (const char *)&right + i, 1), 1);
    }
    refused.verdict[1] = 1;
    assert_int_equal(write(there, &refused, sizeof refused), sizeof refused);
    assert_int_equal(vhost_user_backend_channel_receive(&channel, &verdict), 1);
    assert_int_equal(verdict, 0);
    assert_int_equal(vhost_user_backend_channel_receive(&channel, &verdict), 1);
    assert_int_equal(verdict, UINT64_C(1) << 32);
    assert_int_equal(vhost_user_backend_channel_receive(&channel, &verdict), -EAGAIN);
    close(there);
    assert_int_equal(vhost_user_backend_channel_receive(&channel, &verdict), 0);
    assert_int_equal(vhost_user_backend_channel_tell(&channel, true), -EPIPE);
    vhost_user_backend_channel_close(&channel);
    assert_int_equal(vhost_user_backend_channel_tell(&channel, true), -ENOTCONN);
    vhost_user_backend_channel_close(&channel);
}

static void rubbish_is_no_answer(void **state)
{
    const struct answer wrong[] = {
        { { 0, VHOST_USER_VERSION | VHOST_USER_REPLY, 8 }, { 0 } },
        { { VHOST_USER_BACKEND_CONFIG_CHANGE_MSG, VHOST_USER_VERSION, 8 }, { 0 } },
        { { VHOST_USER_BACKEND_CONFIG_CHANGE_MSG, VHOST_USER_REPLY, 8 }, { 0 } },
        { { VHOST_USER_BACKEND_CONFIG_CHANGE_MSG, VHOST_USER_VERSION | VHOST_USER_REPLY, 9 }, { 0 } },
        { { VHOST_USER_BACKEND_CONFIG_CHANGE_MSG, VHOST_USER_VERSION | VHOST_USER_REPLY, UINT32_MAX }, { 0 } },
    };
    struct vhost_user_backend_channel channel;
    uint64_t verdict = 7;
    int there;
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        make_channel(&channel, &there);
        assert_int_equal(vhost_user_backend_channel_tell(&channel, true), 0);
        assert_int_equal(write(there, &wrong[i], sizeof wrong[i]), sizeof wrong[i]);
        assert_int_equal(vhost_user_backend_channel_receive(&channel, &verdict), -EPROTO);
        close(there);
        vhost_user_backend_channel_close(&channel);
    }
    /* A right one that nobody asked for; and one that breaks off. */
    make_channel(&channel, &there);
    assert_int_equal(vhost_user_backend_channel_tell(&channel, false), 0);
    assert_int_equal(write(there, &right, sizeof right), sizeof right);
    assert_int_equal(vhost_user_backend_channel_receive(&channel, &verdict), -EPROTO);
    assert_int_equal(write(there, &right, 5), 5);
    assert_int_equal(shutdown(there, SHUT_WR), 0);
    assert_int_equal(vhost_user_backend_channel_receive(&channel, &verdict), -ECONNRESET);
    assert_int_equal(verdict, 7);
    close(there);
    vhost_user_backend_channel_close(&channel);
}

static void a_full_channel_blocks_nobody(void **state)
{
    struct vhost_user_backend_channel channel;
    unsigned told = 0;
    int there, error;
    make_channel(&channel, &there);
    while ((error = vhost_user_backend_channel_tell(&channel, true)) == 0)
        told++;
    assert_int_equal(error, -EAGAIN);
    assert_int_equal(channel.unanswered, told);
    for (unsigned i = 0; i < told; i++)
        expect_message(there, ASKS);
    assert_int_equal(vhost_user_backend_channel_tell(&channel, true), 0);
    close(there);
    vhost_user_backend_channel_close(&channel);
}

static void only_connected_stream_sockets_will_do(void **state)
{
    int event = eventfd(0, EFD_CLOEXEC), loose = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
        inet = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), packets[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, packets), 0);
    assert_int_equal(vhost_user_backend_channel_check(event), -ENOTSOCK);
    assert_int_equal(vhost_user_backend_channel_check(loose), -ENOTCONN);
    assert_int_equal(vhost_user_backend_channel_check(inet), -EINVAL);
    assert_int_equal(vhost_user_backend_channel_check(packets[0]), -EINVAL);
    assert_int_equal(vhost_user_backend_channel_check(-1), -EBADF);
    close(event);
    close(loose);
    close(inet);
    close(packets[0]);
    close(packets[1]);
}

/* ---- in a session ---- */

/* Our end of a new channel. */
static int open_channel(void)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_BACKEND_REQ_FD, NULL, 0, &ends[1], 1), 0);
    close(ends[1]);
    return ends[0];
}

static bool told;

static void tell(void *opaque)
{
    told = vhost_user_session_config_changed(stub.session);
}

static bool change_config(void)
{
    rt_loop_call(stub.loop, tell, NULL);
    return told;
}

static void assert_alive(void)
{
    assert_int_equal(wire_ask(fd, VHOST_USER_GET_QUEUE_NUM, NULL, 0, NULL, 0), STUB_QUEUES);
}

static void the_front_end_is_told(void **state)
{
    assert_false(change_config());
    int there = open_channel();
    assert_alive(); /* the message was answered, and what follows it is done */
    for (unsigned i = 0; i < 3; i++) {
        assert_true(change_config());
        expect_message(there, ASKS);
        assert_int_equal(write(there, &right, sizeof right), sizeof right);
    }
    /* Another one takes its place; the first is closed. */
    int next = open_channel();
    assert_true(wire_ended(there));
    close(there);
    assert_true(change_config());
    expect_message(next, ASKS);
    /* A reset of the driver leaves it, the end of the connection does not. */
    assert_int_equal(wire_ask(fd, VHOST_USER_RESET_DEVICE, NULL, 0, NULL, 0), 0);
    assert_true(change_config());
    expect_message(next, ASKS);
    close(fd);
    assert_true(wire_ended(next));
    close(next);
    fd = stub_connect(path);
    assert_int_equal(wire_ask(fd, VHOST_USER_GET_PROTOCOL_FEATURES, NULL, 0, NULL, 0) & 1, 1);
    assert_false(change_config());
}

static void without_reply_ack_no_answer_is_asked_for(void **state)
{
    close(fd);
    fd = stub_connect(path);
    uint64_t protocol = 1 << VHOST_USER_PROTOCOL_F_BACKEND_REQ | 1 << VHOST_USER_PROTOCOL_F_CONFIG |
                        1 << VHOST_USER_PROTOCOL_F_MQ;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    wire_send(fd, VHOST_USER_SET_PROTOCOL_FEATURES, VHOST_USER_VERSION, &protocol, sizeof protocol, NULL, 0);
    wire_send(fd, VHOST_USER_SET_BACKEND_REQ_FD, VHOST_USER_VERSION, NULL, 0, &ends[1], 1);
    close(ends[1]);
    assert_alive();
    assert_true(change_config());
    expect_message(ends[0], VHOST_USER_VERSION);
    close(ends[0]);
}

/* Whatever is done to the channel, the session goes on and another channel can be given. */
static void a_channel_may_break(void **state)
{
    int event = eventfd(0, EFD_CLOEXEC);
    for (unsigned way = 0; way < 6; way++) {
        int there = open_channel();
        uint8_t bytes[300] = { 0x42 };
        assert_alive();
        switch (way) {
        case 0: /* closed, and noticed before anything is sent */
            close(there);
            there = -1;
            break;
        case 1: /* rubbish */
            assert_int_equal(write(there, bytes, sizeof bytes), sizeof bytes);
            assert_true(wire_ended(there));
            break;
        case 2: /* half an answer */
            assert_int_equal(write(there, bytes, 7), 7);
            assert_int_equal(shutdown(there, SHUT_WR), 0);
            break;
        case 3: /* nobody reads */
            while (change_config())
                ;
            assert_alive();
            break;
        case 4: /* an answer of no, and one too many */
            assert_true(change_config());
            bytes[0] = VHOST_USER_BACKEND_CONFIG_CHANGE_MSG;
            bytes[4] = VHOST_USER_VERSION | VHOST_USER_REPLY;
            bytes[8] = 8;
            bytes[12] = 1;
            memcpy(bytes + 20, bytes, 20);
            assert_int_equal(write(there, bytes, 40), 40);
            expect_message(there, ASKS);
            assert_true(wire_ended(there));
            break;
        case 5: /* what is no channel is refused, and the channel stays */
            assert_int_equal(wire_ask(fd, VHOST_USER_SET_BACKEND_REQ_FD, NULL, 0, &event, 1), 1);
            assert_true(change_config());
            expect_message(there, ASKS);
            break;
        }
        assert_alive();
        if (there >= 0)
            close(there);
    }
    close(event);
    int there = open_channel();
    assert_alive();
    assert_true(change_config());
    expect_message(there, ASKS);
    close(there);
}

static void not_without_the_feature(void **state)
{
    int ends[2];
    close(fd);
    fd = stub_connect(path);
    uint64_t protocol = 1 << VHOST_USER_PROTOCOL_F_REPLY_ACK | 1 << VHOST_USER_PROTOCOL_F_CONFIG |
                        1 << VHOST_USER_PROTOCOL_F_MQ;
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_PROTOCOL_FEATURES, &protocol, sizeof protocol, NULL, 0), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(wire_ask(fd, VHOST_USER_SET_BACKEND_REQ_FD, NULL, 0, &ends[1], 1), 1);
    assert_false(change_config());
    close(ends[0]);
    close(ends[1]);
    assert_alive();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_and_answers),
        cmocka_unit_test(rubbish_is_no_answer),
        cmocka_unit_test(a_full_channel_blocks_nobody),
        cmocka_unit_test(only_connected_stream_sockets_will_do),
        STUB_TEST(the_front_end_is_told),
        STUB_TEST(without_reply_ack_no_answer_is_asked_for),
        STUB_TEST(a_channel_may_break),
        STUB_TEST(not_without_the_feature),
    };
    return served_stub_run(tests);
}
