// SPDX-License-Identifier: Apache-2.0
/*
 * The control interface of releases up to r610: an answer for each line. The texts are those of 535.309.01 and
 * 550.163.01.
 */
#include "sim/mps/daemon.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define MAX_WORDS 8U

struct request {
        struct daemon *daemon;
        const struct peer *peer;
        const char *words[MAX_WORDS]; /* "" where there is none */
        struct strbuf *out;
        bool quits;
};

static int number(const char *word)
{
        return atoi(word); /* NOLINT(cert-err34-c): as NVIDIA's program: "1x" is 1, "x" is 0 */
}

static bool is_privileged(const struct request *request)
{
        return request->peer->who.uid == 0 || request->peer->who.uid == geteuid();
}

/* ---- settings ---- */

/* 535 lets every user change them; 550 only root and the daemon's own user. */
static bool may_change_defaults(const struct request *request)
{
        if (is_privileged(request) || request->daemon->scenario.version < 550)
                return true;
        strbuf_printf(request->out,
                "Insufficient privileges for UID %u. Control deamon settings can only be modified by the user started it or "
                "by the root user.\n",
                request->peer->who.uid);
        return false;
}

static bool may_change_server(const struct request *request, const struct instance *instance, const char *what)
{
        if (is_privileged(request) || request->peer->who.uid == instance->uid ||
                request->daemon->scenario.version < 550)
                return true;
        strbuf_printf(request->out, "Insufficient privileges for UID %u. Only the root user may %s.\n",
                request->peer->who.uid, what);
        return false;
}

/*
 * The ordinal of the device |word|, from r615 on also by UUID; -1: out of range, which is only logged. |value| becomes
 * the value that belongs to it.
 */
static int device(const struct request *request, const char *word, const char **value)
{
        const struct mps_scenario *scenario = &request->daemon->scenario;
        unsigned int visible[MPS_SIM_GPUS];
        int count = mps_scenario_visible(scenario, getenv("CUDA_VISIBLE_DEVICES"), visible);
        int ordinal = number(word);

        for (int i = 0; scenario->version >= 615 && i < count; i++) {
                if (strcmp(scenario->gpus[visible[i]].uuid, word) == 0)
                        return i;
        }
        *value = limits_value(word, *value);
        if (ordinal >= 0 && (unsigned int)ordinal < LIMITS_DEVICES)
                return ordinal;
        journal_line(&request->daemon->journal, "Invalid device ordinal!");
        return -1;
}

static void get_default_percentage(struct request *request)
{
        strbuf_printf(request->out, "%.1f\n", request->daemon->limits.percentage);
}

static void set_default_percentage(struct request *request)
{
        struct daemon *daemon = request->daemon;

        if (!may_change_defaults(request))
                return;
        if (!limits_read_percentage(&daemon->limits.percentage, request->words[1]))
                journal_line(&daemon->journal, "Invalid percentage, expected between (0.0, 100.0]");
        get_default_percentage(request);
}

static void get_default_limit(struct request *request)
{
        const char *none = "";
        int ordinal = device(request, request->words[1], &none);

        if (ordinal < 0)
                return;
        if (!request->daemon->limits.memory_mib[ordinal])
                journal_line(&request->daemon->journal, "No default pinned memory limit set for the device!");
        limits_put_memory(request->out, request->daemon->limits.memory_mib[ordinal]);
}

static void set_default_limit(struct request *request)
{
        const char *value = request->words[2];
        int ordinal;

        if (may_change_defaults(request) && (ordinal = device(request, request->words[1], &value)) >= 0)
                request->daemon->limits.memory_mib[ordinal] = limits_read_memory(value);
}

static void get_priority(struct request *request)
{
        strbuf_printf(request->out, "%u\n", request->daemon->limits.priority);
}

static void set_priority(struct request *request)
{
        int priority = number(request->words[1]);

        if (!may_change_defaults(request))
                return;
        if (priority == 0 || priority == 1)
                request->daemon->limits.priority = (unsigned int)priority;
        else
                strbuf_puts(request->out, "Invalid priority value - must be 0 or 1!\n");
}

/* ---- servers ---- */

