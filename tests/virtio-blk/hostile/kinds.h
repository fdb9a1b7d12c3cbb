/* Descriptors of every kind that a front end can send in place of the right one. */
#ifndef TEST_HOSTILE_KINDS_H
#define TEST_HOSTILE_KINDS_H

#include "front_end.h"

#define KINDS "eEpPfdosmrzntuw"

/* e eventfd, E full eventfd, p pipe (reading end), P pipe that nobody reads, f file, d directory, o epoll, s socket whose
 * other end is closed, m memory of 1 MiB, r the same read-only, z /dev/zero, n /dev/null, t timer, u the connection's own
 * socket, w always writable and readable socket. The caller closes it. */
int kind_open(char kind, const struct front_end *fe);

#endif
