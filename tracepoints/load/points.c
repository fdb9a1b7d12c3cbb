/* The tracepoints' state, compiled into the traced program. With dynamic linkage nothing here refers to the
 * provider, so that a program links no LTTng library: it runs, untraced, where there is none, and the points
 * come to life when tracepoints_load() brings the provider in. */
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#include "all_providers.h"
