// SPDX-License-Identifier: Apache-2.0
#include "sim/mps/scenario.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "sim/hardware/models.h"
#include "sim/hardware/uuid.h"

#define FILE_MAX ((size_t)256 * 1024)

/* ---- values ---- */

struct word {
        const char *word;
        unsigned int value;
};

/* "word" or "word 12" */
static bool read_word(const char *text, const struct word *words, unsigned int *value, uint64_t *number)
{
        size_t length = strcspn(text, " ");

        for (; words->word; words++) {
                if (strlen(words->word) != length || strncmp(words->word, text, length) != 0)
                        continue;
                *value = words->value;
                return !text[length] || text_to_uint(text + length + 1, UINT32_MAX, number);
        }
        return false;
}

static void copy(char *to, size_t size, const char *from)
{
        snprintf(to, size, "%s", from);
}

/* What a GPU without memory of its own has: the machine's, as much as a DGX Spark has. */
#define MACHINE_MIB ((uint64_t)131072)

/* "GPU-… sms=108 chunks=25 memory=40960 cc=8 name=A100 lost"; the memory is MiB. */
static bool read_gpu(struct mps_scenario *scenario, char *text)
{
        struct mps_gpu *gpu = &scenario->gpus[scenario->n_gpus];
        char *rest = NULL;
        char *word = strtok_r(text, " ", &rest);
        uint64_t number = 0;

        if (scenario->n_gpus == MPS_SIM_GPUS || !word)
                return false;
        *gpu = (struct mps_gpu){.sms = 80, .compute_major = 7, .memory_mib = 32768};
        copy(gpu->uuid, sizeof(gpu->uuid), word);
        copy(gpu->name, sizeof(gpu->name), "Simulated");
        while ((word = strtok_r(NULL, " ", &rest))) {
                const char *value = strchr(word, '=');
                bool is_number = value && text_to_uint(value + 1, UINT32_MAX, &number);

                if (strcmp(word, "lost") == 0)
                        gpu->lost = true;
                else if (text_starts_with(word, "name="))
                        copy(gpu->name, sizeof(gpu->name), value + 1);
                else if (text_starts_with(word, "sms=") && is_number)
                        gpu->sms = (unsigned int)number;
                else if (text_starts_with(word, "chunks=") && is_number)
                        gpu->chunks = (unsigned int)number;
                else if (text_starts_with(word, "cc=") && is_number)
                        gpu->compute_major = (unsigned int)number;
                else if (text_starts_with(word, "memory=") && is_number)
                        gpu->memory_mib = number;
                else
                        return false;
        }
        scenario->n_gpus++;
        return true;
}

/* "H100-80GB 4": the same GPUs, with the same UUIDs, as the simulated NVML makes of `{model: H100-80GB, count: 4}`. */
static bool read_gpus(struct mps_scenario *scenario, char *text)
{
        char *space = strchr(text, ' ');
        const struct model *model;
        uint64_t count;

        if (!space || !text_to_uint(space + 1, MPS_SIM_GPUS - scenario->n_gpus, &count))
                return false;
        *space = '\0';
        model = model_find(text);
        for (size_t i = 0; model && i < count; i++) {
                struct mps_gpu *gpu = &scenario->gpus[scenario->n_gpus++];

                *gpu = (struct mps_gpu){.sms = model->multiprocessors,
                        .compute_major = (unsigned int)model->compute_major,
                        .memory_mib = model->memory_mib ? model->memory_mib : MACHINE_MIB};
                sim_uuid_gpu(gpu->uuid, model->key, i);
                copy(gpu->name, sizeof(gpu->name), model->product);
        }
        return model;
}

