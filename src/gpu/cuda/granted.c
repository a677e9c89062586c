// SPDX-License-Identifier: Apache-2.0
#include "gpu/cuda/granted.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mps_value.h"
#include "base/text.h"

#define MIB_MAX (UINT64_C(1) << 32)
#define PROOF_MIB UINT64_C(64)

/* ---- the environment ---- */

static int granted_fail(const char *name, const char *value, const char *form, struct error *err)
{
        return error_set(err, ERROR_INVALID, "%s: '%.64s' is not %s", name, value, form);
}

/* Both are optional; the lower one counts. */
static void granted_lower(uint64_t *value, uint64_t other)
{
        if (other && (*value == 0 || other < *value))
                *value = other;
}

/* NULL and "" are the same: not set. */
static const char *granted_get(granted_env_fn *env, void *data, const char *name)
{
        const char *value = env(name, data);

        return value && *value ? value : NULL;
}

static int read_threads(struct granted *granted, granted_env_fn *env, void *data, struct error *err)
{
        static const char *const names[] = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "WARPSHARE_THREAD_PERCENTAGE"};
        uint64_t permille = 0;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                const char *value = granted_get(env, data, names[i]);
                unsigned int read;

                if (!value)
                        continue;
                if (!mps_value_threads(value, &read))
                        return granted_fail(names[i], value, "a percentage above 0 and at most 100", err);
                granted_lower(&permille, read);
        }
        granted->threads_permille = (unsigned int)permille;
        return 0;
}

