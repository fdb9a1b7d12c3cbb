#include "device/request_lock.h"

#include <string.h>

const struct vblk_request_lock *vblk_request_lock_at(unsigned index)
{
    static const struct vblk_request_lock *const policies[] = { &vblk_request_lock_sharded, &vblk_request_lock_thread,
                                                                &vblk_request_lock_coroutine };

    return index < sizeof(policies) / sizeof(policies[0]) ? policies[index] : NULL;
}

const struct vblk_request_lock *vblk_request_lock_find(const char *name)
{
    const struct vblk_request_lock *lock;

    for (unsigned i = 0; (lock = vblk_request_lock_at(i)); i++)
        if (strcmp(lock->name, name) == 0)
            return lock;
    return NULL;
}