/* "on quit: ignore", "on ps: delay 500", "on ps: hang", "on get_server_status: answer FAULT" */
static bool read_fault(struct mps_scenario *scenario, const char *command, const char *value)
{
        static const struct word words[] = {
                {"hang", MPS_FAULT_HANG}, {"delay", MPS_FAULT_DELAY}, {"ignore", MPS_FAULT_IGNORE}, {NULL}};
        struct mps_fault *fault = &scenario->faults[scenario->n_faults];
        unsigned int kind = MPS_FAULT_ANSWER;

        if (scenario->n_faults == MPS_SIM_FAULTS)
                return false;
        *fault = (struct mps_fault){0};
        copy(fault->command, sizeof(fault->command), command);
        if (text_starts_with(value, "answer"))
                copy(fault->answer, sizeof(fault->answer), value[6] ? value + 7 : "");
        else if (!read_word(value, words, &kind, &fault->delay_ms))
                return false;
        fault->kind = (enum mps_fault_kind)kind;
        scenario->n_faults++;
        return true;
}

static bool read_flag(const char *value, const char *off, const char *on, bool *flag)
{
        *flag = strcmp(value, on) == 0;
        return *flag || strcmp(value, off) == 0;
}

static bool read_server(struct mps_scenario *scenario, const char *value)
{
        static const struct word words[] = {{"works", MPS_SERVER_WORKS}, {"exits", MPS_SERVER_EXITS},
                {"hangs", MPS_SERVER_HANGS}, {"fault", MPS_SERVER_FAULT}, {NULL}};
        unsigned int mode = 0;

        if (!read_word(value, words, &mode, &scenario->server_number))
                return false;
        scenario->server = (enum mps_server_mode)mode;
        return true;
}

static bool read_daemon(struct mps_scenario *scenario, const char *value)
{
        static const struct word words[] = {{"works", MPS_DAEMON_WORKS}, {"exits", MPS_DAEMON_EXITS},
                {"garbage", MPS_DAEMON_GARBAGE}, {"slow", MPS_DAEMON_SLOW}, {"deaf", MPS_DAEMON_UNRESPONSIVE}, {NULL}};
        unsigned int mode = 0;

        if (!read_word(value, words, &mode, &scenario->daemon_number))
                return false;
        scenario->daemon = (enum mps_daemon_mode)mode;
        return true;
}

/* ---- the file ---- */

static bool read_pair(struct mps_scenario *scenario, const char *key, char *value)
{
        const struct {
                const char *key;
                uint64_t *number;
        } numbers[] = {{"context-memory", &scenario->context_mib}, {"max-clients", &scenario->max_clients},
                {"lifetime", &scenario->lifetime_s}, {"owner", &scenario->owner}};
        uint64_t version;

        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
                if (strcmp(key, numbers[i].key) == 0)
                        return text_to_uint(value, UINT32_MAX, numbers[i].number);
        }
        if (strcmp(key, "version") == 0 && text_to_uint(value, 9999, &version)) {
                scenario->version = (unsigned int)version;
                return true;
        }
        if (strcmp(key, "gpu") == 0)
                return read_gpu(scenario, value);
        if (strcmp(key, "gpus") == 0)
                return read_gpus(scenario, value);
        if (text_starts_with(key, "on "))
                return read_fault(scenario, key + 3, value);
        if (strcmp(key, "server") == 0)
                return read_server(scenario, value);
        if (strcmp(key, "daemon") == 0)
                return read_daemon(scenario, value);
        if (strcmp(key, "killed-client") == 0)
                return read_flag(value, "contained", "fault", &scenario->killed_client_faults);
        if (strcmp(key, "orphaned-server") == 0)
                return read_flag(value, "stays", "exits", &scenario->orphan_exits);
        if (strcmp(key, "system-root") == 0) {
                copy(scenario->system_root, sizeof(scenario->system_root), value);
                return true;
        }
        if (strcmp(key, "process-directory") == 0) {
                copy(scenario->process_directory, sizeof(scenario->process_directory), value);
                return true;
        }
        return false;
}

static char *trim(char *text)
{
        char *end;

        text += strspn(text, " \t");
        end = text + strlen(text);
        while (end > text && strchr(" \t\r", end[-1]))
                end--;
        *end = '\0';
        return text;
}

/* False if the line cannot be understood. Blank lines and comments are fine. */
static bool read_line(struct mps_scenario *scenario, char *line)
{
        char *text = trim(line);
        char *colon = strchr(text, ':');

        if (!text[0] || text[0] == '#')
                return true;
        if (!colon)
                return false;
        *colon = '\0';
        return read_pair(scenario, trim(text), trim(colon + 1));
}

