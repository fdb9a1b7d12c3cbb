/*
 * Goal:   every guest address leads to the right byte of the right file, and none leads anywhere else.
 * Method: files in memory filled with a pattern are mapped as regions; addresses at and around each edge are
 * looked up; tables that cannot be are offered. Broken: the device reads or writes memory of another guest
 * page, or maps what the front end does not have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "vhost_user/memory_map.h"

#define MIB UINT64_C(0x100000)
#define USER UINT64_C(0x700000000000)

static int make_file(uint64_t size_bytes)
{
    int fd = memfd_create("region", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size_bytes), 0);
    return fd;
}

static struct vhost_user_memory_map *create(const struct vhost_user_memory_region *regions, const int *fds,
                                            unsigned count)
{
    struct vhost_user_memory_map *map = NULL;
    const char *reason = NULL;
    unsigned at;
    assert_int_equal(vhost_user_memory_map_create(regions, fds, count, &map, &reason, &at), 0);
    return map;
}

static void addresses_lead_to_the_right_byte(void **state)
{
    /* Out of order, with an offset that is no multiple of a page, two on one file. */
    int fds[3] = { make_file(4 * MIB), make_file(MIB + 100), 0 };
    fds[2] = fds[0];
    const struct vhost_user_memory_region regions[3] = {
        { 8 * MIB, MIB, USER + 8 * MIB, 2 * MIB },
        { 16 * MIB, MIB, USER + 32 * MIB, 100 },
        { 9 * MIB, MIB, USER, MIB },
    };
    struct vhost_user_memory_map *map = create(regions, fds, 3);
    unsigned region_count;
    uint64_t bytes;
    vhost_user_memory_map_size(map, &region_count, &bytes);
    assert_int_equal(region_count, 3);
    assert_int_equal(bytes, 3 * MIB);
    for (unsigned r = 0; r < 3; r++) {
        const uint64_t offsets[] = { 0, 1, 4095, 4096, MIB / 2 + 7, MIB - 1 };
        for (unsigned i = 0; i < 6; i++) {
            uint8_t wrote = (uint8_t)(r * 16 + i + 1), got = 0;
            assert_int_equal(pwrite(fds[r], &wrote, 1, (off_t)(regions[r].mmap_offset_bytes + offsets[i])),
                             1);
            struct iovec iov[2];
            assert_int_equal(
                vhost_user_memory_map_translate(map, regions[r].guest_address + offsets[i], 1, iov, 2), 1);
            assert_int_equal(iov[0].iov_len, 1);
            assert_int_equal(*(uint8_t *)iov[0].iov_base, wrote);
            assert_ptr_equal(vhost_user_memory_map_user(map, regions[r].user_address + offsets[i], 1),
                             iov[0].iov_base);
            uint64_t back = 0;
            assert_int_equal(vhost_user_memory_map_guest(map, iov[0].iov_base, 1, &back), 0);
            assert_int_equal(back, regions[r].guest_address + offsets[i]);
            *(uint8_t *)iov[0].iov_base = 0xee;
            assert_int_equal(pread(fds[r], &got, 1, (off_t)(regions[r].mmap_offset_bytes + offsets[i])), 1);
            assert_int_equal(got, 0xee);
        }
    }
    vhost_user_memory_map_unref(map);
    close(fds[0]);
    close(fds[1]);
}

