#include "checks/registry.h"

#include <string.h>

/* One line a check, in the order of the contract; a check for two findings stands at the first. */
extern const struct check_class check_queue_broken;
extern const struct check_class check_events_lost;

const struct check_class *const check_registry[] = {
    &check_queue_broken,
    &check_events_lost,
    NULL,
};

int registry_rank(const char *id)
{
    int rank = 0;

    for (unsigned i = 0; check_registry[i]; i++)
        for (unsigned j = 0; j < CHECK_IDS_MAX && check_registry[i]->ids[j]; j++, rank++)
            if (!strcmp(check_registry[i]->ids[j], id))
                return rank;
    return rank;
}
