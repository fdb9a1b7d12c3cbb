/*
 * Who watches the host notifiers of a device's rings while it starts, stops and is drained:
 * virtio-blk/device/dataplane.c, home.c and notifier.c.
 *
 * Threads, each with a loop: the main one, where the session's coroutine and others live, and the home of the
 * rings; with MOVES a second one that may become it. A coroutine goes over and back (rt_coroutine_move) through the list of the loop that it goes to; a loop runs
 * one thing at a time. The session starts the device, which may fail anywhere, stops a ring and adds it again, and stops the
 * device. Meanwhile other coroutines of the main loop drain it, nested, whenever they get their turn; the guest puts
 * requests into the rings and kicks; requests end when they like. With MOVES one more coroutine of the main loop moves a ring.
 * Left out: memory order, as all of it goes through the loops' lists and the lock of the rings; what is in a request;
 * suppressed notifications; a move that fails before it has changed anything.
 *
 * What is asserted
 *   unwatched  a descriptor that is closed is in no loop
 *   single     a descriptor is put into the ring's home loop, where the ring has what it needs, and only once
 *   drained    from the begin of a drain to its end no ring is watched, and no request is taken or under way
 *   own        a ring is watched by the loop in which its requests run
 *   clear      the flag is clear after a stop and after a start that failed
 *   seen       when nothing more happens, a device that is started has taken every request, and one that is stopped
 *              has nothing in a loop
 *   deadlock   (SPIN's own) a drain never ends
 *
 * PROOF one_ring    RINGS=1 DRAINERS=2 NESTED         SC
 * PROOF two_rings   RINGS=2 DRAINERS=1 RESTARTS_RING  SC
 * PROOF moves       RINGS=2 DRAINERS=0 GUESTS=1 MOVES SC
 * PROOF nested      RINGS=1 DRAINERS=1 NESTED RESTARTS_RING MOVES SC
 *
 * The order of the past, in start and in stop.
 * MUTANT STARTED_BEFORE_ATTACH of one_ring: single in SC
 * MUTANT STOPPED_AFTER_DRAIN of one_ring: single in SC
 *
 * MUTANT FLAG_AFTER_DETACH of one_ring: unwatched in SC
 * MUTANT FAILED_START_SETS_FLAG of one_ring: clear in SC
 * MUTANT FAILED_START_KEEPS_FLAG of one_ring: single in SC
 * MUTANT CLOSE_BEFORE_DETACH of one_ring: unwatched in SC
 * MUTANT NO_KICK_AT_START of one_ring: seen in SC
 * MUTANT NO_KICK_AFTER_DRAIN of one_ring: seen in SC
 * MUTANT DRAIN_DETACHES_IN_MAIN of one_ring: drained in SC
 * MUTANT DRAIN_OF_STARTED_ONLY of one_ring: drained in SC
 * MUTANT ATTACH_WHILE_DRAINED of one_ring: drained in SC
 * MUTANT WAITER_OVERWRITTEN of one_ring: deadlock in SC
 * MUTANT NESTED_END_ATTACHES of one_ring: drained in SC
 * MUTANT RING_RUNS_EARLY of two_rings: single in SC
 * MUTANT RING_RUNS_LATE of two_rings: unwatched in SC
 *
 * MUTANT VISITS_UNLOCKED of nested: deadlock in SC
 * MUTANT DRAIN_ATTACHES_MOVING of nested: single in SC
 * MUTANT MOVE_ATTACHES_DRAINED of nested: drained in SC
 * MUTANT MOVE_ATTACHES_STOPPED of moves: single in SC
 * MUTANT MOVE_RESTORES of nested: seen in SC
 * MUTANT MOVE_WITHOUT_KICK of nested: seen in SC
 * MUTANT MOVE_WITHOUT_DRAIN of nested: own in SC
 * MUTANT START_ATTACHES_MOVED of moves: single in SC
 */
#ifdef MOVES
#define COROUTINES (DRAINERS + 2)
#define LOOPS 4
#else
#define COROUTINES (DRAINERS + 1)
#define LOOPS 3
#endif
#ifndef GUESTS
#define GUESTS RINGS
#endif
#define SESSION 0
#define MOVER (DRAINERS + 1)
#define NOBODY 255

