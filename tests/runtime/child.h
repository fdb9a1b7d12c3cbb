/*
 * Run a piece of a test in a process of its own: what is chosen once per process, and what must crash.
 */
#ifndef TESTS_RUNTIME_CHILD_H
#define TESTS_RUNTIME_CHILD_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* In a child, where cmocka's assertions do not reach. */
#define CHILD_CHECK(condition)                                                                                 \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            fprintf(stderr, "%s:%d: in child: %s does not hold\n", __FILE__, __LINE__, #condition);            \
            _exit(1);                                                                                          \
        }                                                                                                      \
    } while (0)

/* Call fn(opaque) in a child; returns its wait status: 0 if fn returned. It dies with the test and leaves no core. */
static inline int run_in_child(void (*fn)(void *opaque), void *opaque)
{
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        fn(opaque);
#if defined(__SANITIZE_THREAD__)
        exit(0); /* where ThreadSanitizer says what it found */
#endif
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("child");
        abort();
    }
    return status;
}

/* Let the kernel end the process at a fault, instead of the handler that cmocka or a sanitizer has installed. */
static inline void crash_plainly(void)
{
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    signal(SIGABRT, SIG_DFL);
}

#endif