/* The server of the command's first argument, or NULL after saying that there is none. */
static struct instance *named_server(struct request *request)
{
        pid_t pid = number(request->words[1]);
        struct instance *instance = daemon_find(request->daemon, pid);

        if (!instance)
                strbuf_printf(request->out, "Server %d not found\n", (int)pid);
        return instance;
}

/* Asks the server that the command names |question|, with two more words of the command. */
static void ask_named(struct request *request, const char *question)
{
        struct instance *instance = named_server(request);

        if (instance)
                instance_ask(request->daemon, instance, request->out, "%s %s %s", question, request->words[2],
                        request->words[3]);
}

static void get_server_list(struct request *request)
{
        LIST_FOR_EACH(link, &request->daemon->instances)
                strbuf_printf(request->out, "%d\n", (int)container_of(link, struct instance, link)->pid);
}

static void get_server_status(struct request *request)
{
        struct instance *instance;

        if (!request->words[1][0]) {
                strbuf_puts(request->out, "A server PID is required\n");
                return;
        }
        instance = named_server(request);
        if (instance && !instance->ready)
                strbuf_puts(request->out, "INITIALIZING\n");
        else if (instance)
                instance_ask(request->daemon, instance, request->out, "status");
}

static void start_server(struct request *request)
{
        struct daemon *daemon = request->daemon;
        const char *text = request->words[2];
        char *end;
        long uid = strtol(text, &end, 10);

        if (strcmp(request->words[1], "-uid") != 0 || end == text) {
                strbuf_puts(request->out, "A user id (UID) is required to start a new server\n");
                return;
        }
        if (request->peer->who.uid != 0 && request->peer->who.uid != (uid_t)uid) {
                strbuf_printf(request->out, "Insufficient privileges for UID %u%s\n", request->peer->who.uid,
                        daemon->scenario.version < 550 ? ""
                                                       : ". Only the root user may start server for another user.");
                return;
        }
        daemon->wanted_uid = (uid_t)uid;
        daemon_advance(daemon);
}

static void shutdown_server(struct request *request)
{
        struct instance *instance = named_server(request);

        if (!instance || !may_change_server(request, instance, "shutdown another user's server"))
                return;
        if (strcmp(request->words[2], "-f") == 0)
                kill(instance->pid, SIGKILL);
        else
                instance_stop(instance);
}

static void get_client_list(struct request *request)
{
        ask_named(request, "clients");
}

static void get_device_client_list(struct request *request)
{
        if (request->words[1][0]) {
                ask_named(request, "device-clients");
                return;
        }
        LIST_FOR_EACH(link, &request->daemon->instances)
                instance_ask(
                        request->daemon, container_of(link, struct instance, link), request->out, "device-clients");
}

static void get_percentage(struct request *request)
{
        ask_named(request, "percentage");
}

static void set_percentage(struct request *request)
{
        struct instance *instance = named_server(request);

        if (!instance || !may_change_server(request, instance, "change settings for another user's server"))
                return;
        if (instance_ask(request->daemon, instance, request->out, "set-percentage %s", request->words[2]))
                instance_ask(request->daemon, instance, request->out, "percentage");
}

static void get_limit(struct request *request)
{
        ask_named(request, "limit");
}

static void set_limit(struct request *request)
{
        struct instance *instance = named_server(request);

        if (instance && may_change_server(request, instance, "change settings for another user's server"))
                instance_ask(request->daemon, instance, request->out, "set-limit %s %s", request->words[2],
                        request->words[3]);
}

static void terminate_client(struct request *request)
{
        struct instance *instance = named_server(request);

        if (instance && !may_change_server(request, instance, "terminate clients on another user's server"))
                return;
        if (instance && instance_ask(request->daemon, instance, request->out, "terminate %s", request->words[2]))
                return;
        strbuf_printf(request->out, "Server %d not found!\n1\n", number(request->words[1]));
}

/* ---- processes ---- */

static void put_ps_head(struct strbuf *out)
{
        strbuf_printf(out, "%-10s%-10s%-15s%-15s%-15s%-15s\n", "PID", "ID", "SERVER", "DEVICE", "NAMESPACE", "COMMAND");
}

