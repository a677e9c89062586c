#include "base/io/spawn.h"

#include <string.h>

#include "base/alloc.h"

static char **copy_vector(const char *const *vector)
{
        size_t count = 0;
        char **copy;

        while (vector[count])
                count++;
        copy = xcalloc(count + 1, sizeof(*copy));
        memcpy(copy, vector, count * sizeof(*copy)); /* uv_spawn wants char **, and changes nothing */
        return copy;
}

int spawn(uv_loop_t *loop, uv_process_t *process, const struct spawn_options *options)
{
        _free_ char **argv = copy_vector(options->argv);
        _free_ char **environment = copy_vector(options->environment);
        uv_stdio_container_t stdio[3] = {
                {.flags = options->input < 0 ? UV_IGNORE : UV_INHERIT_FD, .data.fd = options->input},
                {.flags = UV_INHERIT_FD, .data.fd = options->output},
                {.flags = UV_INHERIT_FD, .data.fd = options->output},
        };
        const uv_process_options_t process_options = {
                .exit_cb = options->exited,
                .file = argv[0],
                .args = argv,
                .env = environment,
                .flags = UV_PROCESS_DETACHED,
                .stdio_count = 3,
                .stdio = stdio,
        };

        return uv_spawn(loop, process, &process_options);
}
