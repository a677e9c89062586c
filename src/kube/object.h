/*
 * Reading and comparing API objects, which are JSON trees whose shape nobody has promised. It knows no kind.
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

/* The value at that path, borrowed; NULL where there is none, or where something on the way is no object. */
json_t *object_find(const json_t *object, ...) __attribute__((sentinel));

/* The same for a string; NULL also where it is something else. It lives as long as the value. */
const char *object_text(const json_t *object, ...) __attribute__((sentinel));

/* The object at that path, made where it is missing and put in the place of what is no object; borrowed. */
json_t *object_make(json_t *object, ...) __attribute__((sentinel));

/*
 * What must be sent as a JSON merge patch (RFC 7396) to make |before| into |after|; a new reference, {} where they are the same. A
 * list that differs is sent whole. A null inside |after| cannot be said by a merge patch and counts as absent.
 */
json_t *object_difference(const json_t *before, const json_t *after);

/* Every key of |part| is in |object| with the same value. NULL is an object without a key. */
bool object_covers(const json_t *object, const json_t *part);

/* A DNS subdomain (RFC 1123), at most 253 characters: what names of nodes, namespaces and most objects are. */
bool object_is_name(const char *text);

/* |text| for one part of a path or of a query: everything but letters, digits and -._~ is percent-encoded. */
void object_escape(struct strbuf *url, const char *text);

/* "<group>/namespaces/<scope>/<kinds>", the scope escaped: the path of a collection in a namespace, for the caller to free. */
char *object_collection(const char *group, const char *scope, const char *kinds);

/* "<collection>/<name>", the name escaped: the path of one object, for the caller to free. */
char *object_path(const char *collection, const char *name);

/* A time as metav1.Time ("2026-11-22T13:00:00Z"), for the caller to free. */
char *object_time(int64_t unix_us);
