// SPDX-License-Identifier: Apache-2.0
/*
 * The control interface of r615: "<module> <verb> [name] [--option=value …]". The lists have the columns that NVIDIA's
 * manual names; the layout of the tables and the texts of the errors are ours, because nobody has recorded those of an
 * r615 daemon.
 */
#include "sim/mps/daemon.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>

#include "base/alloc.h"
#include "base/text.h"

#define MAX_OPTIONS 16U
#define MAX_MORE 2U

struct v3_option {
        const char *name;
        const char *value; /* "" where none is given */
};

struct v3_request {
        struct daemon *daemon;
        const char *module;
        const char *verb;
        const char *name;           /* "" where there is none */
        const char *more[MAX_MORE]; /* the words behind the name, "" where there is none */
        unsigned int n_words;
        struct v3_option options[MAX_OPTIONS];
        unsigned int n_options;
        struct strbuf *out;
};

/* ---- words ---- */

static char *next_word(char **rest)
{
        return strtok_r(NULL, "\n", rest);
}

static bool takes_value(const char *option)
{
        return strcmp(option, "--force") != 0 && strcmp(option, "--include-remainder") != 0 &&
               strcmp(option, "--all") != 0;
}

/* The first word is the name, the others follow it. */
static void take_word(struct v3_request *request, const char *word)
{
        if (request->n_words == 0)
                request->name = word;
        else if (request->n_words <= MAX_MORE)
                request->more[request->n_words - 1] = word;
        request->n_words++;
}

static bool read_words(struct v3_request *request, char *words)
{
        char *rest = NULL;
        char *word = strtok_r(words, "\n", &rest);

        request->module = word ? word : "";
        word = next_word(&rest);
        request->verb = word ? word : "";
        request->name = request->more[0] = request->more[1] = "";
        while ((word = next_word(&rest))) {
                char *value = strchr(word, '=');

                if (!text_starts_with(word, "--")) {
                        take_word(request, word);
                        continue;
                }
                if (request->n_options == MAX_OPTIONS)
                        return false;
                if (value && text_starts_with(word, "--"))
                        *value++ = '\0';
                else
                        value = takes_value(word) ? next_word(&rest) : NULL;
                request->options[request->n_options++] = (struct v3_option){word, value ? value : ""};
        }
        return true;
}

/* NULL: not given. */
static const char *option(const struct v3_request *request, const char *name)
{
        for (unsigned int i = 0; i < request->n_options; i++) {
                if (strcmp(request->options[i].name, name) == 0)
                        return request->options[i].value;
        }
        return NULL;
}

static bool fail(const struct v3_request *request, const char *format, ...) PRINTF_LIKE(2, 3);
static bool fail(const struct v3_request *request, const char *format, ...)
{
        va_list args;

        strbuf_puts(request->out, "Error: ");
        va_start(args, format);
        strbuf_vprintf(request->out, format, args);
        va_end(args);
        strbuf_putc(request->out, '\n');
        return false;
}

/* One row: comma separated, or in columns of 20. */
static void put_row(const struct v3_request *request, const char *const *cells, size_t count)
{
        const char *format = option(request, "--format");
        bool csv = format && text_starts_with(format, "csv");

        for (size_t i = 0; i < count; i++) {
                const char *end = i + 1 == count ? "\n" : csv ? "," : "";

                strbuf_printf(request->out, "%-*s%s", csv ? 0 : 20, cells[i], end);
        }
}

static void put_head(const struct v3_request *request, const char *const *cells, size_t count)
{
        const char *format = option(request, "--format");

        if (!format || strcmp(format, "csv,noheader") != 0)
                put_row(request, cells, count);
}

/* ---- limits ---- */

static bool read_percentage(const struct v3_request *request, double *percentage)
{
        const char *text = option(request, "--active-thread-percentage");
        uint64_t number;

        if (!text)
                return true;
        if (!text_to_uint(text, 100, &number) || !number)
                return fail(request, "active-thread-percentage must be between 1 and 100");
        *percentage = (double)number;
        return true;
}

