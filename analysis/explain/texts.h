/**
 * What each finding means, for people: one entry for each id that the checks can report.
 *
 * In the texts, {NAME} stands for the default of the limit --NAME, so that a figure is written once, where the options are
 * initialised. Which sets a check needs is not said here either: the check itself knows (core/check.h).
 */
#ifndef ANALYSIS_EXPLAIN_TEXTS_H
#define ANALYSIS_EXPLAIN_TEXTS_H

struct explanation {
    const char *id;
    const char *severity;
    const char *means;   /**< one sentence: what is wrong */
    const char *effect;  /**< what users see of it */
    const char *decided; /**< the rule */
    const char *silent;  /**< what looks alike and is not reported */
    const char *unsure;  /**< when it says that it cannot tell */
    const char *helps;   /**< what more than the needed sets adds; NULL: nothing */
    const char *causes;  /**< the words that stand under "cause"; NULL: none */
    const char *advice;
};

/** NULL: there is no such finding. */
const struct explanation *explanation_find(const char *id);

#endif
