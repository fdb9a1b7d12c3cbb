#include "checks/stretch.h"

#define SECOND INT64_C(1000000000)
#define ROUND_NS_MAX (SECOND / 2)
/* A round that is late or lost may double a window. */
#define WINDOW_NS_MAX (5 * SECOND / 2)

bool round_begins(const struct round *round, int64_t time_ns)
{
    return !round->any || time_ns - round->begin_ns > ROUND_NS_MAX;
}

void round_add(struct round *round, int64_t time_ns)
{
    if (round_begins(round, time_ns))
        round->begin_ns = time_ns;
    round->any = true;
    round->end_ns = time_ns;
}

bool window_is_short(int64_t begin_ns, int64_t end_ns)
{
    return end_ns - begin_ns <= WINDOW_NS_MAX;
}

bool stretch_extend(struct stretch *stretch, int64_t begin_ns, int64_t end_ns)
{
    const bool anew = !stretch->running || stretch->end_ns != begin_ns;

    if (!window_is_short(begin_ns, end_ns)) {
        stretch_break(stretch);
        return true;
    }
    if (anew)
        stretch->begin_ns = begin_ns;
    stretch->running = true;
    stretch->end_ns = end_ns;
    return anew;
}

void stretch_break(struct stretch *stretch)
{
    stretch->running = false;
}

uint64_t stretch_seconds(const struct stretch *stretch)
{
    return stretch->running ? (uint64_t)((stretch->end_ns - stretch->begin_ns + SECOND / 2) / SECOND) : 0;
}
