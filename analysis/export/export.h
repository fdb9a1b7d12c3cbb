/**
 * `vblkscope export`: a recording in another program's form.
 */
#ifndef ANALYSIS_EXPORT_EXPORT_H
#define ANALYSIS_EXPORT_EXPORT_H

/**
 * Run the subcommand.
 *
 * Shape:     argv[0] is the subcommand's name. Ends with NULL.
 * Returns:   exit status: 0 done, 1 failed or interrupted, 2 usage, or an input that is not a readable trace (what could be read of
 *            others is written).
 */
int vblkscope_export_main(int argc, char **argv);

#endif
