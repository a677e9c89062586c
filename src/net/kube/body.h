// SPDX-License-Identifier: Apache-2.0
/*
 * Bodies of requests and answers: JSON values as text, and what an answer says. Pure; private to net/kube.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

struct kube_answer;

/*
 * The text of a JSON value, as it is sent to the API server: what json_dumps() makes with JSON_COMPACT, in a fraction
 * of the time, since that looks at each object and list for loops. |value| has no loops; any kind of value. For the
 * caller to free.
 */
char *body_print(const json_t *value);

/*
 * How many objects, lists and members the text has, without reading it: each costs jansson up to 132 bytes of memory,
 * many times what it has in the text ("{}," or "\"\","). It counts text that is not JSON in the same way, and never
 * counts too few.
 */
size_t body_count(const char *text, size_t size);

/*
 * Completes an answer of the transport: |object| (a new reference), |reason|, and |error|, which is in |err| then and
 * begins with |method| and |path|. |is_text|: a 2xx need not be a JSON object, and is not read.
 */
void body_read(struct kube_answer *answer, const char *method, const char *path, bool is_text, struct error *err);

/* The error of a Status object; if |object| is not one, of |status| alone. */
void body_status_error(struct error *err, unsigned int status, const json_t *object);
