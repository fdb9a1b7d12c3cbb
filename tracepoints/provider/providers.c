/* The probes of all providers. They live in a shared object of their own, which is the only part that needs
 * lttng-ust; see tracepoints/load.h for how a program finds it. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "all_providers.h"
