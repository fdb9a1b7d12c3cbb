/*
 * A disk in one loop of this thread: open, attach, run functions in coroutines until they end.
 *
 *     struct disk_loop dl;
 *     disk_loop_open(&dl, path, &options);
 *     assert_int_equal(disk_loop_read(&dl, 0, iov, 1), 0);
 *     disk_loop_close(&dl);
 */
#ifndef TEST_DISK_LOOP_H
#define TEST_DISK_LOOP_H

#include "disk/disk.h"
#include "rt/loop.h"

struct disk_loop {
    struct rt_loop *loop;
    struct vblk_disk *disk;
    struct vblk_disk_loop *context;
    struct vblk_disk_facts facts;
};

void disk_loop_open(struct disk_loop *dl, const char *spec, const struct vblk_disk_options *options);
void disk_loop_close(struct disk_loop *dl);

int disk_loop_read(struct disk_loop *dl, uint64_t offset, const struct iovec *iov, int count);
int disk_loop_write(struct disk_loop *dl, uint64_t offset, const struct iovec *iov, int count);
int disk_loop_flush(struct disk_loop *dl);
int disk_loop_discard(struct disk_loop *dl, uint64_t offset, uint64_t size);
int disk_loop_write_zeroes(struct disk_loop *dl, uint64_t offset, uint64_t size, bool may_unmap);

/* Begin fn(opaque) in a coroutine; pass until *done. */
void disk_loop_wait(struct disk_loop *dl, const bool *done);

/* A file of that many bytes, byte i being disk_byte(i); the name is a mkstemp() template. */
void disk_make(char *template, size_t size_bytes);
uint8_t disk_byte(uint64_t offset);

#endif
