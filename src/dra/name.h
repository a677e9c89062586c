/*
 * Names that come from outside and become parts of paths and of names of CDI devices. Pure. Names of objects are in kube/object.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define DRA_NAME_MAX ((size_t)63) /* bytes of a label, a UID, or an instance */

/* 1 to DRA_NAME_MAX letters, digits and '-': UIDs of the API server, which have 36, and what else is as harmless. */
bool dra_name_is_uid(const char *text);

/* The first |length| bytes are a DNS label (RFC 1123): lower case. */
bool dra_name_is_label(const char *text, size_t length);

/* A UUID in lower case. */
bool dra_name_is_uuid(const char *text);
