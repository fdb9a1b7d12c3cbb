/* The tracepoints' state, compiled into the traced program. With dynamic linkage nothing here refers to the
 * provider, so that a program links no LTTng library: it runs, untraced, where there is none, and the points
 * come to life when tracepoints_load() brings the provider in. */
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_PROBE_DYNAMIC_LINKAGE
#include "all_providers.h"

#ifdef __SANITIZE_THREAD__
/* ThreadSanitizer does not see inside lttng-ust, whose lists of probes are protected by RCU: it takes each emission beside a
 * change of the recorded events for a race. This hook names what is compiled into our objects of that; it silences
 * nothing else. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:lttng_ust_tracepoint_cb_\n"
           "race:lttng_ust__event_probe_\n";
}
#endif
