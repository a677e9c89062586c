// SPDX-License-Identifier: Apache-2.0
#include "sim/nvml/scenario_parts.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "sim/hardware/uuid.h"

static const char *const gpu_keys[] = {"model", "count", "uuid", "name", "serial", "minor", "bus", "numa", "memory",
        "sms", "memoryUsed", "computeMode", "persistence", "mig", "nvlink", "processes", "utilization", "temperature",
        "power", "clock", "energy", "clockReasons", "throttled", "pcie", "nvlinkTraffic", "nvlinkErrors", "ecc",
        "remappedRows", "retiredPagesPending", "recoveryAction", "fabric", "present", "lost", "resets", "errors",
        "delays", NULL};

bool scenario_bus(const char *text, unsigned int *domain, unsigned int *bus, unsigned int *device)
{
        int end = 0;

        if (strlen(text) > 32 || !isxdigit((unsigned char)text[0]))
                return false;
        if (sscanf(text, "%8x:%2x:%2x.0%n", domain, bus, device, &end) == 3 && end && !text[end])
                return true;
        *domain = 0;
        end = 0;
        return sscanf(text, "%2x:%2x.0%n", bus, device, &end) == 2 && end && !text[end];
}

static int parse_identity(const struct decode *decode, struct scenario_gpu *gpu, size_t position, struct error *err)
{
        const char *bus = NULL;
        char uuid[SIM_UUID];

        assert(gpu->model);
        sim_uuid_gpu(uuid, gpu->model->key, position);
        gpu->uuid = arena_strdup(decode->arena, uuid);
        gpu->name = gpu->model->product;
        gpu->serial = arena_printf(decode->arena, "13200%08zu", position + 1);
        gpu->minor = (unsigned int)position;
        gpu->bus = 4 + 3 * (unsigned int)position;
        if (decode_text(decode, "uuid", 80, &gpu->uuid, err) < 0 ||
                decode_text(decode, "name", 64, &gpu->name, err) < 0 ||
                decode_text(decode, "serial", 30, &gpu->serial, err) < 0 ||
                decode_uint32(decode, "minor", 255, &gpu->minor, err) < 0 ||
                decode_text(decode, "bus", 33, &bus, err) < 0)
                return -1;
        if (bus && !scenario_bus(bus, &gpu->domain, &gpu->bus, &gpu->device))
                return decode_fail(decode, "bus", err, "must be a PCI address such as 0000:3b:00.0");
        return 0;
}

/* One node for all, or a list with one for each of |count|. */
static int parse_numa(
        const struct decode *decode, struct scenario_gpu *gpu, size_t nth, size_t count, struct error *err)
{
        const json_t *value = json_object_get(decode->object, "numa");
        json_int_t node;

        gpu->numa = -1;
        if (!value || json_is_null(value))
                return 0;
        if (json_is_array(value)) {
                if (json_array_size(value) != count)
                        return decode_fail(
                                decode, "numa", err, "has %zu nodes for %zu GPUs", json_array_size(value), count);
                value = json_array_get(value, nth);
        }
        node = json_integer_value(value);
        if (!json_is_integer(value) || node < -1 || node > 63)
                return decode_fail(decode, "numa", err, "must be a node from -1 (none) to 63, or a list of one a GPU");
        gpu->numa = (int)node;
        return 0;
}

