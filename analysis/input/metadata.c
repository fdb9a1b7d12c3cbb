#include "input/metadata.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define METADATA_MAGIC 0x75D11D57u
#define METADATA_BYTES_MAX                                                                                   \
    (256u << 20) /* a few hundred bytes an event class: a thousand times what is usual */
#define RECORD_AGAIN "(record again, or use a backup copy of the file)"

/* Fixed by CTF 1.8, 7.1: magic, UUID, checksum, content size, packet size, then five bytes. */
struct metadata_packet_header {
    uint32_t magic;
    uint8_t uuid[16];
    uint32_t checksum;
    uint32_t content_size_bits;
    uint32_t packet_size_bits;
    uint8_t compression, encryption, checksum_scheme, major, minor;
} __attribute__((packed));

static bool append_packet(GString *text, const uint8_t *bytes, size_t left, size_t *size_bytes_out, bool swap,
                          const char **why_out)
{
    struct metadata_packet_header header;
    size_t content_bytes, packet_bytes;

    *why_out = "is cut short inside a packet";
    if (left < sizeof(header))
        return false;
    memcpy(&header, bytes, sizeof(header));
    content_bytes = (swap ? GUINT32_SWAP_LE_BE(header.content_size_bits) : header.content_size_bits) / 8;
    packet_bytes = (swap ? GUINT32_SWAP_LE_BE(header.packet_size_bits) : header.packet_size_bits) / 8;
    if ((swap ? GUINT32_SWAP_LE_BE(header.magic) : header.magic) != METADATA_MAGIC ||
        content_bytes < sizeof(header) || content_bytes > packet_bytes) {
        *why_out = "has a damaged packet header";
        return false;
    }
    if (header.compression || header.encryption || header.checksum_scheme) {
        *why_out = "is compressed, encrypted or checksummed, which no known tracer does";
        return false;
    }
    if (packet_bytes > left)
        return false;
    g_string_append_len(text, (const char *)bytes + sizeof(header), content_bytes - sizeof(header));
    *size_bytes_out = packet_bytes;
    return true;
}

static char *unpack(GString *text, const uint8_t *bytes, size_t size_bytes)
{
    uint32_t magic = 0;

    if (size_bytes >= sizeof(magic))
        memcpy(&magic, bytes, sizeof(magic));
    if (magic != METADATA_MAGIC && magic != GUINT32_SWAP_LE_BE(METADATA_MAGIC)) {
        g_string_append_len(text, (const char *)bytes, size_bytes);
        return NULL;
    }
    for (size_t offset = 0, packet_bytes; offset < size_bytes; offset += packet_bytes) {
        const char *why;

        if (!append_packet(text, bytes + offset, size_bytes - offset, &packet_bytes, magic != METADATA_MAGIC,
                           &why))
            return g_strdup_printf("metadata %s, which begins at byte %zu of %zu " RECORD_AGAIN, why, offset,
                                   size_bytes);
    }
    return NULL;
}

static GMatchInfo *search(const char *pattern, const GString *text)
{
    GRegex *regex = g_regex_new(pattern, G_REGEX_RAW | G_REGEX_OPTIMIZE, 0, NULL);
    GMatchInfo *match;

    g_assert(regex);
    (void)g_regex_match_full(regex, text->str, text->len, 0, 0, &match, NULL);
    g_regex_unref(regex); /* the match keeps its own reference */
    return match;
}

/* The first group of the first match, or NULL. */
static char *find(const char *pattern, const GString *text)
{
    GMatchInfo *match = search(pattern, text);
    char *found = g_match_info_matches(match) ? g_match_info_fetch(match, 1) : NULL;

    g_match_info_free(match);
    return found;
}

static void blank_comments(GString *text)
{
    for (char *at = text->str; (at = strstr(at, "/*"));) {
        char *end = strstr(at + 2, "*/");

        end = end ? end + 2 : text->str + text->len;
        memset(at, ' ', end - at);
        at = end;
    }
}

static bool read_uuid(struct metadata *metadata, const GString *text)
{
    char *digits = find("\\btrace\\s*\\{[^{}]*?\\buuid\\s*=\\s*\"([0-9a-fA-F-]{36})\"", text);
    unsigned count = 0;

    for (const char *at = digits; at && *at && count < 32; at++) {
        if (*at == '-')
            continue;
        metadata->uuid[count / 2] = metadata->uuid[count / 2] << 4 | g_ascii_xdigit_value(*at);
        count++;
    }
    g_free(digits);
    return count == 32;
}

static void read_declared(struct metadata *metadata, const GString *text)
{
    GMatchInfo *match = search("\\bevent\\s*\\{[^{}\"]*?\\bname\\s*=\\s*\"([^\"]*)\"", text);

    for (; g_match_info_matches(match); (void)g_match_info_next(match, NULL)) {
        char *name = g_match_info_fetch(match, 1);
        int id = event_id_by_name(name);

        if (id >= 0)
            metadata->declared[id] = true;
        g_free(name);
    }
    g_match_info_free(match);
}

