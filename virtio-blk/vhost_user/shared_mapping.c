#include "vhost_user/shared_mapping.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "vhost_user/memory_guard.h"

int vhost_user_shared_mapping_create(struct vhost_user_shared_mapping *mapping_out, int fd, uint64_t offset_bytes,
                                     uint64_t size_bytes, _Atomic bool *broken, const char **reason_out)
{
    struct stat status;
    struct statfs filesystem;
    uint64_t file_end;
    if (fstat(fd, &status) < 0 || fstatfs(fd, &filesystem) < 0) {
        *reason_out = "its descriptor cannot be examined";
        return -errno;
    }
    if (__builtin_add_overflow(offset_bytes, size_bytes, &file_end) || file_end > INT64_MAX) {
        *reason_out = "its offset and size overflow";
        return -EINVAL;
    }
    /* A device (/dev/dax) has no size to compare with; for it, as for a file that shrinks, there is the
     * guard. */
    if (S_ISREG(status.st_mode) ? file_end > (uint64_t)status.st_size : !S_ISCHR(status.st_mode)) {
        *reason_out =
            S_ISREG(status.st_mode) ? "it ends past the end of its file" : "its descriptor is no memory";
        return -EINVAL;
    }
    /* Huge pages can be mapped, and unmapped, only as a whole; f_bsize is their size there. */
    uint64_t page_bytes =
        filesystem.f_type == HUGETLBFS_MAGIC ? (uint64_t)filesystem.f_bsize : (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t begin = offset_bytes & ~(page_bytes - 1);
    uint64_t end = (file_end + page_bytes - 1) & ~(page_bytes - 1);
    /* A mapping must not reserve what the front end has reserved. */
    void *mapping =
        mmap(NULL, end - begin, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, (off_t)begin);
    if (mapping == MAP_FAILED) {
        *reason_out = "it cannot be mapped";
        return -errno;
    }
    /* The guest's memory is not ours to put into a core file. */
    (void)madvise(mapping, end - begin, MADV_DONTDUMP);
    struct vhost_user_memory_guard *guard =
        vhost_user_memory_guard_add(mapping, end - begin, page_bytes, broken);
    if (!guard) {
        *reason_out = "there is no memory left";
        munmap(mapping, end - begin);
        return -ENOMEM;
    }
    *mapping_out = (struct vhost_user_shared_mapping){ .bytes = (uint8_t *)mapping + (offset_bytes - begin),
                                                       .mapping = mapping,
                                                       .mapping_bytes = end - begin,
                                                       .guard = guard };
    return 0;
}

void vhost_user_shared_mapping_destroy(struct vhost_user_shared_mapping *mapping)
{
    if (!mapping->bytes)
        return;
    vhost_user_memory_guard_remove(mapping->guard);
    munmap(mapping->mapping, mapping->mapping_bytes);
    *mapping = (struct vhost_user_shared_mapping){ 0 };
}