static void ps_of_one(struct request *request)
{
        pid_t pid = number(request->words[2]);
        struct instance *instance = daemon_find(request->daemon, pid);
        _cleanup_(strbuf_done) struct strbuf lines = STRBUF_INIT;

        if (!instance)
                strbuf_printf(request->out, "Server %d not found\n", (int)pid);
        if (!instance || !instance_ask(request->daemon, instance, &lines, "ps")) {
                strbuf_printf(request->out, "Server %d not found\n\n", (int)pid);
                return;
        }
        put_ps_head(request->out);
        strbuf_puts(request->out, lines.data);
}

static void ps(struct request *request)
{
        _cleanup_(strbuf_done) struct strbuf lines = STRBUF_INIT;
        bool answered = false;

        if (strcmp(request->words[1], "-p") == 0) {
                ps_of_one(request);
                return;
        }
        LIST_FOR_EACH(link, &request->daemon->instances)
                answered |= instance_ask(request->daemon, container_of(link, struct instance, link), &lines, "ps");
        if (answered)
                put_ps_head(request->out);
        strbuf_puts(request->out, answered ? lines.data : "Server not found\n");
}

/* ---- partitions ---- */

static void sm_partition_add(struct request *request)
{
        int chunks = number(request->words[3]);
        const struct partition *partition =
                chunks > 0 ? partition_add(request->daemon, request->words[2], (unsigned int)chunks) : NULL;

        if (!partition)
                strbuf_printf(request->out,
                        "Failed to fulfill the requested SM partition of %d chunks, error "
                        "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION\n",
                        chunks);
        else
                strbuf_printf(request->out, "Partition %s created\n", partition->id);
}

/*
 * The id is what stands behind the UUID in what sm_partition add printed; nobody has recorded that a whole one is
 * taken. NVIDIA's program does not fill in the "%s".
 */
static void sm_partition_remove(struct request *request)
{
        _free_ char *whole = xasprintf("%s/%s", request->words[2], request->words[3]);
        struct partition *partition = partition_find(request->daemon, whole);

        if (!partition)
                strbuf_printf(request->out, "Partition %s not found\n", request->words[3]);
        else if (!partition_remove(partition))
                strbuf_puts(request->out, "Partition %s in use. Terminate all clients before removing.\n");
}

static void sm_partition(struct request *request)
{
        if (!request->daemon->is_static)
                strbuf_puts(request->out, "Static partitioning is not enabled\n");
        else if (strcmp(request->words[1], "add") == 0)
                sm_partition_add(request);
        else if (strcmp(request->words[1], "rm") == 0)
                sm_partition_remove(request);
        else
                strbuf_puts(request->out, "Usage: sm_partition add UUID CHUNKS | rm UUID ID\n");
}

#define PARTITION_ROW "%-15s%-55s%-9s%-9s%-9s%-9s%s\n"
#define PARTITION_NUMBERS "%-15.12s%-55s%-9u%-9u%-9u%-9u%s\n"
#define PARTITION_USED "%-15.12s%-55s%-9s%-9u%-9s%-9u%s\n"

/* Lists each GPU, by the beginning of its UUID, with what is free, then its partitions: as recorded from 590 on. */
static void lspart(struct request *request)
{
        struct daemon *daemon = request->daemon;
        unsigned int visible[MPS_SIM_GPUS];
        int count = mps_scenario_visible(&daemon->scenario, getenv("CUDA_VISIBLE_DEVICES"), visible);

        strbuf_printf(request->out, PARTITION_ROW, "GPU", "Partition", "free", "used", "free", "used", "clients");
        strbuf_printf(request->out, PARTITION_ROW, "", "", "chunks", "chunks", "SM", "SM", "");
        for (int i = 0; i < count; i++) {
                const struct mps_gpu *gpu = &daemon->scenario.gpus[visible[i]];
                unsigned int left = partition_free_chunks(daemon, gpu);
                unsigned int used = partition_chunks(gpu) - left;
                unsigned int used_sms = used * partition_chunk_sms(gpu);

                strbuf_printf(request->out, PARTITION_NUMBERS, gpu->uuid, "-", left, used, gpu->sms - used_sms,
                        used_sms, "-");
                LIST_FOR_EACH(link, &daemon->partitions) {
                        const struct partition *partition = container_of(link, struct partition, link);

                        if (strcmp(partition->uuid, gpu->uuid) == 0)
                                strbuf_printf(request->out, PARTITION_USED, gpu->uuid,
                                        partition->id + strlen(gpu->uuid) + 1, "-", partition->chunks, "-",
                                        partition->sms, partition->n_clients ? "Yes" : "-");
                }
        }
}

