#include "coroutine/stack.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "coroutine/coroutine_internal.h"
#include "coroutine/guard.h"
#include "coroutine/switch.h"
#include "process/vma.h"
#include "rt/pool.h"
#include "rt/process.h"
#include "tracepoints/process.h"

#ifdef RT_ASAN
#include <sanitizer/asan_interface.h>
#endif
#ifdef RT_VALGRIND
#include <valgrind/memcheck.h>
#endif

#define STACK_BYTES_DEFAULT (64 * 1024)
#define CACHE_LINE 64
/* Stacks lie at the same distance from each other, so their tops would all fall into the same few sets of the first
 * cache. Each begins a little lower than its neighbour, up to a page. Two threads that make stacks at the same time get
 * every other one: turning by one after each row gives them all colours, too. */
#define COLOURS 16
#define COLOUR_BYTES (4 * CACHE_LINE)

/* Linux 5.14 */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
/* What the lives before used, most probably: half of the colours leave little of the uppermost page to a request. */
#define RESTORED_PAGES 2

#define WORD_BITS 64
#define SLAB_WORDS (RT_POOL_BATCH_SIZE / WORD_BITS)

struct stack_slab {
    char *memory;
    uint64_t free[SLAB_WORDS];    /* stacks that nobody has */
    uint64_t guarded[SLAB_WORDS]; /* stacks that have their guard; made with the first use */
    uint32_t free_count, guarded_count;
    struct stack_slab *next, **at; /* slabs that have free stacks; at is NULL: none free. Unmapped ones: a list by next */

    /*
     * ORDER stack.registry: a signal handler finds the slab of a faulting address without a lock. A slab is never freed, only
     * used again; it is linked with release order after known_next is set, and mapped is set when the memory is there. The
     * slab that matters does not change meanwhile: the faulting thread runs on one of its stacks.
     * If weaker: the handler follows a chain that is not there yet, and the report of an overflow is itself a fault.
     * Test: tests/runtime/coroutine/test_overflow.c reads it from a handler; no test can show the order on x86.
     */
    _Atomic(char *) mapped; /* NULL: not now */
    struct stack_slab *known_next;
};

static _Atomic(struct stack_slab *) known_slabs;

/* All under lock, but for the counts that the sampler reads. */
static struct {
    pthread_mutex_t lock;
    struct stack_slab *available, **available_last;
    struct stack_slab **by_address;
    struct stack_slab *unmapped; /* to be used again */
    uint32_t slab_count, slab_room, empty_count;
    _Atomic uint32_t stack_count, vma_count;

    /* Fixed once set_up. */
    _Atomic bool set_up;
    enum rt_stack_guard guard;
    size_t page_bytes, stride;
    uint32_t stack_bytes, mappings_per_1000;
    int probe_error;
} stacks = { .lock = PTHREAD_MUTEX_INITIALIZER, .available_last = &stacks.available };

/* ---- what stacks are made like ---- */

static int set_up_locked(enum rt_stack_guard guard, uint32_t stack_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t least = 4 * page; /* pages of 64 KiB exist: the default follows */
    size_t bytes = stack_bytes ? stack_bytes : least > STACK_BYTES_DEFAULT ? least : STACK_BYTES_DEFAULT;
    uint32_t cost = 0;
    int error = -EOPNOTSUPP;

    if (bytes % page != 0 || bytes < least || guard > RT_STACK_GUARD_MPROTECT)
        return -EINVAL;
    if (guard != RT_STACK_GUARD_MPROTECT)
        error = rt_guard_probe(RT_STACK_GUARD_LIGHTWEIGHT, bytes + page, &cost);
    if (error < 0 && guard == RT_STACK_GUARD_LIGHTWEIGHT)
        return error;
    if (error < 0) {
        guard = RT_STACK_GUARD_MPROTECT;
        /* No child to measure in: what mprotect cannot help costing, a mapping for the guard and one for the stack. */
        if (rt_guard_probe(guard, bytes + page, &cost) < 0)
            cost = 2000;
    } else {
        guard = RT_STACK_GUARD_LIGHTWEIGHT;
    }
    stacks.guard = guard;
    stacks.page_bytes = page;
    stacks.stack_bytes = (uint32_t)bytes;
    stacks.stride = bytes + page;
    stacks.mappings_per_1000 = cost;
    atomic_store_explicit(&stacks.set_up, true, memory_order_release);
    return 0;
}

