// SPDX-License-Identifier: Apache-2.0
/*
 * What an API server refuses, as far as the stand-in knows it. Pure. The rules are those of Kubernetes 1.36 for the
 * metadata of every object, and for the namespace of an event; of spec and status nothing is looked at.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "sim/cluster/address.h"

#define ADMISSION_BODY_MAX ((size_t)3 << 20) /* bytes of a request's body, as with the real one */

struct store_request {
        const char *method;
        const char *path;
        const char *query;        /* "" for none */
        const char *content_type; /* "" for none; as the next, looked at where there is a body to be written */
        size_t size;              /* of the body */
        const json_t *body;       /* NULL: none, or no JSON */
};

bool admission_has_query(const struct store_request *request, const char *wanted); /* "watch=1", or "fieldManager=" */
bool admission_is_apply(const struct store_request *request);

/* A request by itself. Returns 0, or the HTTP status of the refusal, with |err|. */
unsigned int admission_check_request(
        const struct address *address, const struct store_request *request, struct error *err);

/* The object that would be stored; the same. */
unsigned int admission_check_object(const struct address *address, const json_t *object, struct error *err);

/* |wanted| (metadata, or preconditions) names a version or a UID that the object does not have: 409. */
unsigned int admission_check_version(
        const struct address *address, const json_t *wanted, const json_t *object, struct error *err);
