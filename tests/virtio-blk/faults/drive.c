/*
 * drive SOCKET SCENARIO QUEUES DEPTH SECONDS PATIENCE_MS: a front end that tells what a user of the device would notice.
 *
 * SCENARIO:  load     each queue is loaded for SECONDS, then idle for as long
 *            memory   the same, and the memory table changes again and again; after a rest one more read
 *            restart  the first queue stops, starts again, and reads on
 * Output:    one line of JSON: outcome (done; handshake: a message was not answered; no answer: a request is not completed;
 *            no interrupt: it is, and nobody says so), requests, slowest_ms.
 * Each stop of the world is left as it is for PATIENCE_MS, so that it shows in a recording. Status 0 whatever came.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "front_end.h"

#define EXTRA_BYTES 4096
/* Longer than a loop polls: it sleeps then. */
#define REST_MS 200
/* One read may be done before anybody waits for an interrupt. */
#define READS_AFTER_RESTART 100

static const char *socket_path, *scenario;
static unsigned queue_count, depth;
static double seconds;
static int patience_ms;

static struct front_end *fe;
static _Atomic bool stop;
static _Atomic(const char *) outcome;
static _Atomic uint64_t request_count;
static _Atomic int64_t slowest_ns;

static int64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void sleep_ms(unsigned ms)
{
    const struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

    nanosleep(&time, NULL);
}

/* What went wrong first. */
static void say(const char *what)
{
    const char *nothing = NULL;

    atomic_compare_exchange_strong(&outcome, &nothing, what);
    atomic_store(&stop, true);
}

static void submit(struct fe_queue *queue)
{
    uint16_t slot = fe_queue_take(queue);

    fe_queue_prepare(queue, slot, VIRTIO_BLK_T_IN, 0, 512, FE_FROM_DEVICE);
    fe_queue_submit(queue, slot);
}

/* One completion. False: within the patience nothing came. */
static bool reap(struct fe_queue *queue)
{
    int64_t begin_ns = clock_ns(), took_ns;
    uint16_t slot;
    int count;

    fe_queue_publish(queue);
    while ((count = fe_queue_reap(queue, &slot, 1)) == 0) {
        struct pollfd interrupt = { .fd = queue->call_fd, .events = POLLIN };

        if (fe_queue_arm(queue))
            continue;
        if (poll(&interrupt, 1, patience_ms) == 1) {
            (void)fe_queue_wait(queue);
            continue;
        }
        say(fe_queue_reap(queue, &slot, 1) > 0 ? "no interrupt" : "no answer");
        return false;
    }
    if (count < 0) {
        say(queue->broken);
        return false;
    }
    fe_queue_give(queue, slot);
    took_ns = clock_ns() - begin_ns;
    for (int64_t slowest = slowest_ns; took_ns > slowest && !atomic_compare_exchange_weak(&slowest_ns, &slowest, took_ns);)
        ;
    request_count++;
    return true;
}

static bool read_once(struct fe_queue *queue)
{
    submit(queue);
    return reap(queue);
}

static void *load_queue(void *opaque)
{
    struct fe_queue *queue = opaque;
    unsigned in_flight = 0;

    while (!stop || in_flight > 0) {
        while (!stop && in_flight < depth) {
            submit(queue);
            in_flight++;
        }
        if (!reap(queue))
            break;
        in_flight--;
    }
    return NULL;
}

/* Without the last page, which nobody uses, and with it: a region that goes is what a device must drain for. */
static void change_memory(bool less)
{
    size_t bytes;
    struct wire_memory_table table = { .region_count = 1 };
    int fd = fe_memory_fd(fe);

    table.regions[0].user_addr = (uintptr_t)fe_memory(fe, &bytes);
    table.regions[0].guest_addr = fe_memory_guest_addr(fe);
    table.regions[0].size_bytes = bytes - (less ? EXTRA_BYTES : 0);
    if (fe_set(fe, WIRE_SET_MEM_TABLE, &table, 8 + sizeof(table.regions[0]), &fd, 1) < 0)
        say("handshake");
}

static void run_load(bool memory)
{
    pthread_t threads[64];
    int64_t end_ns = clock_ns() + (int64_t)(seconds * 1e9);
    bool less = false;

    for (unsigned i = 0; i < queue_count; i++)
        pthread_create(&threads[i], NULL, load_queue, fe_queue(fe, i));
    while (!stop && clock_ns() < end_ns) {
        sleep_ms(20);
        if (memory && !stop)
            change_memory(less = !less);
    }
    stop = true;
    for (unsigned i = 0; i < queue_count; i++)
        pthread_join(threads[i], NULL);
    if (memory && !outcome) {
        sleep_ms(REST_MS);
        (void)read_once(fe_queue(fe, 0));
    }
}

static void run_restart(void)
{
    uint16_t base;

    if (!read_once(fe_queue(fe, 0)))
        return;
    if (fe_queue_stop(fe, 0, &base) < 0 || fe_queue_start(fe, 0) < 0 || fe_queue_enable(fe, 0, true) < 0)
        say("handshake");
    for (unsigned i = 0; i < READS_AFTER_RESTART && !stop && read_once(fe_queue(fe, 0)); i++)
        ;
}

static void run(void)
{
    if (strcmp(scenario, "restart") == 0)
        run_restart();
    else
        run_load(strcmp(scenario, "memory") == 0);
    /* Idle: what does not rest when there is nothing to do shows now. */
    if (!outcome)
        sleep_ms((unsigned)(seconds * 1000));
}

int main(int argument_count, char **arguments)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;

    if (argument_count != 7) {
        fprintf(stderr, "usage: drive SOCKET load|memory|restart QUEUES DEPTH SECONDS PATIENCE_MS\n");
        return 2;
    }
    socket_path = arguments[1];
    scenario = arguments[2];
    queue_count = (unsigned)atoi(arguments[3]);
    depth = (unsigned)atoi(arguments[4]);
    seconds = atof(arguments[5]);
    patience_ms = atoi(arguments[6]);
    options.socket_path = socket_path;
    options.queue_count = queue_count;
    options.layout.slot_count = depth;
    options.timeout_ms = patience_ms;
    options.extra_bytes = EXTRA_BYTES;
    fe = fe_create(&options);
    if (fe_open(fe) < 0)
        say("handshake");
    else
        run();
    printf("{\"outcome\": \"%s\", \"requests\": %llu, \"slowest_ms\": %.1f}\n", outcome ? outcome : "done",
           (unsigned long long)request_count, (double)slowest_ns / 1e6);
    fe_destroy(fe);
    return 0;
}
