/*
 * A disk whose reads can be held back, and that refuses loops. The linker puts these in front of the device's disk
 * (--wrap=vblk_disk_read_co, --wrap=vblk_disk_attach_loop). For all devices of the process; any thread.
 */
#ifndef TEST_GATE_H
#define TEST_GATE_H

void gate_close(void);
void gate_open(void);              /* what waits goes on */
void gate_await(unsigned count);   /* until so many reads wait, within the deadline of served.h */
void gate_refuse_attach_after(int count); /* so many attaches succeed first; -1: all */

#endif
