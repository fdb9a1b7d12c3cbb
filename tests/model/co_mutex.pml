/*
 * The coroutine mutex: runtime/lock/co_mutex.c. Each coroutine runs in a thread of its own, takes the lock, adds one to
 * what it protects, and lets go, ROUNDS times.
 *
 * Kept: every access to the state word with its memory order, the guard, the waiting line, the wake-up.
 * Left out: the line is plain variables, as the guard protects it; a wake-up is a release store that the woken
 * coroutine waits for with acquire order (ORDER coroutine.wakeup, whose loop is the business of notify.pml); counters.
 *
 * What is asserted
 *   exclusive  nobody else is inside
 *   fresh      the holder sees what every holder before it has written
 *   fair       waiters own the lock in the order in which they joined the line, and nobody overtakes them
 *   deadlock   (SPIN's own) a waiter is never woken
 *   model_too_small  a bound of the model is reached
 *
 * PROOF two    COROUTINES=2 ROUNDS=2  PSO C11
 * PROOF three  COROUTINES=3 ROUNDS=1  PSO C11
 *
 * MUTANT JOIN_BEFORE_GUARD of two: deadlock in SC
 * MUTANT JOIN_WITHOUT_CONTENDED of two: deadlock in SC
 * MUTANT UNLOCK_IGNORES_LINE of two: deadlock in SC
 * MUTANT HAND_OVER_FREES of two: exclusive in SC
 * MUTANT LINE_LAST_IN_FIRST_OUT of three: fair in SC
 * MUTANT TRYLOCK_RELAXED of two: fresh in C11; holds in PSO
 * MUTANT EXCHANGE_RELAXED of two: fresh in C11; holds in PSO
 * MUTANT UNLOCK_RELAXED of two: fresh in PSO; holds in TSO
 * MUTANT FREE_RELAXED of two: fresh in PSO; holds in TSO
 * MUTANT WAKE_RELAXED of two: fresh in PSO; holds in TSO
 */
#define THREADS COROUTINES
#define STATE 0
#define GUARD 1
#define DATA 2
#define WOKEN(co) ((co) + 3)
#define LOCATIONS (COROUTINES + 3)
#define STORES_MAX (5 * COROUTINES * ROUNDS)

#define FREE 0
#define HELD 1
#define CONTENDED 2
#define NOBODY 255

#include "memory.pml"

/* Under the guard. */
byte line[COROUTINES], line_length;
byte wakes_of[COROUTINES]; /* how often each was woken */

/* What the properties look at; nobody decides by it. */
byte inside, written, joined, served;
bool exclusive = true, fresh = true, fair = true;

#ifdef TRYLOCK_RELAXED
#define TRYLOCK_ORDER relaxed
#else
#define TRYLOCK_ORDER acquire
#endif

#ifdef EXCHANGE_RELAXED
#define EXCHANGE_ORDER relaxed
#else
#define EXCHANGE_ORDER acquire
#endif

#ifdef UNLOCK_RELAXED
#define UNLOCK_ORDER relaxed
#else
#define UNLOCK_ORDER release
#endif

#ifdef FREE_RELAXED
#define FREE_ORDER relaxed
#else
#define FREE_ORDER release
#endif

#ifdef WAKE_RELAXED
#define WAKE_ORDER relaxed
#else
#define WAKE_ORDER release
#endif

inline guard_lock(me)
{
    do
    :: is_latest(GUARD, 0) ->
        compare_exchange(me, GUARD, acquire, 0, 1, done);
        if
        :: done -> done = false; break
        :: else
        fi
    od
}

inline guard_unlock(me)
{
    store(me, GUARD, release, 0)
}

/* Without waiting: it must have been free. */
inline check_not_overtaking()
{
    fair = line_length == 0;
    assert(fair)
}

inline join(me)
{
    line[line_length] = me;
    line_length++;
    joined++;
    ticket = joined
}

