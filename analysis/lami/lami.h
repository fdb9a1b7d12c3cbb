/**
 * `vblkscope lami`, also `vblkscope analyze --format=lami`: the analyses as Trace Compass runs them.
 */
#ifndef ANALYSIS_LAMI_LAMI_H
#define ANALYSIS_LAMI_LAMI_H

/**
 * Run the subcommand.
 *
 * Shape:     argv[0] is the subcommand's name. Ends with NULL.
 * Returns:   exit status: 0 the results (findings or not) were written; 1 failed, with an error object on standard output;
 *            2 usage, or an input that is not a readable trace, likewise.
 */
int vblkscope_lami_main(int argc, char **argv);

#endif
