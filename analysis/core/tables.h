/** The tables of the report: what the last samples say of pool, mappings, loops, locks and queues. */
#ifndef ANALYSIS_CORE_TABLES_H
#define ANALYSIS_CORE_TABLES_H

#include <jansson.h>

#include "core/analysis.h"

/** Each gives a new reference. */
json_t *table_pool(const struct analysis *analysis);
json_t *table_vma(const struct analysis *analysis);
json_t *table_loops(const struct analysis *analysis);
json_t *table_locks(const struct analysis *analysis);
json_t *table_queues(const struct analysis *analysis);

#endif
