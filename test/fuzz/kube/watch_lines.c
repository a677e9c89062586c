// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as the answer to a watch. However it is cut, the same events come out, and memory stays below
 * line and piece.
 *
 *         tools/fuzz 60 fuzz-kube-watch-lines
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/kube/watch_lines.h"

#define LIMIT ((size_t)4096)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Events as text. Ends with "!" where the rest was rubbish. */
static void read_in_pieces(const uint8_t *data, size_t size, size_t piece, struct strbuf *log)
{
        struct watch_lines lines;
        struct watch_event event;
        struct error err;
        int rc = 0;

        watch_lines_init(&lines, LIMIT);
        for (size_t at = 0; at < size && rc >= 0; at += piece) {
                watch_lines_add(&lines, data + at, MIN(piece, size - at));
                if (lines.text.size > LIMIT + piece)
                        abort();
                while ((rc = watch_lines_next(&lines, &event, &err)) > 0) {
                        char *text = json_dumps(event.object, JSON_COMPACT);

                        strbuf_printf(log, "%d %s\n", (int)event.type, text ? text : "?");
                        free(text);
                        json_decref(event.object);
                }
        }
        if (rc < 0)
                strbuf_puts(log, "!");
        watch_lines_done(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_(strbuf_done) struct strbuf whole = STRBUF_INIT;
        _cleanup_(strbuf_done) struct strbuf cut = STRBUF_INIT;

        read_in_pieces(data, size, size ? size : 1, &whole);
        read_in_pieces(data, size, 7, &cut);
        if (strcmp(whole.data, cut.data) != 0)
                abort();
        return 0;
}
