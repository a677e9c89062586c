// SPDX-License-Identifier: Apache-2.0
/* Preloaded: SIGHUP comes when a program makes its loop, before it can listen to any signal. */
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>
#include <uv.h>

__attribute__((visibility("default"))) int uv_loop_init(uv_loop_t *loop)
{
        int (*real)(uv_loop_t *) = (int (*)(uv_loop_t *))dlsym(RTLD_NEXT, "uv_loop_init");

        if (write(STDERR_FILENO, "SIGHUP\n", 7) != 7)
                _exit(3);
        raise(SIGHUP);
        return real(loop);
}
