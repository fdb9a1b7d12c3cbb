/* What a test expects of pop(), of either format. cmocka's assertions; included after cmocka.h. */
#ifndef TEST_EXPECT_H
#define TEST_EXPECT_H

#include <errno.h>
#include <string.h>

#include "guest.h"

static inline struct vblk_element *pop(struct guest *guest)
{
    int error = 1;
    const char *reason = NULL;
    struct vblk_element *element = vblk_virtqueue_pop(guest->vq, &error, &reason);
    if (element)
        assert_int_equal(error, 0);
    return element;
}

static inline struct vblk_element *pop_one(struct guest *guest)
{
    struct vblk_element *element = pop(guest);
    assert_non_null(element);
    return element;
}

static inline void assert_empty(struct guest *guest)
{
    int error = 1;
    const char *reason = NULL;
    assert_null(vblk_virtqueue_pop(guest->vq, &error, &reason));
    assert_int_equal(error, 0);
}

static inline void assert_broken_by(struct guest *guest, int expected, const char *word)
{
    int error = 0;
    const char *reason = NULL;
    assert_null(vblk_virtqueue_pop(guest->vq, &error, &reason));
    assert_int_equal(error, expected);
    assert_non_null(reason);
    if (!strstr(reason, word))
        fail_msg("\"%s\" does not speak of \"%s\"", reason, word);
    /* and it stays so */
    error = 0;
    assert_null(vblk_virtqueue_pop(guest->vq, &error, &reason));
    assert_int_equal(error, -EPROTO);
    assert_false(vblk_virtqueue_pending(guest->vq));
}

/* By the driver. */
static inline void assert_broken(struct guest *guest, const char *word)
{
    assert_broken_by(guest, -EPROTO, word);
}

#endif
