/*
 * Random numbers and random orders that a seed reproduces.
 *
 * Threads: a generator belongs to one thread; a finished order is read-only and may be shared.
 */
#ifndef LOAD_RANDOM_ORDER_H
#define LOAD_RANDOM_ORDER_H

#include <stdint.h>

/** A 64-bit mix in which every input bit changes about half of the output bits, and no two inputs collide.
 *  Source: SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators). */
static inline uint64_t random_mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15ull;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ value >> 27) * 0x94d049bb133111ebull;
    return value ^ value >> 31;
}

/** Next number of the sequence whose state is *@state; any state will do as a start. */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t value = random_mix(*state);
    *state += 0x9e3779b97f4a7c15ull;
    return value;
}

/** Even distribution over [0, @limit), to within 2^-64; @limit > 0. */
static inline uint64_t random_below(uint64_t *state, uint64_t limit)
{
    return (uint64_t)((unsigned __int128)random_next(state) * limit >> 64);
}

/* A permutation of [0, count) that needs no memory per element. */
struct random_order {
    uint64_t count;
    uint64_t key;
    unsigned half_bits;
};

void random_order_init(struct random_order *order, uint64_t count, uint64_t seed);

/** Element at @position in [0, count): every element at exactly one position. */
uint64_t random_order_at(const struct random_order *order, uint64_t position);

#endif