/* name -> size << 16 | alignment, both in bits */
static GHashTable *read_integer_types(const GString *text)
{
    GHashTable *types = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    GMatchInfo *match =
        search("\\btypealias\\s+integer\\s*\\{([^{}]*)\\}\\s*:=\\s*(\\w+(?:[ \\t]+\\w+)*)\\s*;", text);

    for (; g_match_info_matches(match); (void)g_match_info_next(match, NULL)) {
        char *attributes = g_match_info_fetch(match, 1);
        GString *body = g_string_new(attributes);
        char *size = find("\\bsize\\s*=\\s*(\\d{1,3})\\b", body);
        char *align = find("\\balign\\s*=\\s*(\\d{1,3})\\b", body);
        char *order = find("\\bbyte_order\\s*=\\s*(\\w+)", body); /* its own order: left to babeltrace2 */
        unsigned size_bits = size ? atoi(size) : 0, align_bits = align ? atoi(align) : 1;

        if (!order)
            g_hash_table_replace(types, g_match_info_fetch(match, 2),
                                 GUINT_TO_POINTER(size_bits << 16 | align_bits));
        g_string_free(body, TRUE);
        g_free(attributes);
        g_free(size);
        g_free(align);
        g_free(order);
    }
    g_match_info_free(match);
    return types;
}

static const char *const packet_field_names[PACKET_FIELD_COUNT] = {
    [PACKET_MAGIC] = "magic",
    [PACKET_UUID] = "uuid",
    [PACKET_STREAM_ID] = "stream_id",
    [PACKET_TIMESTAMP_BEGIN] = "timestamp_begin",
    [PACKET_TIMESTAMP_END] = "timestamp_end",
    [PACKET_CONTENT_SIZE] = "content_size",
    [PACKET_PACKET_SIZE] = "packet_size",
    [PACKET_CPU_ID] = "cpu_id",
    [PACKET_NUMBER] = "packet_seq_num",
    [PACKET_STREAM_INSTANCE_ID] = "stream_instance_id",
};

static unsigned align_up(unsigned value, unsigned align)
{
    return (value + align - 1) / align * align;
}

/* Lay a structure of whole-byte integers out behind what is there already; false for anything else. */
static bool add_struct(struct packet_layout *layout, GHashTable *types, const char *body)
{
    char **lines = g_strsplit(body, ";", -1);
    unsigned align_max = 8, bits = 0;
    bool good = true;

    /* Two rounds: the structure begins where its widest member may. */
    for (int round = 0; round < 2; round++) {
        bits = align_up(layout->header_bytes * 8, align_max);
        for (char **line = lines; *line && good; line++) {
            GString *declaration = g_string_new(g_strstrip(*line));
            GMatchInfo *match =
                search("^(\\w+(?:[ \\t]+\\w+)*?)\\s+(\\w+)\\s*(?:\\[\\s*(\\d{1,4})\\s*\\])?$", declaration);

            if (g_match_info_matches(match)) {
                char *type = g_match_info_fetch(match, 1), *name = g_match_info_fetch(match, 2);
                char *count = g_match_info_fetch(match, 3);
                unsigned known = GPOINTER_TO_UINT(g_hash_table_lookup(types, type));
                unsigned size_bits = known >> 16, align_bits = known & 0xFFFF;
                unsigned elements = count && *count ? atoi(count) : 1;

                good = size_bits && size_bits % 8 == 0 && align_bits && align_bits % 8 == 0;
                if (good) {
                    align_max = MAX(align_max, align_bits);
                    bits = align_up(bits, align_bits);
                    for (int field = 0; round == 1 && field < PACKET_FIELD_COUNT; field++) {
                        if (strcmp(name, packet_field_names[field]) == 0) {
                            layout->fields[field].offset_bytes = bits / 8;
                            layout->fields[field].size_bytes = size_bits / 8 * elements;
                        }
                    }
                    bits += size_bits * elements;
                }
                g_free(type);
                g_free(name);
                g_free(count);
            } else {
                good = declaration->len == 0;
            }
            g_match_info_free(match);
            g_string_free(declaration, TRUE);
        }
    }
    layout->header_bytes = bits / 8;
    g_strfreev(lines);
    return good;
}

