/*
 * The wake-up protocol between threads that publish work and the loop that runs it: runtime/loop/notify.c and the pass
 * of runtime/loop/loop.c. Steps have the names of runtime/README.md, "The wake-up protocol".
 *
 * Kept: every access to notified, notify_me, the work and the next deadline, in program order and with the memory
 * order of the source; which passes poll, block, or do neither; the eventfd, which stays readable until its handler
 * reads it, and whose write and poll order nothing.
 * Weaker than the source: work is published by a plain store (release, like next_deadline) to a cell of the notifier's
 * own instead of a compare-and-swap of the list, and taken by a plain load.
 * Left out: work that the loop's own thread queues (a pass with a queue does not block), other descriptors, nesting.
 * Time passes when nothing else can happen: whoever sleeps on published work until then would sleep for ever, or
 * until a timer that has nothing to do with it.
 *
 * What is asserted
 *   lost    time passes while published work waits for a sleeping loop and no eventfd is readable
 *   late    a notifier has returned, the loop sleeps on its work and the eventfd is not readable: somebody else would
 *           have to wake it (with -DLATE)
 *   quiet   the loop polls, or dispatches, with notify_me up: notifiers write to the eventfd of a loop that is awake
 *   idle    more passes found notified set than were notified: the loop would never sleep
 *   too_small  a bound of the model is reached
 * With -DLIVENESS the window never closes, and the claim is that published work is run.
 *
 * Parameters: NOTIFIERS, ROUNDS (how often each publishes), TIMER (the last notifier arms a timer instead, and a timer
 * that is unrelated goes off once).
 *
 * PROOF one             NOTIFIERS=1 ROUNDS=2             PSO C11
 * PROOF two             NOTIFIERS=2 ROUNDS=1 LATE        PSO C11
 * PROOF timer           NOTIFIERS=2 ROUNDS=1 TIMER       PSO C11
 * PROOF polls_for_ever  NOTIFIERS=2 ROUNDS=1 LIVENESS    PSO
 *
 * The policies that were replaced. The first version of the present one set notified last, which is right only
 * together with a second look at the work instead of notified.
 * PROOF always          NOTIFIERS=2 ROUNDS=1 POLICY_ALWAYS         PSO
 * PROOF first_version   NOTIFIERS=2 ROUNDS=1 N2_LAST RECHECK_WORK  PSO
 *
 * What fails in one memory fails in the weaker ones too, so each mutant is tried in the strongest in which it must fail
 * and in the weakest in which it must hold.
 * MUTANT N1_LAST of one: lost in SC
 * MUTANT N1_LAST of polls_for_ever: cycle in SC
 * MUTANT N2_LAST of one: lost in SC
 * MUTANT N2_AFTER_N3 of one: lost in TSO; holds in SC
 * MUTANT N2_RELAXED of one: lost in PSO; holds in TSO
 * MUTANT N2_STORE of two: lost in C11; holds in PSO
 * MUTANT N3_REMOVED of one: lost in TSO; holds in SC
 * MUTANT N4_RELAXED of one: lost in C11; holds in PSO
 * MUTANT WRITE_SKIPPED_IF_NOTIFIED of two: late in SC
 * MUTANT L3_REMOVED of one: lost in TSO; holds in SC
 * MUTANT L4_REMOVED of one: lost in SC
 * MUTANT L4_RELAXED of one: lost in C11; holds in PSO
 * MUTANT L6_REMOVED of one: quiet in SC
 * MUTANT L6_ONLY_AFTER_WAIT of one: quiet in SC
 * MUTANT L6_UNORDERED of one: lost in SC
 * MUTANT L7_REMOVED of one: idle in SC
 * MUTANT L7_ONLY_AFTER_WAIT of one: idle in SC
 * MUTANT L7_AFTER_L9 of one: lost in SC
 * MUTANT L7_RELAXED of two: lost in C11; holds in PSO
 * MUTANT L8_REMOVED of one: lost in TSO; holds in SC
 * MUTANT L8_REMOVED of polls_for_ever: cycle in TSO; holds in SC
 * MUTANT TIMER_WITHOUT_NOTIFY of timer: lost in SC
 * MUTANT ALWAYS_WITHOUT_FENCE of always: lost in TSO; holds in SC
 * MUTANT ALWAYS_RAISED_LATE of always: lost in SC
 */
#ifndef NOTIFIERS
#define NOTIFIERS 1
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif

#define THREADS (NOTIFIERS + 1)
#define LOOP 0 /* the thread; notifiers are 1.. */
#define NOTIFIED 0
#define NOTIFY_ME 1
#define WORK(notifier) ((notifier) + 1)
#define LOCATIONS (NOTIFIERS + 2)
#ifdef TIMER
#define STORES_MAX 18
#else
#define STORES_MAX (4 * NOTIFIERS * ROUNDS + 4)
#endif

#include "memory.pml"

bool event_readable; /* the eventfd */

/* What the properties look at; no thread decides by it. */
byte published[THREADS], ran[THREADS];
byte notifies, answers;
bool is_asleep, is_flag_up, is_timer_armed;
bool lost, late, quiet = true, idle = true;

