// SPDX-License-Identifier: Apache-2.0
/*
 * Lines in the form of the MPS programs' logs: "[2026-11-21 22:19:56.234 Control  7699] NEW UI", local time.
 */
#pragma once

#include "base/macro.h"

struct journal {
        int fd;           /* -1: nowhere */
        const char *kind; /* "Control", "Server", "Other" */
};

void journal_line(const struct journal *journal, const char *format, ...) PRINTF_LIKE(2, 3);
/* Writes each line of |text| as a line of the log. */
void journal_text(const struct journal *journal, const char *text);
