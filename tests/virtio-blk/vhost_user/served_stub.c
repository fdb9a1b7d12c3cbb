#include "served_stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "front_end_wire.h"

struct stub stub;
int fd;
char path[64];
static unsigned fds_before;

int served_stub_setup(void **state)
{
    fds_before = wire_count_fds();
    if (stub_start(&stub, &(struct stub_options){ .path = path }))
        return 1;
    fd = stub_connect(path);
    wire_negotiate(fd, STUB_FEATURES);
    return 0;
}

int served_stub_teardown(void **state)
{
    unsigned fds_after;

    close(fd);
    stub_stop(&stub);
    fds_after = wire_count_fds();
    if (fds_after != fds_before)
        print_error("%u descriptors before, %u after\n", fds_before, fds_after);
    return fds_after != fds_before;
}

int served_stub_run_group(const char *name, const struct CMUnitTest *tests, size_t count)
{
    char directory[] = "/tmp/served_stub.XXXXXX";
    int failed;

    if (!mkdtemp(directory))
        return 1;
    snprintf(path, sizeof path, "%s/socket", directory);
    failed = _cmocka_run_group_tests(name, tests, count, NULL, NULL);
    unlink(path);
    rmdir(directory);
    return failed;
}