#define NOWHERE 0
#define MAIN 1
#define HOME 2
#define ANOTHER 3

/* ---- loops: a coroutine runs when its loop's thread has taken it from the list ---- */

chan list[LOOPS] = [COROUTINES] of { byte };
byte runs[LOOPS] = NOBODY;

inline go(me, from, to)
{
    atomic { list[to]!me; runs[from] = NOBODY };
    (runs[to] == me)
}

/* Let others have their turn. */
#define pass(me) go(me, MAIN, MAIN)

/* ---- who goes to a ring's home finds it there: shared by visits, a move has it alone ---- */

#if defined(MOVES) && !defined(VISITS_UNLOCKED)
byte readers;
bool writing, in_line; /* a writer that waits lets no more readers in front */

inline read_lock(me)
{
    if
    :: atomic { !writing && !in_line -> readers++ }
    :: else ->
        runs[MAIN] = NOBODY;
        atomic { !writing && !in_line && runs[MAIN] == NOBODY -> runs[MAIN] = me; readers++ }
    fi
}

inline write_lock(me)
{
    if
    :: atomic { !writing && readers == 0 -> writing = true }
    :: else ->
        atomic { in_line = true; runs[MAIN] = NOBODY };
        atomic { !writing && readers == 0 && runs[MAIN] == NOBODY -> runs[MAIN] = me; in_line = false; writing = true }
    fi
}

inline read_unlock()
{
    readers--
}

inline write_unlock()
{
    writing = false
}
#else
#define read_lock(me) skip
#define write_lock(me) skip
#define read_unlock() skip
#define write_unlock() skip
#endif

/* ---- the device ---- */

bool started;
byte drain_depth;
bool running[RINGS], has_ring[RINGS], moving[RINGS], in_home[RINGS]; /* in_home: bottom half and timer exist */
byte home[RINGS] = HOME;
byte place[RINGS];                                    /* which loop processes it */
bool open[RINGS];                                     /* the kick descriptor */
byte watched_by[RINGS];                               /* where its handler is */
bool accepting[RINGS];
byte in_flight[RINGS];       /* where its request runs */
byte waiter[RINGS] = NOBODY; /* a coroutine in the home loop */

/* The guest's. */
bool request[RINGS], kick[RINGS];

/* What the properties look at; nobody decides by it. */
byte drains; /* that have begun and not ended */
bool unwatched = true, single = true, drained = true, own = true, clear = true, seen = true;

inline kick_ring(q)
{
    kick[q] = open[q] || kick[q]
}

inline attach(q)
{
    d_step {
        single = watched_by[q] == NOWHERE && place[q] == home[q] && in_home[q];
        assert(single);
        drained = drains == 0;
        assert(drained);
        own = !in_flight[q] || in_flight[q] == place[q];
        assert(own);
        watched_by[q] = place[q];
        accepting[q] = true
    }
}

inline detach(q)
{
    d_step {
        watched_by[q] = NOWHERE;
        accepting[q] = false
    }
}

inline close_notifier(q)
{
    d_step {
        unwatched = watched_by[q] == NOWHERE;
        assert(unwatched);
        open[q] = false;
        kick[q] = false
    }
}

/* In the home loop. @earlier is a variable of the coroutine. */
inline drain_ring(me, q)
{
    if
    :: in_flight[q] ->
        /* ORDER dataplane.started [D3]: its end wakes us, and we whoever waited before us. */
        atomic {
#ifndef WAITER_OVERWRITTEN
            earlier = waiter[q];
#endif
            waiter[q] = me;
            runs[home[q]] = NOBODY
        }
        (runs[home[q]] == me);
        if
        :: earlier != NOBODY -> list[home[q]]!earlier; earlier = NOBODY
        :: else
        fi
    :: else
    fi
}

/* From here to the end of the drain nothing may move. */
inline has_drained()
{
    d_step {
        drains++;
        r = 0;
        do
        :: r < RINGS -> drained = drained && watched_by[r] == NOWHERE && !in_flight[r]; r++
        :: else -> r = 0; break
        od;
        assert(drained)
    }
}

