/*
 * Whether somebody listens on a unix socket. The connection is closed at once, and nothing is said.
 */
#pragma once

/* 0: somebody does; else an errno, ENOTSOCK for what is no socket. */
int reach_socket(const char *path);
