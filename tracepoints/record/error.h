/* The recorder's errors. Each message is one line that names object, cause and remedy; the code says how the
 * program ends. */
#ifndef RECORD_ERROR_H
#define RECORD_ERROR_H

#include <glib.h>

#define RECORD_ERROR (g_quark_from_static_string("vblkscope-record"))

enum record_error {
    RECORD_ERROR_FAILED = 1, /* also the exit status */
    RECORD_ERROR_USAGE = 2,
};

#endif
