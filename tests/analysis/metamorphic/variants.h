/**
 * Changes to a recording that must not change its verdict, or can only take from it.
 */
#ifndef TESTS_ANALYSIS_METAMORPHIC_VARIANTS_H
#define TESTS_ANALYSIS_METAMORPHIC_VARIANTS_H

#include "metamorphic/recording.h"

/** What values of each kind became. */
enum value_kind {
    VALUE_OTHER,
    VALUE_LOOP,
    VALUE_HANDLER,
    VALUE_FD,
    VALUE_THREAD,
    VALUE_LOCK,
    VALUE_DEVICE,
    VALUE_QUEUE,
    VALUE_HEAD,
    VALUE_REQUEST,
    VALUE_COROUTINE,
    VALUE_NAME,
    VALUE_KINDS
};

enum value_kind value_kind_of(const char *name); /**< of a field of an event or a key of a subject */

struct renaming {
    int64_t scale[VALUE_KINDS], offset[VALUE_KINDS]; /**< ids above 0: value * scale + offset; scale 0: unchanged */
    int64_t vpid_offset;
    int64_t shift_ns;
    const char *suffix; /**< of names; NULL: unchanged */
};

/** A value after the renaming. */
int64_t renamed(const struct renaming *renaming, enum value_kind kind, int64_t value);

enum relation {
    SAME,      /**< the same verdict, renamed */
    SAME_TEXT, /**< the same, but for its times */
    TWICE,     /**< each finding once for each of two processes */
    NO_FINDING /**< no error or warning that was not there before */
};

struct variant {
    const char *name;
    enum relation relation;
    /** NULL: does not apply to this recording. @neighbour is a healthy one. */
    struct recording *(*make)(const struct recording *story, const struct recording *neighbour,
                              struct renaming *renaming_out);
};

extern const struct variant variants[]; /**< name NULL ends */

void random_seed(uint64_t seed);
uint64_t random_below(uint64_t below);

#endif
