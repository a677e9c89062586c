// SPDX-License-Identifier: Apache-2.0
/*
 * Servers and namespaces that interface 3 (r615) describes, each with a folder and a socket below the pipe directory.
 */
#include "sim/mps/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"

static bool is_name(const char *name)
{
        size_t length = strlen(name);

        return length && length < NAME_SIZE && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

/* Makes the folder, and in it the socket "control". */
static int open_listener(struct daemon *daemon, struct watch *listener, const char *folder, struct error *err)
{
        _free_ char *path = xasprintf("%s/control", folder);
        int fd;

        if (mkdir(folder, 0755) < 0 && errno != EEXIST)
                return error_errno(err, errno, "create '%s'", folder);
        fd = channel_listen(path, 0666, err);
        if (fd < 0)
                return -1;
        watch_add(daemon, listener, fd, on_connection);
        return 0;
}

static void close_listener(struct watch *listener, const char *folder)
{
        _free_ char *path = xasprintf("%s/control", folder);

        watch_remove(listener);
        unlink(path);
        rmdir(folder);
}

/* ---- namespaces ---- */

static char *space_folder(const struct daemon *daemon, const struct blueprint *blueprint, const char *name)
{
        return xasprintf("%s/%s/%s", daemon->pipe_directory, blueprint->name, name);
}

struct space *space_find(const struct blueprint *blueprint, const char *name)
{
        LIST_FOR_EACH(link, &blueprint->spaces) {
                struct space *space = container_of(link, struct space, link);

                if (strcmp(space->name, name) == 0)
                        return space;
        }
        return NULL;
}

struct space *space_add(struct daemon *daemon, struct blueprint *blueprint, const char *name, struct error *err)
{
        _free_ char *folder = space_folder(daemon, blueprint, name);
        struct space *space = NULL;

        if (!is_name(name))
                error_raise(err, ERROR_INVALID, "Invalid namespace name: %s", name);
        else if (space_find(blueprint, name))
                error_raise(err, ERROR_INVALID, "Namespace %s already exists", name);
        else
                space = xcalloc(1, sizeof(*space));
        if (!space)
                return NULL;
        space->blueprint = blueprint;
        snprintf(space->name, sizeof(space->name), "%s", name);
        if (open_listener(daemon, &space->listener, folder, err) < 0) {
                free(space);
                return NULL;
        }
        list_append(&blueprint->spaces, &space->link);
        return space;
}

void space_remove(struct daemon *daemon, struct space *space)
{
        _free_ char *folder = space_folder(daemon, space->blueprint, space->name);

        close_listener(&space->listener, folder);
        list_remove(&space->link);
        free(space);
}

/* ---- servers ---- */

struct blueprint *blueprint_find(const struct daemon *daemon, const char *name)
{
        LIST_FOR_EACH(link, &daemon->blueprints) {
                struct blueprint *blueprint = container_of(link, struct blueprint, link);

                if (strcmp(blueprint->name, name) == 0)
                        return blueprint;
        }
        return NULL;
}

struct blueprint *blueprint_add(struct daemon *daemon, const char *name, int64_t uid, struct error *err)
{
        _free_ char *folder = daemon_path(daemon, name);
        struct blueprint *blueprint = NULL;

        if (!is_name(name))
                error_raise(err, ERROR_INVALID, "Invalid server name: %s", name);
        else if (blueprint_find(daemon, name))
                error_raise(err, ERROR_INVALID, "Server %s already exists", name);
        else
                blueprint = xcalloc(1, sizeof(*blueprint));
        if (!blueprint)
                return NULL;
        *blueprint = (struct blueprint){.uid = uid, .limits = LIMITS_INIT};
        snprintf(blueprint->name, sizeof(blueprint->name), "%s", name);
        list_init(&blueprint->spaces);
        if (open_listener(daemon, &blueprint->listener, folder, err) < 0) {
                free(blueprint);
                return NULL;
        }
        list_append(&daemon->blueprints, &blueprint->link);
        return blueprint;
}

void blueprint_remove(struct daemon *daemon, struct blueprint *blueprint)
{
        _free_ char *folder = daemon_path(daemon, blueprint->name);

        while (!list_is_empty(&blueprint->spaces))
                space_remove(daemon, container_of(blueprint->spaces.next, struct space, link));
        close_listener(&blueprint->listener, folder);
        list_remove(&blueprint->link);
        free(blueprint);
}