static int parse_nvlink(const struct decode *decode, struct scenario_gpu *gpu, struct error *err)
{
        static const char *const keys[] = {"peers", "switch", NULL};
        const json_t *value = json_object_get(decode->object, "nvlink");
        const char *word = json_string_value(value);
        struct decode nvlink = {0};
        const json_t *peers = NULL;
        unsigned int *positions;
        bool found;

        if (!value || json_is_null(value))
                return 0;
        if (!gpu->model->nvlinks)
                return decode_fail(decode, "nvlink", err, "%s has no NVLink", gpu->model->key);
        if (word) {
                gpu->nvlink_all = strcmp(word, "all") == 0;
                gpu->nvlink_switch = strcmp(word, "switch") == 0;
                if (!gpu->nvlink_all && !gpu->nvlink_switch)
                        return decode_fail(decode, "nvlink", err, "must be all, switch, or a map with peers or switch");
                return 0;
        }
        if (decode_member(decode, "nvlink", &nvlink, &found, err) < 0 || decode_object(&nvlink, keys, err) < 0 ||
                decode_bool(&nvlink, "switch", &gpu->nvlink_switch, err) < 0)
                return -1;
        word = json_string_value(json_object_get(nvlink.object, "peers"));
        gpu->nvlink_all = word && strcmp(word, "all") == 0;
        if (gpu->nvlink_all)
                return 0;
        if (decode_array(&nvlink, "peers", SCENARIO_MAX_GPUS, &peers, err) < 0)
                return -1;
        positions = ARENA_ARRAY(decode->arena, unsigned int, json_array_size(peers));
        for (size_t i = 0; i < json_array_size(peers); i++) {
                const json_t *peer = json_array_get(peers, i);

                if (!json_is_integer(peer) || json_integer_value(peer) < 0 ||
                        json_integer_value(peer) >= (json_int_t)SCENARIO_MAX_GPUS)
                        return decode_fail_item(&nvlink, "peers", peers, i, err, "must be the position of a GPU");
                positions[i] = (unsigned int)json_integer_value(peer);
        }
        gpu->nvlink_peers = positions;
        gpu->n_nvlink_peers = json_array_size(peers);
        return 0;
}

static int parse_process(const struct decode *decode, struct scenario_process *process, struct error *err)
{
        static const char *const keys[] = {
                "pid", "name", "memory", "type", "gi", "ci", "utilization", "memoryUtilization", NULL};
        static const struct decode_word types[] = {{"C", PROCESS_COMPUTE}, {"G", PROCESS_GRAPHICS},
                {"MPS", PROCESS_MPS}, {"C+G", PROCESS_COMPUTE | PROCESS_GRAPHICS},
                {"M+C", PROCESS_MPS | PROCESS_COMPUTE}, {NULL}};
        uint64_t type = PROCESS_COMPUTE;

        *process = (struct scenario_process){.name = "", .gi = NVML_NO_INSTANCE, .ci = NVML_NO_INSTANCE};
        if (decode_object(decode, keys, err) < 0 || decode_uint32(decode, "pid", INT32_MAX, &process->pid, err) < 0 ||
                decode_text(decode, "name", 1024, &process->name, err) < 0 ||
                decode_size(decode, "memory", &process->memory, err) < 0 ||
                decode_word(decode, "type", types, &type, err) < 0 ||
                decode_uint32(decode, "gi", 14, &process->gi, err) < 0 ||
                decode_uint32(decode, "ci", 7, &process->ci, err) < 0 ||
                decode_uint32(decode, "utilization", 100, &process->utilization, err) < 0 ||
                decode_uint32(decode, "memoryUtilization", 100, &process->memory_utilization, err) < 0)
                return -1;
        if (!process->pid)
                return decode_fail(decode, "pid", err, "must be there, and not 0");
        process->types = (unsigned int)type;
        return 0;
}

static int parse_processes(const struct decode *decode, struct scenario_gpu *gpu, struct error *err)
{
        const json_t *list;
        struct scenario_process *processes;

        if (decode_array(decode, "processes", SCENARIO_MAX_PROCESSES, &list, err) < 0)
                return -1;
        processes = ARENA_ARRAY(decode->arena, struct scenario_process, json_array_size(list));
        for (size_t i = 0; i < json_array_size(list); i++) {
                struct decode item = decode_item(decode, "processes", list, i);

                if (parse_process(&item, &processes[i], err) < 0)
                        return -1;
        }
        gpu->processes = processes;
        gpu->n_processes = json_array_size(list);
        return 0;
}

