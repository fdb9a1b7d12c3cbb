/** Sizes as people write them: 512, 4K, 10M, 1G, 2T (powers of 1024). */
#ifndef VBLK_DISK_SIZE_H
#define VBLK_DISK_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/** Whether the whole text is a size that fits; size_out is written only then. */
bool vblk_size_parse(const char *text, uint64_t *size_out);

#endif
