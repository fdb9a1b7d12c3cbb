/**
 * `vblkscope demo`: hands over to demo.sh, which serves, loads, records and judges a healthy and a faulty device.
 */
#ifndef ANALYSIS_DEMO_H
#define ANALYSIS_DEMO_H

/**
 * Find the script and the programs that belong to this one, from the build folder or as installed, and become it.
 *
 * Shape:     argv[0] is the subcommand's name, "demo"; the rest is the script's. Ends with NULL.
 * Returns:   only if the script cannot be run: exit status 1, the reason printed.
 */
int vblkscope_demo_main(int argc, char **argv);

#endif
