/**
 * One connection to a control socket: requests and answers, one line each.
 *
 *     struct exchange exchange;
 *     char *why = exchange_open(&exchange, path, 0);
 *     if (!why)
 *         why = exchange_ask(&exchange, "status", NULL, &answer, &refused);
 *     exchange_close(&exchange);
 *
 * Errors:    NULL: fine; else one line (object, cause, remedy) that the caller frees with g_free().
 */
#ifndef ANALYSIS_CTL_EXCHANGE_H
#define ANALYSIS_CTL_EXCHANGE_H

#include <glib.h>
#include <jansson.h>

struct exchange {
    const char *path; /**< the caller's */
    int fd;
    int timeout_s;
    GString *received; /**< what lies behind the last answer */
};

/** @timeout_s: of each answer; 0: wait as long as it takes. */
char *exchange_open(struct exchange *exchange, const char *path, int timeout_s);
void exchange_close(struct exchange *exchange); /**< also after a failed open */

/** @arguments may be NULL. @return_out: what the answer returns; the caller drops it. A refusal is an error, too. */
char *exchange_ask(struct exchange *exchange, const char *command, const json_t *arguments, json_t **return_out);

#endif
