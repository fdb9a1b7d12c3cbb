/*
 * What tests of messages begin and end with: a session with a stub device, and a front end that has negotiated with it.
 *
 *     const struct CMUnitTest tests[] = { STUB_TEST(questions_are_answered), ... };
 *     return served_stub_run(tests);
 *
 * A test that leaves a descriptor open fails.
 */
#ifndef TEST_SERVED_STUB_H
#define TEST_SERVED_STUB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stub_device.h"

extern struct stub stub;
extern int fd;        /* the front end's connection */
extern char path[64]; /* of the session's socket, in a directory of its own */

int served_stub_setup(void **state);
int served_stub_teardown(void **state);

#define STUB_TEST(function) cmocka_unit_test_setup_teardown(function, served_stub_setup, served_stub_teardown)
#define served_stub_run(tests) served_stub_run_group(#tests, tests, sizeof(tests) / sizeof((tests)[0]))
int served_stub_run_group(const char *name, const struct CMUnitTest *tests, size_t count);

#endif