inline drain_begin(me)
{
    /* ORDER dataplane.started [D1] */
    drain_depth++;
#ifdef DRAIN_DETACHES_IN_MAIN
    r = 0;
    do
    :: r < RINGS -> detach(r); r++
    :: else -> break
    od;
#endif
    r = 0;
    do
    :: r < RINGS && has_ring[r] ->
        read_lock(me);
        go(me, MAIN, home[r]);
        if
        :: in_home[r] ->
            /* ORDER dataplane.started [D2]: in the ring's loop, behind whoever is about to attach it there. */
#if defined(DRAIN_OF_STARTED_ONLY)
            if
            :: started -> detach(r)
            :: else
            fi;
#elif !defined(DRAIN_DETACHES_IN_MAIN)
            detach(r);
#endif
            drain_ring(me, r)
        :: else
        fi;
        go(me, home[r], MAIN);
        read_unlock();
        r++
    :: r < RINGS && !has_ring[r] -> r++
    :: else -> r = 0; break
    od;
    has_drained()
}

#ifdef NESTED_END_ATTACHES
#define IS_OUTERMOST true
#else
#define IS_OUTERMOST (drain_depth == 1)
#endif

/* ORDER dataplane.move [V2] */
#ifdef DRAIN_ATTACHES_MOVING
#define MAY_BE_ATTACHED(q) (running[q] && has_ring[q] && watched_by[q] == NOWHERE)
#else
#define MAY_BE_ATTACHED(q) (running[q] && has_ring[q] && !moving[q] && watched_by[q] == NOWHERE)
#endif

inline drain_end()
{
    drains--;
    /* ORDER dataplane.started [D4] */
    if
    :: IS_OUTERMOST && started ->
        r = 0;
        do
        :: r < RINGS && MAY_BE_ATTACHED(r) ->
#ifndef NO_KICK_AFTER_DRAIN
            kick_ring(r);
#endif
            attach(r);
            r++
        :: r < RINGS && !MAY_BE_ATTACHED(r) -> r++
        :: else -> r = 0; break
        od
    :: else
    fi;
    drain_depth--
}

/* ---- the session: start and stop ---- */

inline prepare(q)
{
    has_ring[q] = true;
    read_lock(SESSION);
    go(SESSION, MAIN, home[q]);
    in_home[q] = true;
    go(SESSION, home[q], MAIN);
    read_unlock()
}

inline attach_ring(q)
{
    read_lock(SESSION);
    /* ORDER dataplane.started [S3]: drained just now: the drain's end attaches. ORDER dataplane.move [V3] */
    if
#if defined(ATTACH_WHILE_DRAINED)
    :: watched_by[q] == NOWHERE ->
#elif defined(START_ATTACHES_MOVED)
    :: drain_depth == 0 ->
#else
    :: drain_depth == 0 && watched_by[q] == NOWHERE ->
#endif
        go(SESSION, MAIN, home[q]);
        attach(q);
        go(SESSION, home[q], MAIN)
    :: else
    fi;
    read_unlock()
}

inline quiesce(q)
{
    read_lock(SESSION);
    if
    :: in_home[q] ->
        go(SESSION, MAIN, home[q]);
        detach(q);
        go(SESSION, home[q], MAIN)
    :: else
    fi;
    read_unlock()
}

inline retire(q)
{
    read_lock(SESSION);
    if
    :: in_home[q] ->
        go(SESSION, MAIN, home[q]);
        drain_ring(SESSION, q);
        in_home[q] = false;
        go(SESSION, home[q], MAIN)
    :: else
    fi;
    read_unlock();
    place[q] = MAIN;
    has_ring[q] = false;
    running[q] = false
}

#define EACH(action)             \
    q = 0;                       \
    do                           \
    :: q < RINGS -> action(q); q++ \
    :: else -> q = 0; break      \
    od

inline give_notifier(q)
{
    open[q] = true
}

inline collect(q)
{
    running[q] = true
}

inline go_home(q)
{
    place[q] = home[q];
#ifndef NO_KICK_AT_START
    kick_ring(q)
#endif
}

inline leave_home(q)
{
    read_lock(SESSION);
    go(SESSION, MAIN, home[q]);
    in_home[q] = false;
    go(SESSION, home[q], MAIN);
    read_unlock();
    place[q] = MAIN
}

