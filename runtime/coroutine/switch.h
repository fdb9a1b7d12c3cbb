/*
 * The switch from one stack to another. Private to runtime/coroutine/.
 *
 * Two ways, chosen when the library is compiled: Boost.Context's assembly (a few nanoseconds; linked statically, C
 * entry points only) and, with RT_SWITCH_UCONTEXT, the C library's swapcontext(), which works everywhere and costs
 * two system calls. Sanitizers are told of every switch: without that they take the new stack for a wild pointer
 * (ASan) or see races between coroutines that took turns (TSan).
 */
#ifndef RUNTIME_COROUTINE_SWITCH_H
#define RUNTIME_COROUTINE_SWITCH_H

#include <stdbool.h>
#include <stddef.h>

#include "coroutine/coroutine_internal.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RT_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define RT_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define RT_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define RT_TSAN 1
#endif

#ifdef RT_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef RT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* @from is left; it never runs again in this life if @ends. */
static inline void announce_leave(struct rt_coroutine *from, struct rt_coroutine *to, bool ends)
{
#ifdef RT_ASAN
    if (ends)
        from->asan_fake_stack = NULL;
    __sanitizer_start_switch_fiber(ends ? NULL : &from->asan_fake_stack, to->stack_base, to->stack_bytes);
#endif
#ifdef RT_TSAN
    __tsan_switch_to_fiber(to->tsan_fiber, 0);
#endif
}

/* @self runs (again). The first switch away from a thread's plain stack is how its bounds become known. */
static inline void announce_arrive(struct rt_coroutine *self, struct rt_coroutine *from)
{
#ifdef RT_ASAN
    __sanitizer_finish_switch_fiber(self->asan_fake_stack, (const void **)&from->stack_base, &from->stack_bytes);
#endif
}

#ifndef RT_SWITCH_UCONTEXT

/* Boost.Context's C interface (boost/context/detail/fcontext.hpp), which is C++ only in its header. */
struct rt_coroutine_arrival jump_fcontext(void *to, void *data);
void *make_fcontext(void *stack_top, size_t stack_bytes, void (*fn)(struct rt_coroutine_arrival));

/* Prepare @co so that the first switch to it calls entry(self), which must not return. */
void switch_prepare(struct rt_coroutine *co);

/*
 * Go on in @to. Returns when somebody switches back to @from: he is told who came and stores their context.
 * Without sanitizers this is a tail call of the jump: the jump back leads straight to our caller's caller.
 */
static inline __attribute__((always_inline)) struct rt_coroutine_arrival switch_to(struct rt_coroutine *from,
                                                                                   struct rt_coroutine *to, bool ends)
{
#ifdef RT_ASAN
    struct rt_coroutine_arrival arrival;

    announce_leave(from, to, ends);
    arrival = jump_fcontext(to->head.context, &from->head);
    announce_arrive(from, coroutine_of_head(arrival.from));
    return arrival;
#else
    announce_leave(from, to, ends);
    return jump_fcontext(to->head.context, &from->head); /* gcc 12 makes no tail call through a variable */
#endif
}

#else

void switch_prepare(struct rt_coroutine *co);
struct rt_coroutine_arrival switch_to(struct rt_coroutine *from, struct rt_coroutine *to, bool ends);

#endif

/* What every coroutine runs: coroutine.c. Never returns. */
_Noreturn void rt_coroutine_main(struct rt_coroutine *self);

#endif
