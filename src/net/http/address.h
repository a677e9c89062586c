// SPDX-License-Identifier: Apache-2.0
/* A socket that listens at an address which is written as text. No names: to ask a name server blocks. */
#pragma once

#include "base/error.h"

/*
 * "127.0.0.1:9400", "[::1]:9400"; ":9400": every address, with one socket for both families; port 0: the kernel
 * chooses.
 */
int http_address_listen(int *ret_fd, const char *text, struct error *err) MUST_USE;

/* The port of a socket that listens; 0: unknown. */
unsigned int http_address_port(int fd);
