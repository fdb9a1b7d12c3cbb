#include "input/port_order.h"

#include <string.h>

#include "input/inputs.h"

/* source.ctf.fs names a port "TRACE | STREAM CLASS | STREAM", where a number may be missing, and a stream without one
 * is named by its file. */
#define SEPARATOR " | "

struct entry {
    struct merge_port port;
    const char *name;
    uint64_t weight; /* bytes */
};

struct port_order {
    const GPtrArray *expected;
    GArray *entries;
};

struct port_order *port_order_create(const GPtrArray *expected)
{
    struct port_order *order = g_new0(struct port_order, 1);

    order->expected = expected;
    order->entries = g_array_new(FALSE, TRUE, sizeof(struct entry));
    return order;
}

void port_order_destroy(struct port_order *order)
{
    g_array_unref(order->entries);
    g_free(order);
}

static bool is_behind(const struct input_trace *trace, const struct input_stream *stream, const char *class,
                      const char *instance)
{
    char *path, *number;
    bool found;

    if (instance[0] == '/' || !g_ascii_isdigit(instance[0])) {
        path = g_build_filename(trace->read_folder, stream->name, NULL);
        found = strcmp(path, instance) == 0;
        g_free(path);
        return found;
    }
    number = g_strdup_printf("%" G_GUINT64_FORMAT, stream->summary.stream_class_id);
    found = strcmp(number, class) == 0 &&
            stream->summary.stream_instance_id == g_ascii_strtoull(instance, NULL, 10);
    g_free(number);
    return found;
}

static uint64_t weigh(const struct port_order *order, const char *name, char *const *folders)
{
    char **parts = g_strsplit(name, SEPARATOR, -1);
    unsigned count = g_strv_length(parts);
    uint64_t bytes = 1;

    for (unsigned i = 0; count > 1 && order->expected && i < order->expected->len; i++) {
        const struct input_trace *trace = g_ptr_array_index(order->expected, i);

        if (!g_strv_contains((const char *const *)folders, trace->read_folder))
            continue;
        for (unsigned j = 0; j < trace->streams->len; j++) {
            const struct input_stream *stream = g_ptr_array_index(trace->streams, j);

            if (is_behind(trace, stream, parts[count - 2], parts[count - 1]))
                bytes += stream->summary.file_bytes;
        }
    }
    g_strfreev(parts);
    return bytes;
}

void port_order_add(struct port_order *order, const bt_port_output *port, unsigned source,
                    char *const *folders)
{
    const char *name = bt_port_get_name(bt_port_output_as_port_const(port));
    const struct entry entry = { .port = { .port = port, .source = source },
                                 .name = name,
                                 .weight = weigh(order, name, folders) };

    g_array_append_val(order->entries, entry);
}

/* As strcmp(), but numbers in it by their value: stream 10 comes after stream 9. */
static int compare_names(const char *a, const char *b)
{
    while (*a && *b) {
        if (g_ascii_isdigit(*a) && g_ascii_isdigit(*b)) {
            char *a_end, *b_end;
            uint64_t left = g_ascii_strtoull(a, &a_end, 10), right = g_ascii_strtoull(b, &b_end, 10);

            if (left != right)
                return left < right ? -1 : 1;
            a = a_end;
            b = b_end;
        } else if (*a != *b) {
            break;
        } else {
            a++;
            b++;
        }
    }
    return (unsigned char)*a - (unsigned char)*b;
}

static int by_place(gconstpointer a, gconstpointer b)
{
    const struct entry *left = a, *right = b;
    int by_name;

    if (left->port.source != right->port.source)
        return left->port.source < right->port.source ? -1 : 1;
    by_name = compare_names(left->name, right->name);
    return by_name ? by_name : strcmp(left->name, right->name);
}

static int by_weight(gconstpointer a, gconstpointer b)
{
    const struct entry *left = *(const struct entry *const *)a, *right = *(const struct entry *const *)b;

    if (left->weight != right->weight)
        return left->weight > right->weight ? -1 : 1;
    return left->port.rank < right->port.rank ? -1 : 1;
}

static int by_rank(gconstpointer a, gconstpointer b)
{
    const struct merge_port *left = a, *right = b;

    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

GArray *port_order_deal(struct port_order *order, unsigned index, unsigned count)
{
    GArray *mine = g_array_new(FALSE, TRUE, sizeof(struct merge_port));
    GPtrArray *heavy_first = g_ptr_array_new();
    uint64_t *loads = g_new0(uint64_t, count);

    g_array_sort(order->entries, by_place);
    for (unsigned i = 0; i < order->entries->len; i++) {
        struct entry *entry = &g_array_index(order->entries, struct entry, i);

        entry->port.rank = i;
        g_ptr_array_add(heavy_first, entry);
    }
    /* the heaviest left goes to who has least: at most a third worse than the best there is */
    g_ptr_array_sort(heavy_first, by_weight);
    for (unsigned i = 0; i < heavy_first->len; i++) {
        const struct entry *entry = g_ptr_array_index(heavy_first, i);
        unsigned least = 0;

        for (unsigned j = 1; j < count; j++)
            if (loads[j] < loads[least])
                least = j;
        loads[least] += entry->weight;
        if (least == index)
            g_array_append_val(mine, entry->port);
    }
    g_array_sort(mine, by_rank);
    g_ptr_array_unref(heavy_first);
    g_free(loads);
    return mine;
}