/* The body of the packet context that every stream class has, or NULL if they differ or are not simple. */
static char *find_packet_context(const GString *text)
{
    GMatchInfo *match = search("\\bpacket\\.context\\s*:=\\s*struct\\s*(?:\\{([^{}]*)\\}|(\\w+))", text);
    char *common = NULL;
    bool same = true;

    for (; g_match_info_matches(match); (void)g_match_info_next(match, NULL)) {
        char *body = g_match_info_fetch(match, 1), *name = g_match_info_fetch(match, 2);

        if (name && *name) {
            char *pattern = g_strdup_printf("\\bstruct\\s+%s\\s*\\{([^{}]*)\\}", name);

            g_free(body);
            body = find(pattern, text);
            g_free(pattern);
        }
        same = same && body && (!common || strcmp(common, body) == 0);
        g_free(common);
        common = body;
        g_free(name);
    }
    g_match_info_free(match);
    if (!same) {
        g_free(common);
        return NULL;
    }
    return common;
}

static bool is_integer(const struct packet_layout *layout, enum packet_field field)
{
    unsigned size = layout->fields[field].size_bytes;

    return size == 1 || size == 2 || size == 4 || size == 8;
}

static bool read_layout(struct packet_layout *layout, const GString *text)
{
    GHashTable *types = read_integer_types(text);
    char *header = find("\\bpacket\\.header\\s*:=\\s*struct\\s*\\{([^{}]*)\\}", text);
    char *context = find_packet_context(text);
    char *order = find("\\btrace\\s*\\{[^{}]*?\\bbyte_order\\s*=\\s*(\\w+)", text);
    bool good = header && context && order && add_struct(layout, types, header) &&
                add_struct(layout, types, context) && layout->header_bytes <= PACKET_HEADER_BYTES_MAX;

    if (good)
        layout->big_endian = strcmp(order, "be") == 0 || strcmp(order, "network") == 0;
    for (int field = 0; good && field < PACKET_FIELD_COUNT; field++) {
        if (field == PACKET_UUID)
            good = layout->fields[field].size_bytes == 16;
        else
            good = is_integer(layout, field) ||
                   ((field == PACKET_CPU_ID || field == PACKET_NUMBER || field == PACKET_STREAM_INSTANCE_ID) &&
                    layout->fields[field].size_bytes == 0);
    }
    g_hash_table_unref(types);
    g_free(header);
    g_free(context);
    g_free(order);
    return good;
}

char *metadata_parse(struct metadata *metadata_out, const uint8_t *bytes, size_t size_bytes)
{
    GString *text;
    char *why;

    if (size_bytes == 0)
        return g_strdup("metadata is empty: the recording ended before anything was written (record again)");
    if (bytes[0] == 0x1E || bytes[0] == '{' || bytes[0] == '[')
        return g_strdup("metadata is CTF 2, which babeltrace2 2.0 does not read "
                        "(record with 'lttng create --trace-format=ctf-1.8')");
    text = g_string_sized_new(size_bytes);
    why = unpack(text, bytes, size_bytes);
    if (!why) {
        memset(metadata_out, 0, sizeof(*metadata_out));
        for (char *nul = text->str; (nul = memchr(nul, '\0', text->str + text->len - nul));)
            *nul = ' '; /* strstr and the patterns see all of it */
        blank_comments(text);
        if (!strstr(text->str, "trace"))
            why = g_strdup("metadata describes no trace: cut short, or not CTF 1.8 " RECORD_AGAIN);
        metadata_out->has_uuid = read_uuid(metadata_out, text);
        read_declared(metadata_out, text);
        metadata_out->layout.known = read_layout(&metadata_out->layout, text);
    }
    g_string_free(text, TRUE);
    return why;
}

static char *read_all(int fd, GByteArray *bytes)
{
    struct stat info;

    if (fstat(fd, &info) < 0)
        return g_strdup_printf("metadata cannot be read: %s", g_strerror(errno));
    if (!S_ISREG(info.st_mode))
        return g_strdup("metadata is not a regular file");
    if (info.st_size > METADATA_BYTES_MAX)
        return g_strdup_printf("metadata has %jd bytes: not that of a trace", (intmax_t)info.st_size);
    g_byte_array_set_size(bytes, info.st_size);
    for (guint got = 0; got < bytes->len;) {
        ssize_t count = read(fd, bytes->data + got, bytes->len - got);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return g_strdup_printf("metadata cannot be read: %s", g_strerror(errno));
        if (count == 0)
            g_byte_array_set_size(bytes, got); /* it shrank meanwhile */
        got += count;
    }
    return NULL;
}

char *metadata_read(struct metadata *metadata_out, const char *folder)
{
    char *path = g_build_filename(folder, "metadata", NULL);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    GByteArray *bytes = g_byte_array_new();
    char *why;

    if (fd < 0) {
        why = g_strdup_printf("metadata cannot be opened: %s (check permissions)", g_strerror(errno));
    } else {
        why = read_all(fd, bytes);
        close(fd);
    }
    if (!why)
        why = metadata_parse(metadata_out, bytes->data, bytes->len);
    g_byte_array_unref(bytes);
    g_free(path);
    return why;
}
