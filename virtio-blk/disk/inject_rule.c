#include "disk/inject_rule.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "disk/size.h"

/* A delay beyond a day is a typing error. */
#define DELAY_US_MAX (UINT64_C(86400) * 1000000)

static const struct {
    const char *name;
    unsigned op;
} op_names[] = {
    { "read", VBLK_INJECT_READ },
    { "write", VBLK_INJECT_WRITE },
    { "flush", VBLK_INJECT_FLUSH },
    { "discard", VBLK_INJECT_DISCARD },
    { "write-zeroes", VBLK_INJECT_WRITE_ZEROES },
};

/* What a disk may say. */
static const struct {
    const char *name;
    int error;
} error_names[] = {
    { "EIO", EIO },         { "ENOSPC", ENOSPC },   { "EDQUOT", EDQUOT },       { "EFBIG", EFBIG },
    { "ENOMEM", ENOMEM },   { "EROFS", EROFS },     { "EBADF", EBADF },         { "ENODEV", ENODEV },
    { "ETIMEDOUT", ETIMEDOUT }, { "ESHUTDOWN", ESHUTDOWN }, { "EOPNOTSUPP", EOPNOTSUPP },
};

static bool parse_ops(const char *text, unsigned *ops_out)
{
    char **names = g_strsplit(text, "+", 0);
    unsigned ops = 0;
    bool known = names[0] != NULL;

    for (char **name = names; *name && known; name++) {
        unsigned i = 0;

        while (i < G_N_ELEMENTS(op_names) && strcmp(*name, op_names[i].name) != 0)
            i++;
        known = i < G_N_ELEMENTS(op_names);
        if (known)
            ops |= op_names[i].op;
    }
    g_strfreev(names);
    if (known)
        *ops_out = ops;
    return known;
}

static bool parse_range(const char *text, struct vblk_inject_rule *rule)
{
    char **ends = g_strsplit(text, "+", 2);
    bool fits = ends[0] && ends[1] && vblk_size_parse(ends[0], &rule->first_bytes) &&
                vblk_size_parse(ends[1], &rule->range_bytes) && rule->range_bytes > 0 &&
                rule->range_bytes <= UINT64_MAX - rule->first_bytes;

    g_strfreev(ends);
    return fits;
}

static bool parse_percent(const char *text, double *percent_out)
{
    char *end;
    double percent = g_ascii_strtod(text, &end);

    if (end == text || *end != '\0' || !(percent >= 0 && percent <= 100))
        return false;
    *percent_out = percent;
    return true;
}

static bool parse_number(const char *text, uint64_t max, uint64_t *number_out)
{
    return g_ascii_string_to_unsigned(text, 10, 0, max, number_out, NULL);
}

static bool parse_error(const char *text, int *error_out)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(error_names); i++)
        if (strcmp(text, error_names[i].name) == 0) {
            *error_out = -error_names[i].error;
            return true;
        }
    return false;
}

/* NULL, or what the value has to be. */
static const char *set_key(struct vblk_inject_rules *rules, struct vblk_inject_rule *rule, const char *key,
                           const char *value)
{
    if (strcmp(key, "op") == 0)
        return parse_ops(value, &rule->ops) ? NULL : "must be read, write, flush, discard or write-zeroes, several with +";
    if (strcmp(key, "range") == 0)
        return parse_range(value, rule) ? NULL : "must be FIRST+SIZE in bytes, such as 1M+64K";
    if (strcmp(key, "percent") == 0)
        return parse_percent(value, &rule->percent) ? NULL : "must be 0 to 100";
    if (strcmp(key, "reorder") == 0)
        return parse_percent(value, &rule->reorder_percent) ? NULL : "must be 0 to 100 percent";
    if (strcmp(key, "error") == 0)
        return parse_percent(value, &rule->error_percent) ? NULL : "must be 0 to 100 percent (errno= says which)";
    if (strcmp(key, "errno") == 0)
        return parse_error(value, &rule->error) ? NULL : "must be the name of a disk's error, such as EIO or ENOSPC";
    if (strcmp(key, "delay-us") == 0)
        return parse_number(value, DELAY_US_MAX, &rule->delay_us) ? NULL : "must be microseconds, a day at most";
    if (strcmp(key, "skip") == 0)
        return parse_number(value, UINT64_MAX, &rule->skip) ? NULL : "must be a number";
    if (strcmp(key, "count") == 0)
        return parse_number(value, UINT64_MAX, &rule->count) ? NULL : "must be a number";
    if (strcmp(key, "seed") == 0)
        return parse_number(value, UINT64_MAX, &rules->seed) ? NULL : "must be a number";
    return "is not known; known are: op, range, percent, skip, count, delay-us, reorder, error, errno, seed";
}

static int parse_rule(struct vblk_inject_rules *rules, struct vblk_inject_rule *rule, const char *text,
                      char **message_out)
{
    char **keys = g_strsplit(text, ",", 0);
    int result = 0;

    *rule = (struct vblk_inject_rule){ .ops = ~0u, .percent = 100, .count = VBLK_INJECT_FOREVER, .error = -EIO };
    for (char **key = keys; *key && result == 0; key++) {
        char *equals = strchr(*key, '=');
        const char *wrong;

        if (!equals) {
            *message_out = g_strdup_printf("'%s' must be KEY=VALUE", *key);
            result = -EINVAL;
            break;
        }
        *equals = '\0';
        wrong = set_key(rules, rule, *key, equals + 1);
        if (wrong) {
            *message_out = g_strdup_printf("%s=%s %s", *key, equals + 1, wrong);
            result = -EINVAL;
        }
    }
    if (result == 0 && !keys[0]) {
        *message_out = g_strdup("an empty rule (say for example delay-us=100)");
        result = -EINVAL;
    }
    g_strfreev(keys);
    return result;
}

int vblk_inject_rules_parse(const char *text, struct vblk_inject_rules *rules_out, char **message_out)
{
    char **texts = g_strsplit(*text ? text : ";", ";", 0);
    struct vblk_inject_rules rules = { .seed = 1 };
    int result = 0;

    rules.rules = g_new0(struct vblk_inject_rule, g_strv_length(texts));
    for (char **rule = texts; *rule && result == 0; rule++)
        result = parse_rule(&rules, &rules.rules[rules.count++], *rule, message_out);
    g_strfreev(texts);
    if (result < 0)
        vblk_inject_rules_clear(&rules);
    else
        *rules_out = rules;
    return result;
}

void vblk_inject_rules_clear(struct vblk_inject_rules *rules)
{
    g_free(rules->rules);
    *rules = (struct vblk_inject_rules){ 0 };
}

bool vblk_inject_rule_takes(struct vblk_inject_rule *rule, enum vblk_inject_op op, uint64_t offset_bytes,
                            uint64_t size_bytes, double chance)
{
    uint64_t number;

    if (!(rule->ops & op))
        return false;
    /* A flush has no range: with size 0 it lies in none. */
    if (rule->range_bytes > 0 && !(offset_bytes < rule->first_bytes + rule->range_bytes &&
                                   rule->first_bytes < offset_bytes + size_bytes))
        return false;
    if (chance >= rule->percent)
        return false;
    if (rule->skip == 0 && rule->count == VBLK_INJECT_FOREVER)
        return true;
    number = atomic_fetch_add_explicit(&rule->seen, 1, memory_order_relaxed);
    return number >= rule->skip && number - rule->skip < rule->count;
}
