/* Stamped sectors: see stamp.h. */
#include "stamp.h"
#include "random_order.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STAMP_MAGIC 0x504d5453424c4b56ull
#define WORD_COUNT (STAMP_SECTOR_BYTES / sizeof(uint64_t))

enum word { MAGIC, SECTOR, BLOCK, SEED, GENERATION, FILLING, CHECKSUM = WORD_COUNT - 1 };

/* Each step is a bijection of the state, so one changed word always changes the result. */
static uint64_t checksum(const uint64_t *words)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < CHECKSUM; i++)
        sum = ((sum ^ words[i]) << 29 | (sum ^ words[i]) >> 35) * 0x9e3779b97f4a7c15ull;
    return random_mix(sum);
}

static void fill(uint64_t *words, const struct stamp *stamp)
{
    uint64_t state = random_mix(stamp->seed ^ random_mix(stamp->sector ^ random_mix(stamp->generation)));
    words[MAGIC] = htole64(STAMP_MAGIC);
    words[SECTOR] = htole64(stamp->sector);
    words[BLOCK] = htole64(stamp->block);
    words[SEED] = htole64(stamp->seed);
    words[GENERATION] = htole64(stamp->generation);
    for (unsigned i = FILLING; i < CHECKSUM; i++)
        words[i] = htole64(state += 0x9e3779b97f4a7c15ull);
    words[CHECKSUM] = htole64(checksum(words));
}

void stamp_write(void *sector_bytes, const struct stamp *stamp)
{
    uint64_t words[WORD_COUNT];
    fill(words, stamp);
    memcpy(sector_bytes, words, sizeof(words));
}

enum stamp_state stamp_read(const void *sector_bytes, struct stamp *stamp_out)
{
    uint64_t words[WORD_COUNT];
    memcpy(words, sector_bytes, sizeof(words));
    if (le64toh(words[MAGIC]) != STAMP_MAGIC) {
        for (unsigned i = 0; i < WORD_COUNT; i++)
            if (words[i] != 0)
                return STAMP_FOREIGN;
        return STAMP_ZERO;
    }
    *stamp_out = (struct stamp){
        .sector = le64toh(words[SECTOR]),
        .block = le64toh(words[BLOCK]),
        .seed = le64toh(words[SEED]),
        .generation = le64toh(words[GENERATION]),
    };
    return le64toh(words[CHECKSUM]) == checksum(words) ? STAMP_WHOLE : STAMP_BROKEN;
}

/* Where a broken sector differs from the stamp that it claims to be. */
static void describe_broken(const uint8_t *bytes, const struct stamp *found, char *out, size_t out_bytes)
{
    uint8_t right[STAMP_SECTOR_BYTES];
    unsigned first = STAMP_SECTOR_BYTES, count = 0;
    stamp_write(right, found);
    for (unsigned i = 0; i < STAMP_SECTOR_BYTES; i++)
        if (bytes[i] != right[i]) {
            first = count++ ? first : i;
        }
    snprintf(out, out_bytes,
             "corrupted: %u bytes changed from byte %u on, stamp of sector %" PRIu64 " generation %" PRIu64,
             count, first, found->sector, found->generation);
}

bool stamp_check(const void *sector_bytes, const struct stamp *expected, uint64_t generation_max,
                 char *reason_out, size_t reason_bytes)
{
    struct stamp found;
    enum stamp_state state = stamp_read(sector_bytes, &found);
    bool unwritten_is_fine = expected->generation == 0;

    switch (state) {
    case STAMP_ZERO:
        snprintf(reason_out, reason_bytes, "zeroes");
        return unwritten_is_fine;
    case STAMP_FOREIGN: {
        uint64_t word;
        memcpy(&word, sector_bytes, sizeof(word));
        snprintf(reason_out, reason_bytes, "no stamp, begins with %016" PRIx64, be64toh(word));
        return unwritten_is_fine;
    }
    case STAMP_BROKEN:
        describe_broken(sector_bytes, &found, reason_out, reason_bytes);
        return false;
    case STAMP_WHOLE:
        break;
    }
    if (found.seed != expected->seed) {
        snprintf(reason_out, reason_bytes, "seed %" PRIu64 ", an older run's", found.seed);
        return unwritten_is_fine;
    }
    if (found.sector != expected->sector || found.block != expected->block) {
        snprintf(reason_out, reason_bytes,
                 "misplaced: sector %" PRIu64 " of block %" PRIu64 " generation %" PRIu64, found.sector,
                 found.block, found.generation);
        return false;
    }
    if (found.generation < expected->generation || found.generation > generation_max) {
        snprintf(reason_out, reason_bytes, "generation %" PRIu64 "%s", found.generation,
                 found.generation < expected->generation ? ", a later write is lost"
                                                         : ", never written by this run");
        return false;
    }
    return true;
}
