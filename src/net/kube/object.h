// SPDX-License-Identifier: Apache-2.0
/*
 * Reads and compares API objects, which are JSON trees of any shape. It knows no kind.
 *
 * Paths are keys, one argument each, so that keys with dots and slashes need no quoting:
 *
 *         object_text(node, "metadata", "labels", "nvidia.com/device-plugin.config", NULL)
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/macro.h"
#include "base/strbuf.h"

/* The value at that path, borrowed; NULL if it is missing, or if a value on the path is not an object. */
json_t *object_find(const json_t *object, ...) __attribute__((sentinel));

/* The string at that path; NULL also if it is not a string. It lives as long as the value. */
const char *object_text(const json_t *object, ...) __attribute__((sentinel));

/* The object at that path, borrowed. It is created if missing, and replaces a value that is not an object. */
json_t *object_make(json_t *object, ...) __attribute__((sentinel));

/*
 * The JSON merge patch (RFC 7396) that changes |before| into |after|; a new reference, {} if they are equal. A changed
 * list is sent as a whole. A merge patch cannot express a null inside |after|, so null counts as missing.
 */
json_t *object_difference(const json_t *before, const json_t *after);

/* True if |object| has every key of |part| with the same value. NULL is an object without keys. */
bool object_covers(const json_t *object, const json_t *part);

/* A DNS subdomain (RFC 1123), at most 253 characters: the form of names of nodes, namespaces and most objects. */
bool object_is_name(const char *text);

/* Escapes |text| for one part of a path or query: everything except letters, digits and -._~ is percent-encoded. */
void object_escape(struct strbuf *url, const char *text);

/*
 * "<group>/namespaces/<scope>/<kinds>", the scope escaped: the path of a collection in a namespace, for the caller to
 * free.
 */
char *object_collection(const char *group, const char *scope, const char *kinds);

/* "<collection>/<name>", the name escaped: the path of one object, for the caller to free. */
char *object_path(const char *collection, const char *name);

/* A Node with its name and nothing else, to which an apply adds what it owns; a new reference. */
json_t *object_node(const char *name);

/* A time as metav1.Time ("2026-11-22T13:00:00Z"), for the caller to free. */
char *object_time(int64_t unix_us);

/*
 * The other way, in seconds: metav1.Time and MicroTime, with "Z" or an offset. False: |text| (may be NULL) is not such
 * a time.
 */
bool object_read_time(const char *text, int64_t *ret_unix);

/*
 * The release of an API server, from `gitVersion` of /version: "v1.36.2", "v1.36.2+k3s1" (k3s), "v1.36.1-gke.100" (GKE),
 * "v1.37.0-rc.0". What vendors append says nothing; alpha, beta and rc come before the release that they name: 1.36.2-rc.0
 * is made as soon as 1.36.1 is out.
 */
struct kube_version {
        unsigned int major;
        unsigned int minor;
        unsigned int patch;
        bool is_before; /* that release: an alpha, beta or rc of it */
};

/* False: it is none, or of a build without a release ("v0.0.0-master+8e16b12f"), and |ret| is zero. */
bool kube_version_read(struct kube_version *ret, const char *text);

bool kube_version_is_since(
        const struct kube_version *version, unsigned int major, unsigned int minor, unsigned int patch);
