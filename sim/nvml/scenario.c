// SPDX-License-Identifier: Apache-2.0
#include "sim/nvml/scenario_parts.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char *const top_keys[] = {"driverVersion", "nvmlVersion", "cudaVersion", "init", "cpusPerNumaNode", "gpus",
        "topology", "p2p", "events", "errors", "delays", "computeModeDirectory", "processDirectory", "geometryFile",
        "keepMigUuids", "boots", "longestWait", NULL};

static int parse_versions(const struct decode *decode, struct scenario *scenario, struct error *err)
{
        struct scenario_versions *versions = &scenario->versions;
        const char *driver = "535.261.03";
        const char *cuda = "12.2";
        const char *nvml;
        unsigned int major;
        unsigned int minor;
        int end = 0;

        if (decode_text(decode, "driverVersion", sizeof(versions->driver), &driver, err) < 0 ||
                decode_text(decode, "cudaVersion", 16, &cuda, err) < 0)
                return -1;
        /* NVML's own version is "<major of the CUDA interface>.<driver>". */
        nvml = arena_printf(&scenario->arena, "%.*s.%s", (int)strcspn(cuda, "."), cuda, driver);
        if (sscanf(cuda, "%2u.%2u%n", &major, &minor, &end) != 2 || cuda[end])
                return decode_fail(decode, "cudaVersion", err, "must be quoted and like \"12.2\"");
        versions->cuda = (int)(major * 1000 + minor * 10);
        if (decode_text(decode, "nvmlVersion", sizeof(versions->nvml), &nvml, err) < 0)
                return -1;
        snprintf(versions->driver, sizeof(versions->driver), "%s", driver);
        snprintf(versions->nvml, sizeof(versions->nvml), "%s", nvml);
        return 0;
}

static int parse_init(const struct decode *decode, struct scenario *scenario, struct error *err)
{
        static const char *const keys[] = {"error", "delay", NULL};
        struct decode init;
        const char *word = NULL;
        bool found;

        if (decode_member(decode, "init", &init, &found, err) < 0)
                return -1;
        if (!found)
                return 0;
        if (decode_object(&init, keys, err) < 0 || decode_text(&init, "error", 64, &word, err) < 0 ||
                decode_duration(&init, "delay", &scenario->init_delay_ms, err) < 0)
                return -1;
        if (word && !scenario_result(word, &scenario->init_result))
                return decode_fail(&init, "error", err, "no NVML error: '%s'", word);
        return 0;
}

static int parse_gpus(const struct decode *decode, struct scenario *scenario, struct error *err)
{
        struct scenario_gpu *gpus = ARENA_ARRAY(&scenario->arena, struct scenario_gpu, SCENARIO_MAX_GPUS);
        const json_t *list;

        if (decode_array(decode, "gpus", SCENARIO_MAX_GPUS, &list, err) < 0)
                return -1;
        for (size_t i = 0; i < json_array_size(list); i++) {
                struct decode item = decode_item(decode, "gpus", list, i);
                unsigned int count = 1;

                if (json_is_object(item.object) && decode_uint32(&item, "count", SCENARIO_MAX_GPUS, &count, err) < 0)
                        return -1;
                if (scenario->n_gpus + count > SCENARIO_MAX_GPUS)
                        return decode_fail_item(decode, "gpus", list, i, err, "more than %u GPUs", SCENARIO_MAX_GPUS);
                if (scenario_parse_gpus(&item, gpus + scenario->n_gpus, scenario->n_gpus, count, err) < 0)
                        return -1;
                for (size_t n = scenario->n_gpus; n < scenario->n_gpus + count; n++) {
                        for (size_t m = 0; m < n; m++) {
                                if (strcmp(gpus[m].uuid, gpus[n].uuid) == 0)
                                        return decode_fail_item(decode, "gpus", list, i, err,
                                                "the uuid of GPU %zu is that of GPU %zu", n, m);
                                if (gpus[m].domain == gpus[n].domain && gpus[m].bus == gpus[n].bus &&
                                        gpus[m].device == gpus[n].device)
                                        return decode_fail_item(decode, "gpus", list, i, err,
                                                "the bus of GPU %zu is that of GPU %zu", n, m);
                        }
                }
                scenario->n_gpus += count;
        }
        scenario->gpus = gpus;
        return 0;
}

