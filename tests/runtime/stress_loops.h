/*
 * Coroutines spread over a few IOThreads, for stress tests: start them, wait for all with a deadline, take the loops down.
 */
#ifndef STRESS_LOOPS_H
#define STRESS_LOOPS_H

#include <stdbool.h>

#include "rt/coroutine.h"

#define STRESS_LOOPS 3 /* more than this machine needs to run them all at once */

struct rt_loop;

/* The first polls, so that wake-ups meet a loop that looks in memory, too. Ends the program on failure. */
void stress_loops_create(const char *test);
void stress_loops_destroy(void);
struct rt_loop *stress_loop(unsigned index); /* modulo STRESS_LOOPS */

/* A coroutine in the given loop. */
void stress_start(unsigned loop_index, rt_coroutine_fn *fn, void *opaque);
/* Wait until all have ended and the loops have let go of them. False, after a line: the deadline has passed. */
bool stress_wait(void);

/* Be woken and go on in the next pass of the loop. */
void stress_yield(void);

/* The seed that the arguments name, or a new one; printed. */
unsigned stress_seed(int argc, char **argv);
/* A number below @below; moves @seed on. */
unsigned stress_choose(unsigned *seed, unsigned below);

#endif
