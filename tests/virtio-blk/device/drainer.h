/* A coroutine of the main loop that drains the device again and again, as whatever else lives there may, and looks each
 * time whether it is drained. */
#ifndef TEST_DRAINER_H
#define TEST_DRAINER_H

#include "served.h"

struct drainer {
    _Atomic bool leave;           /* after this drain */
    _Atomic unsigned drains;
    _Atomic unsigned violations;  /* something was watched or under way while drained */
    _Atomic bool ended;
    struct vblk_device *device;
};

void drainer_start(struct drainer *drainer, struct served *served);
/* Until it has left, within the deadline; nothing may have been violated. */
void drainer_await(struct drainer *drainer);

/* For any coroutine of a loop: others have their turn. */
void drainer_pass_co(void);

#endif
