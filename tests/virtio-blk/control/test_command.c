/*
 * Goal:   requests are understood as the schema says, and whatever is none is answered with one line that tells why.
 * Method: the table is compared with schema.json and the manuals, command by command and argument by argument; each argument is left out
 *         and given every wrong type; lines of rubbish, among them one that would overflow a stack if it were parsed.
 * If it fails: a client that follows the documentation is refused, or one that does not ends the process.
 */
#include <glib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "control/command.h"
#include "control/internal.h"

static json_t *schema;

static int load_schema(void **state)
{
    json_error_t error;

    (void)state;
    schema = json_load_file(SCHEMA, 0, &error);
    if (!schema)
        print_error("%s:%d: %s\n", SCHEMA, error.line, error.text);
    return schema ? 0 : -1;
}

static int drop_schema(void **state)
{
    (void)state;
    json_decref(schema);
    return 0;
}

static const json_t *definition(const char *kind, const char *command)
{
    return json_object_get(json_object_get(json_object_get(schema, "$defs"), kind), command);
}

static bool contains(const json_t *array, const char *text)
{
    const json_t *value;
    size_t i;

    json_array_foreach (array, i, value)
        if (strcmp(json_string_value(value), text) == 0)
            return true;
    return false;
}

static void test_schema_is_the_table(void **state)
{
    const struct vblk_command *command;
    unsigned count;

    (void)state;
    for (count = 0; (command = vblk_command_at(count)); count++) {
        const json_t *documented = definition("arguments", command->name);
        struct vblk_argument argument;
        unsigned arguments;

        if (!documented || !definition("return", command->name))
            fail_msg("%s: is not in schema.json", command->name);
        for (arguments = 0; vblk_command_argument_at(command, arguments, &argument); arguments++) {
            const json_t *property = json_object_get(json_object_get(documented, "properties"), argument.name);
            const char *text = json_string_value(json_object_get(property, "description"));

            if (!property || strcmp(json_string_value(json_object_get(property, "type")),
                                    vblk_argument_type_name(argument.type)) != 0)
                fail_msg("%s, %s: schema.json has another type", command->name, argument.name);
            if (contains(json_object_get(documented, "required"), argument.name) != argument.required)
                fail_msg("%s, %s: required in one place only", command->name, argument.name);
            if (!text || strcmp(text, argument.text) != 0)
                fail_msg("%s, %s: described as '%s' and '%s'", command->name, argument.name, text, argument.text);
            if (argument.type == VBLK_ARGUMENT_INTEGER) {
                const json_t *maximum = json_object_get(property, "maximum");

                assert_int_equal(json_integer_value(json_object_get(property, "minimum")), argument.min);
                assert_int_equal(maximum ? json_integer_value(maximum) : INT64_MAX, argument.max);
            }
        }
        assert_int_equal(json_object_size(json_object_get(documented, "properties")), arguments);
    }
    assert_int_equal(json_object_size(json_object_get(json_object_get(schema, "$defs"), "arguments")), count);
    assert_int_equal(json_object_size(json_object_get(json_object_get(schema, "$defs"), "return")), count);
}

/* A manual's text as it is read: the source without what marks dashes and fonts. */
static char *read_manual(const char *path)
{
    char *text;
    char **parts;

    if (!g_file_get_contents(path, &text, NULL, NULL))
        fail_msg("%s: cannot be read", path);
    parts = g_strsplit(text, "\\-", -1);
    g_free(text);
    text = g_strjoinv("-", parts);
    g_strfreev(parts);
    return text;
}

/* ".TP" and then ".B NAME" or ".BR NAME ..."; the whole line, or NULL. */
static char *heading_of(const char *manual, const char *name)
{
    for (const char *at = strstr(manual, ".TP\n"); at; at = strstr(at + 1, ".TP\n")) {
        const char *line = at + strlen(".TP\n"), *word = strchr(line, ' ');

        if (word && g_str_has_prefix(word + 1, name) && strchr(" \n", word[1 + strlen(name)]))
            return g_strndup(line, strcspn(line, "\n"));
    }
    return NULL;
}

static void test_manuals_are_the_table(void **state)
{
    char *manual = read_manual(MANUAL), *client = read_manual(CLIENT_MANUAL);
    const struct vblk_command *command;

    (void)state;
    for (unsigned i = 0; (command = vblk_command_at(i)); i++) {
        char *heading = heading_of(manual, command->name);
        struct vblk_argument argument;

        if (!heading)
            fail_msg("%s: %s is not in it", MANUAL, command->name);
        for (unsigned j = 0; vblk_command_argument_at(command, j, &argument); j++)
            if ((argument.required || !command->takes_disk_keys) && !strstr(heading, argument.name))
                fail_msg("%s: %s without its argument %s", MANUAL, command->name, argument.name);
        g_free(heading);
        if (!strstr(client, command->name))
            fail_msg("%s: %s is not in it", CLIENT_MANUAL, command->name);
    }
    g_free(manual);
    g_free(client);
}

static json_t *good_value(const struct vblk_argument *argument)
{
    return argument->type == VBLK_ARGUMENT_STRING    ? json_string("text")
           : argument->type == VBLK_ARGUMENT_INTEGER ? json_integer(argument->max)
                                                     : json_true();
}