static int granted_read_memory(
        struct granted *granted, granted_env_fn *env, void *data, int ordinal, const char *uuid, struct error *err)
{
        const char *list = granted_get(env, data, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
        const char *mib = granted_get(env, data, "WARPSHARE_MEMORY_LIMIT_MIB");
        uint64_t value = 0;

        if (list && !mps_value_memory(list, ordinal, uuid, &granted->memory_mib) &&
                !mps_value_memory_of_each(list, &granted->memory_mib))
                return granted_fail("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", list, "a list like 0=1630M", err);
        if (mib && !text_to_uint(mib, MIB_MAX, &value))
                return granted_fail("WARPSHARE_MEMORY_LIMIT_MIB", mib, "a number of MiB", err);
        granted_lower(&granted->memory_mib, value);
        return 0;
}

static void copy_word(char *to, size_t size, const char *value)
{
        snprintf(to, size, "%s", value ? value : "");
        text_clean(to);
}

int granted_read(struct granted *ret, granted_env_fn *env, void *data, int ordinal, const char *uuid, struct error *err)
{
        struct granted granted = {0};
        const char *sms = granted_get(env, data, "WARPSHARE_SMS");
        uint64_t count = 0;

        if (read_threads(&granted, env, data, err) < 0 ||
                granted_read_memory(&granted, env, data, ordinal, uuid, err) < 0)
                return -1;
        if (sms && !text_to_uint(sms, 4096, &count))
                return granted_fail("WARPSHARE_SMS", sms, "a number of SMs", err);
        granted.sms = (unsigned int)count;
        copy_word(granted.tier, sizeof(granted.tier), granted_get(env, data, "WARPSHARE_TIER"));
        copy_word(granted.replicas, sizeof(granted.replicas), granted_get(env, data, "WARPSHARE_REPLICAS"));
        copy_word(granted.fraction, sizeof(granted.fraction), granted_get(env, data, "WARPSHARE_FRACTION"));
        copy_word(granted.pipe, sizeof(granted.pipe), granted_get(env, data, "CUDA_MPS_PIPE_DIRECTORY"));
        granted.mps = granted.threads_permille || granted.memory_mib || granted.sms || *granted.tier || *granted.pipe;
        *ret = granted;
        return 0;
}

/* ---- device metadata ---- */

static bool is_known_version(const json_t *object)
{
        const char *version = json_string_value(json_object_get(object, "apiVersion"));

        return version && (strcmp(version, "metadata.resource.k8s.io/v1beta1") == 0 ||
                                  strcmp(version, "metadata.resource.k8s.io/v1alpha1") == 0);
}

/* A reference to the first object of a known version; NULL, with an error: there is none. */
static json_t *parse_metadata(const char *text, size_t size, struct error *err)
{
        size_t at = 0;

        while (at < size) {
                json_error_t failure;
                json_t *object = json_loadb(text + at, size - at, JSON_DISABLE_EOF_CHECK, &failure);

                if (!object)
                        break;
                if (is_known_version(object))
                        return object;
                json_decref(object);
                at += (size_t)failure.position;
                while (at < size && isspace((unsigned char)text[at]))
                        at++;
        }
        error_raise(err, ERROR_INVALID,
                at < size ? "it is not JSON at byte %zu"
                          : "no object of metadata.resource.k8s.io/v1beta1 or v1alpha1 is in its %zu bytes",
                at);
        return NULL;
}

static uint64_t read_attribute(const json_t *attributes, const char *name, uint64_t most)
{
        json_int_t value = json_integer_value(json_object_get(json_object_get(attributes, name), "int"));

        return value > 0 && (uint64_t)value <= most ? (uint64_t)value : 0;
}

/* UUIDs have a prefix in device metadata, "GPU-" or "MIG-", and none from CUDA. */
static bool is_of_device(const json_t *attributes, const char *uuid)
{
        const char *of = json_string_value(json_object_get(json_object_get(attributes, "uuid"), "string"));
        const char *number = of ? strchr(of, '-') : NULL;

        return number && strcasecmp(number + 1, uuid) == 0;
}

static void take_device(struct granted *granted, const json_t *attributes)
{
        const char *tier = json_string_value(json_object_get(json_object_get(attributes, "tier"), "string"));
        uint64_t memory = read_attribute(attributes, "memoryMiB", MIB_MAX);
        uint64_t percent = read_attribute(attributes, "threadPercentage", 100);
        uint64_t permille = granted->threads_permille;

        granted_lower(&granted->told_memory_mib, memory);
        granted->differs |= memory && granted->memory_mib && granted->memory_mib != memory;
        granted_lower(&granted->memory_mib, memory);
        if (percent && permille / 10 != percent) { /* whole percent: 12 for 12.5 */
                granted->differs |= permille != 0;
                granted_lower(&permille, percent * 10);
        }
        granted->threads_permille = (unsigned int)permille;
        granted->told_threads_percent = (unsigned int)percent;
        if (tier && !*granted->tier)
                copy_word(granted->tier, sizeof(granted->tier), tier);
        granted->mps = granted->mps || memory || percent || tier;
}

int granted_read_metadata(struct granted *granted, const char *text, size_t size, const char *uuid, struct error *err)
{
        json_t *object = parse_metadata(text, size, err);
        const json_t *request;
        size_t i;

        if (!object)
                return -1;
        json_array_foreach(json_object_get(object, "requests"), i, request)
        {
                const json_t *device;
                size_t j;

                json_array_foreach(json_object_get(request, "devices"), j, device)
                {
                        const json_t *attributes = json_object_get(device, "attributes");

                        if (is_of_device(attributes, uuid))
                                take_device(granted, attributes);
                }
        }
        json_decref(object);
        return 0;
}

uint64_t granted_memory_ceiling(const struct granted *granted)
{
        return granted->memory_mib ? (granted->memory_mib + PROOF_MIB) << 20 : 0;
}

/* ---- the outcome ---- */

static void granted_find(struct granted_outcome *outcome, bool broken, const char *format, ...) PRINTF_LIKE(3, 4);
static void granted_find(struct granted_outcome *outcome, bool broken, const char *format, ...)
{
        struct granted_finding *finding;
        va_list args;

        if (outcome->n_findings == GRANTED_FINDINGS_MAX)
                return;
        finding = &outcome->findings[outcome->n_findings++];
        finding->broken = broken;
        outcome->holds = outcome->holds && !broken;
        va_start(args, format);
        vsnprintf(finding->text, sizeof(finding->text), format, args);
        va_end(args);
}

static void granted_check_mps(
        struct granted_outcome *outcome, const struct granted *granted, const struct granted_measured *measured)
{
        int mps = measured->facts->mps;

