/* One function for each event of the catalogue (tracing_calls.py), which tracing_sites.c times. */
#ifndef BENCH_TRACING_SITES_H
#define BENCH_TRACING_SITES_H

/* The compiler may neither drop the loop nor look at a tracepoint's state once for all rounds. */
#define TRACING_SITES_KEEP_LOOP __asm__ volatile("" ::: "memory")

struct tracing_site {
    const char *name; /* provider:event */
    const char *sets; /* in which it is recorded */
    unsigned field_count, string_count;
    void (*hit)(unsigned count);
};

extern const struct tracing_site tracing_sites[];
extern const unsigned tracing_site_count;

#endif
