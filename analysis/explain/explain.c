#include "explain/explain.h"

#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyze/limits.h"
#include "checks/registry.h"
#include "core/dialect.h"
#include "explain/texts.h"
#include "report/complain.h"
#include "report/terminal.h"

#define STATUS_FAILED 1
#define STATUS_USAGE 2
#define BOLD "\033[1m"
#define RESET "\033[0m"

struct page {
    GString *text;
    unsigned width;
    const char *bold, *reset;
};

/* The name in the {NAME} at @at, or NULL. */
static char *limit_name_at(const char *at)
{
    const char *end = *at == '{' ? strchr(at, '}') : NULL;

    return end ? g_strndup(at + 1, (gsize)(end - at - 1)) : NULL;
}

char *explain_limits(const char *text)
{
    GString *out = g_string_new(NULL);
    struct analysis_options defaults;

    analysis_options_init(&defaults);
    for (const char *at = text; *at; at++) {
        char *name = limit_name_at(at);
        char *value = name ? limits_text(&defaults, name) : NULL;

        if (value) {
            g_string_append(out, value);
            at += strlen(name) + 1;
        } else {
            g_string_append_c(out, *at);
        }
        g_free(name);
        g_free(value);
    }
    return g_string_free(out, FALSE);
}

static void write_section(struct page *page, const char *heading, const char *text)
{
    char *said;

    if (!text)
        return;
    said = explain_limits(text);
    g_string_append_printf(page->text, "\n%s%s%s\n  ", page->bold, heading, page->reset);
    wrap_text(page->text, said, 2, 2, page->width);
    g_free(said);
}

static bool names_limit(const struct explanation *explanation, const char *name)
{
    const char *const texts[] = { explanation->severity, explanation->decided, explanation->silent,
                                  explanation->unsure };
    char *mark = g_strdup_printf("{%s}", name);
    bool found = false;

    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++)
        found |= strstr(texts[i], mark) != NULL;
    g_free(mark);
    return found;
}

static void write_limits(struct page *page, const struct explanation *explanation)
{
    struct analysis_options defaults;
    const char *name;
    bool any = false;

    analysis_options_init(&defaults);
    for (unsigned i = 0; (name = limits_name(i)); i++) {
        char *value, *option;

        if (!names_limit(explanation, name))
            continue;
        if (!any)
            g_string_append_printf(page->text, "\n%sLimits (options of vblkscope analyze)%s\n", page->bold, page->reset);
        any = true;
        value = limits_text(&defaults, name);
        option = g_strdup_printf("--%s=%s", name, value);
        g_string_append_printf(page->text, "  %-26s ", option);
        wrap_text(page->text, limits_meaning(i), 29, (unsigned)MAX(strlen(option), 26) + 3, page->width);
        g_free(option);
        g_free(value);
    }
}

/* NULL: no check has that id. */
static const struct check_class *check_of(const char *id)
{
    for (unsigned i = 0; check_registry[i]; i++)
        for (unsigned j = 0; j < CHECK_IDS_MAX && check_registry[i]->ids[j]; j++)
            if (strcmp(check_registry[i]->ids[j], id) == 0)
                return check_registry[i];
    return NULL;
}

static void write_sets(struct page *page, const struct check_class *check, const struct explanation *explanation)
{
    GString *sets = g_string_new(check->needs_nothing ? "none" : event_set_names[SET_CORE]);

    for (unsigned set = SET_CORE + 1; set < SET_COUNT; set++)
        if (check->needs & NEEDS(set))
            g_string_append_printf(sets, ", %s", event_set_names[set]);
    g_string_append_c(sets, '.');
    if (explanation->helps)
        g_string_append_printf(sets, " More is told with %s", explanation->helps);
    write_section(page, "Sets of events that must be recorded", sets->str);
    g_string_free(sets, TRUE);
}