static void refused(const struct vblk_command *command, json_t *arguments, const char *words)
{
    char *why = vblk_command_check(command, arguments);

    if (!why || !strstr(why, words))
        fail_msg("%s: '%s' instead of '%s'", command->name, why, words);
    g_free(why);
}

static void test_arguments(void **state)
{
    const struct vblk_command *command;

    (void)state;
    for (unsigned i = 0; (command = vblk_command_at(i)); i++) {
        json_t *good = json_object();
        struct vblk_argument argument;

        for (unsigned j = 0; vblk_command_argument_at(command, j, &argument); j++)
            json_object_set_new(good, argument.name, good_value(&argument));
        assert_null(vblk_command_check(command, good));
        for (unsigned j = 0; vblk_command_argument_at(command, j, &argument); j++) {
            json_t *values[] = { json_string("x"), json_integer(1), json_true(), json_real(1.5), json_null(), json_array() };

            for (unsigned k = 0; k < G_N_ELEMENTS(values); k++) {
                json_object_set_new(good, argument.name, values[k]);
                if (k != argument.type)
                    refused(command, good, argument.name);
            }
            if (argument.type == VBLK_ARGUMENT_INTEGER) {
                json_object_set_new(good, argument.name, json_integer(argument.min - 1));
                refused(command, good, argument.name);
            }
            json_object_del(good, argument.name);
            if (argument.required)
                refused(command, good, argument.name);
            else
                assert_null(vblk_command_check(command, good));
            json_object_set_new(good, argument.name, good_value(&argument));
        }
        json_object_set_new(good, "no-such", json_true());
        refused(command, good, vblk_command_argument_at(command, 0, &argument) ? "no-such" : "takes no arguments");
        json_decref(good);
    }
}

static char *ask(const char *line, size_t length)
{
    struct vblk_control control = { .options = { .version = "1", .faults = "", .request_lock = "sharded" } };
    char *answer;

    control.options.devices = vblk_devices_create(&(struct vblk_devices_options){ 0 });
    answer = vblk_command_line_co(&control, line, length);
    vblk_devices_destroy_co(control.options.devices);
    assert_non_null(answer);
    assert_ptr_equal(strchr(answer, '\n'), answer + strlen(answer) - 1);
    return answer;
}

static void test_lines(void **state)
{
    static const struct {
        const char *line, *answer;
    } cases[] = {
        { "{\"command\": \"queues\"}", "{\"return\":{\"queues\":[]}}\n" },
        { "{\"command\": \"queues\", \"id\": 7}", "{\"return\":{\"queues\":[]},\"id\":7}\n" },
        { "{\"command\": \"queues\", \"arguments\": {}, \"id\": \"a\"}\r", "{\"return\":{\"queues\":[]},\"id\":\"a\"}\n" },
        { "{\"command\": \"requests\", \"arguments\": {\"limit\": 0}, \"id\": 1}", "limit: must be 1 to 10000\"},\"id\":1}" },
        { "{\"command\": \"drain\"}", "there is no disk (add-disk makes one)" },
        { "{\"command\": \"drain\", \"arguments\": {\"device\": \"d\"}}", "d: there is no disk" },
        { "{\"command\": \"nonsense\"}", "there is no command 'nonsense'; there are: commands, status" },
        { "{\"command\": 5}", "needs \\\"command\\\"" },
        { "{}", "needs \\\"command\\\"" },
        { "{\"command\": \"status\", \"argument\": {}}", "a request has no 'argument'" },
        { "{\"command\": \"status\", \"arguments\": []}", "must be an object" },
        { "{\"command\": \"status\", \"id\": {}}", "\\\"id\\\" must be" },
        { "{\"command\": \"status\"", "is no JSON object" },
        { "{\"command\": \"status\"} x", "is no JSON object" },
        { "{\"command\": \"status\", \"command\": \"stats\"}", "is no JSON object" },
        { "[1, 2]", "is no JSON object" },
        { "5", "is no JSON object" },
        { "rubbish", "is no JSON object" },
        { "\xff\xfe{", "is no JSON object" },
        { "{\"command\": \"a\\u0000b\"}", "is no JSON object" },
        { "[[[[[[[[[", "nests too deeply" },
        { "{\"command\": \"]]][[[[[[[[[[\\\"[[[[\"}", "there is no command" },
    };

    (void)state;
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        char *answer = ask(cases[i].line, strlen(cases[i].line));

        if (!strstr(answer, cases[i].answer))
            fail_msg("%s: answered %s", cases[i].line, answer);
        g_free(answer);
    }
}

static void test_deep_lines(void **state)
{
    char *line = g_malloc(VBLK_LINE_MAX), *answer;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        memset(line, "[{"[i], VBLK_LINE_MAX);
        answer = ask(line, VBLK_LINE_MAX);
        assert_non_null(strstr(answer, "nests too deeply"));
        g_free(answer);
    }
    g_free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema_is_the_table),
        cmocka_unit_test(test_manuals_are_the_table),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_deep_lines),
    };

    return cmocka_run_group_tests(tests, load_schema, drop_schema);
}
