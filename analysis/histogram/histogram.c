#include "histogram/histogram.h"

#include <glib.h>
#include <math.h>

#include "histogram/log_bucket.h"

#define SUB_BITS 5
#define SUB (1u << SUB_BITS)
#define GROUPS (64 - SUB_BITS)

struct histogram {
    uint64_t count;
    int64_t sum, max;
    uint64_t *groups[GROUPS]; /* group 0: values below SUB; group g: [SUB << (g - 1), SUB << g) */
};

struct histogram *histogram_create(void)
{
    return g_new0(struct histogram, 1);
}

void histogram_destroy(struct histogram *histogram)
{
    if (!histogram)
        return;
    for (unsigned i = 0; i < GROUPS; i++)
        g_free(histogram->groups[i]);
    g_free(histogram);
}

void histogram_add(struct histogram *histogram, int64_t value)
{
    unsigned bucket, group;

    value = MAX(value, 0);
    bucket = log_bucket((uint64_t)value, SUB_BITS);
    group = bucket / SUB;
    if (!histogram->groups[group])
        histogram->groups[group] = g_new0(uint64_t, SUB);
    histogram->groups[group][bucket % SUB]++;
    histogram->count++;
    histogram->sum += value;
    histogram->max = MAX(histogram->max, value);
}

uint64_t histogram_count(const struct histogram *histogram)
{
    return histogram->count;
}

int64_t histogram_max(const struct histogram *histogram)
{
    return histogram->max;
}

int64_t histogram_sum(const struct histogram *histogram)
{
    return histogram->sum;
}

int64_t histogram_quantile(const struct histogram *histogram, double quantile)
{
    const double wanted = MAX(ceil(quantile * (double)histogram->count), 1);
    uint64_t seen = 0;

    for (unsigned group = 0; group < GROUPS; group++) {
        for (unsigned slot = 0; histogram->groups[group] && slot < SUB; slot++) {
            seen += histogram->groups[group][slot];
            if ((double)seen >= wanted)
                return MIN((int64_t)(log_bucket_from(group * SUB + slot + 1, SUB_BITS) - 1), histogram->max);
        }
    }
    return histogram->max;
}
