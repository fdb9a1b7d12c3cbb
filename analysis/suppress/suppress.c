#include "suppress/suppress.h"

#include <fnmatch.h>
#include <glib.h>
#include <inttypes.h>
#include <string.h>

#include "core/analysis.h"

struct condition {
    char *key, *pattern;
};

struct rule {
    char *file, *text, *id, *reason;
    unsigned line;
    GArray *conditions; /* struct condition */
    GDate until;        /* invalid: holds for ever */
};

struct suppressions {
    GPtrArray *rules;
};

/* What a rule may ask for: a mistyped key would silently match nothing, and so is refused. */
static const char *const keys[] = {
    "loop",      "loop_id",    "owner_loop_id", "thread",       "thread_id", "giving_thread_id", "fd",    "handler_id",
    "device",    "device_id",  "queue_index",   "lock_id",      "class_name", "request_id",      "head",  "stage",
    "coroutine_id", "process", "pid",           "host",         "cause",     NULL,
};

static void condition_clear(void *data)
{
    struct condition *condition = data;

    g_free(condition->key);
    g_free(condition->pattern);
}

static void rule_free(void *data)
{
    struct rule *rule = data;

    g_free(rule->file);
    g_free(rule->text);
    g_free(rule->id);
    g_free(rule->reason);
    g_array_unref(rule->conditions);
    g_free(rule);
}

struct suppressions *suppressions_create(void)
{
    struct suppressions *known = g_new0(struct suppressions, 1);

    known->rules = g_ptr_array_new_with_free_func(rule_free);
    return known;
}

void suppressions_destroy(struct suppressions *known)
{
    if (!known)
        return;
    g_ptr_array_unref(known->rules);
    g_free(known);
}

/* --- reading ------------------------------------------------------------------------------------------- */

/* The next word at *@at, without its quotes; NULL at the end of the line or at a comment. */
static char *next_word(const char **at, char **why_out)
{
    GString *word;
    const char *p = *at;

    while (g_ascii_isspace(*p))
        p++;
    *at = p;
    if (!*p || *p == '#')
        return NULL;
    word = g_string_new(NULL);
    for (char quote = 0; *p && (quote || !g_ascii_isspace(*p)); p++) {
        if (*p == quote)
            quote = 0;
        else if (!quote && (*p == '"' || *p == '\''))
            quote = *p;
        else
            g_string_append_c(word, *p);
        if (quote && !p[1])
            *why_out = g_strdup("a quotation mark is missing");
    }
    *at = p;
    return g_string_free(word, FALSE);
}

static char *take_id(struct rule *rule, char *id)
{
    const char *const *known = analysis_check_ids();
    char *all, *why;

    rule->id = id;
    for (const char *const *one = known; *one; one++)
        if (fnmatch(id, *one, 0) == 0)
            return NULL;
    all = g_strjoinv(", ", (char **)known);
    why = g_strdup_printf("there is no finding '%s' (there are: %s)", id, all);
    g_free(all);
    return why;
}

static char *take_until(struct rule *rule, const char *text)
{
    unsigned year, month, day;
    int end = 0;

    if (sscanf(text, "%4u-%2u-%2u%n", &year, &month, &day, &end) != 3 || text[end] ||
        !g_date_valid_dmy((GDateDay)day, (GDateMonth)month, (GDateYear)year))
        return g_strdup_printf("'%s' is not a day (write until=2027-03-31)", text);
    g_date_set_dmy(&rule->until, (GDateDay)day, (GDateMonth)month, (GDateYear)year);
    return NULL;
}

static char *take_condition(struct rule *rule, const char *word)
{
    const char *equals = strchr(word, '=');
    struct condition condition;

    if (!equals)
        return g_strdup_printf("'%s' is not KEY=VALUE", word);
    condition.key = g_strndup(word, (gsize)(equals - word));
    condition.pattern = g_strdup(equals + 1);
    if (strcmp(condition.key, "until") == 0) {
        char *why = take_until(rule, condition.pattern);

        condition_clear(&condition);
        return why;
    }
    if (!g_strv_contains(keys, condition.key)) {
        char *all = g_strjoinv(", ", (char **)keys);
        char *why = g_strdup_printf("there is no key '%s' (there are: %s, until)", condition.key, all);

        g_free(all);
        condition_clear(&condition);
        return why;
    }
    g_array_append_val(rule->conditions, condition);
    return NULL;
}

static char *parse_line(struct rule *rule, const char *line)
{
    char *why = NULL, *word = next_word(&line, &why);

    if (!why)
        why = take_id(rule, word);
    else
        g_free(word);
    while (!why && (word = next_word(&line, &why))) {
        if (!why)
            why = take_condition(rule, word);
        g_free(word);
    }
    if (!why && *line == '#')
        rule->reason = g_strstrip(g_strdup(line + 1));
    return why;
}

/* The rule as written, without its reason. */
static char *rule_text(const struct rule *rule)
{
    GString *text = g_string_new(rule->id);

    for (unsigned i = 0; i < rule->conditions->len; i++) {
        const struct condition *condition = &g_array_index(rule->conditions, struct condition, i);

        g_string_append_printf(text, strpbrk(condition->pattern, " \t#") ? " %s=\"%s\"" : " %s=%s", condition->key,
                               condition->pattern);
    }
    if (g_date_valid(&rule->until))
        g_string_append_printf(text, " until=%04u-%02u-%02u", g_date_get_year(&rule->until),
                               g_date_get_month(&rule->until), g_date_get_day(&rule->until));
    return g_string_free(text, FALSE);
}

