/* `vblkscope record` as a program of its own, so that this room's tests need no other room. */
#include "tracepoints/record.h"

int main(int argc, char **argv)
{
    return vblkscope_record_main(argc, argv);
}
