/*
 * Plays a story of QEMU's events: usage emit_qemu STORY, a file of lines
 *
 *     THREAD EVENT VALUE...    that thread emits the event, its fields in QEMU's order
 *     THREAD sleep MS
 *     repeat COUNT ... end     what stands between, again and again; not nested
 *
 * Lines are played one after the other, whichever threads they name, so that the order of events is the story's.
 */
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "qemu_points.h"

#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define emit(...) lttng_ust_tracepoint(qemu, __VA_ARGS__)

struct actor {
    GAsyncQueue *lines, *done;
};

static uint64_t number(char **words, unsigned index)
{
    return index < g_strv_length(words) ? (uint64_t)g_ascii_strtoll(words[index], NULL, 0) : 0;
}

#define N(index) number(words, 1 + (index))

/* Returns false for an event that it does not know. */
static gboolean play(char **words)
{
    const char *name = words[1];

#define IS(event) !strcmp(name, event)
    words++;
    if (IS("sleep"))
        g_usleep(1000 * N(0));
    else if (IS("qemu_mutex_lock"))
        emit(qemu_mutex_lock, N(0), "../util/async.c", 7);
    else if (IS("qemu_mutex_locked"))
        emit(qemu_mutex_locked, N(0), "../util/async.c", 7);
    else if (IS("qemu_mutex_unlock"))
        emit(qemu_mutex_unlock, N(0), "../util/async.c", 9);
    else if (IS("qemu_aio_coroutine_enter"))
        emit(qemu_aio_coroutine_enter, N(0), N(1), N(2), 0);
    else if (IS("qemu_coroutine_yield"))
        emit(qemu_coroutine_yield, N(0), N(1));
    else if (IS("qemu_coroutine_terminate"))
        emit(qemu_coroutine_terminate, N(0));
    else if (IS("aio_co_schedule"))
        emit(aio_co_schedule, N(0), N(1));
    else if (IS("aio_co_schedule_bh_cb"))
        emit(aio_co_schedule_bh_cb, N(0), N(1));
    else if (IS("run_poll_handlers_begin"))
        emit(run_poll_handlers_begin, N(0), (int64_t)N(1), (int64_t)N(2));
    else if (IS("run_poll_handlers_end"))
        emit(run_poll_handlers_end, N(0), (uint8_t)N(1), (int64_t)N(2));
    else if (IS("virtio_blk_handle_read"))
        emit(virtio_blk_handle_read, N(0), N(1), N(2), N(3));
    else if (IS("virtio_blk_rw_complete"))
        emit(virtio_blk_rw_complete, N(0), N(1), (int)N(2));
    else if (IS("virtio_blk_req_complete"))
        emit(virtio_blk_req_complete, N(0), N(1), (int)N(2));
    else if (IS("thread_pool_submit_aio"))
        emit(thread_pool_submit_aio, N(0), N(1), 0);
    else if (IS("thread_pool_complete_aio"))
        emit(thread_pool_complete_aio, N(0), N(1), 0, (int)N(2));
    else if (IS("object_dynamic_cast_assert"))
        emit(object_dynamic_cast_assert, "virtio-blk-device", "virtio-device");
    else
        return FALSE;
    return TRUE;
}

static gpointer act(gpointer data)
{
    struct actor *actor = data;

    for (;;) {
        char **words = g_async_queue_pop(actor->lines);

        if (!play(words)) {
            fprintf(stderr, "emit_qemu: no such event: %s\n", words[1]);
            exit(2);
        }
        g_async_queue_push(actor->done, actor);
    }
    return NULL;
}

static void line(GHashTable *actors, char **words)
{
    struct actor *actor = g_hash_table_lookup(actors, words[0]);

    if (!actor) {
        actor = g_new0(struct actor, 1);
        actor->lines = g_async_queue_new();
        actor->done = g_async_queue_new();
        g_hash_table_insert(actors, words[0], actor);
        g_thread_unref(g_thread_new(words[0], act, actor));
    }
    g_async_queue_push(actor->lines, words);
    g_async_queue_pop(actor->done);
}

int main(int argc, char **argv)
{
    GHashTable *actors = g_hash_table_new(g_str_hash, g_str_equal);
    char *text, **lines;
    unsigned begin = 0, count = 0;

    if (argc != 2 || !g_file_get_contents(argv[1], &text, NULL, NULL)) {
        fprintf(stderr, "usage: emit_qemu STORY\n");
        return 2;
    }
    lines = g_strsplit(g_strchomp(text), "\n", -1);
    for (unsigned i = 0; lines[i]; i++) {
        char **words = g_strsplit(g_strstrip(lines[i]), " ", -1); /* threads live as long as the program, and so do names */

        if (!words[0] || words[0][0] == '#') {
            continue;
        } else if (!strcmp(words[0], "repeat")) {
            begin = i;
            count = (unsigned)atoi(words[1]);
        } else if (!strcmp(words[0], "end")) {
            if (--count > 0)
                i = begin;
        } else {
            line(actors, words);
        }
    }
    return 0;
}
