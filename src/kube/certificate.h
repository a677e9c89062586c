/*
 * What a server's certificate says of whom it is for. Pure; any bytes will do.
 *
 * libcurl takes the common name of a certificate that has no subject alternative names. Go, and so every other client of the cluster, has not
 * done that since 2020 (Go 1.15): a common name is free text, and what a certificate authority checks before it signs are the names.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define CERTIFICATE_LIMIT ((size_t)64 << 10) /* bytes of PEM; a larger one names nobody */

/* Whether the first certificate of a PEM text names a host or an address among its subject alternative names. */
bool certificate_names_host(const char *pem);