static void what_is_not_the_guests_has_no_way_back(void **state)
{
    int fd = make_file(2 * MIB);
    const struct vhost_user_memory_region regions[2] = { { 0, MIB, USER, MIB }, { MIB, MIB, USER + MIB, 0 } };
    struct vhost_user_memory_map *map = create(regions, (int[]){ fd, fd }, 2);
    struct iovec first[1];
    uint64_t back = 42;
    assert_int_equal(vhost_user_memory_map_translate(map, 0, MIB, first, 1), 1);
    uint8_t *bytes = first[0].iov_base;
    assert_int_equal(vhost_user_memory_map_guest(map, bytes, MIB, &back), 0);
    assert_int_equal(back, 0);
    back = 42;
    assert_int_equal(vhost_user_memory_map_guest(map, bytes + 1, MIB, &back), -EFAULT); /* over its end */
    assert_int_equal(vhost_user_memory_map_guest(map, bytes - 1, 2, &back), -EFAULT);
    assert_int_equal(vhost_user_memory_map_guest(map, &back, 1, &back), -EFAULT);
    assert_int_equal(back, 42);
    vhost_user_memory_map_unref(map);
    close(fd);
}

static void edges_and_holes(void **state)
{
    int fds[3] = { make_file(MIB), make_file(MIB), make_file(MIB) };
    const struct vhost_user_memory_region regions[3] = { { MIB, MIB, USER, 0 },
                                                         { 2 * MIB, MIB, USER + MIB, 0 },
                                                         { 4 * MIB, MIB, USER + 8 * MIB, 0 } };
    struct vhost_user_memory_map *map = create(regions, fds, 3);
    const struct {
        uint64_t address, size_bytes;
        int max, expected;
    } cases[] = {
        { MIB, MIB, 4, 1 },
        { MIB, 2 * MIB, 4, 2 },
        { 2 * MIB - 1, 2, 4, 2 },
        { 2 * MIB - 1, 2, 1, -E2BIG },
        { 2 * MIB - 1, 1, 1, 1 },
        { 2 * MIB, 1, 0, -E2BIG },
        { MIB, 2 * MIB + 1, 4, -EFAULT },
        { MIB - 1, 1, 4, -EFAULT },
        { MIB - 1, 2, 4, -EFAULT },
        { 3 * MIB, 1, 4, -EFAULT },
        { 4 * MIB - 1, 1, 4, -EFAULT },
        { 5 * MIB - 1, 1, 4, 1 },
        { 5 * MIB - 1, 2, 4, -EFAULT },
        { 5 * MIB, 1, 4, -EFAULT },
        { 0, 1, 4, -EFAULT },
        { UINT64_MAX, 1, 4, -EFAULT },
        { MIB, UINT64_MAX, 4, -EFAULT },
        { UINT64_MAX - MIB, 4 * MIB, 4, -EFAULT },
        { MIB, 0, 4, -EINVAL },
    };
    struct vhost_user_memory_hint hint = { 0 };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct iovec iov[4], near[4];
        int got =
            vhost_user_memory_map_translate(map, cases[i].address, cases[i].size_bytes, iov, cases[i].max);
        assert_int_equal(got, cases[i].expected);
        assert_int_equal(vhost_user_memory_map_translate_near(map, &hint, cases[i].address,
                                                              cases[i].size_bytes, near, cases[i].max),
                         got);
        uint64_t sum = 0;
        for (int piece = 0; piece < got; piece++) {
            assert_ptr_equal(iov[piece].iov_base, near[piece].iov_base);
            assert_int_equal(iov[piece].iov_len, near[piece].iov_len);
            sum += iov[piece].iov_len;
        }
        if (got > 0)
            assert_int_equal(sum, cases[i].size_bytes);
    }
    /* A ring lies in one region. */
    assert_non_null(vhost_user_memory_map_user(map, USER, MIB));
    assert_null(vhost_user_memory_map_user(map, USER, MIB + 1));
    assert_null(vhost_user_memory_map_user(map, USER + MIB - 1, UINT64_MAX));
    assert_null(vhost_user_memory_map_user(map, USER - 1, 1));
    assert_null(vhost_user_memory_map_user(map, MIB, 1));
    vhost_user_memory_map_unref(map);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