/* A position, or a UUID. */
static bool find_gpu(const struct scenario *scenario, const json_t *value, unsigned int *position)
{
        const char *uuid = json_string_value(value);

        if (json_is_integer(value)) {
                *position = (unsigned int)json_integer_value(value);
                return json_integer_value(value) >= 0 && json_integer_value(value) < (json_int_t)scenario->n_gpus;
        }
        for (size_t i = 0; uuid && i < scenario->n_gpus; i++) {
                if (strcmp(scenario->gpus[i].uuid, uuid) == 0) {
                        *position = (unsigned int)i;
                        return true;
                }
        }
        return false;
}

/* `topology` and `p2p`: {gpus: [0, 1], <key>: <word>} */
static int parse_pairs(const struct decode *decode, const char *list_key, const char *key,
        const struct decode_word *words, struct scenario *scenario, const struct scenario_pair **ret, size_t *ret_count,
        struct error *err)
{
        const char *const keys[] = {"gpus", key, NULL};
        struct scenario_pair *pairs;
        const json_t *list;

        if (decode_array(decode, list_key, SCENARIO_MAX_GPUS * SCENARIO_MAX_GPUS, &list, err) < 0)
                return -1;
        pairs = ARENA_ARRAY(&scenario->arena, struct scenario_pair, json_array_size(list));
        for (size_t i = 0; i < json_array_size(list); i++) {
                struct decode item = decode_item(decode, list_key, list, i);
                const json_t *gpus;
                uint64_t value = 0;

                if (decode_object(&item, keys, err) < 0 || decode_array(&item, "gpus", 2, &gpus, err) < 0 ||
                        decode_word(&item, key, words, &value, err) < 0)
                        return -1;
                if (!find_gpu(scenario, json_array_get(gpus, 0), &pairs[i].a) ||
                        !find_gpu(scenario, json_array_get(gpus, 1), &pairs[i].b) || pairs[i].a == pairs[i].b)
                        return decode_fail(&item, "gpus", err, "must be two GPUs, by position or uuid");
                if (!decode_has(&item, key))
                        return decode_fail(&item, key, err, "must be there");
                pairs[i].value = (unsigned int)value;
        }
        *ret = pairs;
        *ret_count = json_array_size(list);
        return 0;
}

static int parse_event(
        const struct decode *decode, const struct scenario *scenario, struct scenario_event *event, struct error *err)
{
        static const char *const keys[] = {"gpu", "type", "xid", "gi", "ci", NULL};
        static const struct decode_word types[] = {{"xid", NVML_EVENT_TYPE_XID_CRITICAL_ERROR},
                {"sbe", NVML_EVENT_TYPE_SINGLE_BIT_ECC_ERROR}, {"dbe", NVML_EVENT_TYPE_DOUBLE_BIT_ECC_ERROR},
                {"mig", NVML_EVENT_TYPE_MIG_CONFIG_CHANGE}, {"recovery", NVML_EVENT_TYPE_GPU_RECOVERY_ACTION}, {NULL}};

        *event = (struct scenario_event){
                .type = NVML_EVENT_TYPE_XID_CRITICAL_ERROR, .gi = NVML_NO_INSTANCE, .ci = NVML_NO_INSTANCE};
        if (decode_object(decode, keys, err) < 0 || decode_word(decode, "type", types, &event->type, err) < 0 ||
                decode_uint(decode, "xid", 999, &event->data, err) < 0 ||
                decode_uint32(decode, "gi", 14, &event->gi, err) < 0 ||
                decode_uint32(decode, "ci", 7, &event->ci, err) < 0)
                return -1;
        if (!find_gpu(scenario, json_object_get(decode->object, "gpu"), &event->gpu))
                return decode_fail(decode, "gpu", err, "must be a GPU, by position or uuid");
        if (decode_has(decode, "xid") != (event->type == NVML_EVENT_TYPE_XID_CRITICAL_ERROR))
                return decode_fail(decode, "xid", err, "must be there for type xid, and only then");
        return 0;
}

static int parse_events(const struct decode *decode, struct scenario *scenario, struct error *err)
{
        struct scenario_event *events;
        const json_t *list;

        if (decode_array(decode, "events", SCENARIO_MAX_EVENTS, &list, err) < 0)
                return -1;
        events = ARENA_ARRAY(&scenario->arena, struct scenario_event, json_array_size(list));
        for (size_t i = 0; i < json_array_size(list); i++) {
                struct decode item = decode_item(decode, "events", list, i);

                if (parse_event(&item, scenario, &events[i], err) < 0)
                        return -1;
        }
        scenario->events = events;
        scenario->n_events = json_array_size(list);
        return 0;
}