        if (!granted->mps)
                return;
        if (mps < 0 && !measured->socket)
                granted_find(outcome, true, "MPS: there is no control daemon's socket in '%s'",
                        *granted->pipe ? granted->pipe : "/tmp/nvidia-mps");
        else if (mps < 0)
                granted_find(outcome, false,
                        "MPS: this driver does not report whether it is in use; a control daemon's socket is there");
        else if (mps == 0)
                granted_find(outcome, true,
                        "MPS: not in use, so no limit is in force (CUDA continues without it where no control daemon "
                        "answers%s%s)",
                        *granted->pipe ? " in " : ": CUDA_MPS_PIPE_DIRECTORY is not set", granted->pipe);
}

static void granted_check_memory(
        struct granted_outcome *outcome, const struct granted *granted, const struct granted_measured *measured)
{
        const struct measure_memory *memory = measured->memory;
        uint64_t got;

        if (granted->memory_mib == 0)
                return;
        if (!memory) {
                granted_find(outcome, false, "memory: the limit of %" PRIu64 " MiB was not tried", granted->memory_mib);
                return;
        }
        got = memory->granted >> 20;
        if (got > granted->memory_mib)
                granted_find(outcome, true, "memory: %" PRIu64 " MiB could be allocated, the limit is %" PRIu64 " MiB",
                        got, granted->memory_mib);
        else if (!memory->refused)
                granted_find(outcome, false, "memory: tried up to %" PRIu64 " MiB only, the limit is %" PRIu64 " MiB",
                        got, granted->memory_mib);
        else if (got + GRANTED_CONTEXT_MIB < granted->memory_mib)
                granted_find(outcome, true,
                        "memory: only %" PRIu64 " of %" PRIu64
                        " MiB could be allocated (CUDA's context takes its part, but not "
                        "more than %" PRIu64 " MiB; of the GPU %" PRIu64 " MiB were free)",
                        got, granted->memory_mib, GRANTED_CONTEXT_MIB, measured->facts->memory_free >> 20);
}

/* The grant in SMs: said, or the percentage of the whole. */
static unsigned int granted_sms(const struct granted *granted, unsigned int unit_sms)
{
        if (granted->sms)
                return granted->sms;
        return MAX(unit_sms * granted->threads_permille / 1000, unit_sms && granted->threads_permille ? 1U : 0U);
}

static void granted_check_sms(
        struct granted_outcome *outcome, const struct granted *granted, const struct granted_measured *measured)
{
        unsigned int at_once = measured->places->at_once;
        unsigned int reported = measured->facts->affinity_sms ? measured->facts->affinity_sms : measured->facts->sms;

        outcome->sms = granted_sms(granted, measured->unit_sms);
        if (granted->sms == 0 && granted->threads_permille == 0)
                return;
        if (outcome->sms == 0) {
                granted_find(outcome, false,
                        "SMs: how many SMs %u.%u %% are is unknown, since NVML is not available to report how many "
                        "the GPU has",
                        granted->threads_permille / 10, granted->threads_permille % 10);
                return;
        }
        if (at_once > outcome->sms + GRANTED_SM_TOLERANCE)
                granted_find(
                        outcome, true, "SMs: %u could be used at one time, %u are allocated", at_once, outcome->sms);
        else if (MAX(at_once, reported) + GRANTED_SM_TOLERANCE < outcome->sms)
                granted_find(outcome, true,
                        "SMs: only %u could be used at one time and CUDA reports %u, %u are allocated", at_once,
                        reported, outcome->sms);
        else if (at_once + GRANTED_SM_TOLERANCE < outcome->sms)
                granted_find(outcome, false,
                        "SMs: %u of %u were free at the time of measuring, neighbours had the others", at_once,
                        outcome->sms);
}

void granted_check(struct granted_outcome *ret, const struct granted *granted, const struct granted_measured *measured)
{
        *ret = (struct granted_outcome){.holds = true};
        granted_check_mps(ret, granted, measured);
        granted_check_memory(ret, granted, measured);
        granted_check_sms(ret, granted, measured);
        if (granted->differs)
                granted_find(ret, false,
                        "device metadata says %" PRIu64
                        " MiB and %u %%, the environment something else; the lower counts",
                        granted->told_memory_mib, granted->told_threads_percent);
        if (!granted->mps)
                granted_find(ret, false, "neither the environment nor device metadata names a share");
}