/* A number for both, or a map of gpu and memory. */
static int parse_utilization(const struct decode *decode, struct scenario_gpu *gpu, struct error *err)
{
        static const char *const keys[] = {"gpu", "memory", NULL};
        struct decode both;
        bool found;

        if (!json_is_object(json_object_get(decode->object, "utilization"))) {
                if (decode_uint32(decode, "utilization", 100, &gpu->utilization, err) < 0)
                        return -1;
                gpu->memory_utilization = gpu->utilization;
                return 0;
        }
        if (decode_member(decode, "utilization", &both, &found, err) < 0 || decode_object(&both, keys, err) < 0 ||
                decode_uint32(&both, "gpu", 100, &gpu->utilization, err) < 0)
                return -1;
        return decode_uint32(&both, "memory", 100, &gpu->memory_utilization, err);
}

static int parse_ecc(const struct decode *decode, struct scenario_gpu *gpu, struct error *err)
{
        static const char *const keys[] = {"enabled", "corrected", "uncorrected", NULL};
        static const char *const counter_keys[] = {"volatile", "aggregate", NULL};
        struct decode ecc;
        struct decode counter;
        bool found;

        gpu->ecc = true;
        if (decode_member(decode, "ecc", &ecc, &found, err) < 0)
                return -1;
        if (!found)
                return 0;
        if (decode_object(&ecc, keys, err) < 0 || decode_bool(&ecc, "enabled", &gpu->ecc, err) < 0)
                return -1;
        for (size_t i = 0; i < 2; i++) {
                if (decode_member(&ecc, keys[1 + i], &counter, &found, err) < 0)
                        return -1;
                if (found && (decode_object(&counter, counter_keys, err) < 0 ||
                                     decode_uint(&counter, "volatile", UINT32_MAX, &gpu->ecc_errors[i][0], err) < 0 ||
                                     decode_uint(&counter, "aggregate", UINT32_MAX, &gpu->ecc_errors[i][1], err) < 0))
                        return -1;
        }
        return 0;
}

static int parse_health(const struct decode *decode, struct scenario_gpu *gpu, struct error *err)
{
        static const char *const row_keys[] = {"corrected", "uncorrected", "pending", "failure", NULL};
        static const struct decode_word actions[] = {{"none", NVML_GPU_RECOVERY_ACTION_NONE},
                {"reset", NVML_GPU_RECOVERY_ACTION_GPU_RESET}, {"reboot", NVML_GPU_RECOVERY_ACTION_NODE_REBOOT},
                {"drain-p2p", NVML_GPU_RECOVERY_ACTION_DRAIN_P2P},
                {"drain-and-reset", NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET},
                {"reset-imex", NVML_GPU_RECOVERY_ACTION_GPU_RESET_IMEX}, {NULL}};
        struct decode rows;
        uint64_t action = NVML_GPU_RECOVERY_ACTION_NONE;
        bool found;

        if (parse_ecc(decode, gpu, err) < 0 || decode_word(decode, "recoveryAction", actions, &action, err) < 0 ||
                decode_bool(decode, "retiredPagesPending", &gpu->retired_pending, err) < 0 ||
                decode_bool(decode, "lost", &gpu->lost, err) < 0 ||
                decode_member(decode, "remappedRows", &rows, &found, err) < 0)
                return -1;
        gpu->recovery_action = (unsigned int)action;
        if (!found)
                return 0;
        if (decode_object(&rows, row_keys, err) < 0 ||
                decode_uint32(&rows, "corrected", UINT32_MAX, &gpu->remapped_corrected, err) < 0 ||
                decode_uint32(&rows, "uncorrected", UINT32_MAX, &gpu->remapped_uncorrected, err) < 0 ||
                decode_bool(&rows, "pending", &gpu->remapped_pending, err) < 0)
                return -1;
        return decode_bool(&rows, "failure", &gpu->remapped_failure, err);
}

static bool parse_uuid_bytes(const char *text, unsigned char bytes[16])
{
        size_t digits = 0;

        for (; *text; text++) {
                static const char hex[] = "0123456789abcdef";
                const char *digit = strchr(hex, tolower((unsigned char)*text));

                if (*text == '-')
                        continue;
                if (!digit || digits == 32)
                        return false;
                bytes[digits / 2] = (unsigned char)(bytes[digits / 2] << 4 | (digit - hex));
                digits++;
        }
        return digits == 32;
}

