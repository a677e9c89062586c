/*
 * The text of a JSON value, as it is sent to the API server: what json_dumps() makes with JSON_COMPACT, in a fraction
 * of the time, since that looks at each object and list for loops. And what a text of others would cost. Pure.
 */
#pragma once

#include <jansson.h>

/* |value| has no loops; any kind of value. For the caller to free. */
char *body_print(const json_t *value);

/*
 * How many objects, lists and members the text has, without reading it: each costs jansson up to 132 bytes of memory,
 * many times what it has in the text ("{}," or "\"\","). It counts text that is not JSON in the same way, and never
 * counts too few.
 */
size_t body_count(const char *text, size_t size);
