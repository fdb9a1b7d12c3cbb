/* Every provider's header, for the two files that expand them all: points.c and providers.c. No guard: what the
 * includer defined decides what a header becomes. */
#include "tracepoints/process.h"
#include "tracepoints/pool.h"
#include "tracepoints/coroutine.h"
#include "tracepoints/loop.h"
#include "tracepoints/lock.h"
#include "tracepoints/dataplane.h"
#include "tracepoints/queue.h"
#include "tracepoints/request.h"
#include "tracepoints/vhost_user.h"