/* "0=1G,GPU-…=2G" into limits by ordinal, or one size for all. */
static void read_memory(const struct v3_request *request, struct limits *limits)
{
        const char *list = option(request, "--pinned-memory-limit");
        unsigned int visible[MPS_SIM_GPUS];
        int count = mps_scenario_visible(&request->daemon->scenario, getenv("CUDA_VISIBLE_DEVICES"), visible);

        for (int i = 0; list && i < count; i++)
                limits->memory_mib[i] =
                        strchr(list, '=') ? limits_from_list(list, i, request->daemon->scenario.gpus[visible[i]].uuid)
                                          : limits_read_memory(list);
}

static bool set_limits(const struct v3_request *request, struct limits *limits)
{
        const char *priority = option(request, "--client-priority");

        if (!read_percentage(request, &limits->percentage))
                return false;
        if (priority && strcmp(priority, "0") != 0 && strcmp(priority, "1") != 0)
                return fail(request, "client-priority must be 0 or 1");
        if (priority)
                limits->priority = priority[0] == '1';
        read_memory(request, limits);
        return true;
}

/* ---- server ---- */

static struct blueprint *need_server(const struct v3_request *request, const char *name)
{
        struct blueprint *blueprint = blueprint_find(request->daemon, name ? name : "");

        if (!blueprint)
                fail(request, "Server %s not found", name ? name : "");
        return blueprint;
}

static bool server_create(const struct v3_request *request)
{
        struct daemon *daemon = request->daemon;
        const char *uid_text = option(request, "--uid");
        const char *devices = option(request, "--allowed-devices");
        struct blueprint *blueprint;
        struct error err;
        uint64_t uid = geteuid();

        if (uid_text && !text_to_uint(uid_text, UINT32_MAX - 1, &uid))
                return fail(request, "Invalid uid: %s", uid_text);
        if (uid_text && uid && daemon->multi_user)
                return fail(request, "In multiuser mode only uid 0 is allowed");
        blueprint = blueprint_add(daemon, request->name, (int64_t)uid, &err);
        if (!blueprint)
                return fail(request, "%s", err.text);
        snprintf(blueprint->devices, sizeof(blueprint->devices), "%s", devices ? devices : "");
        if (!set_limits(request, &blueprint->limits)) {
                blueprint_remove(daemon, blueprint);
                return false;
        }
        daemon_start_server(daemon, blueprint->name, (uid_t)uid);
        return true;
}

static bool server_delete(const struct v3_request *request)
{
        struct blueprint *blueprint = need_server(request, request->name);
        struct instance *instance;

        if (!blueprint)
                return false;
        instance = daemon_find_named(request->daemon, request->name);
        if (instance && instance->clients && !option(request, "--force"))
                return fail(request, "Server %s has clients", request->name);
        if (instance)
                kill(instance->pid, option(request, "--force") ? SIGKILL : SIGTERM);
        blueprint_remove(request->daemon, blueprint);
        return true;
}

static const char *status_of(struct daemon *daemon, struct instance *instance, struct strbuf *status)
{
        if (!instance)
                return "INACTIVE";
        if (!instance->ready || !instance_ask(daemon, instance, status, "status"))
                return "INITIALIZING";
        status->data[strcspn(status->data, "\n")] = '\0';
        return strcmp(status->data, "ACTIVE") == 0 ? "Ready" : status->data;
}

static bool server_list(const struct v3_request *request)
{
        static const char *const head[] = {
                "name", "uid", "pid", "status", "pipe-directory", "allowed-devices", "context-ids"};

        put_head(request, head, ARRAY_SIZE(head));
        LIST_FOR_EACH(link, &request->daemon->blueprints) {
                const struct blueprint *blueprint = container_of(link, struct blueprint, link);
                struct instance *instance = daemon_find_named(request->daemon, blueprint->name);
                _cleanup_(strbuf_done) struct strbuf status = STRBUF_INIT;
                _free_ char *uid = xasprintf("%lld", (long long)blueprint->uid);
                _free_ char *pid = xasprintf("%d", instance ? (int)instance->pid : 0);
                _free_ char *pipe = daemon_path(request->daemon, blueprint->name);
                const char *cells[] = {blueprint->name, uid, pid, status_of(request->daemon, instance, &status), pipe,
                        blueprint->devices[0] ? blueprint->devices : "all", "-"};

                put_row(request, cells, ARRAY_SIZE(cells));
        }
        return true;
}