static void tables_that_cannot_be_are_refused(void **state)
{
    int file = make_file(MIB), pipes[2], read_only, directory = open("/", O_RDONLY | O_DIRECTORY);
    assert_int_equal(pipe(pipes), 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    read_only = open(path, O_RDONLY);
    assert_true(read_only >= 0 && directory >= 0);
    const struct {
        struct vhost_user_memory_region regions[2];
        int fd, error;
        const char *reason;
        unsigned at;
    } cases[] = {
        { { { MIB, 0, USER, 0 } }, file, -EINVAL, "size is 0", 0 },
        { { { MIB, MIB + 1, USER, 0 } }, file, -EINVAL, "past the end", 0 },
        { { { MIB, MIB, USER, 1 } }, file, -EINVAL, "past the end", 0 },
        { { { MIB, 1, USER, MIB } }, file, -EINVAL, "past the end", 0 },
        { { { MIB, 1, USER, UINT64_MAX } }, file, -EINVAL, "overflow", 0 },
        { { { MIB, 1, USER, INT64_MAX } }, file, -EINVAL, "overflow", 0 },
        { { { MIB, UINT64_MAX, USER, 0 } }, file, -EINVAL, "overflow", 0 },
        { { { UINT64_MAX, 4096, USER, 0 } }, file, -EINVAL, "overflow", 0 },
        { { { MIB, 4096, UINT64_MAX, 0 } }, file, -EINVAL, "overflow", 0 },
        { { { MIB, 8192, USER, 0 }, { MIB + 4096, 8192, USER + MIB, 0 } }, file, -EINVAL, "overlaps", 1 },
        { { { MIB, 4096, USER, 0 }, { 2 * MIB, 4096, USER + 4095, 0 } }, file, -EINVAL, "overlaps", 1 },
        { { { MIB, 4096, USER, 0 }, { 2 * MIB, 2 * MIB, USER + MIB, 0 } }, file, -EINVAL, "past the end", 1 },
        { { { MIB, 4096, USER, 0 } }, pipes[0], -EINVAL, "no memory", 0 },
        { { { MIB, 4096, USER, 0 } }, directory, -EINVAL, "no memory", 0 },
        { { { MIB, 4096, USER, 0 } }, read_only, -EACCES, "cannot be mapped", 0 },
        { { { MIB, 4096, USER, 0 } }, -1, -EBADF, "examined", 0 },
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct vhost_user_memory_map *map = NULL;
        const char *reason = "";
        unsigned at = 99, count = cases[i].regions[1].size_bytes ? 2 : 1;
        int fds[2] = { cases[i].fd, cases[i].fd };
        assert_int_equal(vhost_user_memory_map_create(cases[i].regions, fds, count, &map, &reason, &at),
                         cases[i].error);
        if (!strstr(reason, cases[i].reason))
            fail_msg("case %u: \"%s\" does not speak of \"%s\"", i, reason, cases[i].reason);
        assert_int_equal(at, cases[i].at);
        assert_null(map);
    }
    struct vhost_user_memory_map *map;
    const char *reason;
    unsigned at;
    assert_int_equal(vhost_user_memory_map_create(cases[0].regions, &file, 0, &map, &reason, &at), -EINVAL);
    assert_int_equal(
        vhost_user_memory_map_create(cases[0].regions, &file, VHOST_USER_REGIONS_MAX + 1, &map, &reason, &at),
        -EINVAL);
    close(file);
    close(read_only);
    close(directory);
    close(pipes[0]);
    close(pipes[1]);
}

static void as_many_regions_as_there_may_be(void **state)
{
    static struct vhost_user_memory_region regions[VHOST_USER_REGIONS_MAX];
    static int fds[VHOST_USER_REGIONS_MAX];
    int file = make_file(VHOST_USER_REGIONS_MAX * 4096);
    for (unsigned i = 0; i < VHOST_USER_REGIONS_MAX; i++) {
        unsigned shuffled = i * 7 % VHOST_USER_REGIONS_MAX; /* 7 and 509 have no common factor */
        regions[i] = (struct vhost_user_memory_region){ MIB + shuffled * 4096, 4096, USER + shuffled * 8192,
                                                        shuffled * 4096 };
        fds[i] = file;
    }
    struct vhost_user_memory_map *map = create(regions, fds, VHOST_USER_REGIONS_MAX);
    struct iovec iov[VHOST_USER_REGIONS_MAX];
    assert_int_equal(
        vhost_user_memory_map_translate(map, MIB, VHOST_USER_REGIONS_MAX * 4096, iov, VHOST_USER_REGIONS_MAX),
        VHOST_USER_REGIONS_MAX);
    for (unsigned i = 0; i < VHOST_USER_REGIONS_MAX; i++) {
        uint32_t wrote = i, got;
        memcpy(iov[i].iov_base, &wrote, sizeof wrote);
        assert_int_equal(pread(file, &got, sizeof got, i * 4096), sizeof got);
        assert_int_equal(got, i);
    }
    vhost_user_memory_map_unref(map);
    close(file);
}

static unsigned count_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned count = 0;
    while (fgets(line, sizeof line, maps))
        count += strstr(line, "memfd:region") != NULL;
    fclose(maps);
    return count;
}

