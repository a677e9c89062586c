// SPDX-License-Identifier: Apache-2.0
/*
 * One file for each process on each GPU, in the folder that the scenario of this simulator and that of the simulated
 * NVML both name.
 */
#include "sim/mps/server.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/file.h"

static char *path_of(const struct server *server, unsigned int ordinal, pid_t pid)
{
        return xasprintf("%s/%s.%d", server->scenario.process_directory, server_gpu(server, ordinal)->uuid, (int)pid);
}

void process_show(const struct server *server, unsigned int ordinal, pid_t pid, uint64_t mib, const char *type)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *path = path_of(server, ordinal, pid);
        struct error err;

        if (!server->scenario.process_directory[0])
                return;
        strbuf_printf(&text, "%s %d %llu %s\n", server_gpu(server, ordinal)->uuid, (int)pid,
                (unsigned long long)mib << 20, type);
        if (file_write(path, text.data, text.size, &err) < 0)
                journal_line(&server->journal, "%s", err.text);
}

void process_hide(const struct server *server, unsigned int ordinal, pid_t pid)
{
        _free_ char *path = path_of(server, ordinal, pid);

        if (server->scenario.process_directory[0])
                unlink(path);
}
