/**
 * `vblkscope ctl`: asks a running vblkd over its control socket. Speaks JSON lines and knows no more of the device than
 * vblkd-control(7) tells: commands and the types of their arguments come from the device itself.
 */
#ifndef ANALYSIS_CTL_CTL_H
#define ANALYSIS_CTL_CTL_H

/** argv[0] is "ctl". Returns the exit status: 0 done, 1 failed (nobody answers, or it was refused), 2 usage. */
int vblkscope_ctl_main(int argc, char **argv);

#endif