inline leave_line()
{
#ifdef LINE_LAST_IN_FIRST_OUT
    line_length--;
    next = line[line_length];
    line[line_length] = 0
#else
    next = line[0];
    line_length--;
    line[0] = line[1];
#if COROUTINES > 2
    line[1] = line[2];
#endif
    line[COROUTINES - 1] = 0
#endif
}

proctype coroutine(byte me)
{
    byte round, old, value, ticket, wakes, next;
    bool done;

    do
    :: round < ROUNDS ->
        round++;

        /* ORDER co_mutex.handoff [T1]: FREE -> HELD */
        atomic {
            compare_exchange(me, STATE, TRYLOCK_ORDER, FREE, HELD, done);
            if
            :: done -> check_not_overtaking()
            :: else
            fi
        }
        printf("T1  coroutine %d: trylock %d\n", me, done);
        if
        :: done -> done = false; goto locked
        :: else
        fi;

#ifdef JOIN_BEFORE_GUARD
        exchange(me, STATE, EXCHANGE_ORDER, CONTENDED, old);
        guard_lock(me);
#else
        guard_lock(me);
        /* ORDER co_mutex.handoff [T2]: CONTENDED, and into the line if it was not FREE. */
#ifdef JOIN_WITHOUT_CONTENDED
        compare_exchange(me, STATE, EXCHANGE_ORDER, FREE, HELD, done);
        old = (done -> FREE : HELD);
        done = false;
#else
        exchange(me, STATE, EXCHANGE_ORDER, CONTENDED, old);
#endif
#endif
        printf("T2  coroutine %d: the state was %d\n", me, old);
        if
        :: old != FREE -> join(me)
        :: else -> ticket = 0
        fi;
        guard_unlock(me);
        if
        :: ticket > 0 ->
            wakes++;
            printf("T3  coroutine %d waits\n", me);
            /* ORDER co_mutex.handoff [T3]: asleep until the holder wakes it. */
            do
            :: is_latest(WOKEN(me), wakes) ->
                load(me, WOKEN(me), acquire, value);
                if
                :: value == wakes -> break
                :: else
                fi
            od;
            atomic {
                served++;
                fair = ticket == served;
                assert(fair);
                ticket = 0;
                value = 0
            }
        :: else
        fi;
        old = 0;

locked:
        atomic {
            inside++;
            exclusive = inside == 1;
            assert(exclusive)
        }
        load(me, DATA, relaxed, value);
        atomic {
            fresh = value == written;
            assert(fresh);
            written++
        }
        store(me, DATA, relaxed, value + 1);
        value = 0;
        inside--;

        /* ORDER co_mutex.handoff [U1]: HELD -> FREE */
        compare_exchange(me, STATE, UNLOCK_ORDER, HELD, FREE, done);
        printf("U1  coroutine %d: unlocked at once %d\n", me, done);
        if
        :: done -> done = false
        :: else ->
            guard_lock(me);
            next = NOBODY;
#ifdef UNLOCK_IGNORES_LINE
            store(me, STATE, FREE_ORDER, FREE);
#else
            if
            :: line_length > 0 ->
                /* ORDER co_mutex.handoff [U2]: the state stays CONTENDED, the lock is the next one's. */
                leave_line();
#ifdef HAND_OVER_FREES
                store(me, STATE, FREE_ORDER, FREE);
#endif
            :: else ->
                /* ORDER co_mutex.handoff [U3]: nobody waits */
                store(me, STATE, FREE_ORDER, FREE)
            fi;
#endif
            guard_unlock(me);
            if
            :: next != NOBODY ->
                printf("U2  coroutine %d wakes %d\n", me, next);
                wakes_of[next]++;
                store(me, WOKEN(next), WAKE_ORDER, wakes_of[next])
            :: else
            fi;
            next = 0
        fi
    :: else -> break
    od
}

init {
    atomic {
        start_memory();
        byte n = 0;
        do
        :: n < COROUTINES -> run coroutine(n); n++
        :: else -> break
        od
    }
}