static int parse_fabric(const struct decode *decode, struct scenario_gpu *gpu, struct error *err)
{
        static const char *const keys[] = {"cluster", "clique", "state", "status", NULL};
        static const struct decode_word states[] = {{"not-supported", NVML_GPU_FABRIC_STATE_NOT_SUPPORTED},
                {"not-started", NVML_GPU_FABRIC_STATE_NOT_STARTED}, {"in-progress", NVML_GPU_FABRIC_STATE_IN_PROGRESS},
                {"completed", NVML_GPU_FABRIC_STATE_COMPLETED}, {NULL}};
        struct decode fabric;
        const char *cluster = NULL;
        const char *status = NULL;
        uint64_t state = NVML_GPU_FABRIC_STATE_COMPLETED;
        bool found;

        if (decode_member(decode, "fabric", &fabric, &found, err) < 0)
                return -1;
        if (!found)
                return 0;
        if (decode_object(&fabric, keys, err) < 0 || decode_text(&fabric, "cluster", 64, &cluster, err) < 0 ||
                decode_uint32(&fabric, "clique", UINT32_MAX, &gpu->fabric_clique, err) < 0 ||
                decode_word(&fabric, "state", states, &state, err) < 0 ||
                decode_text(&fabric, "status", 64, &status, err) < 0)
                return -1;
        gpu->fabric_state = (unsigned int)state;
        if (cluster && !parse_uuid_bytes(cluster, gpu->fabric_uuid))
                return decode_fail(&fabric, "cluster", err, "must be a UUID");
        if (status && !scenario_result(status, &gpu->fabric_status))
                return decode_fail(&fabric, "status", err, "no NVML error: '%s'", status);
        return 0;
}

/* {<first>: N, <second>: N} */
static int parse_pair(const struct decode *decode, const char *name, const char *first, const char *second,
        uint64_t pair[2], struct error *err)
{
        const char *const keys[] = {first, second, NULL};
        struct decode both;
        bool found;

        if (decode_member(decode, name, &both, &found, err) < 0)
                return -1;
        if (!found)
                return 0;
        if (decode_object(&both, keys, err) < 0 || decode_uint(&both, first, INT64_MAX / 1000000, &pair[0], err) < 0)
                return -1;
        return decode_uint(&both, second, INT64_MAX / 1000000, &pair[1], err);
}

static int parse_nvlink_errors(const struct decode *decode, struct scenario_gpu *gpu, struct error *err)
{
        static const char *const keys[] = {"crcFlit", "crcData", "replay", "recovery", "ecc", NULL};
        struct decode errors;
        bool found;

        if (decode_member(decode, "nvlinkErrors", &errors, &found, err) < 0)
                return -1;
        if (!found)
                return 0;
        if (decode_object(&errors, keys, err) < 0)
                return -1;
        for (size_t i = 0; keys[i]; i++)
                if (decode_uint(&errors, keys[i], INT64_MAX, &gpu->nvlink_errors[i], err) < 0)
                        return -1;
        return 0;
}

static int parse_traffic(const struct decode *decode, struct scenario_gpu *gpu, struct error *err)
{
        if (parse_pair(decode, "throttled", "power", "thermal", gpu->throttled_ms, err) < 0 ||
                parse_pair(decode, "pcie", "sent", "received", gpu->pcie_bytes, err) < 0 ||
                parse_nvlink_errors(decode, gpu, err) < 0)
                return -1;
        return parse_pair(decode, "nvlinkTraffic", "sent", "received", gpu->nvlink_kib, err);
}

