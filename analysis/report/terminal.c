#include "report/terminal.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define WIDTH_MIN 40

unsigned terminal_width(int fd)
{
    const char *columns = g_getenv("COLUMNS");
    struct winsize size;
    guint64 width = 0;

    if (!isatty(fd))
        return TERMINAL_WIDTH;
    if (columns && g_ascii_string_to_unsigned(columns, 10, 1, G_MAXUINT16, &width, NULL))
        return (unsigned)CLAMP(width, WIDTH_MIN, TERMINAL_WIDTH);
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return CLAMP(size.ws_col, WIDTH_MIN, TERMINAL_WIDTH);
    return TERMINAL_WIDTH;
}

bool terminal_colours(int fd)
{
    const char *no_color = g_getenv("NO_COLOR");

    return isatty(fd) && g_strcmp0(g_getenv("TERM"), "dumb") != 0 && !(no_color && *no_color);
}

void wrap_text(GString *out, const char *text, unsigned indent, unsigned column, unsigned width)
{
    char **words = g_strsplit(text, " ", -1);

    for (char **word = words; *word; word++) {
        glong length = g_utf8_strlen(*word, -1);

        if (word != words) {
            if (column + 1 + length > width) {
                g_string_append_printf(out, "\n%*s", (int)indent, "");
                column = indent;
            } else {
                g_string_append_c(out, ' ');
                column++;
            }
        }
        g_string_append(out, *word);
        column += length;
    }
    g_string_append_c(out, '\n');
    g_strfreev(words);
}