#ifdef TIMER
#define ARMS_TIMER(notifier) ((notifier) == NOTIFIERS)
#else
#define ARMS_TIMER(notifier) false
#endif

/* ---- the notifier ---- */

inline n1_publish(me)
{
    /* ORDER loop.notify [N1] */
    printf("N1  notifier %d publishes\n", me);
    atomic {
        store(me, WORK(me), release, round);
        published[me] = round
    }
}

inline n2_notified(me)
{
    /* ORDER loop.notify [N2 N3]: one exchange, which is the fence, too. */
    printf("N2  notifier %d: notified = 1\n", me);
    atomic {
        notifies++;
#if defined(N3_REMOVED)
        store(me, NOTIFIED, release, 1)
#elif defined(N2_STORE)
        store(me, NOTIFIED, seq_cst, 1)
#elif defined(N2_RELAXED)
        exchange(me, NOTIFIED, relaxed, 1, old)
#else
        exchange(me, NOTIFIED, seq_cst, 1, old)
#endif
    }
}

#ifdef WRITE_SKIPPED_IF_NOTIFIED
#define WRITE_CONDITION && !old
#else
#define WRITE_CONDITION
#endif

inline n4_wake(me)
{
    /* ORDER loop.notify [N4] */
#ifdef N4_RELAXED
    load(me, NOTIFY_ME, relaxed, seen);
#else
    load(me, NOTIFY_ME, seq_cst, seen);
#endif
    printf("N4  notifier %d: notify_me is %d\n", me, seen);
    if
    :: seen WRITE_CONDITION ->
        printf("N4  notifier %d writes the eventfd\n", me);
        event_readable = true
    :: else
    fi
}

proctype notifier(byte me)
{
    byte round, seen, old;

    do
    :: round < ROUNDS ->
        round++;
#ifdef TIMER_WITHOUT_NOTIFY
        if
        :: ARMS_TIMER(me) -> n1_publish(me); break
        :: else
        fi;
#endif
#if defined(N1_LAST)
        n2_notified(me);
        n4_wake(me);
        n1_publish(me)
#elif defined(N2_AFTER_N3)
        n1_publish(me);
        fence(me);
        notifies++;
        store(me, NOTIFIED, release, 1);
        n4_wake(me)
#elif defined(N2_LAST)
        n1_publish(me);
        fence(me);
        n4_wake(me);
        n2_notified(me)
#elif defined(POLICY_ALWAYS)
        n1_publish(me);
        /* ORDER loop.notify_always: adding nothing is a load and a fence in one. */
#ifdef ALWAYS_WITHOUT_FENCE
        load(me, NOTIFY_ME, seq_cst, seen);
#else
        fetch_add(me, NOTIFY_ME, seq_cst, 0, seen);
#endif
        if
        :: seen ->
            event_readable = true;
            n2_notified(me)
        :: else
        fi
#else
        n1_publish(me);
        n2_notified(me);
        n4_wake(me)
#endif
#ifdef LATE
        ;
        atomic {
            late = is_asleep && !event_readable && ran[me] < round;
            assert(!late)
        }
#endif
    :: else -> break
    od
}

/* ---- the loop ---- */

inline raise_notify_me()
{
    printf("L2  loop: notify_me = 1\n");
    is_flag_up = true;
#ifdef L3_REMOVED
    store(LOOP, NOTIFY_ME, release, 1)
#else
    fetch_add(LOOP, NOTIFY_ME, seq_cst, 1, seen)
#endif
}

inline lower_notify_me()
{
    printf("L6  loop: notify_me = 0\n");
    is_flag_up = false;
    store(LOOP, NOTIFY_ME, release, 0)
}

/* A look at the work itself, as the computation of a timeout does it; only policies that were replaced do. */
inline look_at_work(found)
{
    found = false;
    cell = 1;
    do
    :: cell <= NOTIFIERS ->
        load(LOOP, WORK(cell), relaxed, value);
        found = found || value > ran[cell];
        cell++
    :: else -> cell = 0; value = 0; break
    od
}

inline nothing_is_lost()
{
    lost = false;
    cell = 1;
    do
    :: cell <= NOTIFIERS ->
        /* A timer that the wait knows of will end it in time. */
        lost = lost || (ran[cell] < published[cell] && !(ARMS_TIMER(cell) && deadline));
        cell++
    :: else -> cell = 0; break
    od;
    assert(!lost)
}

inline count_answer()
{
    answers++;
    idle = answers <= notifies;
    assert(idle)
}

