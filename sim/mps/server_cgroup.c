// SPDX-License-Identifier: Apache-2.0
/*
 * How much memory all clients of one cgroup may have together: the simulated NVML keeps the limits in files in the
 * folders of cgroups (sim/nvml/memory_limits.c). As with the driver, the limit of the nearest folder that has one
 * applies.
 */
#include "sim/mps/server.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#define FILE_MAX ((size_t)4096)

/* "/kubepods/…" of cgroup v2, or NULL. */
static char *path_of(const struct server *server, pid_t pid)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *path = xasprintf("%s/proc/%d/cgroup", server->scenario.system_root, (int)pid);
        struct error ignored;

        if (!server->scenario.system_root[0] || file_read(path, FILE_MAX, &text, &ignored) < 0 ||
                !text_starts_with(text.data, "0::/"))
                return NULL;
        text.data[strcspn(text.data, "\n")] = '\0';
        return xstrdup(text.data + strlen("0::"));
}

/* The hard limit in bytes, and in |path| the folder that has it; UINT64_MAX: there is none. */
static uint64_t limit_of(const struct server *server, unsigned int ordinal, char *path)
{
        for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
                _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
                _free_ char *file = NULL;
                struct error ignored;
                char *hard;

                *end = '\0';
                file = xasprintf("%s/sys/fs/cgroup%s/warpshare-sim-limit.%s", server->scenario.system_root, path,
                        server_gpu(server, ordinal)->uuid);
                if (file_read(file, FILE_MAX, &text, &ignored) < 0)
                        continue;
                hard = strchr(text.data, ' ');
                return hard ? strtoull(hard, NULL, 10) : UINT64_MAX;
        }
        return UINT64_MAX;
}

static bool is_below(const char *path, const char *folder)
{
        const size_t length = strlen(folder);

        return path && text_starts_with(path, folder) && (path[length] == '\0' || path[length] == '/');
}

bool cgroup_allows(const struct server *server, const struct client *client, unsigned int ordinal, uint64_t mib)
{
        _free_ char *folder = path_of(server, client->pid);
        const uint64_t limit = folder ? limit_of(server, ordinal, folder) : UINT64_MAX;
        uint64_t used = mib;
        bool is_listed = false;

        if (limit == UINT64_MAX)
                return true;
        LIST_FOR_EACH(link, &server->clients) {
                const struct client *other = container_of(link, struct client, link);
                _free_ char *path = path_of(server, other->pid);

                is_listed |= other == client;
                used += is_below(path, folder) ? other->used_mib[ordinal] : 0;
        }
        return used + (is_listed ? 0 : client->used_mib[ordinal]) <= limit >> 20;
}
