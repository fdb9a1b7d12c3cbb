/**
 * Buckets whose width grows with the value: each power of two is cut into 2^sub_bits equal ones; values below 2^sub_bits have a
 * bucket each.
 *
 *     unsigned bucket = log_bucket(1200, 5);           // of 32 per power of two: 3 % wide
 *     uint64_t from = log_bucket_from(bucket, 5);      // its smallest value
 *
 * Shape: buckets count from 0 in the order of values; there is none between two.
 */
#ifndef ANALYSIS_HISTOGRAM_LOG_BUCKET_H
#define ANALYSIS_HISTOGRAM_LOG_BUCKET_H

#include <stdint.h>

static inline unsigned log_bucket(uint64_t value, unsigned sub_bits)
{
    unsigned top;

    if (value < (UINT64_C(1) << sub_bits))
        return (unsigned)value;
    top = 63 - (unsigned)__builtin_clzll(value);
    return ((top - sub_bits + 1) << sub_bits) +
           ((unsigned)(value >> (top - sub_bits)) & ((1u << sub_bits) - 1));
}

static inline uint64_t log_bucket_from(unsigned bucket, unsigned sub_bits)
{
    const unsigned group = bucket >> sub_bits, slot = bucket & ((1u << sub_bits) - 1);

    return group ? ((UINT64_C(1) << sub_bits) + slot) << (group - 1) : slot;
}

#endif