/* ORDER stack.setup: whoever sees set_up sees what was set up. Test: none needed, a plain publication. */
static void ensure_set_up(void)
{
    if (atomic_load_explicit(&stacks.set_up, memory_order_acquire)) /* ORDER stack.setup, reading side */
        return;
    pthread_mutex_lock(&stacks.lock);
    if (!atomic_load_explicit(&stacks.set_up, memory_order_relaxed)) {
        int error = set_up_locked(RT_STACK_GUARD_AUTO, 0);

        assert(error == 0); /* the default size suits every page size, and AUTO falls back */
        (void)error;
    }
    pthread_mutex_unlock(&stacks.lock);
}

int rt_stack_configure(enum rt_stack_guard guard, uint32_t stack_bytes)
{
    int error = -EBUSY;

    pthread_mutex_lock(&stacks.lock);
    if (!atomic_load_explicit(&stacks.set_up, memory_order_relaxed))
        error = set_up_locked(guard, stack_bytes);
    pthread_mutex_unlock(&stacks.lock);
    return error;
}

void rt_stack_facts(struct rt_stack_facts *facts_out)
{
    ensure_set_up();
    facts_out->stack_bytes = stacks.stack_bytes;
    facts_out->mappings_per_1000_stacks = stacks.mappings_per_1000;
    facts_out->max_map_count = rt_vma_limit();
    facts_out->guard_name = stacks.guard == RT_STACK_GUARD_LIGHTWEIGHT ? "lightweight" : "mprotect";
}

const char *rt_stack_error_hint(char *buffer, uint32_t buffer_bytes)
{
    uint32_t count = rt_process_vma_count(), limit = rt_vma_limit();

    /* A slab or a guard needs a few more than it seems to: "nearly all" is all. */
    if (limit != RT_POOL_NO_LIMIT && count + limit / 100 >= limit)
        snprintf(buffer, buffer_bytes,
                 "no coroutine stack: %u of vm.max_map_count=%u mappings are in use "
                 "(raise it: sysctl -w vm.max_map_count=%u)",
                 count, limit, limit < RT_POOL_NO_LIMIT / 4 ? limit * 4 : limit);
    else
        snprintf(buffer, buffer_bytes,
                 "no coroutine stack: out of memory with %u of vm.max_map_count=%u mappings in use "
                 "(look at ulimit -v, vm.overcommit_memory and the cgroup's memory.max)",
                 count, limit);
    return buffer;
}

size_t rt_stack_stride(void)
{
    ensure_set_up();
    return stacks.stride;
}

/* ---- counting mappings ---- */

