/*
 * The answer to a watch, as it arrives: bytes in, events out. One JSON object a line, which is how the API server writes them. It
 * knows nothing of connections and of what comes next.
 *
 *         watch_lines_add(&lines, bytes, size);
 *         while ((rc = watch_lines_next(&lines, &event, err)) > 0) {
 *                 …
 *                 json_decref(event.object);
 *         }
 *
 * Bounded: a line longer than its limit is an error as soon as it is known to be, and after an error there is nothing more to be had.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "base/strbuf.h"

enum watch_event_type { WATCH_ADDED, WATCH_MODIFIED, WATCH_DELETED, WATCH_BOOKMARK, WATCH_ERROR };

struct watch_event {
        enum watch_event_type type;
        json_t *object; /* the caller's; of WATCH_ERROR a Status */
};

struct watch_lines {
        struct strbuf text;
        size_t taken;   /* bytes at the front that are done with */
        size_t scanned; /* up to there, there is no newline after |taken| */
        size_t limit;   /* bytes of a line */
};

void watch_lines_init(struct watch_lines *lines, size_t limit);
void watch_lines_done(struct watch_lines *lines);

/* The caller takes all events out before it adds again, so that what waits here is one line and one piece. */
void watch_lines_add(struct watch_lines *lines, const void *bytes, size_t size);

/* 1: an event; 0: none is complete; -1: what came is no event. */
int watch_lines_next(struct watch_lines *lines, struct watch_event *ret, struct error *err) MUST_USE;
