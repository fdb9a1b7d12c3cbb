/*
 * Shared memory for models: four of them behind the same operations, chosen by -DMEMORY=.
 *
 * SC     One memory, no delay. No fence can matter here: a mutant without a fence must pass.
 *
 * TSO    As x86. Each thread has a buffer of its stores; `store_buffer` takes the oldest to memory at any time. A load
 *        finds the thread's own latest buffered store, else memory. A read-modify-write, a fence and a seq_cst store
 *        wait until the thread's buffer is empty.
 *
 * PSO    As TSO, but any buffered store may go to memory first, unless an older one in the same buffer is of the same
 *        location, or it is a release, which goes last. A relaxed read-modify-write waits for stores to its own
 *        location alone, and a compare-and-swap that fails is a load. Loads stay in order.
 *
 * C11    What the C standard promises, and no more: stores *and* loads out of order, and no agreement between two
 *        threads about the order of two others' stores. Each location keeps every store ever made, in modification
 *        order. A thread has a view: for each location the oldest store that it may still read. A load picks any store
 *        from there on, and moves the view to it. A release attaches the thread's view to the store; an acquire that
 *        reads it, or a read-modify-write of it, joins that view to the reader's. A read-modify-write reads the latest
 *        store and passes its view on (a release sequence). A seq_cst load reads nothing older than the last seq_cst
 *        store to its location.
 *        Not there: stores that become visible before an earlier load of their thread has read (a model that
 *        needs that does it by hand), and plain stores that come into the middle of the modification order (a location
 *        with several writers is written by read-modify-writes in all code that is modelled).
 *
 * The including model defines THREADS (who has a buffer or a view), LOCATIONS, and for C11 STORES_MAX, the number of
 * stores to one location including the initial 0. is_latest() says what a location will hold for everybody sooner or
 * later: to wait for, without turning round and round on old values. `me` is a thread, `loc` a location, `order` what <stdatomic.h> calls it.
 */
#define SC 1
#define TSO 2
#define PSO 3
#define C11 4

#define ACQUIRE_BIT 1
#define RELEASE_BIT 2
#define SEQ_CST_BIT 4
#define relaxed 0
#define acquire ACQUIRE_BIT
#define release RELEASE_BIT
#define acq_rel (ACQUIRE_BIT | RELEASE_BIT)
#define seq_cst (ACQUIRE_BIT | RELEASE_BIT | SEQ_CST_BIT)

/* Set when a model's bound is too small: then nothing is proved, and nothing refuted. */
bool model_too_small;

#if MEMORY == C11

typedef view {
    byte at[LOCATIONS]
};

typedef location {
    byte latest;
    byte latest_seq_cst;
    byte value[STORES_MAX];
    view seen[STORES_MAX] /* what a release attached */
};

location memory[LOCATIONS];
view thread[THREADS];
view fences; /* what the seq_cst fences so far have seen */
byte pick, scan; /* 0 between operations */

inline join_message(me, loc)
{
    scan = 0;
    do
    :: scan < LOCATIONS ->
        if
        :: memory[loc].seen[pick].at[scan] > thread[me].at[scan] ->
            thread[me].at[scan] = memory[loc].seen[pick].at[scan]
        :: else
        fi;
        scan++
    :: else -> break
    od;
    scan = 0
}

/* A new latest store. With @pick not 0 it carries on the view of that store. */
inline append(me, loc, order, val)
{
    if
    :: memory[loc].latest + 1 >= STORES_MAX -> model_too_small = true; assert(!model_too_small)
    :: else
    fi;
    memory[loc].latest++;
    memory[loc].value[memory[loc].latest] = val;
    thread[me].at[loc] = memory[loc].latest;
    scan = 0;
    do
    :: scan < LOCATIONS ->
        memory[loc].seen[memory[loc].latest].at[scan] =
            ((order) & RELEASE_BIT || scan == loc -> thread[me].at[scan] : 0);
        if
        :: pick > 0 && memory[loc].seen[pick].at[scan] > memory[loc].seen[memory[loc].latest].at[scan] ->
            memory[loc].seen[memory[loc].latest].at[scan] = memory[loc].seen[pick].at[scan]
        :: else
        fi;
        scan++
    :: else -> break
    od;
    scan = 0;
    pick = 0;
    if
    :: (order) & SEQ_CST_BIT -> memory[loc].latest_seq_cst = memory[loc].latest
    :: else
    fi
}

inline load(me, loc, order, result)
{
    atomic {
        pick = ((order) & SEQ_CST_BIT && memory[loc].latest_seq_cst > thread[me].at[loc]
                -> memory[loc].latest_seq_cst : thread[me].at[loc]);
        do
        :: pick < memory[loc].latest -> pick++
        :: break
        od;
        true;
        d_step {
            thread[me].at[loc] = pick;
            result = memory[loc].value[pick];
            if
            :: (order) & ACQUIRE_BIT -> join_message(me, loc)
            :: else
            fi;
            pick = 0
        }
    }
}

inline store(me, loc, order, val)
{
    d_step {
        append(me, loc, order, val)
    }
}

inline exchange(me, loc, order, val, old)
{
    d_step {
        pick = memory[loc].latest;
        old = memory[loc].value[pick];
        if
        :: (order) & ACQUIRE_BIT -> join_message(me, loc)
        :: else
        fi;
        append(me, loc, order, val)
    }
}

inline fetch_add(me, loc, order, addend, old)
{
    d_step {
        pick = memory[loc].latest;
        old = memory[loc].value[pick];
        if
        :: (order) & ACQUIRE_BIT -> join_message(me, loc)
        :: else
        fi;
        append(me, loc, order, old + (addend))
    }
}

