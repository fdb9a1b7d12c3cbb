/*
 * Goal:   a verdict follows from what happened, not from ids, threads, names, times, streams or neighbours; and who knows less
 *         (lost events, sets, contexts, a late start, a killed process) never finds more.
 * Method: each recording is read once, changed in memory (variants.c), judged again, and the verdicts are compared.
 * Breaks: a fault that is found in one recording is missed in the next, or an incomplete recording raises a false alarm.
 *
 * Usage: metamorphic [--seeds N] [--seed FIRST] [--only VARIANT] NEIGHBOUR FOLDER...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metamorphic/variants.h"

static void tell_value(GString *line, const char *key, json_t *value, const struct renaming *renaming)
{
    const enum value_kind kind = value_kind_of(key);

    /* lists of threads, and texts that name the process, say the same again */
    if (!strcmp(key, "process") || json_is_array(value) || json_is_real(value))
        return;
    if (json_is_string(value))
        g_string_append_printf(line, " %s=%s%s", key, json_string_value(value),
                               kind == VALUE_NAME && renaming->suffix ? renaming->suffix : "");
    else if (json_is_integer(value))
        g_string_append_printf(line, " %s=%" JSON_INTEGER_FORMAT, key,
                               (json_int_t)renamed(renaming, kind, json_integer_value(value)));
}

static void tell_times(GString *line, json_t *entry, const struct renaming *renaming)
{
    g_string_append_printf(line, " %" JSON_INTEGER_FORMAT "..%" JSON_INTEGER_FORMAT,
                           json_integer_value(json_object_get(entry, "begin_ns")) + (json_int_t)renaming->shift_ns,
                           json_integer_value(json_object_get(entry, "end_ns")) + (json_int_t)renaming->shift_ns);
}

static gint by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What tells two findings of one id apart, also if less is known. */
static bool is_identity(json_t *subject, const char *key)
{
    if (!strcmp(key, "loop_id"))
        return !json_object_get(subject, "queue_index") && !json_object_get(subject, "handler_id");
    return !strcmp(key, "handler_id") || !strcmp(key, "queue_index") || !strcmp(key, "lock_id") ||
           !strcmp(key, "device_id");
}

static GPtrArray *verdict(json_t *report, const struct renaming *renaming, enum relation relation)
{
    const bool alarms_only = relation == NO_FINDING, with_times = relation != SAME_TEXT;
    GPtrArray *lines = g_ptr_array_new_with_free_func(g_free);
    const char *key;
    json_t *entry, *value;
    size_t i;

    json_array_foreach (json_object_get(report, "findings"), i, entry) {
        const char *severity = json_string_value(json_object_get(entry, "severity"));
        const char *cause = json_string_value(json_object_get(entry, "cause"));
        GString *line = g_string_new(json_string_value(json_object_get(entry, "id")));

        if (alarms_only && !strcmp(severity, "info")) {
            g_string_free(line, TRUE);
            continue;
        }
        if (!alarms_only)
            g_string_append_printf(line, " %s %s n=%" JSON_INTEGER_FORMAT, severity, cause ? cause : "-",
                                   json_integer_value(json_object_get(entry, "count")));
        if (!alarms_only && with_times)
            tell_times(line, entry, renaming);
        json_object_foreach (json_object_get(entry, "subject"), key, value) {
            if (alarms_only ? is_identity(json_object_get(entry, "subject"), key)
                            : relation != TWICE || value_kind_of(key) != VALUE_THREAD)
                tell_value(line, key, value, renaming);
        }
        g_ptr_array_add(lines, g_string_free(line, FALSE));
    }
    json_array_foreach (json_object_get(report, "inconclusive"), i, entry) {
        GString *line = g_string_new("cannot tell: ");

        g_string_append(line, json_string_value(json_object_get(entry, "id")));
        if (with_times)
            tell_times(line, entry, renaming);
        if (alarms_only)
            g_string_free(line, TRUE);
        else
            g_ptr_array_add(lines, g_string_free(line, FALSE));
    }
    g_ptr_array_sort(lines, by_text);
    return lines;
}

static bool contains(const GPtrArray *lines, const char *line)
{
    for (unsigned i = 0; i < lines->len; i++)
        if (!strcmp(g_ptr_array_index(lines, i), line))
            return true;
    return false;
}