static int parse_load(const struct decode *decode, struct scenario_gpu *gpu, struct error *err)
{
        static const struct decode_word modes[] = {{"default", NVML_COMPUTEMODE_DEFAULT},
                {"prohibited", NVML_COMPUTEMODE_PROHIBITED}, {"exclusive-process", NVML_COMPUTEMODE_EXCLUSIVE_PROCESS},
                {NULL}};
        uint64_t mode = NVML_COMPUTEMODE_DEFAULT;
        uint64_t used = 0;
        unsigned int watts = gpu->model->power_w / 6;

        gpu->memory = (uint64_t)gpu->model->memory_mib << 20;
        gpu->multiprocessors = gpu->model->multiprocessors;
        gpu->temperature = 34;
        gpu->clock_mhz = gpu->model->clock_mhz / 4;
        if (decode_size(decode, "memory", &gpu->memory, err) < 0 ||
                decode_uint32(decode, "sms", 1024, &gpu->multiprocessors, err) < 0 ||
                decode_size(decode, "memoryUsed", &used, err) < 0 ||
                decode_word(decode, "computeMode", modes, &mode, err) < 0 ||
                decode_bool(decode, "persistence", &gpu->persistence, err) < 0 ||
                decode_uint32(decode, "temperature", 200, &gpu->temperature, err) < 0 ||
                decode_uint32(decode, "power", 10000, &watts, err) < 0 ||
                decode_uint32(decode, "clock", 10000, &gpu->clock_mhz, err) < 0 ||
                decode_uint(decode, "energy", INT64_MAX, &gpu->energy_mj, err) < 0 ||
                decode_uint(decode, "clockReasons", 0xffff, &gpu->clock_reasons, err) < 0)
                return -1;
        gpu->memory_used = decode_has(decode, "memoryUsed") ? (int64_t)used : -1;
        gpu->compute_mode = (nvmlComputeMode_t)mode;
        gpu->power_mw = watts * 1000;
        return 0;
}

static int parse_gpu(const struct decode *decode, struct scenario_gpu *gpu, size_t position, size_t nth, size_t count,
        struct error *err)
{
        gpu->present = true;
        if (parse_identity(decode, gpu, position, err) < 0 || parse_numa(decode, gpu, nth, count, err) < 0 ||
                parse_load(decode, gpu, err) < 0 || parse_utilization(decode, gpu, err) < 0 ||
                parse_traffic(decode, gpu, err) < 0 || parse_health(decode, gpu, err) < 0 ||
                parse_nvlink(decode, gpu, err) < 0 || parse_processes(decode, gpu, err) < 0 ||
                parse_fabric(decode, gpu, err) < 0 || scenario_parse_mig(decode, gpu, err) < 0 ||
                decode_uint32(decode, "resets", UINT32_MAX, &gpu->resets, err) < 0 ||
                decode_bool(decode, "present", &gpu->present, err) < 0)
                return -1;
        return scenario_parse_faults(decode, &gpu->faults, err);
}

static int parse_model(const struct decode *decode, const struct model **model, struct error *err)
{
        struct error known = {0};
        const char *key = NULL;
        size_t used = 0;

        if (decode_text(decode, "model", 32, &key, err) < 0)
                return -1;
        *model = key ? model_find(key) : NULL;
        if (*model)
                return 0;
        for (size_t i = 0; model_at(i) && used < sizeof(known.text); i++)
                used += (size_t)snprintf(
                        known.text + used, sizeof(known.text) - used, "%s%s", i ? ", " : "", model_at(i)->key);
        return decode_fail(decode, "model", err, "must be one of %s", known.text);
}

int scenario_parse_gpus(
        const struct decode *decode, struct scenario_gpu *gpus, size_t position, size_t count, struct error *err)
{
        static const char *const single[] = {"uuid", "serial", "minor", "bus"};
        const struct model *model;

        if (decode_object(decode, gpu_keys, err) < 0 || parse_model(decode, &model, err) < 0)
                return -1;
        for (size_t i = 0; count > 1 && i < ARRAY_SIZE(single); i++) {
                if (decode_has(decode, single[i]))
                        return decode_fail(decode, single[i], err, "cannot be the same for %zu GPUs", count);
        }
        for (size_t i = 0; i < count; i++) {
                gpus[i].model = model;
                if (parse_gpu(decode, &gpus[i], position + i, i, count, err) < 0)
                        return -1;
        }
        return 0;
}