/* The blueprint is for the next server process; the one that runs gets the limits in a message. */
static bool server_set(const struct v3_request *request)
{
        struct blueprint *blueprint = need_server(request, request->name);
        const struct instance *instance = daemon_find_named(request->daemon, request->name);

        if (!blueprint || !set_limits(request, &blueprint->limits))
                return false;
        if (instance)
                instance_set_limits(request->daemon, instance);
        return true;
}

static bool server_get(const struct v3_request *request)
{
        const struct blueprint *blueprint = need_server(request, request->name);
        const struct instance *instance = daemon_find_named(request->daemon, request->name);

        if (!blueprint)
                return false;
        if (strcmp(request->more[0], "uid") == 0)
                strbuf_printf(request->out, "%lld\n", (long long)blueprint->uid);
        else if (strcmp(request->more[0], "pid") == 0)
                strbuf_printf(request->out, "%d\n", instance ? (int)instance->pid : 0);
        else
                return fail(request, "Unknown field: %s", request->more[0]);
        return true;
}

/* ---- namespace ---- */

static struct space *need_space(const struct v3_request *request)
{
        const struct blueprint *blueprint = need_server(request, option(request, "--server"));
        struct space *space = blueprint ? space_find(blueprint, request->name) : NULL;

        if (blueprint && !space)
                fail(request, "Namespace %s not found", request->name);
        return space;
}

static bool space_set_limits(const struct v3_request *request, struct space *space)
{
        const char *memory = option(request, "--pinned-memory-limit");

        if (!read_percentage(request, &space->percentage))
                return false;
        if (memory)
                snprintf(space->memory, sizeof(space->memory), "%s%s", strchr(memory, '=') ? "" : "0=", memory);
        return true;
}

static bool space_create(const struct v3_request *request)
{
        struct blueprint *blueprint = need_server(request, option(request, "--server"));
        struct space *space;
        struct error err;

        if (!blueprint)
                return false;
        space = space_add(request->daemon, blueprint, request->name, &err);
        if (!space)
                return fail(request, "%s", err.text);
        if (space_set_limits(request, space))
                return true;
        space_remove(request->daemon, space);
        return false;
}

static bool is_client_of(struct daemon *daemon, const struct space *space, const char *pid)
{
        const struct admission *admission = admission_find(daemon, (pid_t)strtol(pid, NULL, 10));

        return admission && strcmp(admission->server, space->blueprint->name) == 0 &&
               strcmp(admission->space, space->name) == 0;
}

static bool space_has_clients(struct daemon *daemon, const struct space *space)
{
        struct instance *instance = daemon_find_named(daemon, space->blueprint->name);
        _cleanup_(strbuf_done) struct strbuf pids = STRBUF_INIT;
        char *rest = NULL;

        if (!instance || !instance_ask(daemon, instance, &pids, "clients"))
                return false;
        for (char *pid = strtok_r(pids.data, "\n", &rest); pid; pid = strtok_r(NULL, "\n", &rest))
                if (is_client_of(daemon, space, pid))
                        return true;
        return false;
}

static bool space_delete(const struct v3_request *request)
{
        struct space *space = need_space(request);

        if (!space)
                return false;
        if (!option(request, "--force") && space_has_clients(request->daemon, space))
                return fail(request, "Namespace %s has clients", request->name);
        space_remove(request->daemon, space);
        return true;
}

static bool space_set(const struct v3_request *request)
{
        struct space *space = need_space(request);

        return space && space_set_limits(request, space);
}

