#include "disk/size.h"

#include <glib.h>

bool vblk_size_parse(const char *text, uint64_t *size_out)
{
    static const char units[] = "KMGTPE";
    uint64_t size = 0;
    const char *p = text;

    if (!g_ascii_isdigit(*p))
        return false;
    for (; g_ascii_isdigit(*p); p++)
        if (__builtin_mul_overflow(size, 10, &size) || __builtin_add_overflow(size, (uint64_t)(*p - '0'), &size))
            return false;
    if (*p != '\0') {
        const char *unit = strchr(units, g_ascii_toupper(*p));

        if (!unit || p[1] != '\0')
            return false;
        for (const char *u = units; u <= unit; u++)
            if (__builtin_mul_overflow(size, 1024, &size))
                return false;
    }
    *size_out = size;
    return true;
}