/* Of less the same fault may look like its sibling: what ended a sleep late, or the restart that lost a request, is gone. */
static bool has_sibling(const GPtrArray *before, const char *line)
{
    static const char *const siblings[][2] = { { "lost-wakeup", "late-wakeup" }, { "stuck-request", "lost-request" } };

    for (unsigned i = 0; i < G_N_ELEMENTS(siblings); i++) {
        if (g_str_has_prefix(line, siblings[i][0])) {
            char *sibling = g_strconcat(siblings[i][1], line + strlen(siblings[i][0]), NULL);
            const bool known = contains(before, sibling);

            g_free(sibling);
            return known;
        }
    }
    return false;
}

/* What is wrong, one line each. */
static unsigned compare(const GPtrArray *before, const GPtrArray *after, enum relation relation, GString *wrong)
{
    const unsigned times = relation == TWICE ? 2 : 1;
    unsigned count = 0;

    for (unsigned i = 0; i < after->len; i++) {
        const char *line = g_ptr_array_index(after, i);
        const bool known = contains(before, line) || (relation == NO_FINDING && has_sibling(before, line));

        if (!known && ++count)
            g_string_append_printf(wrong, "    new:     %s\n", line);
    }
    for (unsigned i = 0; relation != NO_FINDING && i < before->len; i++) {
        const char *line = g_ptr_array_index(before, i);
        unsigned found = 0, wanted = 0;

        for (unsigned j = 0; j < after->len; j++)
            found += !strcmp(g_ptr_array_index(after, j), line);
        for (unsigned j = 0; j < before->len; j++)
            wanted += !strcmp(g_ptr_array_index(before, j), line);
        if (found != wanted * times && ++count)
            g_string_append_printf(wrong, "    %u not %u: %s\n", found, wanted * times, line);
    }
    return count;
}

static unsigned try_variant(const char *name, const struct variant *variant, const struct recording *story,
                            const struct recording *neighbour, json_t *original, uint64_t seed)
{
    struct renaming renaming = { 0 };
    const struct renaming nothing = { 0 };
    struct recording *changed;
    GPtrArray *before, *after;
    GString *wrong;
    json_t *report;
    unsigned count;
    int status;

    random_seed(seed);
    changed = variant->make(story, neighbour, &renaming);
    if (!changed)
        return 0;
    report = recording_report(changed, &status);
    before = verdict(original, &renaming, variant->relation);
    after = verdict(report, &nothing, variant->relation);
    wrong = g_string_new(NULL);
    count = compare(before, after, variant->relation, wrong);
    if (count)
        printf("FAIL %s %s --seed %llu\n%s", name, variant->name, (unsigned long long)seed, wrong->str);
    g_string_free(wrong, TRUE);
    g_ptr_array_free(before, TRUE);
    g_ptr_array_free(after, TRUE);
    json_decref(report);
    recording_free(changed);
    return count > 0;
}

int main(int argc, char **argv)
{
    uint64_t seeds = 1, first = 1, tried = 0;
    const char *only = NULL;
    struct recording *neighbour;
    unsigned failed = 0;
    int i = 1;

    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (!strcmp(argv[i], "--seeds"))
            seeds = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--seed"))
            first = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--only"))
            only = argv[i + 1];
    }
    neighbour = i < argc ? recording_read(argv[i]) : NULL;
    if (!neighbour || i + 1 >= argc) {
        fprintf(stderr, "usage: metamorphic [--seeds N] [--seed FIRST] [--only VARIANT] NEIGHBOUR FOLDER...\n");
        return 2;
    }
    for (i++; i < argc; i++) {
        struct recording *story = recording_read(argv[i]);
        char *name = g_path_get_basename(argv[i]);
        json_t *original;
        int status;

        if (!story || !story->entries->len) {
            g_free(name);
            if (story)
                recording_free(story);
            continue;
        }
        original = recording_report(story, &status);
        for (const struct variant *variant = variants; variant->name; variant++) {
            for (uint64_t seed = first; seed < first + seeds && (!only || !strcmp(only, variant->name)); seed++, tried++)
                failed += try_variant(name, variant, story, neighbour, original, seed);
        }
        json_decref(original);
        recording_free(story);
        g_free(name);
        fflush(stdout);
    }
    recording_free(neighbour);
    printf("%llu variants, %u wrong\n", (unsigned long long)tried, failed);
    return failed > 0;
}
