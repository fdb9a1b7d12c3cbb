/**
 * What an experiment does to the requests of a disk (--inject): delays, reorders, fails them. Here are the words; inject.c
 * does it.
 *
 *     op=write,error=5,errno=ENOSPC;delay-us=200,reorder=20,seed=7
 *
 * Rules are separated by semicolons, and each that matches a request applies to it, in their order.
 *
 * | key | value | default |
 * |---|---|---|
 * | op | which requests: read, write, flush, discard, write-zeroes; several with + | all |
 * | range | which bytes: FIRST+SIZE; a flush has none and matches no range | the whole disk |
 * | percent | how many of these, by chance | 100 |
 * | skip | leave the first N of these alone | 0 |
 * | count | then apply to N of them, and to no more | without limit |
 * | delay-us | hand it to the disk so much later | 0 |
 * | reorder | PERCENT of them complete after others that came later | 0 |
 * | error | PERCENT of them fail and do not reach the disk | 0 |
 * | errno | with what: EIO, ENOSPC, ... | EIO |
 * | seed | of chance, for all rules of the disk | 1 |
 */
#ifndef VBLK_DISK_INJECT_RULE_H
#define VBLK_DISK_INJECT_RULE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum vblk_inject_op {
    VBLK_INJECT_READ = 1 << 0,
    VBLK_INJECT_WRITE = 1 << 1,
    VBLK_INJECT_FLUSH = 1 << 2,
    VBLK_INJECT_DISCARD = 1 << 3,
    VBLK_INJECT_WRITE_ZEROES = 1 << 4,
};

#define VBLK_INJECT_FOREVER UINT64_MAX

struct vblk_inject_rule {
    unsigned ops;                        /**< enum vblk_inject_op bits */
    uint64_t first_bytes, range_bytes;   /**< range_bytes 0: everywhere */
    double percent, reorder_percent, error_percent;
    uint64_t skip, count;
    uint64_t delay_us;
    int error;                           /**< negative errno */
    _Atomic uint64_t seen;               /**< requests that it was about, for skip and count */
};

struct vblk_inject_rules {
    struct vblk_inject_rule *rules;
    unsigned count;
    uint64_t seed;
};

/**
 * Returns:   0, or -EINVAL with one line in message_out that names the key (caller frees with g_free).
 * Ownership: rules_out is the caller's until vblk_inject_rules_clear().
 */
int vblk_inject_rules_parse(const char *text, struct vblk_inject_rules *rules_out, char **message_out);
void vblk_inject_rules_clear(struct vblk_inject_rules *rules);

/** Whether the rule applies to this request; @chance, 0 up to 100, decides what `percent` leaves open. Thread: any. */
bool vblk_inject_rule_takes(struct vblk_inject_rule *rule, enum vblk_inject_op op, uint64_t offset_bytes,
                            uint64_t size_bytes, double chance);

#endif
