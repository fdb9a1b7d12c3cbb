/**
 * A front end that truncates the file behind guest memory must not kill the process with SIGBUS.
 *
 * Ranges of shared memory are registered here. An access past the end of the file raises SIGBUS in the thread
 * that makes it; the handler puts a private page of zeros over the faulting one, sets the range's flag
 * `broken`, and the thread goes on. Whoever owns the memory looks at the flag before it believes what it
 * read.
 *
 *     struct vhost_user_memory_guard *guard = vhost_user_memory_guard_add(address, size_bytes, page_bytes, &broken);
 *     ... access; if (atomic_load_explicit(&broken, memory_order_relaxed)) stop ...
 *     vhost_user_memory_guard_remove(guard);          // before munmap
 *
 * Only single pages are replaced, since a write request may be copying its data from the neighbours to the
 * disk; but each costs a mapping, and the front end could use up vm.max_map_count that way, so after
 * VHOST_USER_MEMORY_GUARD_PAGES_MAX of them the whole range is replaced at once.
 *
 * A SIGBUS elsewhere goes to the handler that was there before. System calls (io_uring too) on such memory
 * fail with EFAULT and raise no signal.
 */
#ifndef VHOST_USER_MEMORY_GUARD_H
#define VHOST_USER_MEMORY_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VHOST_USER_MEMORY_GUARD_PAGES_MAX 64

struct vhost_user_memory_guard;

/**
 * Units:     page_bytes is the mapping's page size (a huge page can only be replaced as a whole).
 * Returns:   NULL if memory is short.
 * Ownership: broken_out is the caller's, until remove; several ranges may share one.
 * Thread:    any, both. The first call installs the process-wide handler.
 */
struct vhost_user_memory_guard *vhost_user_memory_guard_add(void *address, size_t size_bytes,
                                                            size_t page_bytes, _Atomic bool *broken_out);
/** No thread touches the range any more. NULL is fine. */
void vhost_user_memory_guard_remove(struct vhost_user_memory_guard *guard);

/**
 * How many accesses have failed in this process: while this stays the same, no flag has been set. Counted after the flag
 * is set, with release order; read with acquire order. Thread: any.
 */
uint32_t vhost_user_memory_guard_faults(void);

#endif
