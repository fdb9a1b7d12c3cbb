#include "checks/registry.h"

#include <glib.h>
#include <string.h>

/* One line a check, in the order of the contract; a check for two findings stands at the first. */
extern const struct check_class check_stale_fd;
extern const struct check_class check_unread_fd;
extern const struct check_class check_false_progress;
extern const struct check_class check_deaf_queue;
extern const struct check_class check_wakeup;
extern const struct check_class check_needless_writes;
extern const struct check_class check_notify_me;
extern const struct check_class check_drain_order;
extern const struct check_class check_vma;
extern const struct check_class check_pool_overflow;
extern const struct check_class check_pool_imbalance;
extern const struct check_class check_pool_thrash;
extern const struct check_class check_lock_contention;
extern const struct check_class check_lock_across_yield;
extern const struct check_class check_stuck_request;
extern const struct check_class check_wrong_loop;
extern const struct check_class check_loop_hog;
extern const struct check_class check_slow_requests;
extern const struct check_class check_missing_interrupt;
extern const struct check_class check_queue_broken;
extern const struct check_class check_lost_request;
extern const struct check_class check_poll_waste;
extern const struct check_class check_events_lost;

/* clang-format off */
const struct check_class *const check_registry[] = {
    &check_stale_fd,
    &check_unread_fd,
    &check_false_progress,
    &check_deaf_queue,
    &check_wakeup,
    &check_needless_writes,
    &check_notify_me,
    &check_drain_order,
    &check_vma,
    &check_pool_overflow,
    &check_pool_imbalance,
    &check_pool_thrash,
    &check_lock_contention,
    &check_lock_across_yield,
    &check_stuck_request,
    &check_wrong_loop,
    &check_loop_hog,
    &check_slow_requests,
    &check_missing_interrupt,
    &check_queue_broken,
    &check_lost_request,
    &check_poll_waste,
    &check_events_lost,
    NULL,
};
/* clang-format on */

const char *const *analysis_check_ids(void)
{
    static const char *ids[G_N_ELEMENTS(check_registry) * CHECK_IDS_MAX + 1];
    unsigned count = 0;

    for (unsigned i = 0; check_registry[i]; i++)
        for (unsigned j = 0; j < CHECK_IDS_MAX && check_registry[i]->ids[j]; j++)
            ids[count++] = check_registry[i]->ids[j];
    return ids;
}

int registry_rank(const char *id)
{
    int rank = 0;

    for (unsigned i = 0; check_registry[i]; i++)
        for (unsigned j = 0; j < CHECK_IDS_MAX && check_registry[i]->ids[j]; j++, rank++)
            if (!strcmp(check_registry[i]->ids[j], id))
                return rank;
    return rank;
}
