// SPDX-License-Identifier: Apache-2.0
/* Addresses of unix stream sockets, and sockets that are bound to one. */
#pragma once

#include <sys/types.h>
#include <sys/un.h>

#include "base/error.h"

/* The address of |path|; an error names what is wrong with it. */
int unix_socket_address(struct sockaddr_un *ret, const char *path, struct error *err) MUST_USE;

/*
 * A socket that is bound at |path|, not blocking, for listen(); what was there is removed. |mode| is that of the file
 * from its first moment on; 0: the umask decides. libuv's own bind would remove the file by its name at the end, even
 * if another process has replaced it by then.
 */
int unix_socket_bind(int *ret_fd, const char *path, mode_t mode, struct error *err) MUST_USE;

/* ---- reach ---- */

/*
 * Checks whether a process listens on a unix socket. The connection is closed at once, and nothing is sent.
 */

/* Returns 0 if a process listens, else an errno: ENOTSOCK if |path| is not a socket. */
int reach_socket(const char *path);
