/**
 * Coroutines: functions that can stop in the middle and go on later, perhaps in another thread.
 *
 * Asymmetric and stackful: enter() runs a coroutine until it yields or returns, then its caller goes on.
 * Stacks and control blocks come from the pool (rt/pool.h). Each thread has a leader coroutine, its plain stack.
 *
 *     static void hello(void *opaque) { rt_coroutine_yield(); }
 *     struct rt_coroutine *co = rt_coroutine_create(hello, NULL);
 *     rt_coroutine_enter(co);          // runs up to the yield
 *     rt_coroutine_enter(co);          // runs to the end; co is gone
 *
 * Signals: a handler may call none of this, here or in the other headers, but rt_process_request_baseline(); it wakes a
 * loop by writing to a descriptor that the loop watches. It runs on the stack of whichever coroutine it interrupts, if it is
 * not installed with SA_ONSTACK. The signal mask belongs to the thread, not to the coroutine.
 * fork(): a child that was made after the runtime was first used may call none of it either, only what is
 * async-signal-safe, up to exec or _exit(): threads that held its locks, loops and the sampler do not exist there.
 *
 *     created --enter--> running --yield--> suspended --enter--> running --return--> ended (freed by itself)
 */
#ifndef RT_COROUTINE_H
#define RT_COROUTINE_H

#include <stdbool.h>
#include <stdint.h>

struct rt_coroutine;
struct rt_loop;

/*
 * For the inline functions below, and for nobody else: enter and yield return to their caller by the jump of the switch
 * itself. The processor predicts a `ret` from the calls that it saw, which were made on another stack: each would cost a
 * misprediction, about as much as the switch. What must be done after the switch is therefore done by the caller.
 */
struct rt_coroutine_head {
    void *context;  /**< where it goes on; stored by the one at whom the switch away from it arrives */
    int left;       /**< why it was left; 0: it yielded, and there is nothing else to do */
};
struct rt_coroutine_arrival {
    void *context;
    struct rt_coroutine_head *from;
};
struct rt_coroutine_arrival rt_coroutine_switch_in(struct rt_coroutine *co);
struct rt_coroutine_arrival rt_coroutine_switch_out(void);
void rt_coroutine_settle(struct rt_coroutine_head *left);

typedef void rt_coroutine_fn(void *opaque);

/**
 * Take a coroutine from the pool and let it start with fn(opaque) at its first enter.
 *
 * Returns:   the coroutine, or NULL with errno set.
 * Errors:    ENOMEM  no stack could be mapped (rt_process:vma_exhausted was emitted; the message that
 *                    names vm.max_map_count is rt_stack_error_hint()). The caller must cope: a server
 *                    refuses or delays the request, it does not abort.
 * Thread:    any. Does not yield; takes no lock unless the thread's local pool is empty.
 * Ownership: the coroutine frees itself when fn returns; a coroutine that is never entered leaks.
 * Trace:     rt_coroutine:create.
 */
struct rt_coroutine *rt_coroutine_create(rt_coroutine_fn *fn, void *opaque);

/**
 * Run a coroutine until it yields or ends. May nest.
 *
 * Thread:    any, one at a time; a coroutine that runs already is a caller's mistake (assert).
 * Trace:     rt_coroutine:enter; rt_coroutine:yield or rt_coroutine:terminate at its end.
 */
inline void rt_coroutine_enter(struct rt_coroutine *co)
{
    struct rt_coroutine_arrival arrival = rt_coroutine_switch_in(co);

    arrival.from->context = arrival.context;
    if (__builtin_expect(arrival.from->left != 0, 0))
        rt_coroutine_settle(arrival.from);
}

/**
 * Go back to whoever entered the running coroutine. Coroutine only.
 *
 * When it returns the thread may be another one: addresses of thread-locals taken before are wrong now.
 * Holding an rt_mutex across it breaks a rule and is traced as rt_lock:held_at_yield.
 */
inline void rt_coroutine_yield(void)
{
    struct rt_coroutine_arrival arrival = rt_coroutine_switch_out();

    arrival.from->context = arrival.context;
}

/**
 * Let a suspended coroutine go on in its loop: the one in which it was entered last, or the loop given to
 * rt_coroutine_move(). From that loop's own thread, outside any coroutine, it is entered at once; inside a
 * coroutine it is queued to run when control is back in the loop; from another thread it is queued and the
 * loop is notified (one hop: no bottom half in between).
 *
 * Thread:    any. The coroutine may not yet have yielded: the wake-up is kept, and it runs when it has.
 *            At most one wake-up may be pending.
 * Trace:     rt_loop:publish with kind coroutine, when it crosses threads.
 */
void rt_coroutine_wake(struct rt_coroutine *co);

/** Suspend the running coroutine and continue it in @loop's thread. Returns there. Coroutine only. */
void rt_coroutine_move(struct rt_loop *loop);

/**
 * Run fn(opaque), which blocks for long, in a thread of its own, called @name (15 characters at most); the loop goes on, and the
 * coroutine when it is done. Where no thread can be made it is a plain call. Coroutine of a loop only.
 */
void rt_offload_co(const char *name, void (*fn)(void *opaque), void *opaque);

/** The running coroutine; on a thread's plain stack its leader. Never NULL. */
struct rt_coroutine *rt_coroutine_self(void);

/** Whether a coroutine other than the leader runs in this thread. */
bool rt_in_coroutine(void);

/** The id of the life that runs now in this object: counts from 1, never reused; 0 for a leader. */
uint64_t rt_coroutine_id(const struct rt_coroutine *co);

#endif
