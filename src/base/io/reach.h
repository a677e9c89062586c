/*
 * Checks whether a process listens on a unix socket. The connection is closed at once, and nothing is sent.
 */
#pragma once

/* Returns 0 if a process listens, else an errno: ENOTSOCK if |path| is not a socket. */
int reach_socket(const char *path);
