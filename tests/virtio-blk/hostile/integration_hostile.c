/*
 * Goal:   no driver and no front end, broken or hostile, harms anything but itself.
 * Method: a real vblkd with many disks; each case of the tables (*_cases.c) does one
 *         wrong, or legal and unusual, thing to one of them. What must be seen of it is in the table; after each the
 *         battery looks for harm (battery.h).
 * Broken: one guest stops, crashes or reads the disks of others.
 *
 * Usage: integration_hostile VBLKD [WORD]     only cases whose name contains WORD
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "battery.h"

static unsigned run_all(struct battery *battery, const struct hostile_case *cases, unsigned count, const char *word)
{
    unsigned run = 0;

    battery_next_disk(battery);
    for (unsigned i = 0; i < count; i++) {
        if (word && !strstr(cases[i].name, word))
            continue;
        battery_run(battery, &cases[i]);
        run++;
    }
    return run;
}

int main(int count, char **arguments)
{
    if (count < 2) {
        fprintf(stderr, "usage: integration_hostile VBLKD [WORD]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *word = count > 2 ? arguments[2] : NULL;
    struct battery *battery = battery_create(arguments[1]);
    unsigned run = run_all(battery, ring_cases, ring_case_count, word);
    run += run_all(battery, packed_cases, packed_case_count, word);
    run += run_all(battery, message_cases, message_case_count, word);
    run += run_all(battery, memory_cases, memory_case_count, word);
    run += run_all(battery, combined_cases, combined_case_count, word);
    unsigned failed = battery_destroy(battery);
    printf("%u cases, %u failed\n", run, failed);
    return failed > 0 || run == 0;
}