proctype loop()
{
    byte seen, value, cell;
    bool event_ready, waited, deadline, time_is_up, unrelated_timer_is_gone;

pass:
    waited = false;
#ifdef TIMER
    atomic {
        load(LOOP, WORK(NOTIFIERS), acquire, value);
        deadline = value > ran[NOTIFIERS];
        value = 0
    }
#endif

#ifdef POLICY_ALWAYS
    /* ORDER loop.notify_always: notify_me is up while the loop computes its timeout from the work, polls and waits. */
#ifdef ALWAYS_RAISED_LATE
    look_at_work(seen);
    raise_notify_me();
#else
    raise_notify_me();
    look_at_work(seen);
#endif
    if
    :: seen -> goto lower
    :: else
    fi;
poll:
    load(LOOP, NOTIFIED, relaxed, seen);
    if
    :: seen -> goto lower
    :: !seen -> goto poll
    :: !seen
    fi;
#else
poll:
    quiet = !is_flag_up;
    assert(quiet);
    /* ORDER loop.notify [L1]: the window may close after any look. */
    load(LOOP, NOTIFIED, seq_cst, seen);
    if
    :: atomic { seen -> count_answer() };
        printf("L1  loop: notified is set\n");
        if
        :: event_readable -> event_ready = true /* also looked at the monitor */
        :: true
        fi;
        goto accept
    :: !seen -> goto poll
#ifndef LIVENESS
    :: !seen
#endif
    fi;
    printf("L1  loop: the window closes\n");

    /* ORDER loop.notify [L2 L3]: a seq_cst read-modify-write. */
    raise_notify_me();
    /* ORDER loop.notify [L4] */
#if defined(L4_REMOVED)
    seen = 0;
#elif defined(L4_RELAXED)
    load(LOOP, NOTIFIED, relaxed, seen);
#elif defined(RECHECK_WORK)
    fence(LOOP);
    look_at_work(seen);
#else
    load(LOOP, NOTIFIED, seq_cst, seen);
#endif
    printf("L4  loop: notified is %d\n", seen);
    if
    :: seen ->
#ifndef RECHECK_WORK
        count_answer();
#endif
        if
        :: event_readable -> event_ready = true
        :: true
        fi;
#ifdef L6_ONLY_AFTER_WAIT
        goto accept;
#else
        goto lower;
#endif
    :: else
    fi;
#endif

    is_asleep = true;
#ifdef L6_UNORDERED
    /* The store is visible before the wait, which stands before it in the program. */
    lower_notify_me();
#endif
    /* ORDER loop.notify [L5] */
    printf("L5  loop waits\n");
    if
    :: atomic { event_readable -> event_ready = true; is_asleep = false }
    :: atomic {
        timeout -> printf("L5  loop: time passes\n");
        nothing_is_lost();
        is_asleep = false;
#ifdef TIMER
        if
        :: deadline -> time_is_up = true
        :: !deadline && !unrelated_timer_is_gone -> unrelated_timer_is_gone = true
        :: else -> goto done
        fi
#else
        goto done
#endif
    }
    fi;
    waited = true;
    printf("L5  loop wakes up\n");

lower:
    /* ORDER loop.notify [L6] */
#ifndef L6_REMOVED
    lower_notify_me();
#endif

accept:
#if defined(L7_REMOVED)
    goto dispatch;
#elif defined(L7_ONLY_AFTER_WAIT)
    if
    :: !waited -> goto dispatch
    :: else
    fi;
#endif
#ifdef L7_AFTER_L9
    goto dispatch;
accept_late:
#endif
    /* ORDER loop.accept [L7 L8]: one exchange, which is the fence, too; not needed if there is nothing to clear. */
    load(LOOP, NOTIFIED, relaxed, seen);
    if
    :: seen ->
        printf("L7  loop: notified = 0\n");
#if defined(L8_REMOVED)
        store(LOOP, NOTIFIED, release, 0);
#elif defined(L7_RELAXED)
        exchange(LOOP, NOTIFIED, relaxed, 0, seen);
#else
        exchange(LOOP, NOTIFIED, seq_cst, 0, seen);
#endif
#ifdef POLICY_ALWAYS
        event_readable = false
#endif
    :: else
    fi;
#ifdef L7_AFTER_L9
    goto pass;
#endif

dispatch:
    quiet = !is_flag_up;
    assert(quiet);
    /* ORDER loop.accept [L9] */
#ifndef POLICY_ALWAYS
    if
    :: event_ready -> event_readable = false; event_ready = false
    :: else
    fi;
#endif
    cell = 1;
    do
    :: cell <= NOTIFIERS ->
        load(LOOP, WORK(cell), acquire, value);
        printf("L9  loop reads the work of notifier %d: %d\n", cell, value);
#ifdef TIMER
        if
        :: !ARMS_TIMER(cell) || time_is_up -> ran[cell] = value
        :: ARMS_TIMER(cell) && !time_is_up -> skip /* not due */
        :: ARMS_TIMER(cell) && !time_is_up -> ran[cell] = value
        fi;
#else
        ran[cell] = value;
#endif
        cell++
    :: else -> break
    od;
    seen = 0;
    value = 0;
    cell = 0;
    time_is_up = false;
#ifdef L7_AFTER_L9
    goto accept_late;
#else
    goto pass;
#endif

done:
    skip
}

init {
    atomic {
        start_memory();
        run loop();
        byte n = 1;
        do
        :: n <= NOTIFIERS -> run notifier(n); n++
        :: else -> break
        od
    }
}

#ifdef LIVENESS
ltl work_is_run { [] ((published[1] == ROUNDS) -> <> (ran[1] == ROUNDS)) }
#endif
