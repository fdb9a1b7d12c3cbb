/**
 * `vblkscope analyze`: reads recordings and says what is wrong in them.
 */
#ifndef ANALYSIS_ANALYZE_H
#define ANALYSIS_ANALYZE_H

/**
 * Run the subcommand.
 *
 * Shape:     argv[0] is the subcommand's name. Ends with NULL.
 * Returns:   exit status: 0 nothing found; 1 at least one finding that counts, or the report could not be written;
 *            2 usage, or an input that is not a readable trace; 3 a check could not tell, or there was nothing to
 *            judge.
 */
int vblkscope_analyze_main(int argc, char **argv);

#endif
