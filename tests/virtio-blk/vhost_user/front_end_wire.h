/*
 * The other end of the socket, byte by byte: sends what the test says, right or wrong, and reads answers.
 * All calls block, and end the test when the socket does not do what a socket does.
 */
#ifndef TEST_FRONT_END_WIRE_H
#define TEST_FRONT_END_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vhost_user/protocol.h"

#define WIRE_ACK (VHOST_USER_VERSION | VHOST_USER_NEED_REPLY)

/* Bytes with descriptors on the first of them. False: the other side has closed. */
bool wire_send_bytes(int fd, const void *bytes, size_t size_bytes, const int *fds, unsigned fd_count);

/* One whole message. */
bool wire_send(int fd, uint32_t request, uint32_t flags, const void *payload, uint32_t size_bytes, const int *fds,
               unsigned fd_count);

/* The next reply; payload_out has room for what any may hold. Returns its payload's size, or -1 at the end. */
int wire_receive(int fd, uint32_t *request_out, void *payload_out);

/* Send with NEED_REPLY (or a question) and return the u64 of the reply; -1 if the connection ended. */
int64_t wire_ask(int fd, uint32_t request, const void *payload, uint32_t size_bytes, const int *fds,
                 unsigned fd_count);

/* GET/SET of features and protocol features, as front ends do it first. */
void wire_negotiate(int fd, uint64_t features);

/* Whether the other side has closed; waits for it. */
bool wire_ended(int fd);

/* Open descriptors of this process. */
unsigned wire_count_fds(void);

#endif