/* ---- the end ---- */

static void quit(struct request *request)
{
        struct daemon *daemon = request->daemon;
        int seconds = number(request->words[2]);

        if (!is_privileged(request)) {
                strbuf_puts(request->out, "Not enough privilege to execute quit command\n");
                return;
        }
        if (strcmp(request->words[1], "-t") == 0 && request->words[2][0]) {
                journal_line(&daemon->journal, "quit command issued with timeout of %d", seconds);
                daemon->kill_ms = now_ms() + seconds * INT64_C(1000);
        }
        daemon->quits = request->quits = true;
        LIST_FOR_EACH(link, &daemon->instances)
                instance_stop(container_of(link, struct instance, link));
        daemon_advance(daemon);
}

/* ---- the table ---- */

static const struct command {
        const char *name;
        void (*run)(struct request *request);
        unsigned int since;
} commands[] = {
        {"get_server_list", get_server_list, 0},
        {"get_server_status", get_server_status, 550},
        {"start_server", start_server, 0},
        {"shutdown_server", shutdown_server, 0},
        {"get_client_list", get_client_list, 0},
        {"get_device_client_list", get_device_client_list, 0},
        {"terminate_client", terminate_client, 0},
        {"ps", ps, 0},
        {"set_default_active_thread_percentage", set_default_percentage, 0},
        {"get_default_active_thread_percentage", get_default_percentage, 0},
        {"set_active_thread_percentage", set_percentage, 0},
        {"get_active_thread_percentage", get_percentage, 0},
        {"set_default_device_pinned_mem_limit", set_default_limit, 0},
        {"get_default_device_pinned_mem_limit", get_default_limit, 0},
        {"set_device_pinned_mem_limit", set_limit, 0},
        {"get_device_pinned_mem_limit", get_limit, 0},
        {"set_default_client_priority", set_priority, 0},
        {"get_default_client_priority", get_priority, 0},
        {"sm_partition", sm_partition, 590},
        {"lspart", lspart, 590},
        {"quit", quit, 0},
};

static const struct command *find_command(const char *name, unsigned int version)
{
        for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
                if (strcmp(commands[i].name, name) == 0 && commands[i].since <= version)
                        return &commands[i];
        }
        return NULL;
}

static void split(struct request *request, char *line)
{
        char *rest = NULL;
        char *word = strtok_r(line, " \t\r", &rest);

        for (size_t i = 0; i < MAX_WORDS; i++) {
                request->words[i] = word ? word : "";
                word = word ? strtok_r(NULL, " \t\r", &rest) : NULL;
        }
}

bool command_apply_fault(const struct daemon *daemon, const char *name, struct strbuf *out)
{
        const struct mps_scenario *scenario = &daemon->scenario;
        const struct mps_fault *reported = mps_scenario_fault(scenario, name, MPS_FAULT_ANSWER);

        if (scenario->daemon == MPS_DAEMON_GARBAGE) {
                strbuf_puts(out, "\x01\xff\xfe\x1b[31m%s%n 99999999999999999999 -1 nan\n\n\t\x80");
                return true;
        }
        if (reported) {
                strbuf_printf(out, "%s\n", reported->answer);
                return true;
        }
        return mps_scenario_fault(scenario, name, MPS_FAULT_IGNORE) != NULL;
}

bool command_run(struct daemon *daemon, const struct peer *peer, const char *line, struct strbuf *out)
{
        _free_ char *copy = xstrdup(line);
        struct request request = {.daemon = daemon, .peer = peer, .out = out};
        const struct command *command;

        split(&request, copy);
        if (command_apply_fault(daemon, request.words[0], out))
                return false;
        command = find_command(request.words[0], daemon->scenario.version);
        if (command)
                command->run(&request);
        else
                strbuf_printf(out, "Unknown command \"%s\"\n", request.words[0]);
        journal_text(&daemon->journal, out->data);
        return request.quits;
}