/* The memory limits as they were set; the number is left out if it is a limit of device 0 only. */
static const char *memory_of(const struct space *space)
{
        if (!space->memory[0])
                return "unlimited";
        return text_starts_with(space->memory, "0=") && !strchr(space->memory, ',') ? space->memory + 2 : space->memory;
}

static bool put_field(const struct v3_request *request, double percentage, const char *memory)
{
        const char *field = request->more[1];

        if (strcmp(field, "active-thread-percentage") == 0)
                strbuf_printf(request->out, "%.2f\n", percentage > 0 ? percentage : 100);
        else if (strcmp(field, "pinned-memory-limit") == 0)
                strbuf_printf(request->out, "%s\n", memory);
        else
                return fail(request, "Unknown field: %s", field);
        return true;
}

/* The namespace "default" always exists: it has the limits of its server. */
static bool space_get(const struct v3_request *request)
{
        const struct blueprint *blueprint = need_server(request, request->more[0]);
        const struct space *space = blueprint ? space_find(blueprint, request->name) : NULL;
        char memory[32];

        if (!blueprint)
                return false;
        if (space)
                return put_field(request, space->percentage, memory_of(space));
        if (strcmp(request->name, "default") != 0)
                return fail(request, "Namespace %s not found", request->name);
        snprintf(memory, sizeof(memory), "%lluM", (unsigned long long)blueprint->limits.memory_mib[0]);
        return put_field(request, blueprint->limits.percentage, blueprint->limits.memory_mib[0] ? memory : "unlimited");
}

static bool space_list(const struct v3_request *request)
{
        static const char *const head[] = {"name", "server", "server-status", "pinned-memory-limit",
                "active-thread-percentage", "client-priority", "pipe-directory"};

        put_head(request, head, ARRAY_SIZE(head));
        LIST_FOR_EACH(outer, &request->daemon->blueprints) {
                const struct blueprint *blueprint = container_of(outer, struct blueprint, link);
                struct instance *instance = daemon_find_named(request->daemon, blueprint->name);
                _cleanup_(strbuf_done) struct strbuf status = STRBUF_INIT;
                const char *state = status_of(request->daemon, instance, &status);

                LIST_FOR_EACH(link, &blueprint->spaces) {
                        const struct space *space = container_of(link, struct space, link);
                        _free_ char *percentage = xasprintf("%.2f", space->percentage);
                        _free_ char *pipe =
                                xasprintf("%s/%s/%s", request->daemon->pipe_directory, blueprint->name, space->name);
                        const char *cells[] = {space->name, blueprint->name, state, memory_of(space),
                                space->percentage > 0 ? percentage : "-", "-", pipe};

                        put_row(request, cells, ARRAY_SIZE(cells));
                }
        }
        return true;
}

/* ---- client, device ---- */

/* The command line of the process, as the process has it: a tenant can put anything there. */
static char *command_of(const char *pid)
{
        _free_ char *path = xasprintf("/proc/%s/cmdline", pid);
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        char text[256];
        ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

        got = got > 0 ? got - 1 : 0;
        text[got] = '\0';
        for (ssize_t i = 0; i < got; i++)
                if (!text[i])
                        text[i] = ' ';
        return xstrdup(text);
}

static const char *namespace_of_client(const struct daemon *daemon, const char *pid)
{
        const struct admission *admission = admission_find(daemon, (pid_t)strtol(pid, NULL, 10));

        return admission && admission->space[0] ? admission->space : "default";
}

/* As 615.71.09 says it everywhere: "srv/default (0)". What the number means is not known. */
static char *full_namespace(const struct daemon *daemon, const struct instance *instance, const char *pid)
{
        return xasprintf("%s/%s (0)", instance->name, namespace_of_client(daemon, pid));
}

