/*
 * What a coroutine says when it overflows its stack. Private to runtime/coroutine/; the public side is
 * rt_stack_report_overflow().
 */
#ifndef RUNTIME_COROUTINE_OVERFLOW_H
#define RUNTIME_COROUTINE_OVERFLOW_H

struct rt_thread;

/** The handler cannot run on the stack that has just overflowed: give the thread another one, if reports are wanted. */
void rt_overflow_thread_begins(struct rt_thread *thread);
void rt_overflow_thread_ends(struct rt_thread *thread);

#endif