static void the_last_reference_unmaps(void **state)
{
    int fd = make_file(MIB);
    const struct vhost_user_memory_region region = { 0, MIB - 4096, USER, 4096 };
    unsigned before = count_mappings();
    struct vhost_user_memory_map *map = create(&region, &fd, 1);
    close(fd); /* the caller's; the mapping stays */
    assert_ptr_equal(vhost_user_memory_map_ref(map), map);
    vhost_user_memory_map_unref(map);
    assert_non_null(vhost_user_memory_map_user(map, USER, 1));
    assert_int_equal(count_mappings(), before + 1);
    vhost_user_memory_map_unref(map);
    assert_int_equal(count_mappings(), before);
    vhost_user_memory_map_unref(NULL);
}

/* The bytes of a region that stays are where they were; the region that goes is unmapped with its last map. */
static void regions_come_and_go(void **state)
{
    int fds[3] = { make_file(MIB), make_file(MIB), make_file(MIB) };
    const struct vhost_user_memory_region regions[3] = { { 2 * MIB, MIB, USER + 2 * MIB, 0 },
                                                         { MIB, MIB, USER + 8 * MIB, 0 },
                                                         { 4 * MIB, MIB, USER + 4 * MIB, 0 } };
    struct vhost_user_memory_map *maps[6] = { NULL };
    const char *reason = NULL;
    unsigned before = count_mappings();
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(vhost_user_memory_map_add(maps[i], &regions[i], fds[i], &maps[i + 1], &reason), 0);
    assert_int_equal(count_mappings(), before + 3); /* not 1 + 2 + 3 */
    for (unsigned i = 1; i < 4; i++) {
        for (unsigned r = 0; r < 3; r++) {
            void *user = vhost_user_memory_map_user(maps[i], regions[r].user_address + 7, 1);
            struct iovec iov;
            if (r >= i) {
                assert_null(user);
                assert_int_equal(vhost_user_memory_map_translate(maps[i], regions[r].guest_address, 1, &iov, 1),
                                 -EFAULT);
                continue;
            }
            assert_ptr_equal(user, vhost_user_memory_map_user(maps[3], regions[r].user_address + 7, 1));
            assert_int_equal(vhost_user_memory_map_translate(maps[i], regions[r].guest_address + 7, 1, &iov, 1), 1);
            assert_ptr_equal(iov.iov_base, user);
        }
    }
    /* Neighbours are found across the one that was added last. */
    struct iovec pieces[2];
    assert_int_equal(vhost_user_memory_map_translate(maps[3], 2 * MIB - 1, 2, pieces, 2), 2);

    assert_int_equal(vhost_user_memory_map_remove(maps[3], &regions[1], &maps[4], &reason), 0);
    assert_null(vhost_user_memory_map_user(maps[4], regions[1].user_address, 1));
    assert_ptr_equal(vhost_user_memory_map_user(maps[4], regions[2].user_address, 1),
                     vhost_user_memory_map_user(maps[3], regions[2].user_address, 1));
    uint8_t *kept = vhost_user_memory_map_user(maps[3], regions[1].user_address, 1);
    vhost_user_memory_map_unref(maps[1]);
    vhost_user_memory_map_unref(maps[2]);
    assert_int_equal(count_mappings(), before + 3);
    *kept = 1; /* somebody in flight still has it */
    vhost_user_memory_map_unref(maps[3]);
    assert_int_equal(count_mappings(), before + 2);
    assert_int_equal(vhost_user_memory_map_remove(maps[4], &regions[0], &maps[5], &reason), 0);
    vhost_user_memory_map_unref(maps[4]);
    assert_int_equal(count_mappings(), before + 1);
    struct vhost_user_memory_map *nothing = maps[5];
    assert_int_equal(vhost_user_memory_map_remove(maps[5], &regions[2], &nothing, &reason), 0);
    assert_null(nothing);
    vhost_user_memory_map_unref(maps[5]);
    assert_int_equal(count_mappings(), before);
    for (unsigned i = 0; i < 3; i++)
        close(fds[i]);
}

