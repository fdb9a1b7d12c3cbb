/*
 * Drives the queues of a front end with one thread each, while the calling thread watches the clock,
 * the connection, the user and the server's silence.
 *
 * What is issued and what becomes of completions is a job's business; the engine keeps the queues full,
 * measures, restarts rings and ends the run whatever the server does.
 *
 *     struct load_job job = { .next = ..., .done = ..., .context = ... };
 *     struct load_engine *engine = load_engine_create(fe, &options);
 *     enum load_outcome outcome = load_engine_run(engine, &job);
 *
 * Threads: next(), done() and batch_end() run on the worker's thread; everything else on the caller's.
 */
#ifndef LOAD_ENGINE_H
#define LOAD_ENGINE_H

#include "front_end.h"
#include "options.h"

struct load_engine;
struct load_job;

/* One queue's thread. A cache line or more each, as they count without pause. */
struct load_worker {
    struct load_engine *engine;
    const struct load_job *job;
    struct fe_queue *queue;
    unsigned index;
    uint64_t random;          /* state of its generator: random_next(&worker->random) */
    void *state;              /* the job's */
    bool failed;              /* set by the job: the run ends, load_engine_error() is the job's */
    uint64_t begin_ns;        /* of the first request, CLOCK_MONOTONIC */
    uint64_t end_ns;          /* of the last completion */
    uint64_t completed_count; /* worker thread's; the published copy is the engine's */
} __attribute__((aligned(128)));

struct load_job {
    /** Prepare a request in @slot. False: this worker has nothing more to issue. */
    bool (*next)(struct load_worker *worker, uint16_t slot);
    /** A request ended; the queue's slot holds what came back. */
    void (*done)(struct load_worker *worker, uint16_t slot, uint8_t status, uint64_t latency_ns);
    /** After each group of done(); may be NULL. */
    void (*batch_end)(struct load_worker *worker);
    void *context;
    const char *title;      /* for the progress line */
    uint64_t request_count; /* of all workers, 0: not known */
    uint64_t runtime_ns;    /* 0: until next() has no more */
    unsigned restarts;      /* of all rings, spread over the run */
};

enum load_outcome {
    LOAD_DONE,
    LOAD_INTERRUPTED, /* by SIGINT or SIGTERM; what was in flight has completed */
    LOAD_FAILED,      /* load_engine_error() says why; what had completed by then was counted */
};

struct load_engine *load_engine_create(struct front_end *fe, const struct load_options *options);
void load_engine_destroy(struct load_engine *engine);

/** Workers of a run, before and after it: load_engine_worker(engine, i)->state is set here. */
struct load_worker *load_engine_worker(struct load_engine *engine, unsigned index);

enum load_outcome load_engine_run(struct load_engine *engine, const struct load_job *job);

/** Stop all rings; with --hold, stay connected for so long. */
enum load_outcome load_engine_finish(struct load_engine *engine);

/** One line with object, cause and remedy. */
const char *load_engine_error(const struct load_engine *engine);

/** From the first request to the last completion of the last run. */
uint64_t load_engine_elapsed_ns(const struct load_engine *engine);
unsigned load_engine_restart_count(const struct load_engine *engine);
/** How often the server went away and came back. */
unsigned load_engine_reconnect_count(const struct load_engine *engine);

#endif
