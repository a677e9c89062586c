// SPDX-License-Identifier: Apache-2.0
/*
 * Limits as the control daemon keeps and prints them. The grammar was tried on 535.309.01 and 550.163.01. A percentage
 * is what strtod reads, above 0 and at most 100. Memory is the integer at the beginning: gigabytes if a G follows at
 * once, else megabytes, whatever the letter (even K). From 1024M on, whole gigabytes are printed, rounded down: 1630M
 * is printed as 1G.
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

bool limits_read_percentage(double *percentage, const char *text); /* false: out of range; no change */
uint64_t limits_read_memory(const char *text);
/*
 * The value that belongs to the word |device|; the daemon reads both as scanf() reads "%d %s". For "0" it is |next|.
 * For "0=1G" it is "=1G", the rest of the same word behind the digits. For "GPU-…", which is no number, there is no
 * value, and the limit is cleared.
 */
const char *limits_value(const char *device, const char *next);
void limits_put_memory(struct strbuf *out, uint64_t mib); /* as a line; nothing for 0 */

/*
 * The limit of one device in the value of an environment variable, "0=1G,1=512MB", or 0. |ordinal| -1: only |uuid| is
 * compared.
 */
uint64_t limits_from_list(const char *list, int ordinal, const char *uuid);
