// SPDX-License-Identifier: Apache-2.0
#include "mps/control/dialogue.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/text.h"

#define SHOWN 120 /* bytes of an answer that an error shows */
#define PARTITION_MAX ((size_t)255)
#define CHUNKS_MAX UINT16_MAX
#define NAME_MAX_LENGTH 64U
#define MAX_FIELDS 8U

/* ---- commands ---- */

const char *dialogue_partition_add(struct arena *arena, const char *gpu_uuid, unsigned int chunks)
{
        return arena_printf(arena, "sm_partition add %s %u", gpu_uuid, chunks);
}

/* Returns the rest of an id "<uuid>/<rest>"; an id of another form is returned as it is. */
static const char *behind_uuid(const char *gpu_uuid, const char *id)
{
        const size_t length = strlen(gpu_uuid);

        return text_starts_with(id, gpu_uuid) && id[length] == '/' ? id + length + 1 : id;
}

const char *dialogue_partition_remove(struct arena *arena, const char *gpu_uuid, const char *id)
{
        return arena_printf(arena, "sm_partition rm %s %s", gpu_uuid, behind_uuid(gpu_uuid, id));
}

/* ---- parsing ---- */

static int dialogue_fail(const char *what, const char *answer, struct error *err)
{
        return error_set(err, ERROR_INVALID, "MPS control daemon: '%.*s' is no %s", SHOWN, answer, what);
}

/* Iterates over the lines of an answer; false at the end. */
static bool next_line(struct arena *arena, const char **at, const char **ret)
{
        size_t length = strcspn(*at, "\n");

        if (!**at)
                return false;
        *ret = arena_strndup(arena, *at, length);
        *at += length + ((*at)[length] == '\n');
        return true;
}

static bool dialogue_read_number(const char *word, uint64_t max, uint64_t *ret)
{
        return word && text_to_uint(word, max, ret);
}

static size_t count_lines(const char *answer)
{
        size_t count = 1;

        for (const char *at = answer; (at = strchr(at, '\n')); at++)
                count++;
        return count;
}

/* ---- answers ---- */

static void dialogue_note_unread(struct dialogue_unread *unread, struct arena *arena, const char *line)
{
        if (!unread->count++)
                unread->first = arena_strndup(arena, line, strnlen(line, SHOWN));
}

int dialogue_read_percentage(const char *answer, unsigned int *ret_permille, struct error *err)
{
        size_t whole = strspn(answer, "0123456789");
        const char *rest = answer + whole;
        unsigned int value = 0;

        if (whole < 1 || whole > 3)
                return dialogue_fail("percentage", answer, err);
        for (size_t i = 0; i < whole; i++)
                value = value * 10 + (unsigned int)(answer[i] - '0');
        value *= 10;
        if (*rest == '.') {
                const size_t decimals = strspn(rest + 1, "0123456789");

                if (!decimals)
                        return dialogue_fail("percentage", answer, err);
                value += (unsigned int)(rest[1] - '0') + (decimals > 1 && rest[2] >= '5');
                rest += 1 + decimals;
        }
        if (*rest || value > 1000)
                return dialogue_fail("percentage", answer, err);
        *ret_permille = value;
        return 0;
}

int dialogue_read_limit(const char *answer, uint64_t *ret_mib, struct error *err)
{
        size_t digits = strspn(answer, "0123456789");
        uint64_t value = 0;

        if (!*answer || strcmp(answer, "unlimited") == 0) {
                *ret_mib = 0;
                return 0;
        }
        if (digits < 1 || digits > 9 || (answer[digits] != 'G' && answer[digits] != 'M') || answer[digits + 1])
                return dialogue_fail("limit of memory", answer, err);
        for (size_t i = 0; i < digits; i++)
                value = value * 10 + (uint64_t)(answer[i] - '0');
        *ret_mib = answer[digits] == 'G' ? value * 1024 : value;
        return 0;
}

uint64_t dialogue_limit_shown(uint64_t mib)
{
        return mib < 1024 ? mib : mib / 1024 * 1024;
}

/* A list of elements, one for each line that is not empty and that |read_line| can read. */
static void *dialogue_read_lines(const char *answer, struct arena *arena,
        bool (*read_line)(struct arena *arena, const char *line, void *element), size_t element_size, size_t *ret_n,
        struct dialogue_unread *unread)
{
        char *elements = arena_alloc(arena, count_lines(answer), element_size);
        const char *line;
        size_t count = 0;

