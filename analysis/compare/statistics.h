/**
 * Is the difference of two samples more than chance?
 *
 * Source: B. L. Welch, "The generalization of Student's problem when several different population variances are involved",
 * Biometrika 34, 1947; NIST DLMF 8.17.22 (the incomplete beta function as a continued fraction); Y. Benjamini and Y. Hochberg,
 * "Controlling the false discovery rate", J. R. Statist. Soc. B 57, 1995.
 */
#ifndef ANALYSIS_COMPARE_STATISTICS_H
#define ANALYSIS_COMPARE_STATISTICS_H

#include <stdbool.h>

/**
 * Welch's t-test, two-sided: the probability of a difference of means at least as large if there is none.
 *
 * Returns:   0..1; NAN if a sample has fewer than two values.
 */
double welch_p(const double *old, unsigned old_count, const double *new, unsigned new_count);

/** P(|T| >= |t|) of Student's distribution with @degrees (> 0, not necessarily whole) degrees of freedom. */
double student_p(double t, double degrees);

/**
 * Which of @count probabilities are significant when of all that are called so at most the share @rate may be wrong on average
 * (Benjamini-Hochberg). NAN is never significant.
 */
void select_significant(const double *p, unsigned count, double rate, bool *significant_out);

#endif
