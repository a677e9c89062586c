/*
 * Checks names from outside that become parts of paths and of names of CDI devices. Pure. Names of objects are in
 * net/kube/object.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define DRA_NAME_MAX ((size_t)63) /* bytes of a label, a UID or an instance */

/*
 * True for 1 to DRA_NAME_MAX letters, digits and '-'. The API server's UIDs have 36; other texts of these characters do
 * no harm.
 */
bool dra_name_is_uid(const char *text);

/* Whether the first |length| bytes are a DNS label (RFC 1123) in lower case. */
bool dra_name_is_label(const char *text, size_t length);

/* Whether |text| is a UUID in lower case. */
bool dra_name_is_uuid(const char *text);
