/*
 * Latency histogram: log-linear buckets, constant memory, percentiles within 1 % of the exact value.
 *
 * Values below 256 ns have a bucket each; above, every power of two is divided into 128 equal buckets,
 * so a bucket is at most 1/128 of its value wide and its middle is at most 0.4 % off.
 *
 *     struct histogram *h = histogram_create();
 *     histogram_add(h, latency_ns);
 *     histogram_percentile(h, 99.9);
 *
 * Threads: none of it is synchronised; one histogram per thread, merged at the end.
 * Source:  the idea is that of HdrHistogram (G. Tene).
 */
#ifndef LOAD_HISTOGRAM_H
#define LOAD_HISTOGRAM_H

#include <stdint.h>

struct histogram;

struct histogram *histogram_create(void);
void histogram_destroy(struct histogram *histogram);

/** Add one value; any uint64_t. Does not allocate. */
void histogram_add(struct histogram *histogram, uint64_t value);

/** Add everything in @from to @into. */
void histogram_merge(struct histogram *into, const struct histogram *from);

/* All of these are 0 for an empty histogram. Min, max and mean are exact. */
uint64_t histogram_count(const struct histogram *histogram);
uint64_t histogram_min(const struct histogram *histogram);
uint64_t histogram_max(const struct histogram *histogram);
double histogram_mean(const struct histogram *histogram);
double histogram_stddev(const struct histogram *histogram);

/** Smallest value that @percent (0..100) of the values do not exceed, to within 1 %. */
uint64_t histogram_percentile(const struct histogram *histogram, double percent);

#endif
