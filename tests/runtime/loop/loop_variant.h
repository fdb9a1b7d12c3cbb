/* The monitor on which this test program runs (loop_variant.c): for a test that chooses other policies beside it. */
#ifndef TESTS_RUNTIME_LOOP_LOOP_VARIANT_H
#define TESTS_RUNTIME_LOOP_LOOP_VARIANT_H

#include "rt/loop.h"

enum rt_loop_monitor variant_monitor(void);

#endif
