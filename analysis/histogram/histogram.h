/**
 * A histogram of durations with 3 % resolution: 32 buckets for each power of two, 8 bytes a bucket, allocated as needed.
 *
 *     struct histogram *h = histogram_create();
 *     histogram_add(h, 1200);
 *     int64_t p999 = histogram_quantile(h, 0.999);
 *
 * Units: whatever is added; negative values count as 0. Thread: one at a time.
 */
#ifndef ANALYSIS_HISTOGRAM_HISTOGRAM_H
#define ANALYSIS_HISTOGRAM_HISTOGRAM_H

#include <stdint.h>

struct histogram;

struct histogram *histogram_create(void);
void histogram_destroy(struct histogram *histogram);
void histogram_add(struct histogram *histogram, int64_t value);

uint64_t histogram_count(const struct histogram *histogram);
int64_t histogram_max(const struct histogram *histogram);
/** Sum of all values; 0 when empty. */
int64_t histogram_sum(const struct histogram *histogram);
/** The value below which the share @quantile (0..1) lies: the upper edge of its bucket, at most the maximum; 0 when empty. */
int64_t histogram_quantile(const struct histogram *histogram, double quantile);

#endif
