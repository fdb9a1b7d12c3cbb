#include "ctl/exchange.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* The longest answer is some megabytes (the command requests with its highest limit). */
#define ANSWER_BYTES_MAX (64 << 20)

static char *fail(const struct exchange *exchange, const char *what, int error, const char *remedy)
{
    return g_strdup_printf("%s: %s: %s (%s)", exchange->path, what, g_strerror(error), remedy);
}

char *exchange_open(struct exchange *exchange, const char *path, int timeout_s)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const struct timeval timeout = { .tv_sec = timeout_s };

    *exchange = (struct exchange){ .path = path, .fd = -1, .timeout_s = timeout_s, .received = g_string_new(NULL) };
    if (strlen(path) >= sizeof(address.sun_path))
        return g_strdup_printf("%s: is longer than the 107 bytes that a socket's path may have", path);
    strcpy(address.sun_path, path);
    exchange->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (exchange->fd < 0)
        return fail(exchange, "cannot make a socket", errno, "ulimit -n");
    (void)setsockopt(exchange->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)); /* 0: none */
    (void)setsockopt(exchange->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (connect(exchange->fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return NULL;
    return fail(exchange, "nobody answers there", errno,
                errno == EACCES || errno == EPERM ? "it belongs to another user: become that one"
                                                  : "is it the path of vblkd's --control-path, and does vblkd run?");
}

void exchange_close(struct exchange *exchange)
{
    if (exchange->fd >= 0)
        close(exchange->fd);
    g_string_free(exchange->received, TRUE);
}

static char *fail_ended(const struct exchange *exchange)
{
    return g_strdup_printf("%s: the connection ended without an answer (does vblkd still run?)", exchange->path);
}

/* What a failed call on the socket means. */
static char *fail_call(const struct exchange *exchange)
{
    if (errno == EPIPE || errno == ECONNRESET)
        return fail_ended(exchange);
    if (errno == EAGAIN)
        return g_strdup_printf("%s: no answer within %d s (the command may still be at work; --timeout)", exchange->path,
                               exchange->timeout_s);
    return fail(exchange, "the connection broke", errno, "does vblkd still run?");
}

static char *send_all(struct exchange *exchange, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(exchange->fd, bytes, length, MSG_NOSIGNAL);

        if (sent < 0 && errno != EINTR)
            return fail_call(exchange);
        if (sent > 0) {
            bytes += sent;
            length -= sent;
        }
    }
    return NULL;
}

/* One line, without its end. */
static char *receive_line(struct exchange *exchange, GString **line_out)
{
    char *end;

    while (!(end = memchr(exchange->received->str, '\n', exchange->received->len))) {
        char bytes[65536];
        ssize_t got = recv(exchange->fd, bytes, sizeof(bytes), 0);

        if (got == 0)
            return fail_ended(exchange);
        if (got < 0 && errno != EINTR)
            return fail_call(exchange);
        if (got > 0)
            g_string_append_len(exchange->received, bytes, got);
        if (exchange->received->len > ANSWER_BYTES_MAX)
            return g_strdup_printf("%s: the answer has no end (is this vblkd's control socket?)", exchange->path);
    }
    *line_out = g_string_new_len(exchange->received->str, end - exchange->received->str);
    g_string_erase(exchange->received, 0, end + 1 - exchange->received->str);
    return NULL;
}

static char *ask_line(struct exchange *exchange, const char *request, GString **line_out)
{
    char *why = send_all(exchange, request, strlen(request));

    if (!why)
        why = send_all(exchange, "\n", 1);
    return why ? why : receive_line(exchange, line_out);
}

char *exchange_ask(struct exchange *exchange, const char *command, const json_t *arguments, json_t **return_out)
{
    json_t *request = json_pack("{s:s, s:O*}", "command", command, "arguments", (json_t *)arguments), *answer, *result;
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL, *why;
    GString *line = NULL;
    const char *message;
    json_error_t error;

    json_decref(request);
    if (!text)
        return g_strdup_printf("%s: is not UTF-8", command);
    why = ask_line(exchange, text, &line);
    free(text);
    if (why)
        return why;
    answer = json_loadb(line->str, line->len, 0, &error);
    g_string_free(line, TRUE);
    result = json_object_get(answer, "return");
    message = json_string_value(json_object_get(json_object_get(answer, "error"), "message"));
    if (result)
        *return_out = json_incref(result);
    else
        why = message ? g_strdup(message)
                      : g_strdup_printf("%s: the answer is none (is this vblkd's control socket?)", exchange->path);
    json_decref(answer);
    return why;
}
