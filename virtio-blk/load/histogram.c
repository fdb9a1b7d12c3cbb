/* Log-linear latency histogram: see histogram.h. */
#include "histogram.h"

#include <glib.h>
#include <math.h>

#define SUB_BITS 7
#define SUB_COUNT (1u << SUB_BITS)
/* Values with up to SUB_BITS + 1 bits are exact; each of the other 64 - SUB_BITS - 1 lengths has SUB_COUNT. */
#define BUCKET_COUNT ((64 - SUB_BITS + 1) * SUB_COUNT)

struct histogram {
    uint64_t count;
    uint64_t min;
    uint64_t max;
    unsigned __int128 sum;
    unsigned __int128 sum_of_squares; /* exact while latencies stay below 2^40 ns and counts below 2^48 */
    uint64_t buckets[BUCKET_COUNT];
};

static unsigned bucket_of(uint64_t value)
{
    if (value < 2 * SUB_COUNT)
        return value;
    unsigned shift = 63 - __builtin_clzll(value) - SUB_BITS;
    return shift * SUB_COUNT + (value >> shift);
}

/* The middle of the bucket. */
static uint64_t value_of(unsigned bucket)
{
    if (bucket < 2 * SUB_COUNT)
        return bucket;
    unsigned shift = bucket / SUB_COUNT - 1;
    uint64_t low = (uint64_t)(bucket - shift * SUB_COUNT) << shift;
    return low + ((1ull << shift) >> 1);
}

struct histogram *histogram_create(void)
{
    return g_new0(struct histogram, 1);
}

void histogram_destroy(struct histogram *histogram)
{
    g_free(histogram);
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
    if (histogram->count == 0 || value < histogram->min)
        histogram->min = value;
    if (value > histogram->max)
        histogram->max = value;
    histogram->count++;
    histogram->sum += value;
    histogram->sum_of_squares += (unsigned __int128)value * value;
    histogram->buckets[bucket_of(value)]++;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    if (from->count == 0)
        return;
    if (into->count == 0 || from->min < into->min)
        into->min = from->min;
    if (from->max > into->max)
        into->max = from->max;
    into->count += from->count;
    into->sum += from->sum;
    into->sum_of_squares += from->sum_of_squares;
    for (unsigned i = 0; i < BUCKET_COUNT; i++)
        into->buckets[i] += from->buckets[i];
}

uint64_t histogram_count(const struct histogram *histogram)
{
    return histogram->count;
}

uint64_t histogram_min(const struct histogram *histogram)
{
    return histogram->min;
}

uint64_t histogram_max(const struct histogram *histogram)
{
    return histogram->max;
}

double histogram_mean(const struct histogram *histogram)
{
    return histogram->count ? (double)((long double)histogram->sum / histogram->count) : 0;
}

double histogram_stddev(const struct histogram *histogram)
{
    if (histogram->count == 0)
        return 0;
    long double mean = (long double)histogram->sum / histogram->count;
    long double variance = (long double)histogram->sum_of_squares / histogram->count - mean * mean;
    return variance > 0 ? sqrt((double)variance) : 0;
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent)
{
    if (histogram->count == 0)
        return 0;
    double exact_rank = ceil(percent / 100 * (double)histogram->count);
    uint64_t rank = exact_rank < 1 ? 1 : (uint64_t)exact_rank;
    if (rank >= histogram->count)
        return histogram->max;
    uint64_t seen = 0;
    for (unsigned i = 0; i < BUCKET_COUNT; i++) {
        seen += histogram->buckets[i];
        if (seen >= rank)
            return CLAMP(value_of(i), histogram->min, histogram->max);
    }
    return histogram->max;
}
