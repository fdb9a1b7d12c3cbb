#include "loop/asymmetric_fence.h"

#include <assert.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

bool fence_asymmetric;

static void prepare(void)
{
    fence_asymmetric = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void fence_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, prepare);
}

void fence_heavy(void)
{
    fence_full();
    if (fence_asymmetric) {
        long result = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
        assert(result == 0);
        (void)result;
    }
}