        while (next_line(arena, &answer, &line)) {
                if (!*line)
                        continue;
                if (read_line(arena, line, elements + count * element_size))
                        count++;
                else
                        dialogue_note_unread(unread, arena, line);
        }
        *ret_n = count;
        return elements;
}

static bool read_pid(struct arena *arena UNUSED, const char *line, void *element)
{
        uint64_t pid;

        if (!dialogue_read_number(line, INT_MAX, &pid))
                return false;
        *(pid_t *)element = (pid_t)pid;
        return true;
}

void dialogue_read_pids(
        const char *answer, struct arena *arena, pid_t **ret, size_t *ret_n, struct dialogue_unread *unread)
{
        *ret = dialogue_read_lines(answer, arena, read_pid, sizeof(**ret), ret_n, unread);
}

/* The UUID in |line|, or NULL. */
static const char *find_uuid(struct arena *arena, const char *line)
{
        const char *start = strstr(line, "GPU-");
        const char *mig = strstr(line, "MIG-");

        if (mig && (!start || mig < start))
                start = mig;
        return start ? arena_strndup(arena, start, strcspn(start, " \t:,;()")) : NULL;
}

void dialogue_read_device_clients(const char *answer, struct arena *arena, struct dialogue_device **ret, size_t *ret_n,
        struct dialogue_unread *unread)
{
        size_t lines = count_lines(answer);
        struct dialogue_device *devices = ARENA_ARRAY(arena, struct dialogue_device, lines);
        struct dialogue_device *device = NULL;             /* NULL: not known */
        pid_t *clients = ARENA_ARRAY(arena, pid_t, lines); /* the clients of all devices, in one array */
        const char *at = answer;
        const char *line;
        size_t n_clients = 0;
        size_t count = 0;

        while (next_line(arena, &at, &line)) {
                const char *uuid = find_uuid(arena, line);
                uint64_t pid;

                if (!*line)
                        continue;
                if (uuid) {
                        device = &devices[count++];
                        *device = (struct dialogue_device){.uuid = uuid, .clients = clients + n_clients};
                } else if (device && dialogue_read_number(line, INT_MAX, &pid)) {
                        clients[n_clients++] = (pid_t)pid;
                        device->n_clients++;
                } else {
                        device = NULL;
                        dialogue_note_unread(unread, arena, line);
                }
        }
        *ret = devices;
        *ret_n = count;
}

/* The id becomes a variable of a container and a word of a later command, so only safe characters are accepted. */
static bool is_partition(const char *id, size_t length)
{
        static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_.:-";

        return length > 0 && length <= PARTITION_MAX && strspn(id, allowed) >= length;
}

/* The text between |before| and |after|, if the line contains nothing else. */
static const char *between(struct arena *arena, const char *line, const char *before, const char *after)
{
        size_t length = strlen(line);
        size_t around = strlen(before) + strlen(after);
        const char *id = line + strlen(before);

        if (length <= around || !text_starts_with(line, before) || strcmp(line + length - strlen(after), after) != 0)
                return NULL;
        return is_partition(id, length - around) ? arena_strndup(arena, id, length - around) : NULL;
}

static const char *find_partition(struct arena *arena, const char *line)
{
        const char *id = between(arena, line, "Partition ", " created");

        if (!id)
                id = between(arena, line, "CUDA_MPS_SM_PARTITION=", "");
        if (!id && strchr(line, '/') && (text_starts_with(line, "GPU-") || text_starts_with(line, "MIG-")))
                id = between(arena, line, "", "");
        return id;
}

int dialogue_read_partition(const char *answer, struct arena *arena, const char **ret, struct error *err)
{
        const char *at = answer;
        const char *line;

        while (next_line(arena, &at, &line)) {
                const char *id = find_partition(arena, line);

                if (id) {
                        *ret = id;
                        return 0;
                }
        }
        return dialogue_fail("SM partition", answer, err);
}

/* The word at |*at|, or NULL; |*at| moves behind it. */
static const char *next_word(struct arena *arena, const char **at)
{
        const char *start = *at + strspn(*at, " \t\r");
        const size_t length = strcspn(start, " \t\r");

        *at = start + length;
        return length ? arena_strndup(arena, start, length) : NULL;
}

void dialogue_read_partitions(const char *answer, struct arena *arena, struct dialogue_partition **ret, size_t *ret_n,
        struct dialogue_unread *unread)
{
        struct dialogue_partition *partitions = ARENA_ARRAY(arena, struct dialogue_partition, count_lines(answer));
        const char *at = answer;
        const char *line;
        size_t count = 0;

