#include "coroutine/overflow.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "coroutine/stack.h"
#include "coroutine/thread.h"
#include "rt/loop.h"
#include "rt/pool.h"

/* For us a few kilobytes would do; a sanitizer's handler that we pass on to needs more. Only what is used becomes resident. */
#define SIGNAL_STACK_BYTES (128 * 1024)
#define MESSAGE_BYTES 1024

static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool installed;
static struct sigaction previous;

/* The object that this code is in begins here: addr2line wants addresses relative to it. The linker defines both. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char end[] __attribute__((visibility("hidden")));

/* ---- the message: stdio is not async-signal-safe ---- */

struct message {
    char text[MESSAGE_BYTES];
    size_t length;
};

static void add_bytes(struct message *message, const char *bytes, size_t count)
{
    size_t room = sizeof(message->text) - message->length;

    if (count > room)
        count = room;
    memcpy(message->text + message->length, bytes, count);
    message->length += count;
}

static void add(struct message *message, const char *text)
{
    add_bytes(message, text, strlen(text));
}

static void add_number(struct message *message, uint64_t number, unsigned base)
{
    char digits[20];
    size_t at = sizeof(digits);

    do
        digits[--at] = "0123456789abcdef"[number % base];
    while ((number /= base) != 0);
    add(message, base == 16 ? "0x" : "");
    add_bytes(message, digits + at, sizeof(digits) - at);
}

static void add_address(struct message *message, const void *address)
{
    add_number(message, (uintptr_t)address, 16);
}

/* dladdr() takes a lock, so the name is left to addr2line. */
static void add_function(struct message *message, rt_coroutine_fn *fn)
{
    uintptr_t address = (uintptr_t)fn, begin = (uintptr_t)__ehdr_start;

    add(message, " (function ");
    add_address(message, (void *)address);
    if (address >= begin && address < (uintptr_t)end) {
        add(message, ", named by: addr2line -fe ");
        add(message, program_invocation_name);
        add(message, " ");
        add_number(message, address - begin, 16);
    }
    add(message, ")");
}

static void report(const struct rt_stack_place *place, const void *touched)
{
    const struct rt_thread *thread = rt_thread_until_switch();
    const struct rt_coroutine *co = place->co, *running = thread->current;
    struct rt_loop *loop = atomic_load_explicit(&co->loop, memory_order_relaxed);
    struct message message = { .length = 0 };
    char name[16] = "";

    (void)prctl(PR_GET_NAME, name); /* fails for a bad address only */
    add(&message, program_invocation_short_name);
    add(&message, ": coroutine ");
    add_number(&message, co->id, 10);
    add_function(&message, co->fn);
    add(&message, " has overflowed its stack in thread ");
    add_number(&message, (uint64_t)gettid(), 10);
    add(&message, " \"");
    add(&message, name);
    add(&message, "\"");
    if (loop) {
        add(&message, ", loop ");
        add_number(&message, rt_loop_id(loop), 10);
    }
    if (running && running != co && running != &thread->leader) {
        /* At a switch, between the two stacks; or a pointer that went astray. */
        add(&message, ", where coroutine ");
        add_number(&message, running->id, 10);
        add(&message, " runs");
    }
    add(&message, ": it touched ");
    add_address(&message, touched);
    add(&message, " in the guard page below its ");
    add_number(&message, place->bytes / 1024, 10);
    add(&message, " KiB from ");
    add_address(&message, place->base);
    add(&message, " to ");
    add_address(&message, place->base + place->bytes);
    add(&message, " (keep large arrays and deep recursion off coroutines, or make all stacks larger: "
                  "rt_stack_configure(); the core dump shows the frames)\n");
    /* Nothing to be done if stderr is gone: the process is about to die. */
    if (write(STDERR_FILENO, message.text, message.length) < 0)
        return;
}

/* ---- the handler ---- */

static void pass_on(int number, siginfo_t *info, void *context)
{
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(number, info, context);
    } else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
        /* A fault is repeated on return and kills, with the core dump of the very instruction. What was sent is not. */
        sigaction(number, &previous, NULL);
        if (info->si_code <= 0)
            raise(number);
    } else {
        previous.sa_handler(number);
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    struct rt_stack_place place;

    /* What kill() sends has no address, though the field is not empty. */
    if (info->si_code > 0 && rt_stack_find_guard(info->si_addr, &place))
        report(&place, info->si_addr);
    pass_on(number, info, context);
    errno = saved_errno;
}

/* ---- alternate stacks ---- */

void rt_overflow_thread_begins(struct rt_thread *thread)
{
    stack_t stack = { .ss_size = SIGNAL_STACK_BYTES }, former;

    if (!atomic_load_explicit(&installed, memory_order_acquire) || thread->signal_stack ||
        sigaltstack(NULL, &former) < 0 || !(former.ss_flags & SS_DISABLE))
        return;
    stack.ss_sp = mmap(NULL, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack.ss_sp == MAP_FAILED)
        return; /* an overflow in this thread will be silent: no reason not to run */
    if (sigaltstack(&stack, NULL) < 0) {
        munmap(stack.ss_sp, stack.ss_size);
        return;
    }
    thread->signal_stack = stack.ss_sp;
}

void rt_overflow_thread_ends(struct rt_thread *thread)
{
    stack_t current, none = { .ss_flags = SS_DISABLE };

    if (!thread->signal_stack)
        return;
    /* Somebody may have put theirs in its place. */
    if (sigaltstack(NULL, &current) == 0 && current.ss_sp == thread->signal_stack)
        sigaltstack(&none, NULL);
    munmap(thread->signal_stack, SIGNAL_STACK_BYTES);
    thread->signal_stack = NULL;
}

int rt_stack_report_overflow(void)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    int error = 0;

    sigemptyset(&action.sa_mask);
    pthread_mutex_lock(&install_lock);
    if (!atomic_load_explicit(&installed, memory_order_relaxed)) {
        if (sigaction(SIGSEGV, NULL, &previous) < 0 || sigaction(SIGSEGV, &action, NULL) < 0)
            error = -errno;
        else
            atomic_store_explicit(&installed, true, memory_order_release);
    }
    pthread_mutex_unlock(&install_lock);
    if (error == 0)
        rt_overflow_thread_begins(rt_thread_self());
    return error;
}
