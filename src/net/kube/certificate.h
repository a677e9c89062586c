/*
 * Checks whether a server's certificate contains names. Pure; accepts any bytes.
 *
 * libcurl uses the common name of a certificate that has no subject alternative names. Go, and so all other clients of
 * the cluster, has not done so since Go 1.15 (2020): a common name is free text, while a certificate authority checks
 * the alternative names before it signs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define CERTIFICATE_LIMIT ((size_t)64 << 10) /* bytes of PEM; a larger text counts as one without names */

/* True if the first certificate of a PEM text has a host or an address among its subject alternative names. */
bool certificate_names_host(const char *pem);