/* Index of the first slab at or above @memory. */
static uint32_t position_locked(const char *memory)
{
    uint32_t low = 0, high = stacks.slab_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (stacks.by_address[middle]->memory < memory)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t slab_bytes(void)
{
    return stacks.stride * RT_POOL_BATCH_SIZE;
}

/* Slabs side by side are one mapping for the kernel, as long as no mprotect tells them apart. */
static int joins_locked(uint32_t position)
{
    const char *memory = stacks.by_address[position]->memory;
    int joins = 0;

    if (position > 0)
        joins += stacks.by_address[position - 1]->memory + slab_bytes() == memory;
    if (position + 1 < stacks.slab_count)
        joins += stacks.by_address[position + 1]->memory == memory + slab_bytes();
    return joins;
}

static void count_mappings(int delta)
{
    atomic_fetch_add_explicit(&stacks.vma_count, (uint32_t)delta, memory_order_relaxed);
}

static uint64_t bit_of(uint32_t index)
{
    return UINT64_C(1) << (index % WORD_BITS);
}

/* What a slab costs with mprotect guards. A stack without a guard belongs to the mapping of the stack below it; at
 * the bottom there is none, so what is free there is a mapping of its own. */
static int mprotect_mappings_locked(const struct stack_slab *slab)
{
    return 2 * (int)slab->guarded_count + !(slab->guarded[0] & bit_of(0));
}

/* Stacks of @slab got guards, or lost them. */
static void set_guarded_locked(struct stack_slab *slab, uint32_t first, uint32_t count, bool guarded)
{
    int before = mprotect_mappings_locked(slab);

    for (uint32_t index = first; index < first + count; index++) {
        if (guarded)
            slab->guarded[index / WORD_BITS] |= bit_of(index);
        else
            slab->guarded[index / WORD_BITS] &= ~bit_of(index);
    }
    slab->guarded_count += guarded ? count : -count;
    if (stacks.guard == RT_STACK_GUARD_MPROTECT)
        count_mappings(mprotect_mappings_locked(slab) - before);
}

/* ---- slabs ---- */

static void make_available_locked(struct stack_slab *slab)
{
    slab->next = NULL;
    slab->at = stacks.available_last;
    *slab->at = slab;
    stacks.available_last = &slab->next;
}

static void make_unavailable_locked(struct stack_slab *slab)
{
    *slab->at = slab->next;
    if (slab->next)
        slab->next->at = slab->at;
    else
        stacks.available_last = slab->at;
    slab->at = NULL;
}

/* One without memory. */
static struct stack_slab *new_slab_locked(void)
{
    struct stack_slab *slab = stacks.unmapped;

    if (slab) {
        stacks.unmapped = slab->next;
        memset(slab->guarded, 0, sizeof(slab->guarded));
        slab->guarded_count = 0;
        slab->next = NULL;
        return slab;
    }
    slab = calloc(1, sizeof(*slab));
    if (slab) {
        slab->known_next = atomic_load_explicit(&known_slabs, memory_order_relaxed);
        atomic_store_explicit(&known_slabs, slab, memory_order_release); /* ORDER stack.registry, writing side */
    }
    return slab;
}

static struct stack_slab *map_slab_locked(const char **operation_out)
{
    struct stack_slab *slab;
    uint32_t position;

    if (stacks.slab_count == stacks.slab_room) {
        uint32_t room = stacks.slab_room ? stacks.slab_room * 2 : 16;
        struct stack_slab **by_address = realloc(stacks.by_address, room * sizeof(*by_address));

        *operation_out = "realloc";
        if (!by_address)
            return NULL;
        stacks.by_address = by_address;
        stacks.slab_room = room;
    }
    *operation_out = "calloc";
    slab = new_slab_locked();
    if (!slab)
        return NULL;
    *operation_out = "mmap";
    slab->memory = rt_guard_map(slab_bytes());
    if (!slab->memory) {
        slab->next = stacks.unmapped;
        stacks.unmapped = slab;
        return NULL;
    }
    atomic_store_explicit(&slab->mapped, slab->memory, memory_order_release);
    memset(slab->free, 0xff, sizeof(slab->free));
    slab->free_count = RT_POOL_BATCH_SIZE;

    position = position_locked(slab->memory);
    memmove(&stacks.by_address[position + 1], &stacks.by_address[position],
            (stacks.slab_count - position) * sizeof(*stacks.by_address));
    stacks.by_address[position] = slab;
    stacks.slab_count++;
    stacks.empty_count++;
    count_mappings(stacks.guard == RT_STACK_GUARD_LIGHTWEIGHT ? 1 - joins_locked(position)
                                                              : mprotect_mappings_locked(slab));
    make_available_locked(slab);
    return slab;
}

/* Takes it from every list; the memory is unmapped by the caller, without the lock. */
static void remove_slab_locked(struct stack_slab *slab)
{
    uint32_t position = position_locked(slab->memory);

    count_mappings(stacks.guard == RT_STACK_GUARD_LIGHTWEIGHT ? joins_locked(position) - 1
                                                              : -mprotect_mappings_locked(slab));
    stacks.slab_count--;
    memmove(&stacks.by_address[position], &stacks.by_address[position + 1],
            (stacks.slab_count - position) * sizeof(*stacks.by_address));
    if (slab->at)
        make_unavailable_locked(slab);
    atomic_store_explicit(&slab->mapped, NULL, memory_order_relaxed);
}

/* The first free stack, with a guard if there is one: that saves the call. */
static uint32_t find_free_locked(const struct stack_slab *slab)
{
    for (int word = 0; word < SLAB_WORDS; word++)
        if (slab->free[word] & slab->guarded[word])
            return (uint32_t)(word * WORD_BITS + __builtin_ctzll(slab->free[word] & slab->guarded[word]));
    for (int word = 0; word < SLAB_WORDS; word++)
        if (slab->free[word])
            return (uint32_t)(word * WORD_BITS + __builtin_ctzll(slab->free[word]));
    assert(!"a slab in the list of available ones has a free stack");
    return 0;
}

/* Stacks side by side in one slab. */
struct run {
    struct stack_slab *slab;
    uint32_t first, count;
};

/* Returns the slab if those were its last used stacks and one empty slab is kept already: then it is off every list. */
static struct stack_slab *put_back_locked(struct run run)
{
    struct stack_slab *slab = run.slab;

    for (uint32_t index = run.first; index < run.first + run.count; index++)
        slab->free[index / WORD_BITS] |= bit_of(index);
    slab->free_count += run.count;
    if (slab->free_count == RT_POOL_BATCH_SIZE) {
        if (stacks.empty_count > 0) {
            remove_slab_locked(slab);
            return slab;
        }
        stacks.empty_count++;
    }
    if (!slab->at)
        make_available_locked(slab);
    return NULL;
}

static void unmap_slab(struct stack_slab *slab)
{
    int status = munmap(slab->memory, slab_bytes());

    assert(status == 0); /* whole mappings only: nothing has to be split, so the limit cannot be met */
    (void)status;
    pthread_mutex_lock(&stacks.lock);
    slab->next = stacks.unmapped;
    stacks.unmapped = slab;
    pthread_mutex_unlock(&stacks.lock);
}

/* ---- fibers, for ThreadSanitizer ---- */

#ifdef RT_TSAN
/* A fiber takes ten milliseconds to make, a thousand times what its stack takes, so fibers are kept when their stacks
 * go. What one life did then seems to come before the next life on its fiber: it does, both hold this lock in between. */
static struct {
    pthread_mutex_t lock;
    void **idle;
    uint32_t count, room;
} fibers = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void *take_fiber(void)
{
    void *fiber = NULL;

    pthread_mutex_lock(&fibers.lock);
    if (fibers.count > 0)
        fiber = fibers.idle[--fibers.count];
    pthread_mutex_unlock(&fibers.lock);
    return fiber ? fiber : __tsan_create_fiber(0);
}

static void give_fiber(void *fiber)
{
    pthread_mutex_lock(&fibers.lock);
    if (fibers.count == fibers.room) {
        uint32_t room = fibers.room ? fibers.room * 2 : 64;
        void **idle = realloc(fibers.idle, room * sizeof(*idle));

        if (idle) {
            fibers.idle = idle;
            fibers.room = room;
        }
    }
    if (fibers.count < fibers.room) {
        fibers.idle[fibers.count++] = fiber;
        fiber = NULL;
    }
    pthread_mutex_unlock(&fibers.lock);
    if (fiber)
        __tsan_destroy_fiber(fiber);
}
#endif

/* ---- coroutines on stacks ---- */

static struct rt_coroutine *control_block(char *base, uint32_t index)
{
    size_t block = (sizeof(struct rt_coroutine) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    uint32_t colour = (index + index / COLOURS) % COLOURS;

    return (struct rt_coroutine *)(void *)(base + stacks.stack_bytes - block - colour * COLOUR_BYTES);
}

static struct rt_coroutine *failed(const char *operation, int error)
{
    lttng_ust_tracepoint(rt_process, vma_exhausted, operation, error, rt_process_vma_count(), rt_vma_limit());
    return NULL;
}

/* With its uppermost @pages there: a system call for them is cheaper than a fault, on virtual machines by far. */
static struct rt_coroutine *make_coroutine(struct stack_slab *slab, uint32_t index, uint32_t pages)
{
    char *base = slab->memory + index * stacks.stride + stacks.page_bytes;
    size_t bytes = pages * stacks.page_bytes;
    struct rt_coroutine *co = control_block(base, index);

    (void)madvise(base + stacks.stack_bytes - bytes, bytes, MADV_POPULATE_WRITE); /* before Linux 5.14 they fault */
    *co = (struct rt_coroutine){
        .stack_index = index,
        .slab = slab,
        .stack_base = base,
        .stack_bytes = (size_t)((char *)co - base),
    };
#ifdef RT_VALGRIND
    co->valgrind_id = VALGRIND_STACK_REGISTER(base, co);
#endif
#ifdef RT_TSAN
    co->tsan_fiber = take_fiber();
#endif
    switch_prepare(co);
    return co;
}

struct rt_coroutine *rt_stack_create(void)
{
    struct stack_slab *slab, *unused = NULL;
    struct rt_coroutine *co;
    const char *operation = NULL;
    char *guard_page;
    uint32_t index;
    bool guarded;

    ensure_set_up();
    pthread_mutex_lock(&stacks.lock);
    slab = stacks.available ? stacks.available : map_slab_locked(&operation);
    if (!slab) {
        int error = -errno;

        pthread_mutex_unlock(&stacks.lock);
        return failed(operation, error);
    }
    index = find_free_locked(slab);
    guarded = slab->guarded[index / WORD_BITS] & bit_of(index);
    slab->free[index / WORD_BITS] &= ~bit_of(index);
    if (slab->free_count-- == RT_POOL_BATCH_SIZE)
        stacks.empty_count--;
    if (slab->free_count == 0)
        make_unavailable_locked(slab);
    pthread_mutex_unlock(&stacks.lock);

    guard_page = slab->memory + index * stacks.stride;
    if (!guarded) {
        int error = rt_guard_install(stacks.guard, guard_page, stacks.page_bytes);

        pthread_mutex_lock(&stacks.lock);
        if (error < 0)
            unused = put_back_locked((struct run){ slab, index, 1 });
        else
            set_guarded_locked(slab, index, 1, true);
        pthread_mutex_unlock(&stacks.lock);
        if (unused)
            unmap_slab(unused);
        if (error < 0)
            return failed(rt_guard_operation(stacks.guard), error);
    }

    co = make_coroutine(slab, index, 1);
    atomic_fetch_add_explicit(&stacks.stack_count, 1, memory_order_relaxed);
    return co;
}

/* What sanitizers and valgrind know of this stack is forgotten. */
static void retire(struct rt_coroutine *co)
{
#ifdef RT_VALGRIND
    VALGRIND_STACK_DEREGISTER(co->valgrind_id);
#endif
#ifdef RT_TSAN
    give_fiber(co->tsan_fiber);
#endif
#ifdef RT_ASAN
    ASAN_UNPOISON_MEMORY_REGION(co->stack_base, stacks.stack_bytes);
#endif
}

/* Back to the kernel: with the whole slab if nothing else is in it, else page by page. */
static void free_run(struct run run)
{
    char *memory = run.slab->memory + run.first * stacks.stride;
    struct stack_slab *unused = NULL;
    bool guarded = true;

    pthread_mutex_lock(&stacks.lock);
    if (run.slab->free_count + run.count == RT_POOL_BATCH_SIZE && stacks.empty_count > 0)
        unused = put_back_locked(run);
    pthread_mutex_unlock(&stacks.lock);

    if (!unused) {
        /* Before others may take them. It cannot fail on a mapping of ours; if it did, the pages would only stay.
         * Lightweight guards in between stay in any case. The others go, and two mappings for each with them:
         * otherwise one live stack would hold the mappings of a whole slab. */
        (void)madvise(memory, run.count * stacks.stride, MADV_DONTNEED);
        if (stacks.guard == RT_STACK_GUARD_MPROTECT)
            guarded = mprotect(memory, run.count * stacks.stride, PROT_READ | PROT_WRITE) < 0;
        pthread_mutex_lock(&stacks.lock);
        if (!guarded)
            set_guarded_locked(run.slab, run.first, run.count, false);
        unused = put_back_locked(run);
        pthread_mutex_unlock(&stacks.lock);
    }
    if (unused)
        unmap_slab(unused);
    atomic_fetch_sub_explicit(&stacks.stack_count, run.count, memory_order_relaxed);
}

/* Stacks, one after the other, as runs: those that were made together tend to end together, so neighbours go in one call, in
 * either direction. The memory may be gone after @each. */
struct runs {
    void (*each)(struct run run);
    struct run open; /* count 0: none */
};

static void runs_end(struct runs *runs)
{
    if (runs->open.count)
        runs->each(runs->open);
}

static void runs_add(struct runs *runs, struct stack_slab *slab, uint32_t index)
{
    struct run *open = &runs->open;

    if (slab == open->slab && index + 1 == open->first) {
        open->first--;
        open->count++;
    } else if (slab == open->slab && index == open->first + open->count) {
        open->count++;
    } else {
        runs_end(runs);
        *open = (struct run){ slab, index, 1 };
    }
}

static void runs_add_chain(struct runs *runs, struct rt_coroutine *first)
{
    while (first) {
        struct rt_coroutine *co = first;

        first = co->pool_next;
        retire(co);
        runs_add(runs, co->slab, co->stack_index);
    }
}

/* Where the others of a released chain were, at the bottom of the first one's stack: the part that is in nobody's use. */
struct released {
    uint32_t count;
    struct {
        struct stack_slab *slab;
        uint32_t index;
    } others[RT_POOL_BATCH_SIZE - 1];
};

void rt_stack_destroy_chain(struct rt_coroutine *first)
{
    struct runs runs = { .each = free_run };

    if (first && first->batch_released) {
        const struct released *released = first->stack_base;

        /* As they are: to make them again would touch each. The first, which holds the table, goes last. */
        for (uint32_t i = 0; i < released->count; i++)
            runs_add(&runs, released->others[i].slab, released->others[i].index);
    }
    runs_add_chain(&runs, first);
    runs_end(&runs);
}

/* ---- the memory of stacks that wait ---- */

/* DONTNEED rather than FREE: it counts as gone at once, for the limits of a cgroup too, and not only when memory is short. */
static void release_run(struct run run)
{
    /* It cannot fail on a mapping of ours; if it did, the pages would only stay. Guards of either kind stay in any case. */
    (void)madvise(run.slab->memory + run.first * stacks.stride, run.count * stacks.stride, MADV_DONTNEED);
}

void rt_stack_release_memory(struct rt_coroutine *first)
{
    struct released *released = first->stack_base;
    struct runs runs = { .each = release_run };

#ifdef RT_ASAN
    ASAN_UNPOISON_MEMORY_REGION(first->stack_base, sizeof(*released));
#endif
#ifdef RT_VALGRIND
    (void)VALGRIND_MAKE_MEM_UNDEFINED(first->stack_base, sizeof(*released)); /* below the stack pointer: out of bounds */
#endif
    released->count = 0;
    for (struct rt_coroutine *co = first->pool_next; co; co = co->pool_next) {
        assert(released->count < RT_POOL_BATCH_SIZE - 1);
        released->others[released->count].slab = co->slab;
        released->others[released->count++].index = co->stack_index;
    }
    runs_add_chain(&runs, first->pool_next);
    runs_end(&runs);
    first->pool_next = NULL;
    first->batch_released = true;
}

struct rt_coroutine *rt_stack_restore(struct rt_coroutine *first, uint32_t most)
{
    struct released *released = first->stack_base;
    struct rt_coroutine *chain = NULL;

    for (; most > 0 && released->count > 0; most--) {
        struct rt_coroutine *co;

        released->count--;
        co = make_coroutine(released->others[released->count].slab, released->others[released->count].index, RESTORED_PAGES);
        co->pool_next = chain;
        chain = co;
    }
    if (most > 0) {
        first->batch_released = false;
        first->pool_next = chain;
        chain = first;
    }
    return chain;
}

bool rt_stack_find_guard(const void *address, struct rt_stack_place *place_out)
{
    struct stack_slab *slab = atomic_load_explicit(&known_slabs, memory_order_acquire);

    for (; slab; slab = slab->known_next) { /* ORDER stack.registry, the handler's side */
        char *memory = atomic_load_explicit(&slab->mapped, memory_order_acquire);
        uintptr_t offset = (uintptr_t)address - (uintptr_t)memory;

        if (!memory || offset >= slab_bytes())
            continue;
        if (offset % stacks.stride >= stacks.page_bytes)
            return false;
        place_out->base = memory + offset / stacks.stride * stacks.stride + stacks.page_bytes;
        place_out->bytes = stacks.stack_bytes;
        place_out->co = control_block(place_out->base, (uint32_t)(offset / stacks.stride));
        return true;
    }
    return false;
}

void rt_stack_counts(uint32_t *stack_count_out, uint32_t *stack_vma_count_out)
{
    *stack_count_out = atomic_load_explicit(&stacks.stack_count, memory_order_relaxed);
    *stack_vma_count_out = atomic_load_explicit(&stacks.vma_count, memory_order_relaxed);
}