static void regions_that_cannot_come_or_go(void **state)
{
    int fd = make_file(2 * MIB);
    const struct vhost_user_memory_region region = { MIB, MIB, USER, 0 };
    struct vhost_user_memory_map *map = create(&region, &fd, 1), *other = NULL;
    const char *reason;
    const struct {
        struct vhost_user_memory_region region;
        int fd, error;
        const char *reason;
    } additions[] = {
        { { 2 * MIB, 0, USER + MIB, 0 }, fd, -EINVAL, "size is 0" },
        { { UINT64_MAX, 2, USER + MIB, 0 }, fd, -EINVAL, "overflow" },
        { { 2 * MIB, MIB, UINT64_MAX, 0 }, fd, -EINVAL, "overflow" },
        { { 2 * MIB, MIB, USER + MIB, UINT64_MAX }, fd, -EINVAL, "overflow" },
        { { 2 * MIB, MIB, USER + MIB, MIB + 1 }, fd, -EINVAL, "past the end" },
        { { 2 * MIB - 1, MIB, USER + MIB, 0 }, fd, -EINVAL, "overlaps" },
        { { 2 * MIB, MIB, USER + MIB - 1, 0 }, fd, -EINVAL, "overlaps" },
        { region, fd, -EINVAL, "overlaps" },
        { { 2 * MIB, MIB, USER + MIB, 0 }, -1, -EBADF, "examined" },
    };
    for (unsigned i = 0; i < sizeof additions / sizeof additions[0]; i++) {
        assert_int_equal(vhost_user_memory_map_add(map, &additions[i].region, additions[i].fd, &other, &reason),
                         additions[i].error);
        assert_non_null(strstr(reason, additions[i].reason));
    }
    const struct vhost_user_memory_region removals[] = {
        { 0, MIB, USER, 0 }, { MIB, MIB - 1, USER, 0 }, { MIB, MIB, USER + 1, 0 }, { MIB, 0, USER, 0 }
    };
    for (unsigned i = 0; i < sizeof removals / sizeof removals[0]; i++)
        assert_int_equal(vhost_user_memory_map_remove(map, &removals[i], &other, &reason), -ENOENT);
    assert_int_equal(vhost_user_memory_map_remove(NULL, &region, &other, &reason), -ENOENT);
    assert_null(other);
    /* Where it begins in its file does not matter. */
    struct vhost_user_memory_region elsewhere = region;
    elsewhere.mmap_offset_bytes = 4096;
    other = map;
    assert_int_equal(vhost_user_memory_map_remove(map, &elsewhere, &other, &reason), 0);
    assert_null(other);
    vhost_user_memory_map_unref(map);

    /* As many as there may be, one by one, and no more. */
    for (unsigned i = 0; i <= VHOST_USER_REGIONS_MAX; i++) {
        const struct vhost_user_memory_region page = { i * 4096, 4096, USER + i * 4096, i * 4096 % MIB };
        int error = vhost_user_memory_map_add(i ? other : NULL, &page, fd, &map, &reason);
        assert_int_equal(error, i < VHOST_USER_REGIONS_MAX ? 0 : -EINVAL);
        if (error)
            break;
        vhost_user_memory_map_unref(i ? other : NULL);
        other = map;
    }
    assert_non_null(strstr(reason, "too many"));
    vhost_user_memory_map_unref(other);
    close(fd);
}

