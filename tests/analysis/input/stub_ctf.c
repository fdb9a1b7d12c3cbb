/* Stands in for babeltrace2's plugin `ctf`: a source `fs` that misbehaves by the name of the folder it is given.
 * Found first through BABELTRACE_PLUGIN_PATH. A folder with none of the names has no stream. */
#include <babeltrace2/babeltrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say(const char *what)
{
    fprintf(stderr, "stub: %s\n", what);
    fflush(stderr);
}

static bt_component_class_initialize_method_status
initialize(bt_self_component_source *self, bt_self_component_source_configuration *configuration,
           const bt_value *params, void *data)
{
    const bt_value *inputs = bt_value_map_borrow_entry_value_const(params, "inputs");

    for (uint64_t i = 0; i < bt_value_array_get_length(inputs); i++) {
        const char *folder = bt_value_string_get(bt_value_array_borrow_element_by_index_const(inputs, i));

        if (strstr(folder, "/crash")) {
            say("crashing");
            abort();
        }
        if (strstr(folder, "/hang")) {
            say("hanging");
            for (;;)
                pause();
        }
        if (strstr(folder, "/endless"))
            bt_self_component_source_add_output_port(self, "out", NULL, NULL);
    }
    return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

static bt_message_iterator_class_next_method_status
next(bt_self_message_iterator *self, bt_message_array_const messages, uint64_t capacity, uint64_t *count)
{
    static int said;

    if (!said++)
        say("endless");
    return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_AGAIN;
}

BT_PLUGIN_MODULE();
BT_PLUGIN(ctf);
BT_PLUGIN_SOURCE_COMPONENT_CLASS(fs, next);
BT_PLUGIN_SOURCE_COMPONENT_CLASS_INITIALIZE_METHOD(fs, initialize);
