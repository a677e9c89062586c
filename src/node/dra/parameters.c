// SPDX-License-Identifier: Apache-2.0
#include "node/dra/parameters.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plan/capability.h"

#define OURS "gpu.warpshare.dev/v1alpha1"
#define NVIDIAS "resource.nvidia.com/v1beta1"
#define NVIDIAS_DRIVER "gpu.nvidia.com"
#define SHOWN 64 /* bytes of a text from outside in an error */
#define MIB ((uint64_t)1024 * 1024)

/* One device and one configuration. */
struct applying {
        const struct dra_claim *claim;
        size_t i;
        const struct dra_claim_config *config;
        const struct dra_wanted_rules *rules;
};

/* The content of NVIDIA's configuration; all zero for a device to which none applies. */
struct nvidias_sharing {
        bool is_mps;
        bool is_time_slicing;
        uint64_t memory_bytes;          /* 0: not said */
        unsigned int thread_percentage; /* 0: not said */
};

static bool is_mig(const struct dra_result *result)
{
        return text_starts_with(result->unit, "MIG-") || result->offered->kind == DRA_DEVICE_MIG_CANDIDATE;
}

/* ---- strict decoding ---- */

/* Whether |name| is in |known|, a text "a, b, c". */
static bool parameters_is_listed(const char *known, const char *name)
{
        size_t length = strlen(name);

        if (length == 0 || strchr(name, ','))
                return false;
        for (const char *at = known; (at = strstr(at, name)); at += length)
                if ((at == known || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0'))
                        return true;
        return false;
}

/* Fails if |object| has a field that is not in |known|. NULL counts as an object without fields. */
static int check_fields(const json_t *object, const char *known, struct error *err)
{
        const char *key;
        json_t *value;

        if (object && !json_is_object(object))
                return error_set(err, ERROR_INVALID, "not an object");
        json_object_foreach((json_t *)(uintptr_t)object, key, value)
        {
                if (!parameters_is_listed(known, key))
                        return error_set(err, ERROR_INVALID, "unknown field '%.*s'; known are %s", SHOWN, key, known);
        }
        return 0;
}

/* NULL if the key is missing, or its value is null, as Go's decoder reads it. */
static const json_t *member(const json_t *object, const char *key)
{
        const json_t *value = json_object_get(object, key);

        return json_is_null(value) ? NULL : value;
}

/* |*ret| is NULL if the key is missing. */
static int take_word(const json_t *object, const char *key, const char *known, const char **ret, struct error *err)
{
        const json_t *value = member(object, key);

        *ret = json_string_value(value);
        if (value && (!*ret || !parameters_is_listed(known, *ret)))
                return error_set(err, ERROR_INVALID, "%s: '%.*s' is not a known value; known are %s", key, SHOWN,
                        *ret ? *ret : "", known);
        return 0;
}

/* ---- ours ---- */

static int read_share_config(const struct applying *applying, enum dra_unenforced *ret, struct error *err)
{
        const json_t *object = applying->config->parameters;
        const char *word;

        if (check_fields(object, "apiVersion, kind, unenforced", err) < 0 ||
                take_word(object, "unenforced", "Refuse, Prepare", &word, err) < 0)
                return -1;
        if (!word)
                return 0;
        if (strcmp(word, "Refuse") == 0) {
                *ret = DRA_UNENFORCED_REFUSE;
                return 0;
        }
        if (!applying->config->is_of_class)
                return error_set(err, ERROR_UNSUPPORTED,
                        "unenforced: only a DeviceClass can say Prepare, since a share without limits is at the expense of "
                        "others");
        *ret = DRA_UNENFORCED_CONDITION;
        return 0;
}

/* ---- NVIDIA's ---- */

static int parameters_take_memory(const json_t *value, uint64_t *ret, struct error *err)
{
        _free_ char *number = json_is_integer(value) ? xasprintf("%jd", (intmax_t)json_integer_value(value)) : NULL;
        const char *text = number ? number : json_string_value(value);

        if (!text || !quantity_value(text, ret) || *ret < MIB)
                return error_set(
                        err, ERROR_INVALID, "'%.*s' is not a quantity of at least 1Mi", SHOWN, text ? text : "");
        *ret -= *ret % MIB;
        return 0;
}

/* Whether |key| is the UUID of the device's unit, or the device's position in the claim. */
static bool is_for(const struct applying *applying, const char *key, size_t i)
{
        uint64_t position;

        return strcmp(applying->claim->results[i].unit, key) == 0 ||
               (text_to_uint(key, DRA_CLAIM_RESULTS_MAX, &position) && position == i);
}

static int take_memories(
        const struct applying *applying, const json_t *memories, struct nvidias_sharing *sharing, struct error *err)
{
        const char *key;
        json_t *value;

        if (memories && !json_is_object(memories))
                return error_set(err, ERROR_INVALID, "not an object");
        json_object_foreach((json_t *)(uintptr_t)memories, key, value)
        {
                uint64_t bytes;
                size_t i = 0;

                while (i < applying->claim->n_results && !is_for(applying, key, i))
                        i++;
                if (i == applying->claim->n_results)
                        return error_set(err, ERROR_INVALID,
                                "'%.*s' is neither the UUID nor the position of a device of the claim", SHOWN, key);
                if (parameters_take_memory(value, &bytes, err) < 0)
                        return error_prefix(err, "%.*s", SHOWN, key);
                if (is_for(applying, key, applying->i))
                        sharing->memory_bytes = bytes;
        }
        return 0;
}

static int read_mps_config(
        const struct applying *applying, const json_t *object, struct nvidias_sharing *sharing, struct error *err)
{
        const json_t *threads = member(object, "defaultActiveThreadPercentage");
        const json_t *memory = member(object, "defaultPinnedDeviceMemoryLimit");
        const json_t *multi_user = member(object, "multiUser");

        if (check_fields(object,
                    "defaultActiveThreadPercentage, defaultPinnedDeviceMemoryLimit, defaultPerDevicePinnedMemoryLimit, multiUser",
                    err) < 0)
                return -1;
        if (threads &&
                (!json_is_integer(threads) || json_integer_value(threads) < 1 || json_integer_value(threads) > 100))
                return error_set(err, ERROR_INVALID, "defaultActiveThreadPercentage: must be a number of 1 to 100");
        sharing->thread_percentage = (unsigned int)json_integer_value(threads);
        if (multi_user && !json_is_boolean(multi_user))
                return error_set(err, ERROR_INVALID, "multiUser: must be true or false");
        if (json_is_true(multi_user) && !applying->rules->is_multi_user)
                return error_set(err, ERROR_UNSUPPORTED,
                        "multiUser: MPS daemons serve several users at the same time from driver %u on, and this node's is older",
                        CAPABILITY_MULTI_USER_BRANCH);
        if (memory && parameters_take_memory(memory, &sharing->memory_bytes, err) < 0)
                return error_prefix(err, "defaultPinnedDeviceMemoryLimit");
        if (take_memories(applying, member(object, "defaultPerDevicePinnedMemoryLimit"), sharing, err) < 0)
                return error_prefix(err, "defaultPerDevicePinnedMemoryLimit");
        return 0;
}

static int read_time_slicing(const json_t *object, struct error *err)
{
        const char *interval;

        if (check_fields(object, "interval", err) < 0 ||
                take_word(object, "interval", "Default, Short, Medium, Long", &interval, err) < 0)
                return -1;
        if (interval && strcmp(interval, "Default") != 0)
                return error_set(err, ERROR_UNSUPPORTED,
                        "interval: '%s' cannot be set: this driver does not change the time slice of a GPU; use Default",
                        interval);
        return 0;
}

static int read_sharing(const struct applying *applying, const json_t *object, bool of_mig,
        struct nvidias_sharing *sharing, struct error *err)
{
        const json_t *mps = member(object, "mpsConfig");
        const json_t *time_slicing = member(object, "timeSlicingConfig");
        const char *strategy;

        if (check_fields(object, of_mig ? "strategy, mpsConfig" : "strategy, mpsConfig, timeSlicingConfig", err) < 0 ||
                take_word(object, "strategy", "TimeSlicing, MPS", &strategy, err) < 0)
                return -1;
        if (!strategy)
                return error_set(err, ERROR_INVALID, "strategy: missing; known are TimeSlicing, MPS");
        sharing->is_mps = strcmp(strategy, "MPS") == 0;
        sharing->is_time_slicing = !sharing->is_mps;
        if (sharing->is_mps ? time_slicing != NULL : mps != NULL)
                return error_set(err, ERROR_INVALID, "%s cannot stand beside strategy: %s",
                        sharing->is_mps ? "timeSlicingConfig" : "mpsConfig", strategy);
        if (read_time_slicing(time_slicing, err) < 0)
                return error_prefix(err, "timeSlicingConfig");
        if (read_mps_config(applying, mps, sharing, err) < 0)
                return error_prefix(err, "mpsConfig");
        return 0;
}

/* |sharing| is unchanged if the configuration is for another kind of device. */
static int read_nvidias(const struct applying *applying, bool of_mig, struct nvidias_sharing *ret, struct error *err)
{
        const struct dra_result *result = &applying->claim->results[applying->i];
        const json_t *object = applying->config->parameters;
        const json_t *part = member(object, "sharing");
        struct nvidias_sharing sharing = {0};

        if (check_fields(object, "apiVersion, kind, sharing", err) < 0)
                return -1;
        if (part && read_sharing(applying, part, of_mig, &sharing, err) < 0)
                return error_prefix(err, "sharing");
        if (!dra_claim_config_applies(applying->config, result))
                return 0;
        if (of_mig == is_mig(result))
                *ret = sharing;
        else if (applying->config->n_requests)
                return error_set(err, ERROR_INVALID, "request '%s' is for device '%s', which is %s", result->request,
                        result->device, of_mig ? "no MIG device" : "a MIG device");
        return 0;
}

/* ---- one configuration ---- */

static int read_one_config(const struct applying *applying, struct nvidias_sharing *sharing,
        enum dra_unenforced *unenforced, struct error *err)
{
        const json_t *object = applying->config->parameters;
        bool has_nvidias = strcmp(applying->rules->driver, NVIDIAS_DRIVER) == 0;
        const char *versions = has_nvidias ? OURS ", " NVIDIAS : OURS;
        enum dra_unenforced said = *unenforced;
        const char *version, *kind, *kinds;
        bool is_ours;

        if (take_word(object, "apiVersion", versions, &version, err) < 0)
                return -1;
        if (!version)
                return error_set(err, ERROR_INVALID, "apiVersion: missing; known are %s", versions);
        is_ours = strcmp(version, OURS) == 0;
        kinds = is_ours ? "ShareConfig" : "GpuConfig, MigDeviceConfig";
        if (take_word(object, "kind", kinds, &kind, err) < 0)
                return -1;
        if (!kind)
                return error_set(err, ERROR_INVALID, "kind: missing; known are %s", kinds);
        if (is_ours ? read_share_config(applying, &said, err) < 0
                    : read_nvidias(applying, strcmp(kind, "MigDeviceConfig") == 0, sharing, err) < 0)
                return error_prefix(err, "%s", kind);
        if (is_ours && dra_claim_config_applies(applying->config, &applying->claim->results[applying->i]))
                *unenforced = said;
        return 0;
}

/* ---- apply ---- */

static int parameters_lower(uint64_t asked, uint64_t *limit, const char *field, struct error *err)
{
        if (asked > *limit)
                return error_set(err, ERROR_UNSUPPORTED,
                        "%s: %ju is more than the %ju of the share; ask for more in the capacity of the request", field,
                        (uintmax_t)asked, (uintmax_t)*limit);
        if (asked)
                *limit = asked;
        return 0;
}

static int set_sharing(struct dra_result *result, const struct nvidias_sharing *sharing, struct error *err)
{
        uint64_t threads = result->thread_percentage;

        if (sharing->is_time_slicing && dra_device_kind_is_by_mps(result->offered->kind))
                return error_set(err, ERROR_UNSUPPORTED,
                        "sharing.strategy: TimeSlicing, but the device is shared by MPS; ask for another device class");
        if (sharing->is_mps && !dra_device_kind_is_by_mps(result->offered->kind))
                return error_set(err, ERROR_UNSUPPORTED,
                        "sharing.strategy: MPS, but the device has no MPS daemon; ask for the device class of shared GPUs, "
                        "with memory and threadPercentage as the request's capacity");
        if (parameters_lower(sharing->memory_bytes, &result->memory_bytes, "sharing.mpsConfig: memory limit", err) <
                        0 ||
                parameters_lower(sharing->thread_percentage, &threads,
                        "sharing.mpsConfig.defaultActiveThreadPercentage", err) < 0)
                return -1;
        result->thread_percentage = (unsigned int)threads;
        return 0;
}

int dra_parameters_apply(struct dra_claim *claim, size_t i, const struct dra_wanted_rules *rules, struct error *err)
{
        struct dra_result *result = &claim->results[i];
        struct nvidias_sharing sharing = {0};

        result->unenforced = rules->unenforced;
        for (size_t j = 0; j < claim->n_configs; j++) {
                const struct applying applying = {claim, i, &claim->configs[j], rules};

                if (read_one_config(&applying, &sharing, &result->unenforced, err) < 0)
                        return error_prefix(err, "configuration of the %s",
                                claim->configs[j].is_of_class ? "device class" : "claim");
        }
        return set_sharing(result, &sharing, err);
}

int dra_parameters_check_tier(enum dra_unenforced unenforced, enum mps_tier tier, const char *unit, struct error *err)
{
        if (tier != MPS_TIER_DEFAULT || unenforced == DRA_UNENFORCED_CONDITION)
                return 0;
        return error_set(err, ERROR_UNSUPPORTED,
                "%s: MPS cannot enforce the limits of a share there; ask for a whole device, or allow it (dra.unenforced: "
                "condition)",
                unit);
}
