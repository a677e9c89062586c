/*
 * A program begins on the loop, in a session of its own. What comes of it is its caller's: base/io/child has one that
 * is to end soon, and mps/supervisor/launch one that outlives us.
 */
#pragma once

#include <uv.h>

struct spawn_options {
        const char *const *argv;        /* NULL-terminated; argv[0] is the path of the program */
        const char *const *environment; /* all of it, NULL-terminated */
        int input;                      /* descriptor; -1: /dev/null */
        int output;                     /* for what it prints, and for its errors */
        uv_exit_cb exited;
};

/*
 * 0, or an error of libuv's; |process| is a handle that has to be closed in either case. The descriptors stay the
 * caller's.
 */
int spawn(uv_loop_t *loop, uv_process_t *process, const struct spawn_options *options);
