/** What the files of core/ share. Checks and the model use check.h. */
#ifndef ANALYSIS_CORE_INTERNAL_H
#define ANALYSIS_CORE_INTERNAL_H

#include "checks/registry.h"
#include "core/dialect.h"
#include "core/check.h"

struct evidence {
    int64_t time_ns;
    const char *event; /* "rt_loop:fd_attach" */
    char *text;
};

struct finding {
    const char *id;
    const struct process *process; /* NULL: about none */
    char *key;
    unsigned order; /* of making, the last resort when sorting */
    enum severity severity;
    int64_t begin_ns, end_ns;
    uint64_t count;
    char *summary, *cause, *advice;
    json_t *subject;
    GArray *evidence;        /* struct evidence: the first ones, then a ring of the last */
    uint64_t evidence_count; /* all that were given */
};

struct unsure {
    const char *id;
    const struct process *process;
    int64_t begin_ns, end_ns;
    char *reason;
};

struct unreadable {
    char *path, *reason;
};

struct check_run {
    const struct check_class *check;
    bool selected;    /* by options */
    const char *skip[CHECK_IDS_MAX]; /* of each id: reason, NULL: it is judged in some process */
    bool ran;
    void *shared;
};

/* A check's state in a process, with what it may use. */
struct check_slot {
    struct check_env env;
    void *state;
    bool active;
};

struct analysis {
    struct analysis_options options;
    char **selected_checks;
    GPtrArray *traces, *channels, *streams, *processes;
    GArray *unreadable;
    struct check_run *runs; /* one per registered check */
    unsigned run_count;
    GArray *subscribers[EVENT_COUNT]; /* unsigned: indexes into runs */
    int64_t begin_ns, end_ns;
    uint64_t event_count, known_count;
    bool any, finished, interrupted;
    GPtrArray *findings; /* struct finding, sorted by finish */
    GHashTable *finding_by_key;
    GArray *unsure;
    struct latency *latency;
    struct series *series; /* NULL: not asked for */
};

/* Let the model and the checks take an event of ours whose origin is known. */
void analysis_judge(struct analysis *analysis, struct stream *stream, const struct event *event);

/* core/dialect.c: what the processes that speak a dialect need of the analysis. */
void dialect_begin(struct process *process, const struct event *event);
void dialect_take(struct analysis *analysis, struct stream *stream, const struct event *event);
void dialect_finish(struct process *process);
void dialect_free(struct process *process);
/* Why the finding is not judged in the process; NULL: it is. */
const char *dialect_skip(const struct process *process, const char *finding_id);

void finding_free(void *finding);
json_t *finding_json(const struct finding *finding);
void findings_sort(struct analysis *analysis);

#endif
