/*
 * A permutation as a four-round Feistel network over the next even number of bits, walked until the
 * value falls into the range ("cycle walking": Black and Rogaway, Ciphers with Arbitrary Finite Domains).
 */
#include "random_order.h"

void random_order_init(struct random_order *order, uint64_t count, uint64_t seed)
{
    unsigned bits = count > 1 ? 64 - __builtin_clzll(count - 1) : 1;
    order->count = count;
    order->key = random_mix(seed);
    order->half_bits = (bits + 1) / 2;
}

uint64_t random_order_at(const struct random_order *order, uint64_t position)
{
    uint64_t mask = (1ull << order->half_bits) - 1;
    uint64_t value = position;
    do {
        uint64_t left = value >> order->half_bits, right = value & mask;
        for (unsigned round = 0; round < 4; round++) {
            uint64_t next = left ^ (random_mix(right ^ order->key ^ ((uint64_t)round << 56)) & mask);
            left = right;
            right = next;
        }
        value = left << order->half_bits | right;
    } while (value >= order->count);
    return value;
}
