// SPDX-License-Identifier: Apache-2.0
/* The objects of the stand-in, and requests for them: a request in, an answer out. It knows no connections. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "sim/cluster/admission.h"

struct store {
        json_t *collections; /* path: {name: object} */
        json_t *log; /* [{"collection": path, "version": n, "event": {"type", "object"}}] in the order of the writes */
        json_t *applied; /* {uid: {manager: what it applied last}} */
        json_int_t version;
};

void store_init(struct store *store);
void store_done(struct store *store);

/* Returns the HTTP status; *ret_answer is for the caller to release. */
unsigned int store_serve(struct store *store, const struct store_request *request, json_t **ret_answer);

/*
 * Whether a request is a watch; if so, also the collection, for the caller to free, and the version after which it
 * begins.
 */
bool store_is_watch(const struct store_request *request, char **ret_collection, json_int_t *ret_version);

/* Stores an object without any check; takes the reference to |object|. */
const json_t *store_put(struct store *store, const char *collection, json_t *object);
