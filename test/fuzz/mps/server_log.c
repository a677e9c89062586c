// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as a log of MPS, whole and in two pieces that the first byte parts: the same events both
 * times.
 *
 *         tools/fuzz 60 fuzz-mps-server-log
 */
#include <stdlib.h>
#include <string.h>

#include "mps/supervisor/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All of an event in one number, as a check. */
static void on_event(const struct server_log_event *event, void *data)
{
        uint64_t *sum = data;

        if (event->pid < 0 || event->permille > 1000 || event->device >= SERVER_LOG_DEVICES ||
                event->limits->threads_permille > 1000 || strlen(event->text) > SERVER_LOG_LINE_MAX)
                abort();
        *sum = *sum * 1000003 + (uint64_t)event->kind + (uint64_t)event->pid * 3 + event->bytes * 5 + event->uid * 7 +
               (uint64_t)event->limits->server * 13 + event->limits->bytes[0] * 17 + strlen(event->text);
}

static uint64_t feed(const char *bytes, size_t size, size_t cut)
{
        struct server_log log;
        uint64_t sum = 0;

        server_log_init(&log, NULL, on_event, &sum);
        server_log_feed(&log, bytes, cut);
        server_log_feed(&log, bytes + cut, size - cut);
        server_log_done(&log);
        return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *bytes = (const char *)data + 1;
        size_t cut;

        if (size == 0)
                return 0;
        cut = size > 1 ? data[0] * (size - 1) / 255 : 0;
        if (feed(bytes, size - 1, 0) != feed(bytes, size - 1, cut))
                abort();
        return 0;
}