static void write_dialect(struct page *page, const char *id)
{
    const char *source = dialect_qemu.source(id);
    char *text = source ? g_strdup_printf("Decided from %s.", source)
                        : g_strdup_printf("Not decided: what it needs is not recorded by %s.", dialect_qemu.name);

    write_section(page, "In a trace of QEMU", text);
    g_free(text);
}

char *explain_text(const char *id, unsigned width, bool colours)
{
    const struct explanation *explanation = explanation_find(id);
    const struct check_class *check = check_of(id);
    struct page page = {
        .text = g_string_new(NULL),
        .width = width,
        .bold = colours ? BOLD : "",
        .reset = colours ? RESET : "",
    };
    char *severity;

    if (!explanation || !check) {
        g_string_free(page.text, TRUE);
        return NULL;
    }
    severity = explain_limits(explanation->severity);
    g_string_append_printf(page.text, "%s%s%s (%s): ", page.bold, id, page.reset, severity);
    wrap_text(page.text, explanation->means, 2, (unsigned)(strlen(id) + strlen(severity) + 5), width);
    write_section(&page, "What one sees of it", explanation->effect);
    write_section(&page, "How it is decided", explanation->decided);
    write_section(&page, "What looks alike and is not reported", explanation->silent);
    write_section(&page, "It cannot be told when", explanation->unsure);
    write_section(&page, "Causes that are told apart", explanation->causes);
    write_sets(&page, check, explanation);
    write_limits(&page, explanation);
    write_dialect(&page, id);
    write_section(&page, "What to do", explanation->advice);
    g_free(severity);
    return g_string_free(page.text, FALSE);
}

static char *list_text(unsigned width)
{
    GString *text = g_string_new(NULL);

    for (const char *const *id = analysis_check_ids(); *id; id++) {
        const struct explanation *explanation = explanation_find(*id);

        if (!explanation)
            continue; /* a test sees to it that there is one */
        g_string_append_printf(text, "%-22s %-8.*s ", *id, (int)strcspn(explanation->severity, ";"), explanation->severity);
        wrap_text(text, explanation->means, 32, 32, width);
    }
    g_string_append(text, "\nvblkscope explain ID says how a finding is decided and what to do.\n");
    return g_string_free(text, FALSE);
}

static int print(char **ids)
{
    const unsigned width = terminal_width(STDOUT_FILENO);
    const bool colours = terminal_colours(STDOUT_FILENO);
    GString *text = g_string_new(NULL);
    bool written;

    for (char **id = ids; id && *id; id++) {
        char *one = explain_text(*id, width, colours);

        if (!one) {
            g_string_free(text, TRUE);
            return complain(STATUS_USAGE, "%s: there is no such finding (vblkscope explain lists them)", *id);
        }
        g_string_append_printf(text, "%s%s", id == ids ? "" : "\n\n", one);
        g_free(one);
    }
    if (!ids) {
        char *list = list_text(width);

        g_string_append(text, list);
        g_free(list);
    }
    written = fputs(text->str, stdout) >= 0 && fflush(stdout) == 0;
    g_string_free(text, TRUE);
    return written ? 0 : complain(STATUS_FAILED, "standard output: cannot be written: %s", g_strerror(errno));
}

int vblkscope_explain_main(int argc, char **argv)
{
    char **ids = NULL;
    const GOptionEntry entries[] = {
        { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_STRING_ARRAY, &ids, NULL, "[ID...]" },
        { NULL },
    };
    GOptionContext *context = g_option_context_new(NULL);
    GError *error = NULL;
    int status;

    g_option_context_set_summary(context, "Says what a finding means, how it is decided, what looks alike, which events it needs, and what to do.\n"
                                          "Without ID: lists all findings.");
    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, &argc, &argv, &error)) {
        status = complain(STATUS_USAGE, "%s (see vblkscope explain --help)", error->message);
        g_error_free(error);
    } else {
        status = print(ids);
    }
    g_option_context_free(context);
    g_strfreev(ids);
    return status;
}