/* @success: whether it was @expected and is @val now. A failure reads with relaxed order. */
inline compare_exchange(me, loc, order, expected, val, success)
{
    d_step {
        pick = memory[loc].latest;
        success = memory[loc].value[pick] == (expected);
        if
        :: !success -> thread[me].at[loc] = pick; pick = 0
        :: success && (order) & ACQUIRE_BIT -> join_message(me, loc); append(me, loc, order, val)
        :: else -> append(me, loc, order, val)
        fi
    }
}

inline fence(me)
{
    d_step {
        scan = 0;
        do
        :: scan < LOCATIONS ->
            fences.at[scan] = (thread[me].at[scan] > fences.at[scan] -> thread[me].at[scan] : fences.at[scan]);
            thread[me].at[scan] = fences.at[scan];
            scan++
        :: else -> break
        od;
        scan = 0
    }
}

inline start_memory()
{
    skip
}

#define is_latest(loc, val) (memory[loc].value[memory[loc].latest] == (val))

#else /* buffers */

#define BUFFERED_MAX 4

byte memory[LOCATIONS];

#define is_latest(loc, val) (memory[loc] == (val))

#if MEMORY == SC

#define may_read_modify_write(me, loc, order) true
#define may_fail(me, loc, expected) false
#define is_buffer_empty(me) true

inline load(me, loc, order, result)
{
    result = memory[loc]
}

inline store(me, loc, order, val)
{
    memory[loc] = val
}

inline start_memory()
{
    skip
}

#else

typedef buffer {
    byte count;
    byte loc[BUFFERED_MAX]; /* oldest first; behind count all is 0 */
    byte value[BUFFERED_MAX];
    bool is_release[BUFFERED_MAX]
};

buffer buffers[THREADS];
byte scan; /* 0 between operations */

#define is_buffer_empty(me) (buffers[me].count == 0)
#define is_at(me, index, where) (buffers[me].count > index && buffers[me].loc[index] == where)
#define is_buffered(me, where) (is_at(me, 0, where) || is_at(me, 1, where) || is_at(me, 2, where) || is_at(me, 3, where))

#if MEMORY == TSO
#define may_read_modify_write(me, loc, order) is_buffer_empty(me)
#define may_fail(me, loc, expected) false
#else
#define may_read_modify_write(me, where, order) \
    (is_buffer_empty(me) || (((order) & RELEASE_BIT) == 0 && !is_buffered(me, where)))
/* A comparison that fails is a load. */
#define may_fail(me, where, expected) (!is_buffered(me, where) && memory[where] != (expected))
#endif

inline load(me, where, order, result)
{
    d_step {
        result = memory[where];
        scan = 0;
        do
        :: scan < buffers[me].count ->
            if
            :: buffers[me].loc[scan] == (where) -> result = buffers[me].value[scan]
            :: else
            fi;
            scan++
        :: else -> break
        od;
        scan = 0
    }
}

inline store(me, where, order, val)
{
    d_step {
        buffers[me].count < BUFFERED_MAX ->
        buffers[me].loc[buffers[me].count] = where;
        buffers[me].value[buffers[me].count] = val;
        buffers[me].is_release[buffers[me].count] = ((order) & RELEASE_BIT) != 0;
        buffers[me].count++
    }
    /* A seq_cst store waits. */
    (is_buffer_empty(me) || ((order) & SEQ_CST_BIT) == 0)
}

/* The entry at @index goes to memory. */
inline take_out(me, index)
{
    memory[buffers[me].loc[index]] = buffers[me].value[index];
    printf("M0  thread %d: its store reaches memory: location %d = %d\n", me, buffers[me].loc[index], buffers[me].value[index]);
    scan = index;
    do
    :: scan + 1 < buffers[me].count ->
        buffers[me].loc[scan] = buffers[me].loc[scan + 1];
        buffers[me].value[scan] = buffers[me].value[scan + 1];
        buffers[me].is_release[scan] = buffers[me].is_release[scan + 1];
        scan++
    :: else -> break
    od;
    buffers[me].loc[scan] = 0;
    buffers[me].value[scan] = 0;
    buffers[me].is_release[scan] = false;
    buffers[me].count--;
    scan = 0
}

proctype store_buffer(byte me)
{
end:
    do
    :: d_step { buffers[me].count > 0 -> take_out(me, 0) }
#if MEMORY == PSO
    /* Past what is of other locations. */
#define may_pass(me, index) (buffers[me].count > index && !buffers[me].is_release[index])
#define differs(me, index, older) (buffers[me].loc[index] != buffers[me].loc[older])
    :: d_step { may_pass(me, 1) && differs(me, 1, 0) -> take_out(me, 1) }
    :: d_step { may_pass(me, 2) && differs(me, 2, 0) && differs(me, 2, 1) -> take_out(me, 2) }
    :: d_step {
        may_pass(me, 3) && differs(me, 3, 0) && differs(me, 3, 1) && differs(me, 3, 2) -> take_out(me, 3)
    }
#endif
    od
}

inline start_memory()
{
    scan = 0;
    do
    :: scan < THREADS -> run store_buffer(scan); scan++
    :: else -> break
    od;
    scan = 0
}

#endif

inline fence(me)
{
    is_buffer_empty(me)
}

inline exchange(me, where, order, val, old)
{
    d_step {
        may_read_modify_write(me, where, order) -> old = memory[where]; memory[where] = val
    }
}

inline fetch_add(me, where, order, addend, old)
{
    d_step {
        may_read_modify_write(me, where, order) -> old = memory[where]; memory[where] = old + (addend)
    }
}

inline compare_exchange(me, where, order, expected, val, success)
{
    d_step {
        (may_read_modify_write(me, where, order) || may_fail(me, where, expected)) ->
        success = memory[where] == (expected);
        memory[where] = (success -> (val) : memory[where])
    }
}

#endif
