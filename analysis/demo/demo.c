#include "demo/demo.h"

#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Set what the user has not set: any of the programs may be replaced by another. */
static void set_path(const char *variable, const char *directory, const char *name)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);

    g_setenv(variable, path, FALSE);
}

int vblkscope_demo_main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *self = g_file_read_link("/proc/self/exe", &error);
    g_autofree char *here = NULL, *beside = NULL;
    const char *script;
    g_autoptr(GPtrArray) command = g_ptr_array_new();

    if (!self) {
        fprintf(stderr, "vblkscope demo: cannot tell where this program is: %s (is /proc mounted?)\n",
                error->message);
        return 1;
    }
    here = g_path_get_dirname(self);
    beside = g_build_filename(here, "demo.sh", NULL);
    g_setenv("VBLKSCOPE", self, FALSE);
    if (g_file_test(beside, G_FILE_TEST_EXISTS)) { /* in the build folder */
        g_autofree char *build = g_path_get_dirname(here);
        g_autofree char *device = g_build_filename(build, "virtio-blk", NULL);

        script = beside;
        set_path("VBLKD", device, "vblkd");
        set_path("VBLK_LOAD", device, "vblk-load");
        set_path("VBLKSCOPE_GUEST", build, "tests/guest");
    } else {
        script = DEMO_INSTALLED "/demo.sh";
        set_path("VBLKD", here, "vblkd");
        set_path("VBLK_LOAD", here, "vblk-load");
        set_path("VBLKSCOPE_GUEST", DEMO_INSTALLED, "guest");
    }

    g_ptr_array_add(command, (gpointer) "sh");
    g_ptr_array_add(command, (gpointer)script);
    for (int i = 1; i < argc; i++)
        g_ptr_array_add(command, argv[i]);
    g_ptr_array_add(command, NULL);
    execvp("sh", (char **)command->pdata);
    fprintf(stderr, "vblkscope demo: %s: cannot run it: %s (is a shell installed?)\n", script, strerror(errno));
    return 1;
}
