/*
 * Starts and stops the rings of a vhost-user-blk server again and again, for bench_dataplane.py.
 *
 * Usage: start_rings SOCKET together|one-by-one QUEUES STARTS
 * together: every ring is set up, then all are enabled, so the server takes all into one start. one-by-one: each ring is
 * enabled right after it was set up. The messages are the same, and each is acknowledged.
 * Prints the median time of a start in nanoseconds.
 */
#include "front_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"

static int start(struct front_end *fe, unsigned queue_count, bool together)
{
    int error = 0;

    for (unsigned i = 0; i < queue_count && error == 0; i++) {
        error = fe_queue_start(fe, i);
        if (error == 0 && !together)
            error = fe_queue_enable(fe, i, true);
    }
    for (unsigned i = 0; i < queue_count && error == 0 && together; i++)
        error = fe_queue_enable(fe, i, true);
    return error;
}

/* With a front end of its own, as each start makes new eventfds. */
static int time_start(const struct fe_options *options, bool together, double *ns_out)
{
    struct front_end *fe = fe_create(options);
    int64_t begin_ns = 0;
    int error = fe_connect(fe);

    if (error == 0)
        error = fe_negotiate(fe);
    if (error == 0)
        error = fe_map(fe);
    if (error == 0) {
        begin_ns = bench_wall_ns();
        error = start(fe, options->queue_count, together);
        *ns_out = (double)(bench_wall_ns() - begin_ns);
    }
    if (error == 0)
        error = fe_stop(fe);
    if (error < 0)
        fprintf(stderr, "start_rings: %s\n", fe_error(fe));
    fe_destroy(fe);
    return error;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    struct fe_options options = FE_OPTIONS_DEFAULT;
    unsigned start_count = argc == 5 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
    double *times_ns;
    int error = 0;

    options.queue_count = argc == 5 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    if (options.queue_count == 0 || start_count == 0) {
        fprintf(stderr, "Usage: start_rings SOCKET together|one-by-one QUEUES STARTS\n");
        return 2;
    }
    options.socket_path = argv[1];
    times_ns = g_new(double, start_count);
    for (unsigned i = 0; i < start_count && error == 0; i++)
        error = time_start(&options, strcmp(argv[2], "together") == 0, &times_ns[i]);
    if (error == 0) {
        qsort(times_ns, start_count, sizeof(*times_ns), by_value);
        printf("%.0f\n", times_ns[start_count / 2]);
    }
    g_free(times_ns);
    return error < 0;
}