/* Sets @failed. */
inline start()
{
    failed = false;
    EACH(give_notifier);
#ifdef STARTED_BEFORE_ATTACH
    started = true;
#endif
    EACH(collect);
    drain_begin(SESSION);
    EACH(prepare);
    drain_end();
    if
    :: failed = true; goto abort_start
    :: true
    fi;
    EACH(go_home);
    /* ORDER dataplane.started [S2] */
    started = true;
    q = 0;
    do
    :: q < RINGS -> attach_ring(q); q++
    :: q < RINGS -> q = 0; failed = true; goto abort_start
    :: q == RINGS -> q = 0; break
    od;
    goto is_started;

abort_start:
    /* ORDER dataplane.started [S1]: clear first, so that no drain attaches what is being undone. */
#ifndef FAILED_START_KEEPS_FLAG
    started = false;
#endif
    EACH(quiesce);
    EACH(retire);
    EACH(close_notifier);
#ifdef FAILED_START_SETS_FLAG
    started = true;
#endif
    clear = !started;
    assert(clear);
is_started:
    skip
}

inline stop()
{
#if !defined(FLAG_AFTER_DETACH) && !defined(STOPPED_AFTER_DRAIN)
    /* ORDER dataplane.started [S1] */
    started = false;
#endif
#ifdef CLOSE_BEFORE_DETACH
    EACH(close_notifier);
#endif
    EACH(quiesce);
#ifdef FLAG_AFTER_DETACH
    started = false;
#endif
#ifndef STOPPED_AFTER_DRAIN
    EACH(close_notifier);
#endif
    drain_begin(SESSION);
    EACH(leave_home);
    drain_end();
#ifdef STOPPED_AFTER_DRAIN
    EACH(close_notifier);
    started = false;
#endif
    EACH(retire);
    clear = !started;
    assert(clear)
}

/* One ring alone, while the device is started. */
inline stop_ring(q)
{
#ifndef RING_RUNS_LATE
    running[q] = false;
#endif
    quiesce(q);
    close_notifier(q);
    retire(q)
}

inline add_ring(q)
{
    give_notifier(q);
#ifdef RING_RUNS_EARLY
    running[q] = true;
#endif
    prepare(q);
    go_home(q);
    running[q] = true;
    attach_ring(q)
}

proctype session()
{
    byte q, r, earlier = NOBODY;
    bool failed;

    list[MAIN]!SESSION;
    (runs[MAIN] == SESSION);
    start();
    if
    :: failed -> skip
    :: !failed ->
        if
        :: skip -> goto stays
#ifdef RESTARTS_RING
        :: pass(SESSION);
            stop_ring(RINGS - 1);
            add_ring(RINGS - 1)
#endif
        :: skip
        fi;
        pass(SESSION);
        stop()
    fi;
stays:
    runs[MAIN] = NOBODY
}

proctype drainer(byte me)
{
    byte r, earlier = NOBODY;

    list[MAIN]!me;
    (runs[MAIN] == me);
    drain_begin(me);
    pass(me);
#ifdef NESTED
    drain_begin(me);
    drain_end();
    pass(me);
#endif
    drain_end();
    runs[MAIN] = NOBODY
}

#ifdef MOVES
#ifdef MOVE_RESTORES
#define SHALL_WATCH(q) watched
#elif defined(MOVE_ATTACHES_DRAINED)
#define SHALL_WATCH(q) (running[q] && has_ring[q] && started)
#elif defined(MOVE_ATTACHES_STOPPED)
#define SHALL_WATCH(q) (running[q] && has_ring[q] && drain_depth == 0)
#else
#define SHALL_WATCH(q) (running[q] && has_ring[q] && started && drain_depth == 0)
#endif

