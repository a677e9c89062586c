/*
 * Limits as the control daemon keeps and prints them. The grammar, tried on 535.309.01 and 550.163.01: a percentage is what
 * strtod reads, in (0, 100]; memory is the integer at the beginning and G if that letter follows at once, else megabytes
 * whatever the letter (K, too); what is shown is whole gigabytes from 1024M on, rounded down, so 1630M shows as 1G.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"

#define LIMITS_DEVICES 32U

struct limits {
        double percentage;
        unsigned int priority;
        uint64_t memory_mib[LIMITS_DEVICES]; /* 0: none */
};

#define LIMITS_INIT                                                                                                    \
        {                                                                                                              \
                .percentage = 100                                                                                      \
        }

bool limits_read_percentage(double *percentage, const char *text); /* false, and no change: out of range */
uint64_t limits_read_memory(const char *text);
/*
 * Where the value stands that belongs to the word |device|, read as "%d %s" is: nowhere, so that the limit is cleared, if the
 * device is no number ("GPU-…"), and in the same word behind the digits ("0=1G").
 */
const char *limits_value(const char *device, const char *next);
void limits_put_memory(struct strbuf *out, uint64_t mib); /* with its newline; nothing for 0 */

/* What one variable of the environment asks for: "0=1G,1=512MB"; |ordinal| -1 matches |uuid| only. 0: nothing. */
uint64_t limits_from_list(const char *list, int ordinal, const char *uuid);
