#include "mps/control/dialogue_v3.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/text.h"

#define NAME_MAX_LENGTH 64U
#define MAX_FIELDS 8U

bool dialogue_v3_is_name(const char *name)
{
        size_t length = strlen(name);

        return length > 0 && length <= NAME_MAX_LENGTH &&
               strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

/* ---- commands ---- */

const char *dialogue_v3_server_create(struct arena *arena, const char *name, uid_t uid, const char *devices)
{
        return arena_printf(arena, "server create %s --uid=%u --allowed-devices=%s", name, uid, devices);
}

const char *dialogue_v3_namespace_create(struct arena *arena, const char *server, const char *name)
{
        return arena_printf(arena, "namespace create %s --server=%s", name, server);
}

unsigned int dialogue_v3_threads_set(unsigned int permille)
{
        return MAX(permille / 10, 1U) * 10;
}

/* Appends the limits that are not 0 to |command|. */
static const char *with_limits(struct arena *arena, const char *command, unsigned int permille, uint64_t limit_mib)
{
        assert(permille || limit_mib);
        if (permille)
                command = arena_printf(
                        arena, "%s --active-thread-percentage=%u", command, dialogue_v3_threads_set(permille) / 10);
        if (limit_mib)
                command = arena_printf(arena, "%s --pinned-memory-limit=%" PRIu64 "M", command, limit_mib);
        return command;
}

const char *dialogue_v3_server_set(struct arena *arena, const char *server, unsigned int permille, uint64_t limit_mib)
{
        return with_limits(arena, arena_printf(arena, "server set %s", server), permille, limit_mib);
}

const char *dialogue_v3_namespace_set(
        struct arena *arena, const char *server, const char *name, unsigned int permille, uint64_t limit_mib)
{
        return with_limits(
                arena, arena_printf(arena, "namespace set %s --server=%s", name, server), permille, limit_mib);
}

const char *dialogue_v3_namespace_get(struct arena *arena, const char *server, const char *name, const char *field)
{
        return arena_printf(arena, "namespace get %s %s %s", name, server, field);
}

const char *dialogue_v3_namespace_delete(struct arena *arena, const char *server, const char *name)
{
        return arena_printf(arena, "namespace delete %s --server=%s", name, server);
}

const char *dialogue_v3_namespace_list(struct arena *arena, const char *server)
{
        return arena_printf(arena, "namespace list --server=%s " DIALOGUE_V3_FORMAT, server);
}

const char *dialogue_v3_client_get(struct arena *arena, pid_t pid, const char *field)
{
        return arena_printf(arena, "client get %d %s", (int)pid, field);
}

const char *dialogue_v3_client_terminate(struct arena *arena, pid_t pid)
{
        return arena_printf(arena, "client terminate %d", (int)pid);
}

const char *dialogue_v3_own_server(struct arena *arena, uid_t uid)
{
        return arena_printf(arena, "uid_%u", uid);
}

/* ---- answers ---- */

/*
 * Splits a line into |count| fields. The last field is the rest of the line with its commas: a command, or a list of
 * devices. False if there are fewer fields.
 */
static bool split_fields(struct arena *arena, const char *line, size_t count, const char *fields[MAX_FIELDS])
{
        for (size_t i = 0; i + 1 < count; i++) {
                size_t length = strcspn(line, ",");

                if (!line[length])
                        return false;
                fields[i] = arena_strndup(arena, line, length);
                line += length + 1;
        }
        fields[count - 1] = arena_strdup(arena, line);
        return true;
}

static bool is_nothing(const char *field)
{
        return !*field || strcmp(field, "-") == 0;
}

static bool read_id(const char *field, uint64_t max, uint64_t *ret)
{
        if (!is_nothing(field))
                return text_to_uint(field, max, ret);
        *ret = 0;
        return true;
}

static bool dialogue_v3_read_server(struct arena *arena, const char *line, void *element)
{
        struct dialogue_v3_server *server = element;
        const char *fields[MAX_FIELDS];
        uint64_t uid;
        uint64_t pid;

        if (!split_fields(arena, line, 6, fields) || !dialogue_v3_is_name(fields[0]) ||
                !text_to_uint(fields[1], UINT32_MAX, &uid) || !read_id(fields[2], INT_MAX, &pid))
                return false;
        *server = (struct dialogue_v3_server){
                .name = fields[0],
                .uid = (uid_t)uid,
                .pid = (pid_t)pid,
                .status = fields[3],
        };
        return true;
}

void dialogue_v3_read_servers(const char *answer, struct arena *arena, struct dialogue_v3_server **ret, size_t *ret_n,
        struct dialogue_unread *unread)
{
        *ret = dialogue_read_lines(answer, arena, dialogue_v3_read_server, sizeof(**ret), ret_n, unread);
}

static bool dialogue_v3_read_namespace(struct arena *arena, const char *line, void *element)
{
        struct dialogue_v3_namespace *name_space = element;
        const char *fields[MAX_FIELDS];
        struct error err;

        if (!split_fields(arena, line, 7, fields) || !dialogue_v3_is_name(fields[0]) || !dialogue_v3_is_name(fields[1]))
                return false;
        *name_space = (struct dialogue_v3_namespace){
                .name = fields[0],
                .server = fields[1],
        };
        return (is_nothing(fields[3]) || dialogue_read_limit(fields[3], &name_space->limit_mib, &err) == 0) &&
               (is_nothing(fields[4]) || dialogue_read_percentage(fields[4], &name_space->permille, &err) == 0);
}

void dialogue_v3_read_namespaces(const char *answer, struct arena *arena, struct dialogue_v3_namespace **ret,
        size_t *ret_n, struct dialogue_unread *unread)
{
        *ret = dialogue_read_lines(answer, arena, dialogue_v3_read_namespace, sizeof(**ret), ret_n, unread);
}

const char *dialogue_v3_read_namespace_name(struct arena *arena, const char *field, const char *server)
{
        const char *slash = strchr(field, '/');
        const char *start = slash ? slash + 1 : field;
        const size_t length = strcspn(start, " ");
        const char *name = arena_strndup(arena, start, length);
        const char *rest = start + length;
        const size_t digits = *rest ? strspn(rest + strcspn(rest, "("), "(0123456789") : 0;

        if (slash && (strlen(server) != (size_t)(slash - field) || strncmp(field, server, strlen(server)) != 0))
                return NULL;
        if (*rest && (!text_starts_with(rest, " (") || digits < 2 || strcmp(rest + 1 + digits, ")") != 0))
                return NULL;
        return dialogue_v3_is_name(name) ? name : NULL;
}

static bool dialogue_v3_read_client(struct arena *arena, const char *line, void *element)
{
        struct dialogue_v3_client *client = element;
        const char *fields[MAX_FIELDS];
        uint64_t pid;

        if (!split_fields(arena, line, 5, fields) || !text_to_uint(fields[0], INT_MAX, &pid) ||
                !dialogue_v3_is_name(fields[1]))
                return false;
        *client = (struct dialogue_v3_client){
                .pid = (pid_t)pid,
                .server = fields[1],
                .name_space = dialogue_v3_read_namespace_name(arena, fields[3], fields[1]),
        };
        return client->name_space;
}

void dialogue_v3_read_clients(const char *answer, struct arena *arena, struct dialogue_v3_client **ret, size_t *ret_n,
        struct dialogue_unread *unread)
{
        *ret = dialogue_read_lines(answer, arena, dialogue_v3_read_client, sizeof(**ret), ret_n, unread);
}
