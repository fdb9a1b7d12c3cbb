#include "compare/statistics.h"

#include <float.h>
#include <glib.h>
#include <math.h>

#define STEPS_MAX 500

/* The continued fraction of DLMF 8.17.22 by the modified Lentz method; converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double x, double a, double b)
{
    double c = 1, d = 1 - (a + b) * x / (a + 1), result;

    d = 1 / (fabs(d) < DBL_MIN ? DBL_MIN : d);
    result = d;
    for (int m = 1; m <= STEPS_MAX; m++) {
        const double terms[2] = { m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                                  -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)) };
        double factor = 1;

        for (int i = 0; i < 2; i++) {
            d = 1 + terms[i] * d;
            d = 1 / (fabs(d) < DBL_MIN ? DBL_MIN : d);
            c = 1 + terms[i] / c;
            c = fabs(c) < DBL_MIN ? DBL_MIN : c;
            factor = c * d;
            result *= factor;
        }
        if (fabs(factor - 1) < DBL_EPSILON)
            break;
    }
    return result;
}

/* The regularised incomplete beta function. */
static double incomplete_beta(double x, double a, double b)
{
    double front;

    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    if (x > (a + 1) / (a + b + 2))
        return 1 - incomplete_beta(1 - x, b, a);
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a;
    return front * beta_fraction(x, a, b);
}

double student_p(double t, double degrees)
{
    return incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5);
}

/* Mean, and the variance of the mean. */
static double mean_of(const double *values, unsigned count, double *variance_out)
{
    double mean = 0, squares = 0;

    for (unsigned i = 0; i < count; i++)
        mean += values[i] / count;
    for (unsigned i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    *variance_out = squares / (count - 1) / count;
    return mean;
}

double welch_p(const double *old, unsigned old_count, const double *new, unsigned new_count)
{
    double old_variance, new_variance, difference, variance, degrees;

    if (old_count < 2 || new_count < 2)
        return NAN;
    difference = mean_of(new, new_count, &new_variance) - mean_of(old, old_count, &old_variance);
    variance = old_variance + new_variance;
    if (!(variance > 0))
        return difference == 0 ? 1 : 0;
    degrees = variance * variance /
              (old_variance * old_variance / (old_count - 1) + new_variance * new_variance / (new_count - 1));
    return student_p(difference / sqrt(variance), degrees);
}

void select_significant(const double *p, unsigned count, double rate, bool *significant_out)
{
    unsigned tested = 0;
    double limit = -1;

    for (unsigned i = 0; i < count; i++)
        tested += !isnan(p[i]);
    /* The largest p that is at most rate * rank / tested; the rank of p is how many are not larger. */
    for (unsigned i = 0; i < count; i++) {
        unsigned rank = 0;

        for (unsigned j = 0; j < count; j++)
            rank += p[j] <= p[i];
        if (!isnan(p[i]) && p[i] <= rate * rank / tested)
            limit = MAX(limit, p[i]);
    }
    for (unsigned i = 0; i < count; i++)
        significant_out[i] = p[i] <= limit;
}
