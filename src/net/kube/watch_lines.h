// SPDX-License-Identifier: Apache-2.0
/*
 * Parses the answer to a watch as it arrives: bytes in, events out. The API server writes one JSON object per line. It
 * knows nothing about connections.
 *
 *         watch_lines_add(&lines, bytes, size);
 *         while ((rc = watch_lines_next(&lines, &event, err)) > 0) {
 *                 …
 *                 json_decref(event.object);
 *         }
 *
 * Bounded: a line is an error as soon as it is longer than the limit. After an error it returns no more events.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "base/strbuf.h"

enum watch_event_type { WATCH_ADDED, WATCH_MODIFIED, WATCH_DELETED, WATCH_BOOKMARK, WATCH_ERROR };

struct watch_event {
        enum watch_event_type type;
        json_t *object; /* owned by the caller; for WATCH_ERROR a Status */
};

struct watch_lines {
        struct strbuf text;
        size_t taken;   /* bytes at the front that are parsed */
        size_t scanned; /* no newline between |taken| and here */
        size_t limit;   /* bytes per line */
};

void watch_lines_init(struct watch_lines *lines, size_t limit);
void watch_lines_done(struct watch_lines *lines);

/* The caller takes all events before it adds again, so at most one line and one piece are stored. */
void watch_lines_add(struct watch_lines *lines, const void *bytes, size_t size);

/* 1: an event; 0: no complete one yet; -1: the data is not an event. */
int watch_lines_next(struct watch_lines *lines, struct watch_event *ret, struct error *err) MUST_USE;
