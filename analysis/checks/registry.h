/**
 * All checks, in the order of the contract's section 3.
 */
#ifndef ANALYSIS_CHECKS_REGISTRY_H
#define ANALYSIS_CHECKS_REGISTRY_H

#include "core/check.h"

/** NULL ends. */
extern const struct check_class *const check_registry[];

/** Position of a finding's id in the registry, for a stable order of reports. */
int registry_rank(const char *id);

#endif
