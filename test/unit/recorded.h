// SPDX-License-Identifier: Apache-2.0
/*
 * Answers of a real API server, as they were recorded: status line, headers, body.
 */
#pragma once

#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"

/* The body of the answer in |path|, which began with |protocol| ("HTTP/2"); returns its status. */
static inline unsigned int recorded_read(const char *path, const char *protocol, struct strbuf *body)
{
        struct error err;
        unsigned int status;
        const char *end;

        assert_ok(file_read(path, (size_t)1 << 20, body, &err), &err);
        assert_memory_equal(body->data, protocol, strlen(protocol));
        assert_int_equal(sscanf(body->data + strlen(protocol), " %u", &status), 1);
        end = strstr(body->data, "\r\n\r\n");
        assert_non_null(end);
        strbuf_consume(body, (size_t)(end - body->data) + 4);
        return status;
}