char *suppressions_parse(struct suppressions *known, const char *name, const char *text)
{
    char **lines = g_strsplit(text, "\n", -1);
    char *why = NULL;

    for (unsigned i = 0; lines[i] && !why; i++) {
        const char *line = g_strchomp(lines[i]);
        struct rule *rule;

        while (g_ascii_isspace(*line))
            line++;
        if (!*line || *line == '#')
            continue;
        rule = g_new0(struct rule, 1);
        rule->file = g_strdup(name);
        rule->line = i + 1;
        rule->conditions = g_array_new(FALSE, TRUE, sizeof(struct condition));
        g_array_set_clear_func(rule->conditions, condition_clear);
        g_date_clear(&rule->until, 1);
        if (g_utf8_validate(line, -1, NULL))
            why = parse_line(rule, line);
        else
            why = g_strdup("is not UTF-8");
        if (why) {
            char *where = g_strdup_printf("%s:%u: %s", name, rule->line, why);

            g_free(why);
            why = where;
            rule_free(rule);
        } else {
            rule->text = rule_text(rule);
            g_ptr_array_add(known->rules, rule);
        }
    }
    g_strfreev(lines);
    return why;
}

char *suppressions_read(struct suppressions *known, const char *path)
{
    GError *error = NULL;
    gsize size_bytes;
    char *text, *why;

    if (!g_file_get_contents(path, &text, &size_bytes, &error)) {
        why = g_strdup_printf("%s (give a file of known findings)", error->message);
        g_error_free(error);
        return why;
    }
    if (strlen(text) != size_bytes)
        why = g_strdup_printf("%s: is not text", path);
    else
        why = suppressions_parse(known, path, text);
    g_free(text);
    return why;
}

/* --- applying ------------------------------------------------------------------------------------------ */

/* What the finding has under @key; NULL: nothing, not even null. The caller frees it. */
static char *value_of(const json_t *finding, const char *key)
{
    const json_t *subject = json_object_get(finding, "subject"), *process = json_object_get(subject, "process");
    const json_t *value = strcmp(key, "cause") == 0     ? json_object_get(finding, "cause")
                          : strcmp(key, "process") == 0 ? json_object_get(process, "name")
                          : strcmp(key, "pid") == 0 || strcmp(key, "host") == 0
                              ? json_object_get(process, key)
                              : json_object_get(subject, key);

    if (json_is_string(value))
        return g_strdup(json_string_value(value));
    if (json_is_integer(value))
        return g_strdup_printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
    return json_is_null(value) ? g_strdup("") : NULL;
}

static bool matches(const struct rule *rule, const json_t *finding)
{
    const char *id = json_string_value(json_object_get(finding, "id"));
    bool all = id && fnmatch(rule->id, id, 0) == 0;

    for (unsigned i = 0; all && i < rule->conditions->len; i++) {
        const struct condition *condition = &g_array_index(rule->conditions, struct condition, i);
        char *value = value_of(finding, condition->key);

        all = value && fnmatch(condition->pattern, value, 0) == 0;
        g_free(value);
    }
    return all;
}

static bool has_expired(const struct rule *rule, const GDate *today)
{
    return g_date_valid(&rule->until) && g_date_compare(&rule->until, today) < 0;
}

static json_t *rule_json(const struct rule *rule)
{
    json_t *file = json_string(rule->file);

    /* a file name need not be UTF-8 */
    return json_pack("{s:o, s:i, s:s, s:s?}", "file", file ? file : json_null(), "line", (int)rule->line, "rule", rule->text,
                     "reason", rule->reason);
}

/* The first rule that holds and matches; all that match are marked as used. */
static const struct rule *rule_for(const struct suppressions *known, const json_t *finding, const GDate *today, bool *used)
{
    const struct rule *first = NULL;

    for (unsigned i = 0; i < known->rules->len; i++) {
        const struct rule *rule = g_ptr_array_index(known->rules, i);

        if (has_expired(rule, today) || !matches(rule, finding))
            continue;
        used[i] = true;
        if (!first)
            first = rule;
    }
    return first;
}

void suppressions_apply(const struct suppressions *known, json_t *report, int64_t now_us)
{
    json_t *kept = json_array(), *suppressed = json_array(), *unused = json_array(), *expired = json_array();
    GDateTime *now = g_date_time_new_from_unix_utc(now_us / G_USEC_PER_SEC);
    bool *used = g_new0(bool, known->rules->len + 1);
    GDate today;
    json_t *finding;
    size_t index;

    g_date_clear(&today, 1);
    g_date_set_dmy(&today, (GDateDay)g_date_time_get_day_of_month(now), (GDateMonth)g_date_time_get_month(now),
                   (GDateYear)g_date_time_get_year(now));
    g_date_time_unref(now);
    json_array_foreach (json_object_get(report, "findings"), index, finding) {
        const struct rule *rule = rule_for(known, finding, &today, used);

        if (rule)
            json_object_set_new(finding, "suppressed_by", rule_json(rule));
        json_array_append(rule ? suppressed : kept, finding);
    }
    for (unsigned i = 0; i < known->rules->len; i++) {
        const struct rule *rule = g_ptr_array_index(known->rules, i);

        if (has_expired(rule, &today))
            json_array_append_new(expired, rule_json(rule));
        else if (!used[i])
            json_array_append_new(unused, rule_json(rule));
    }
    g_free(used);
    json_object_set_new(report, "findings", kept);
    json_object_set_new(report, "suppressed", suppressed);
    json_object_set_new(report, "suppression_rules", json_pack("{s:o, s:o}", "unused", unused, "expired", expired));
}
