/*
 * A device behind a session that notes what it is asked, in a loop with a thread of its own; the test is the front end.
 *
 *     struct stub stub;
 *     stub_start(&stub, &(struct stub_options){ .path = path });
 *     ... connect, wire_ask ...
 *     stub_wait(&stub, "disconnected 0");
 *     stub_stop(&stub);
 */
#ifndef TEST_STUB_DEVICE_H
#define TEST_STUB_DEVICE_H

#include <pthread.h>
#include <stdbool.h>

#include "vhost_user/session.h"

#define STUB_FEATURES (UINT64_C(1) << 32 | UINT64_C(1) << 28 | UINT64_C(1) << 29 | UINT64_C(1) << 9)
#define STUB_QUEUES 4

struct stub_options {
    const char *path;
    int fd; /* used if path is NULL */
};

struct stub {
    struct stub_options options;
    struct vhost_user_session *session;
    struct rt_loop *loop;
    pthread_t thread;
    int create_error;
    char *message;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    char notes[16384]; /* "name arguments\n" each */
    int fail;          /* every operation that can fails with it */
    bool block;        /* the next set_memory_co stays until stub_release() */
    struct rt_coroutine *blocked;
    bool started;

    /* the loop's thread */
    struct vhost_user_memory_map *map;
    int kick_fd;
};

/* Returns what vhost_user_session_create() returned; if that is an error there is nothing to stop. */
int stub_start(struct stub *stub, const struct stub_options *options);
/* Destroy the session in a coroutine, and the loop. */
void stub_stop(struct stub *stub);

void stub_set_fail(struct stub *stub, int error);
void stub_block(struct stub *stub);
void stub_release(struct stub *stub);

/* Wait until the notes have @count lines that begin with @text. Ends the test after 20 s. */
void stub_wait_count(struct stub *stub, const char *text, unsigned count);
void stub_wait(struct stub *stub, const char *text);
unsigned stub_count(struct stub *stub, const char *text);

/* A front end's connection to a path; retries nothing. */
int stub_connect(const char *path);

#endif
