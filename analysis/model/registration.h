/**
 * Which host notifiers' handlers are registered where their queue no longer is: struct handler's `stale`.
 *
 * A handler is one life of a registration, so what makes it stale is what happened to its queue or device *after* it was
 * attached: the notifier was detached or released, the device stopped, or the queue belongs to another loop. Only the
 * last can be undone (the queue comes back); a queue that is attached again gets a new handler.
 * Whether a stale handler is a fault (longer than a hand-over takes, and its removal not lost) is the checks' business.
 */
#ifndef ANALYSIS_MODEL_REGISTRATION_H
#define ANALYSIS_MODEL_REGISTRATION_H

#include "model/process.h"

/** After the model took the event in. */
void registration_update(const struct occurrence *what);

#endif