        while (next_line(arena, &at, &line)) {
                const char *rest = line;
                const char *gpu = next_word(arena, &rest);
                const char *id = next_word(arena, &rest);

                if (!gpu || strcmp(gpu, "GPU") == 0 || text_starts_with(gpu, "chunk")) /* the two lines of the head */
                        continue;
                if (!id || !text_starts_with(gpu, "GPU-"))
                        dialogue_note_unread(unread, arena, line);
                else if (strcmp(id, "-") != 0)
                        partitions[count++] = (struct dialogue_partition){.gpu = gpu, .id = id};
        }
        *ret = partitions;
        *ret_n = count;
}

bool dialogue_is_partition(const struct dialogue_partition *listed, const char *gpu_uuid, const char *id)
{
        return text_starts_with(gpu_uuid, listed->gpu) &&
               strcmp(behind_uuid(gpu_uuid, listed->id), behind_uuid(gpu_uuid, id)) == 0;
}

bool dialogue_read_chunks(const char *answer, const char *gpu_uuid, unsigned int *ret)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *at = answer;
        const char *line;

        while (next_line(&arena, &at, &line)) {
                const char *rest = line;
                const char *gpu = next_word(&arena, &rest);
                const char *word = next_word(&arena, &rest);
                uint64_t left, used;

                if (!gpu || !text_starts_with(gpu, "GPU-") || !text_starts_with(gpu_uuid, gpu))
                        continue;
                if (word && strcmp(word, "-") == 0)
                        word = next_word(&arena, &rest);
                if (dialogue_read_number(word, CHUNKS_MAX, &left) &&
                        dialogue_read_number(next_word(&arena, &rest), CHUNKS_MAX, &used)) {
                        *ret = (unsigned int)(left + used);
                        return true;
                }
        }
        return false;
}

bool dialogue_is_unknown_command(const char *answer)
{
        return text_starts_with(answer, "Unknown command");
}

bool dialogue_is_not_found(const char *answer)
{
        static const char words[] = " not found";
        size_t digits;

        if (!text_starts_with(answer, "Server"))
                return false;
        answer += strlen("Server");
        digits = *answer == ' ' ? strspn(answer + 1, "0123456789") : 0;
        return text_starts_with(digits ? answer + 1 + digits : answer, words);
}

bool dialogue_is_unknown_option(int status, const char *output)
{
        return status == 1 && strstr(output, "Cannot find MPS control daemon process");
}

/* ---- capabilities ---- */

unsigned int dialogue_capabilities(const char *driver_version)
{
        /* The first driver branch that is known to have it. */
        static const struct {
                uint64_t branch;
                unsigned int can;
        } table[] = {
                {535, MPS_CAN_TERMINATE},     /* recorded */
                {550, MPS_CAN_SERVER_STATUS}, /* recorded; 535 does not have it */
                {580, MPS_CAN_MULTI_USER},    /* reported by others; 550 does not have it (recorded) */
                {590, MPS_CAN_PARTITION},     /* manual */
                {615, MPS_CAN_NAMESPACE},     /* manual */
        };
        char branch[8] = "";
        uint64_t number;
        unsigned int can = 0;

        if (!driver_version || strcspn(driver_version, ".") >= sizeof(branch))
                return 0;
        memcpy(branch, driver_version, strcspn(driver_version, "."));
        if (!text_to_uint(branch, UINT32_MAX, &number))
                return 0;
        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                if (number >= table[i].branch)
                        can |= table[i].can;
        return can;
}

/* Without their arguments these commands change nothing. */
static const struct {
        const char *command;
        unsigned int can; /* what is proved if the program knows the command */
} probes[] = {
        {"get_server_status", MPS_CAN_SERVER_STATUS},
        {"terminate_client", MPS_CAN_TERMINATE},
        {"lspart", MPS_CAN_PARTITION},
};

const char *dialogue_probe_next(const struct dialogue_probe *probe)
{
        return probe->step < ARRAY_SIZE(probes) ? probes[probe->step].command : NULL;
}

void dialogue_probe_answer(struct dialogue_probe *probe, const char *answer)
{
        if (!dialogue_is_unknown_command(answer))
                probe->can |= probes[probe->step].can;
        probe->step++;
}

/* ---- v3: commands ---- */

bool dialogue_v3_is_name(const char *name)
{
        size_t length = strlen(name);

        return length > 0 && length <= NAME_MAX_LENGTH &&
               strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

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

/* ---- v3: answers ---- */

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