/* The UUID of the server's device: the only one, or the first that the daemon sees. */
static const char *device_of(const struct daemon *daemon, const struct instance *instance)
{
        const struct blueprint *blueprint = blueprint_find(daemon, instance->name);
        unsigned int visible[MPS_SIM_GPUS];
        int count = mps_scenario_visible(&daemon->scenario, getenv("CUDA_VISIBLE_DEVICES"), visible);

        if (blueprint && text_starts_with(blueprint->devices, "GPU-") && !strchr(blueprint->devices, ','))
                return blueprint->devices;
        return count > 0 ? daemon->scenario.gpus[visible[0]].uuid : "-";
}

static void put_client(const struct v3_request *request, const struct instance *instance, const char *pid)
{
        _free_ char *command = command_of(pid);
        _free_ char *space = full_namespace(request->daemon, instance, pid);
        const char *cells[] = {pid, instance->name, device_of(request->daemon, instance), space, command};

        put_row(request, cells, ARRAY_SIZE(cells));
}

static bool client_list(const struct v3_request *request)
{
        static const char *const head[] = {"pid", "server", "device", "maws-ns", "cmd"};
        const char *server = option(request, "--server");

        put_head(request, head, ARRAY_SIZE(head));
        LIST_FOR_EACH(link, &request->daemon->instances) {
                struct instance *instance = container_of(link, struct instance, link);
                _cleanup_(strbuf_done) struct strbuf pids = STRBUF_INIT;
                char *rest = NULL;

                if ((server && strcmp(server, instance->name) != 0) ||
                        !instance_ask(request->daemon, instance, &pids, "clients"))
                        continue;
                for (char *pid = strtok_r(pids.data, "\n", &rest); pid; pid = strtok_r(NULL, "\n", &rest))
                        put_client(request, instance, pid);
        }
        return true;
}

/* The server that has the client |wanted|, or NULL. */
static struct instance *server_of(const struct v3_request *request, const char *wanted)
{
        LIST_FOR_EACH(link, &request->daemon->instances) {
                struct instance *instance = container_of(link, struct instance, link);
                _cleanup_(strbuf_done) struct strbuf pids = STRBUF_INIT;
                char *rest = NULL;

                if (!instance_ask(request->daemon, instance, &pids, "clients"))
                        continue;
                for (char *pid = strtok_r(pids.data, "\n", &rest); pid; pid = strtok_r(NULL, "\n", &rest))
                        if (strcmp(pid, wanted) == 0)
                                return instance;
        }
        return NULL;
}

static void put_namespace_of_client(const struct v3_request *request, const struct instance *instance)
{
        _free_ char *space = full_namespace(request->daemon, instance, request->name);

        strbuf_printf(request->out, "%s\n", space);
}

static bool client_get(const struct v3_request *request)
{
        const struct instance *instance = server_of(request, request->name);

        if (!instance)
                return fail(request, "Client %s not found", request->name);
        if (strcmp(request->more[0], "server") == 0)
                strbuf_printf(request->out, "%s\n", instance->name);
        else if (strcmp(request->more[0], "maws-ns") == 0)
                put_namespace_of_client(request, instance);
        else
                return fail(request, "Unknown field: %s", request->more[0]);
        return true;
}

static bool client_terminate(const struct v3_request *request)
{
        struct instance *instance = server_of(request, request->name);
        _cleanup_(strbuf_done) struct strbuf answer = STRBUF_INIT;

        return (instance && instance_ask(request->daemon, instance, &answer, "terminate %s", request->name) &&
                       strcmp(answer.data, "0\n") == 0) ||
               fail(request, "Client %s not found", request->name);
}

static bool device_list(const struct v3_request *request)
{
        static const char *const head[] = {"uuid", "name", "sms"};
        unsigned int visible[MPS_SIM_GPUS];
        int count = mps_scenario_visible(&request->daemon->scenario, getenv("CUDA_VISIBLE_DEVICES"), visible);

        put_head(request, head, ARRAY_SIZE(head));
        for (int i = 0; i < count; i++) {
                const struct mps_gpu *gpu = &request->daemon->scenario.gpus[visible[i]];
                _free_ char *sms = xasprintf("%u", gpu->sms);
                const char *cells[] = {gpu->uuid, gpu->name, sms};

                put_row(request, cells, ARRAY_SIZE(cells));
        }
        return true;
}

