/*
 * Times every tracepoint of the catalogue for bench_tracing.py, which starts and stops recordings meanwhile.
 *
 * Usage: tracing_sites load|no-load
 * Reads lines "COUNT"; for each prints one line an event, "NAME<tab>SETS<tab>FIELDS<tab>STRINGS<tab>NS<tab>EMPTY_NS":
 * nanoseconds of processor time a round of a loop that does nothing but hit the tracepoint, and of an empty loop right before;
 * then an empty line.
 */
#include "tracing_sites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "tracepoints/load.h"

static void ignore(void *opaque)
{
}

static void run_empty(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        TRACING_SITES_KEEP_LOOP;
}

/* Called through a pointer, as the sites are. */
static void (*volatile empty)(unsigned count) = run_empty;

static double time_ns(void (*run)(unsigned count), unsigned count)
{
    int64_t begin_ns = bench_cpu_ns();

    run(count);
    return (double)(bench_cpu_ns() - begin_ns) / count;
}

int main(int argc, char **argv)
{
    char line[32];

    if (argc != 2 || (strcmp(argv[1], "load") != 0 && strcmp(argv[1], "no-load") != 0)) {
        fprintf(stderr, "Usage: tracing_sites load|no-load\n");
        return 2;
    }
    if (strcmp(argv[1], "load") == 0 && tracepoints_load(ignore, NULL) < 0) {
        fprintf(stderr, "tracing_sites: %s\n", tracepoints_load_reason());
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        unsigned count = (unsigned)strtoul(line, NULL, 10);

        for (unsigned i = 0; i < tracing_site_count && count > 0; i++) {
            const struct tracing_site *site = &tracing_sites[i];
            double empty_ns = time_ns(empty, count), ns = time_ns(site->hit, count);

            printf("%s\t%s\t%u\t%u\t%.4f\t%.4f\n", site->name, site->sets, site->field_count, site->string_count, ns,
                   empty_ns);
        }
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