static int parse_top(const struct decode *decode, struct scenario *scenario, struct error *err)
{
        static const struct decode_word levels[] = {{"INTERNAL", NVML_TOPOLOGY_INTERNAL}, {"PIX", NVML_TOPOLOGY_SINGLE},
                {"PXB", NVML_TOPOLOGY_MULTIPLE}, {"PHB", NVML_TOPOLOGY_HOSTBRIDGE}, {"NODE", NVML_TOPOLOGY_NODE},
                {"SYS", NVML_TOPOLOGY_SYSTEM}, {NULL}};
        static const struct decode_word statuses[] = {{"OK", NVML_P2P_STATUS_OK},
                {"CHIPSET_NOT_SUPPORTED", NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED},
                {"GPU_NOT_SUPPORTED", NVML_P2P_STATUS_GPU_NOT_SUPPORTED},
                {"TOPOLOGY_NOT_SUPPORTED", NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED},
                {"DISABLED_BY_REGKEY", NVML_P2P_STATUS_DISABLED_BY_REGKEY},
                {"NOT_SUPPORTED", NVML_P2P_STATUS_NOT_SUPPORTED}, {"UNKNOWN", NVML_P2P_STATUS_UNKNOWN}, {NULL}};

        unsigned int boots = 0;

        scenario->cpus_per_numa_node = 16;
        scenario->longest_wait_ms = UINT_MAX;
        if (decode_object(decode, top_keys, err) < 0 || parse_versions(decode, scenario, err) < 0 ||
                parse_init(decode, scenario, err) < 0 ||
                decode_uint32(decode, "cpusPerNumaNode", 1024, &scenario->cpus_per_numa_node, err) < 0 ||
                decode_text(decode, "computeModeDirectory", 4096, &scenario->compute_mode_directory, err) < 0 ||
                decode_text(decode, "processDirectory", 4096, &scenario->process_directory, err) < 0 ||
                decode_text(decode, "geometryFile", 4096, &scenario->geometry_file, err) < 0 ||
                decode_bool(decode, "keepMigUuids", &scenario->keep_mig_uuids, err) < 0 ||
                decode_uint32(decode, "boots", UINT32_MAX, &boots, err) < 0 ||
                decode_duration(decode, "longestWait", &scenario->longest_wait_ms, err) < 0 ||
                scenario_parse_faults(decode, &scenario->faults, err) < 0 || parse_gpus(decode, scenario, err) < 0 ||
                parse_pairs(decode, "topology", "level", levels, scenario, &scenario->topology, &scenario->n_topology,
                        err) < 0 ||
                parse_pairs(decode, "p2p", "status", statuses, scenario, &scenario->p2p, &scenario->n_p2p, err) < 0)
                return -1;
        for (size_t i = 0; i < scenario->n_gpus; i++)
                scenario->gpus[i].boots = boots;
        return parse_events(decode, scenario, err);
}

/* What is only a warning in a configuration (the same key twice) is an error in a scenario. */
static void keep_warning(const char *text, void *data)
{
        struct error *first = data;

        if (first->kind == ERROR_NONE)
                error_set(first, ERROR_INVALID, "%s", text);
}

int scenario_parse(struct scenario **ret, const char *name, const char *text, size_t size, struct error *err)
{
        _cleanup_(yaml_unloadp) struct yaml *yaml = NULL;
        _cleanup_(scenario_freep) struct scenario *scenario = xcalloc(1, sizeof(*scenario));
        struct error warning = {0};
        struct decode decode;

        if (yaml_load(&yaml, name, text, size, keep_warning, &warning, err) < 0)
                return -1;
        if (warning.kind != ERROR_NONE) {
                *err = warning;
                return -1;
        }
        decode = (struct decode){yaml, yaml->root, "", &scenario->arena, yaml_line(yaml, yaml->root)};
        if (parse_top(&decode, scenario, err) < 0)
                return -1;
        *ret = TAKE_PTR(scenario);
        return 0;
}

bool versions_report_profiles_without_mig(const struct scenario_versions *versions)
{
        return strtoul(versions->driver, NULL, 10) >= 550;
}

bool versions_report_recovery_actions(const struct scenario_versions *versions)
{
        return strtoul(versions->driver, NULL, 10) >= 550;
}

struct scenario *scenario_free(struct scenario *scenario)
{
        if (!scenario)
                return NULL;
        arena_done(&scenario->arena);
        free(scenario);
        return NULL;
}
