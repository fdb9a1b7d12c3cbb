/*
 * What the tests of coroutine locks share: coroutines in one loop write letters into a journal, and the test reads who came when.
 */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <string.h>

#include "rt/loop.h"

static char journal[64];

static inline void note(char letter)
{
    size_t length = strlen(journal);

    assert_true(length + 1 < sizeof(journal));
    journal[length] = letter;
    journal[length + 1] = 0;
}

/* A loop for this thread, and an empty journal. */
static inline struct rt_loop *journal_begin(void)
{
    struct rt_loop *loop;

    assert_int_equal(rt_loop_create("test", &loop), 0);
    rt_loop_bind(loop);
    journal[0] = 0;
    return loop;
}

static inline void run_pending(struct rt_loop *loop)
{
    while (rt_loop_pass(loop, false))
        ;
}

#endif
