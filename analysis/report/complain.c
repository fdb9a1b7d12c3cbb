#include "report/complain.h"

#include <stdarg.h>
#include <stdio.h>

#include "report/printable.h"

int complain(int status, const char *format, ...)
{
    char *text, *printable;
    va_list args;

    va_start(args, format);
    text = g_strdup_vprintf(format, args);
    va_end(args);
    printable = printable_text(text);
    fprintf(stderr, "%s: %s\n", g_get_prgname(), printable);
    g_free(printable);
    g_free(text);
    return status;
}