static struct sigaction ours; /* cmocka puts its own handler in its place for each test */

static void touch(struct vhost_user_memory_map *map, const struct vhost_user_memory_region *region)
{
    *(volatile uint8_t *)vhost_user_memory_map_user(map, region->user_address, 1) = 1;
}

/* A region whose file was cut off breaks the maps that hold it, and no other. */
static void only_maps_with_a_broken_region_are_broken(void **state)
{
    int fds[2] = { make_file(MIB), make_file(MIB) };
    const struct vhost_user_memory_region regions[2] = { { 0, MIB, USER, 0 }, { MIB, MIB, USER + MIB, 0 } };
    struct vhost_user_memory_map *both = create(regions, fds, 2), *first, *second;
    const char *reason;
    sigaction(SIGBUS, &ours, NULL);
    assert_int_equal(vhost_user_memory_map_remove(both, &regions[1], &first, &reason), 0);
    assert_int_equal(vhost_user_memory_map_remove(both, &regions[0], &second, &reason), 0);
    touch(both, &regions[1]);
    assert_false(vhost_user_memory_map_broken(both));
    assert_int_equal(ftruncate(fds[1], 0), 0);
    touch(second, &regions[1]);
    assert_true(vhost_user_memory_map_broken(second));
    assert_true(vhost_user_memory_map_broken(both));
    assert_false(vhost_user_memory_map_broken(first));
    assert_true(vhost_user_memory_map_broken(second));
    /* One that is made now takes over what it shares. */
    struct vhost_user_memory_map *again;
    int fresh = make_file(MIB);
    const struct vhost_user_memory_region third = { 2 * MIB, MIB, USER + 2 * MIB, 0 };
    assert_int_equal(vhost_user_memory_map_add(both, &third, fresh, &again, &reason), 0);
    assert_true(vhost_user_memory_map_broken(again));
    vhost_user_memory_map_unref(again);
    assert_int_equal(vhost_user_memory_map_add(first, &third, fresh, &again, &reason), 0);
    assert_false(vhost_user_memory_map_broken(again));
    vhost_user_memory_map_unref(again);
    vhost_user_memory_map_unref(both);
    vhost_user_memory_map_unref(first);
    vhost_user_memory_map_unref(second);
    close(fresh);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    int fd = make_file(4096);
    const struct vhost_user_memory_region page = { 0, 4096, USER, 0 };
    vhost_user_memory_map_unref(create(&page, &fd, 1)); /* installs the handler */
    close(fd);
    sigaction(SIGBUS, NULL, &ours);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_lead_to_the_right_byte),
        cmocka_unit_test(what_is_not_the_guests_has_no_way_back),
        cmocka_unit_test(edges_and_holes),
        cmocka_unit_test(tables_that_cannot_be_are_refused),
        cmocka_unit_test(as_many_regions_as_there_may_be),
        cmocka_unit_test(the_last_reference_unmaps),
        cmocka_unit_test(regions_come_and_go),
        cmocka_unit_test(regions_that_cannot_come_or_go),
        cmocka_unit_test(only_maps_with_a_broken_region_are_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
