// SPDX-License-Identifier: Apache-2.0
#include "sim/mps/journal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/strbuf.h"

/* One write(2) a line: the server and the daemon share a file. */
static void write_line(const struct journal *journal, const char *text, size_t length)
{
        _cleanup_(strbuf_done) struct strbuf line = STRBUF_INIT;
        struct timespec now;
        struct tm local;

        clock_gettime(CLOCK_REALTIME, &now);
        localtime_r(&now.tv_sec, &local);
        strbuf_printf(&line, "[%d-%02d-%02d %02d:%02d:%02d.%03d %s %5d] ", local.tm_year + 1900, local.tm_mon + 1,
                local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec, (int)(now.tv_nsec / 1000000), journal->kind,
                (int)getpid());
        strbuf_append(&line, text, length);
        strbuf_putc(&line, '\n');
        if (write(journal->fd, line.data, line.size) < 0 && errno == EPIPE)
                return; /* nobody reads the output of a foreground daemon any more; NVIDIA's daemon goes on as well */
}

void journal_text(const struct journal *journal, const char *text)
{
        while (journal->fd >= 0 && text[0]) {
                size_t length = strcspn(text, "\n");

                write_line(journal, text, length);
                text += length + (text[length] == '\n');
        }
}

void journal_line(const struct journal *journal, const char *format, ...)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        va_list args;

        va_start(args, format);
        strbuf_vprintf(&text, format, args);
        va_end(args);
        if (journal->fd >= 0)
                write_line(journal, text.data, text.size);
}
