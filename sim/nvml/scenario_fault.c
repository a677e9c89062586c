// SPDX-License-Identifier: Apache-2.0
#include "sim/nvml/scenario_parts.h"

#include <string.h>

#include "base/text.h"
#include "sim/nvml/names.h"

#define R(name)                                                                                                        \
        {                                                                                                              \
#name, NVML_ERROR_##name                                                                               \
        }

/* clang-format off */
static const struct decode_word results[] = {
        R(UNINITIALIZED), R(INVALID_ARGUMENT), R(NOT_SUPPORTED), R(NO_PERMISSION), R(ALREADY_INITIALIZED), R(NOT_FOUND),
        R(INSUFFICIENT_SIZE), R(INSUFFICIENT_POWER), R(DRIVER_NOT_LOADED), R(TIMEOUT), R(IRQ_ISSUE),
        R(LIBRARY_NOT_FOUND), R(FUNCTION_NOT_FOUND), R(CORRUPTED_INFOROM), R(GPU_IS_LOST), R(RESET_REQUIRED),
        R(OPERATING_SYSTEM), R(LIB_RM_VERSION_MISMATCH), R(IN_USE), R(MEMORY), R(NO_DATA), R(VGPU_ECC_NOT_SUPPORTED),
        R(INSUFFICIENT_RESOURCES), R(FREQ_NOT_SUPPORTED), R(ARGUMENT_VERSION_MISMATCH), R(DEPRECATED), R(NOT_READY),
        R(GPU_NOT_FOUND), R(INVALID_STATE), R(RESET_TYPE_NOT_SUPPORTED), R(UNKNOWN),
        {NULL},
};
/* clang-format on */

bool scenario_result(const char *word, nvmlReturn_t *result)
{
        uint64_t value;

        if (text_starts_with(word, "NVML_ERROR_"))
                word += strlen("NVML_ERROR_");
        if (!decode_find_word(results, word, &value))
                return false;
        *result = (nvmlReturn_t)value;
        return true;
}

static int parse_kill(const struct decode *decode, struct fault *fault, struct error *err)
{
        const char *word = "";

        if (decode_text(decode, "kills", 8, &word, err) < 0)
                return -1;
        if (strcmp(word, "before") == 0)
                fault->kills = FAULT_KILLS_BEFORE;
        else if (strcmp(word, "after") == 0)
                fault->kills = FAULT_KILLS_AFTER;
        else if (*word)
                return decode_fail(decode, "kills", err, "'%s', must be before or after", word);
        return 0;
}

static int parse_error(const struct decode *errors, const char *call, struct fault *fault, struct error *err)
{
        static const char *const keys[] = {"error", "delay", "after", "times", "kills", NULL};
        const json_t *value = json_object_get(errors->object, call);
        const char *word = json_string_value(value);
        struct decode decode;
        bool found;

        if (json_is_object(value)) {
                if (decode_member(errors, call, &decode, &found, err) < 0 || decode_object(&decode, keys, err) < 0 ||
                        decode_text(&decode, "error", 64, &word, err) < 0 ||
                        decode_duration(&decode, "delay", &fault->delay_ms, err) < 0 ||
                        decode_uint32(&decode, "after", 1000000, &fault->after, err) < 0 ||
                        decode_uint32(&decode, "times", 1000000, &fault->times, err) < 0 ||
                        parse_kill(&decode, fault, err) < 0)
                        return -1;
        }
        if (!word && fault->kills)
                return 0;
        if (!word || !scenario_result(word, &fault->result))
                return decode_fail(errors, call, err, "no NVML error: '%s'", word ? word : "");
        return 0;
}

static int check_name(const struct decode *decode, const char *call, struct error *err)
{
        const char *near;

        if (name_is_call(call))
                return 0;
        near = name_nearest(call);
        return decode_fail(decode, call, err, "no NVML function%s%s%s", near ? ", did you mean '" : "",
                near ? near : "", near ? "'?" : "");
}

static int parse_delay(const struct decode *delays, const char *call, struct fault *fault, struct error *err)
{
        static const char *const keys[] = {"time", "blocks", NULL};
        struct decode decode;
        bool found;

        if (!json_is_object(json_object_get(delays->object, call)))
                return decode_duration(delays, call, &fault->delay_ms, err);
        if (decode_member(delays, call, &decode, &found, err) < 0 || decode_object(&decode, keys, err) < 0 ||
                decode_duration(&decode, "time", &fault->delay_ms, err) < 0 ||
                decode_bool(&decode, "blocks", &fault->blocks, err) < 0)
                return -1;
        return 0;
}

int scenario_parse_faults(const struct decode *decode, struct fault_list *faults, struct error *err)
{
        struct decode errors = {0};
        struct decode delays = {0};
        bool found;
        const char *call;
        const json_t *value;
        size_t most;

        if (decode_member(decode, "errors", &errors, &found, err) < 0 ||
                decode_member(decode, "delays", &delays, &found, err) < 0)
                return -1;
        most = json_object_size(errors.object) + json_object_size(delays.object);
        if (most > SCENARIO_MAX_FAULTS)
                return decode_fail(decode, "errors", err, "more than %u errors and delays", SCENARIO_MAX_FAULTS);
        faults->faults = ARENA_ARRAY(decode->arena, struct fault, most);
        faults->count = 0;
        json_object_foreach((json_t *)(uintptr_t)errors.object, call, value)
        {
                struct fault *fault = &faults->faults[faults->count++];

                if (check_name(&errors, call, err) < 0 || parse_error(&errors, call, fault, err) < 0)
                        return -1;
                fault->call = arena_strdup(decode->arena, call);
        }
        json_object_foreach((json_t *)(uintptr_t)delays.object, call, value)
        {
                struct fault *fault = &faults->faults[faults->count++];

                if (check_name(&delays, call, err) < 0 || parse_delay(&delays, call, fault, err) < 0)
                        return -1;
                fault->call = arena_strdup(decode->arena, call);
        }
        return 0;
}
