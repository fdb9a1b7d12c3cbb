/*
 * Stamped sectors: each 512-byte sector says by itself where it belongs, which write it came from and
 * whether it is whole.
 *
 *     bytes  0.. 7  magic                 bytes 24..31  seed
 *            8..15  sector number                32..39  generation of the write
 *           16..23  block number                 40..503 filling, different in every sector and write
 *                                               504..511 checksum of all before
 *
 * All integers are little-endian, so that a disk written on one machine can be checked on another.
 * Generation 0 means "never written" and is never stamped.
 */
#ifndef LOAD_STAMP_H
#define LOAD_STAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STAMP_SECTOR_BYTES 512u

struct stamp {
    uint64_t sector;
    uint64_t block;
    uint64_t seed;
    uint64_t generation;
};

enum stamp_state {
    STAMP_WHOLE,   /* a stamp with a right checksum; says nothing about whether it belongs here */
    STAMP_BROKEN,  /* the magic is there, the checksum is wrong */
    STAMP_ZERO,    /* all bytes are zero */
    STAMP_FOREIGN, /* no stamp at all */
};

/** Write one sector. */
void stamp_write(void *sector_bytes, const struct stamp *stamp);

/** Read one sector. *@stamp_out is filled for STAMP_WHOLE and, as far as it can be believed, STAMP_BROKEN. */
enum stamp_state stamp_read(const void *sector_bytes, struct stamp *stamp_out);

/**
 * Compare one sector with what belongs there. A generation from @expected->generation to
 * @generation_max is right; with @expected->generation 0, so is anything that was there before: zeroes,
 * foreign bytes, a stamp of another seed.
 *
 * Returns: true if right. Otherwise @reason_out[@reason_bytes] says what was found instead.
 */
bool stamp_check(const void *sector_bytes, const struct stamp *expected, uint64_t generation_max,
                 char *reason_out, size_t reason_bytes);

#endif
