#include "cmd/apart.h"

#include <string.h>

#include "gpu/apart.h"

struct start {
        const struct command *command;
        int argc;
        char **argv;
};

static int run_command(const void *data, struct strbuf *answer, struct error *err UNUSED)
{
        const struct start *start = data;
        const int status = start->command->run(start->argc, start->argv);

        strbuf_append(answer, &status, sizeof(status));
        return 0;
}

int command_run_apart(const struct command *command, int argc, char **argv, int lost_status)
{
        const struct start start = {command, argc, argv};
        _cleanup_(strbuf_done) struct strbuf answer = STRBUF_INIT;
        struct error err;
        int status;

        if (apart_run(run_command, &start, &answer, &err) != 0) {
                (void)command_line_fail(command->line, &err);
                return lost_status;
        }
        memcpy(&status, answer.data, sizeof(status));
        return status;
}
