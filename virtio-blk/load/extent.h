/* The part of the disk that a run works on, in blocks of the request size. */
#ifndef LOAD_EXTENT_H
#define LOAD_EXTENT_H

#include "front_end.h"
#include "options.h"

struct extent {
    uint64_t first_sector; /* 512 bytes each */
    uint32_t block_bytes;
    uint32_t block_sectors;
    uint64_t block_count;
};

/**
 * Fit the options to the disk.
 *
 * Errors: FALSE, *@error_out says what does not fit: beyond the end, smaller than one block, no multiple
 *         of the disk's block size, a write to a read-only disk.
 */
gboolean extent_init(struct extent *extent, const struct load_options *options, const struct fe_info *info,
                     gboolean writes, char **error_out);

static inline uint64_t extent_sector(const struct extent *extent, uint64_t block)
{
    return extent->first_sector + block * extent->block_sectors;
}

#endif
