#ifndef EVERY_EVENT_H
#define EVERY_EVENT_H

/** Emit every event of the catalogue once, in its order. */
void emit_every_event(void);

#endif
