#include "disk_loop.h"

#include <glib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <unistd.h>

#include "rt/coroutine.h"

#define DEADLINE_NS (INT64_C(20) * 1000000000)

void disk_loop_open(struct disk_loop *dl, const char *spec, const struct vblk_disk_options *options)
{
    char *message = NULL;

    if (vblk_disk_open(spec, options, &dl->disk, &message) != 0)
        fail_msg("%s", message);
    vblk_disk_facts(dl->disk, &dl->facts);
    assert_int_equal(rt_loop_create("disk", &dl->loop), 0);
    rt_loop_bind(dl->loop);
    assert_int_equal(vblk_disk_attach_loop(dl->disk, dl->loop, &dl->context), 0);
}

void disk_loop_close(struct disk_loop *dl)
{
    vblk_disk_detach_loop(dl->context);
    rt_loop_destroy(dl->loop);
    vblk_disk_close(dl->disk);
}

struct call {
    struct disk_loop *dl;
    enum { READ, WRITE, FLUSH, DISCARD, WRITE_ZEROES, WRITE_ZEROES_UNMAP } kind;
    uint64_t offset, size;
    const struct iovec *iov;
    int count, result;
    bool done;
};

static void run(void *opaque)
{
    struct call *call = opaque;

    if (call->kind == READ)
        call->result = vblk_disk_read_co(call->dl->context, call->offset, call->iov, call->count);
    else if (call->kind == WRITE)
        call->result = vblk_disk_write_co(call->dl->context, call->offset, call->iov, call->count);
    else if (call->kind == DISCARD)
        call->result = vblk_disk_discard_co(call->dl->context, call->offset, call->size);
    else if (call->kind == WRITE_ZEROES || call->kind == WRITE_ZEROES_UNMAP)
        call->result = vblk_disk_write_zeroes_co(call->dl->context, call->offset, call->size,
                                                 call->kind == WRITE_ZEROES_UNMAP);
    else
        call->result = vblk_disk_flush_co(call->dl->context);
    call->done = true;
}

void disk_loop_wait(struct disk_loop *dl, const bool *done)
{
    int64_t deadline_ns = rt_clock_ns() + DEADLINE_NS;

    while (!*done) {
        (void)rt_loop_pass(dl->loop, true);
        assert_true(rt_clock_ns() < deadline_ns);
    }
}

static int finish(struct call call)
{
    rt_coroutine_enter(rt_coroutine_create(run, &call));
    disk_loop_wait(call.dl, &call.done);
    return call.result;
}

int disk_loop_read(struct disk_loop *dl, uint64_t offset, const struct iovec *iov, int count)
{
    return finish((struct call){ .dl = dl, .kind = READ, .offset = offset, .iov = iov, .count = count });
}

int disk_loop_write(struct disk_loop *dl, uint64_t offset, const struct iovec *iov, int count)
{
    return finish((struct call){ .dl = dl, .kind = WRITE, .offset = offset, .iov = iov, .count = count });
}

int disk_loop_flush(struct disk_loop *dl)
{
    return finish((struct call){ .dl = dl, .kind = FLUSH });
}

int disk_loop_discard(struct disk_loop *dl, uint64_t offset, uint64_t size)
{
    return finish((struct call){ .dl = dl, .kind = DISCARD, .offset = offset, .size = size });
}

int disk_loop_write_zeroes(struct disk_loop *dl, uint64_t offset, uint64_t size, bool may_unmap)
{
    return finish((struct call){
        .dl = dl, .kind = may_unmap ? WRITE_ZEROES_UNMAP : WRITE_ZEROES, .offset = offset, .size = size });
}

uint8_t disk_byte(uint64_t offset)
{
    return offset * 7 + offset / 512;
}

void disk_make(char *template, size_t size_bytes)
{
    uint8_t *bytes = g_malloc(size_bytes);
    int fd = mkstemp(template);

    assert_true(fd >= 0);
    for (size_t i = 0; i < size_bytes; i++)
        bytes[i] = disk_byte(i);
    assert_int_equal(write(fd, bytes, size_bytes), size_bytes);
    close(fd);
    g_free(bytes);
}