inline move(q, loop)
{
    write_lock(MOVER);
    if
    :: in_home[q] && home[q] != loop ->
#ifdef MOVE_RESTORES
        watched = watched_by[q] != NOWHERE;
#endif
        moving[q] = true;
        go(MOVER, MAIN, home[q]);
        detach(q);
#ifndef MOVE_WITHOUT_DRAIN
        drain_ring(MOVER, q);
#endif
        in_home[q] = false;
        go(MOVER, home[q], loop);
        home[q] = loop;
        in_home[q] = true;
        go(MOVER, loop, MAIN);
        /* ORDER dataplane.move [V1] */
        if
        :: place[q] != MAIN -> place[q] = loop
        :: else
        fi;
        if
        :: SHALL_WATCH(q) ->
#ifndef MOVE_WITHOUT_KICK
            kick_ring(q);
#endif
            go(MOVER, MAIN, loop);
            attach(q);
            go(MOVER, loop, MAIN)
        :: else
        fi;
        moving[q] = false
    :: !in_home[q] && home[q] != loop -> home[q] = loop
    :: home[q] == loop
    fi;
    write_unlock()
}

proctype mover()
{
    byte q, earlier = NOBODY;
#ifdef MOVE_RESTORES
    bool watched; /* a look before the move at what should be after it */
#endif

    list[MAIN]!MOVER;
    (runs[MAIN] == MOVER);
    if
    :: q = 0
#if RINGS > 1
    :: q = 1
#endif
    fi;
    move(q, ANOTHER);
    runs[MAIN] = NOBODY
}
#endif

/* ---- what else the loops do ---- */

inline take(q)
{
    drained = drains == 0;
    assert(drained);
    request[q] = false;
    in_flight[q] = watched_by[q]
}

proctype main_loop()
{
end:
    do
    :: atomic { runs[MAIN] == NOBODY && nempty(list[MAIN]) -> list[MAIN]?runs[MAIN] }
    od
}

/* A kick. With a request under way nothing more is taken: its end looks again. */
#define IS_KICKED(q) (runs[loop] == NOBODY && watched_by[q] == loop && kick[q])
inline read_kick(q)
{
    kick[q] = false;
    if
    :: accepting[q] && request[q] && !in_flight[q] -> take(q)
    :: else
    fi
}

/* A request ends, and the bottom half looks at the ring again. */
#define MAY_END(q) (runs[loop] == NOBODY && in_flight[q] == loop)
inline end_request(q)
{
    in_flight[q] = NOWHERE;
    if
    :: waiter[q] != NOBODY -> list[loop]!waiter[q]; waiter[q] = NOBODY
    :: else
    fi;
    if
    :: accepting[q] && request[q] -> take(q)
    :: else
    fi
}

proctype home_loop(byte loop)
{
end:
    do
    :: atomic { runs[loop] == NOBODY && nempty(list[loop]) -> list[loop]?runs[loop] }
    :: atomic { IS_KICKED(0) -> read_kick(0) }
    :: atomic { MAY_END(0) -> end_request(0) }
#if RINGS > 1
    :: atomic { IS_KICKED(1) -> read_kick(1) }
    :: atomic { MAY_END(1) -> end_request(1) }
#endif
    od
}

proctype guest(byte q)
{
    /* Before the device knows the ring: nobody was there to be kicked. */
    request[q] = true;
    kick_ring(q);
    if
    :: atomic { !request[q] -> request[q] = true }; kick_ring(q)
    :: true
    fi
}

/* When nothing can happen any more. */
proctype the_end()
{
    byte q;

    atomic {
        timeout ->
        do
        :: q < RINGS ->
            seen = seen && (started -> !request[q] && watched_by[q] == home[q] : watched_by[q] == NOWHERE);
            q++
        :: else -> q = 0; break
        od;
        assert(seen)
    }
}

init {
    atomic {
        byte n = 0;
        do
        :: n < LOOPS -> runs[n] = NOBODY; n++
        :: else -> n = 0; break
        od;
        do
        :: n < RINGS -> waiter[n] = NOBODY; home[n] = HOME; place[n] = MAIN; n++
        :: else -> n = 0; break
        od;
        do
        :: n < GUESTS -> run guest(n); n++
        :: else -> break
        od;
        run main_loop();
        run home_loop(HOME);
#ifdef MOVES
        run home_loop(ANOTHER);
        run mover();
#endif
        run session();
        n = 1;
        do
        :: n <= DRAINERS -> run drainer(n); n++
        :: else -> break
        od;
        run the_end()
    }
}
