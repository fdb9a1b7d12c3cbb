/**
 * `vblkscope compare`: two recordings, or two sets of them, side by side.
 */
#ifndef ANALYSIS_COMPARE_COMPARE_H
#define ANALYSIS_COMPARE_COMPARE_H

/**
 * Run the subcommand.
 *
 * Shape:     argv[0] is the subcommand's name. Ends with NULL.
 * Returns:   exit status: 0 done; 1 failed, or a regression that --fail-on-regression asks for; 2 usage, or an input that is
 *            neither a readable trace nor a report.
 */
int vblkscope_compare_main(int argc, char **argv);

#endif