/* ---- sm-partition ---- */

static struct partition *find_named_partition(const struct v3_request *request)
{
        LIST_FOR_EACH(link, &request->daemon->partitions) {
                struct partition *partition = container_of(link, struct partition, link);

                if (strcmp(partition->name, request->name) == 0)
                        return partition;
        }
        return NULL;
}

static bool partition_create(const struct v3_request *request)
{
        const char *device = option(request, "--device");
        const char *text = option(request, "--chunks");
        const struct blueprint *blueprint = need_server(request, option(request, "--server"));
        struct partition *partition;
        uint64_t chunks = 0;

        if (!blueprint)
                return false;
        if (!request->name[0] || find_named_partition(request))
                return fail(request, "Partition %s already exists", request->name);
        if (!text || !text_to_uint(text, 1000, &chunks) || !device)
                return fail(request, "--device and --chunks are required");
        partition = partition_add(request->daemon, device, (unsigned int)chunks);
        if (!partition)
                return fail(request, "Failed to fulfill the requested SM partition of %llu chunks",
                        (unsigned long long)chunks);
        snprintf(partition->name, sizeof(partition->name), "%s", request->name);
        snprintf(partition->server, sizeof(partition->server), "%s", blueprint->name);
        strbuf_printf(request->out, "CUDA_MPS_SM_PARTITION=%s\n", partition->id);
        return true;
}

static bool partition_delete(const struct v3_request *request)
{
        struct partition *partition = find_named_partition(request);

        if (!partition)
                return fail(request, "Partition %s not found", request->name);
        return partition_remove(partition) || fail(request, "Partition %s has clients", request->name);
}

static bool partition_list(const struct v3_request *request)
{
        static const char *const head[] = {"name", "server", "device", "chunks", "sms", "state"};

        put_head(request, head, ARRAY_SIZE(head));
        LIST_FOR_EACH(link, &request->daemon->partitions) {
                const struct partition *partition = container_of(link, struct partition, link);
                _free_ char *chunks = xasprintf("%u", partition->chunks);
                _free_ char *sms = xasprintf("%u", partition->sms);
                const char *cells[] = {partition->name, partition->server, partition->uuid, chunks, sms, "created"};

                put_row(request, cells, ARRAY_SIZE(cells));
        }
        return true;
}

/* ---- the table ---- */

bool command_run_v3(struct daemon *daemon, char *words, struct strbuf *out)
{
        static const struct {
                const char *module;
                const char *verb;
                bool (*run)(const struct v3_request *request);
        } commands[] = {{"server", "create", server_create}, {"server", "delete", server_delete},
                {"server", "list", server_list}, {"server", "set", server_set}, {"server", "get", server_get},
                {"namespace", "create", space_create}, {"namespace", "delete", space_delete},
                {"namespace", "list", space_list}, {"namespace", "set", space_set}, {"namespace", "get", space_get},
                {"client", "list", client_list}, {"client", "get", client_get},
                {"client", "terminate", client_terminate}, {"device", "list", device_list},
                {"sm-partition", "create", partition_create}, {"sm-partition", "delete", partition_delete},
                {"sm-partition", "list", partition_list}};
        struct v3_request request = {.daemon = daemon, .out = out};
        _free_ char *name = NULL;

        if (!read_words(&request, words))
                return fail(&request, "Too many options");
        name = xasprintf("%s %s", request.module, request.verb);
        if (command_apply_fault(daemon, name, out))
                return true;
        if (daemon->protocol != 3)
                return fail(&request, "The running daemon speaks protocol 2");
        for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
                if (strcmp(commands[i].module, request.module) == 0 && strcmp(commands[i].verb, request.verb) == 0)
                        return commands[i].run(&request);
        }
        return fail(&request, "Unknown command: %s %s", request.module, request.verb);
}