static int read_file(struct mps_scenario *scenario, const char *path, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        unsigned int number = 0;
        char *rest = NULL;

        if (file_read(path, FILE_MAX, &text, err) < 0)
                return -1;
        for (char *line = text.data; line; line = rest) {
                _free_ char *shown = NULL;

                rest = strchr(line, '\n');
                if (rest)
                        *rest++ = '\0';
                number++;
                shown = xstrdup(line);
                if (!read_line(scenario, line))
                        return error_set(
                                err, ERROR_INVALID, "scenario '%s' line %u: not understood: %s", path, number, shown);
        }
        return 0;
}

/*
 * With several daemons, each may have a file of its own beside its pipe directory, which is read after the common one.
 */
static int read_own_file(struct mps_scenario *scenario, struct error *err)
{
        const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
        _free_ char *path = xasprintf("%s.sim", pipe ? pipe : "");

        return pipe && access(path, F_OK) == 0 ? read_file(scenario, path, err) : 0;
}

int mps_scenario_read(struct mps_scenario *ret, struct error *err)
{
        const char *path = getenv("WARPSHARE_MPS_SIM");
        struct mps_scenario scenario = {.version = 550, .lifetime_s = 600};

        if ((path && path[0] && read_file(&scenario, path, err) < 0) || read_own_file(&scenario, err) < 0)
                return -1;
        if (!scenario.n_gpus) {
                char fallback[] = "GPU-00000000-0000-0000-0000-000000000000";

                read_gpu(&scenario, fallback);
        }
        *ret = scenario;
        return 0;
}

bool mps_scenario_is_orphaned(const struct mps_scenario *scenario)
{
        return scenario->owner && kill((pid_t)scenario->owner, 0) < 0 && errno == ESRCH;
}

void mps_scenario_refresh(struct mps_scenario *scenario)
{
        struct error ignored;

        if (mps_scenario_read(scenario, &ignored) < 0)
                return;
}

const struct mps_fault *mps_scenario_fault(
        const struct mps_scenario *scenario, const char *command, enum mps_fault_kind kind)
{
        for (unsigned int i = 0; i < scenario->n_faults; i++) {
                const struct mps_fault *fault = &scenario->faults[i];

                if (fault->kind == kind && (strcmp(fault->command, command) == 0 || strcmp(fault->command, "*") == 0))
                        return fault;
        }
        return NULL;
}

/* ---- what is visible ---- */

/* Finds a GPU by its index, its UUID or the beginning of that, as CUDA does. */
static int find_gpu(const struct mps_scenario *scenario, const char *word)
{
        uint64_t index;

        if (text_to_uint(word, MPS_SIM_GPUS, &index))
                return index < scenario->n_gpus ? (int)index : -1;
        for (unsigned int i = 0; i < scenario->n_gpus; i++) {
                if (word[0] && text_starts_with(scenario->gpus[i].uuid, word))
                        return (int)i;
        }
        return -1;
}

int mps_scenario_visible(const struct mps_scenario *scenario, const char *visible, unsigned int ret[MPS_SIM_GPUS])
{
        _free_ char *words = xstrdup(visible ? visible : "");
        char *rest = NULL;
        int count = 0;

        if (!visible) {
                for (; count < (int)scenario->n_gpus; count++)
                        ret[count] = (unsigned int)count;
        }
        for (char *word = strtok_r(words, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
                int gpu = find_gpu(scenario, word);

                if (gpu < 0 || count == MPS_SIM_GPUS)
                        return -1;
                ret[count++] = (unsigned int)gpu;
        }
        for (int i = 0; i < count; i++) {
                if (scenario->gpus[ret[i]].lost)
                        return -1;
        }
        return count ? count : -1;
}

unsigned int mps_scenario_max_clients(const struct mps_scenario *scenario)
{
        if (scenario->max_clients)
                return (unsigned int)scenario->max_clients;
        if (scenario->gpus[0].compute_major < 7)
                return 16;
        return scenario->version >= 590 ? 60 : 48;
}
