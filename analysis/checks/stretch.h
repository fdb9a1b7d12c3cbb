/**
 * "Sustained": seconds in a row of which each meets a condition, seen through rounds of samples at 1 Hz.
 *
 *     if (round_begins(&round, event->time_ns))
 *         close_window(round.begin_ns of the one before ... round.end_ns);   // what the samples grew by
 *     stretch_extend(&stretch, begin_ns, end_ns);     // this window meets the condition
 *     stretch_break(&stretch);                        // this one does not
 *     if (stretch_seconds(&stretch) >= options->sustained_seconds) ...
 *
 * Samples carry running totals, so a lost round loses nothing, but a window that long says little of each of its seconds:
 * it breaks a stretch.
 */
#ifndef ANALYSIS_CHECKS_STRETCH_H
#define ANALYSIS_CHECKS_STRETCH_H

#include <stdbool.h>
#include <stdint.h>

/** The samples of one second come at once, one for each object; those of a baseline may follow closely. */
struct round {
    bool any;
    int64_t begin_ns, end_ns; /**< first and last sample */
};

/** Does this sample begin another round? Then @round holds the one before until round_add(). */
bool round_begins(const struct round *round, int64_t time_ns);
/** Take the sample in; begins a round if it does. */
void round_add(struct round *round, int64_t time_ns);

struct stretch {
    bool running;
    int64_t begin_ns, end_ns;
};

/** Returns: whether it began anew with this window: what was summed up for it begins anew, too. */
bool stretch_extend(struct stretch *stretch, int64_t begin_ns, int64_t end_ns);
void stretch_break(struct stretch *stretch);

/** How long it is, rounded; 0: it does not run. */
uint64_t stretch_seconds(const struct stretch *stretch);

/** Is the window short enough to say something of each of its seconds? */
bool window_is_short(int64_t begin_ns, int64_t end_ns);

#endif
