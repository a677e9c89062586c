// SPDX-License-Identifier: Apache-2.0
#include "mps/supervisor/record.h"

#include <string.h>

#include "base/file.h"
#include "mps/wire/message.h"

#define MODES_MAX ((size_t)4096)
#define ALLOCATIONS_MAX ((size_t)65536)
#define LIMITS_MAX ((size_t)65536)

void mps_record_done(struct mps_record *record)
{
        arena_done(&record->arena);
        *record = (struct mps_record){0};
}

static const struct json_field process_fields[] = {
        JSON_INT("pid", struct mps_record_daemon, pid, 1, INT32_MAX),
        JSON_UINT("startTime", struct mps_record_daemon, start_time, 1, INT64_MAX),
        JSON_UINT("inode", struct mps_record_daemon, inode, 0, INT64_MAX),
        JSON_UINT("options", struct mps_record_daemon, options, 0, UINT16_MAX),
        JSON_UINT("can", struct mps_record_daemon, can, 0, UINT16_MAX),
        JSON_ROW("daemons", ARRAY, struct mps_record_daemon, settings, .shape = &message_daemon, .least = 1, .most = 1),
};
static const struct json_shape process_shape = JSON_SHAPE(struct mps_record_daemon, process_fields);

static const struct json_field mode_fields[] = {
        JSON_TEXT("uuid", struct mps_record_mode, uuid, message_uuid, .is_needed = true),
        JSON_UINT("before", struct mps_record_mode, before, 0, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS),
};
static const struct json_shape mode_shape = JSON_SHAPE(struct mps_record_mode, mode_fields);

static const struct json_field allocation_fields[] = {
        JSON_INT("pid", struct mps_record_allocation, pid, 0, INT32_MAX),
        JSON_UINT("startTime", struct mps_record_allocation, start_time, 0, INT64_MAX),
        JSON_TEXT("id", struct mps_record_allocation, request.id, message_allocation, .is_needed = true),
        JSON_TEXT("daemon", struct mps_record_allocation, request.daemon, message_path, .is_needed = true),
        JSON_TEXT("unit", struct mps_record_allocation, request.unit, message_uuid, .is_needed = true),
        JSON_UINT("threadsPermille", struct mps_record_allocation, request.threads_permille, 0, 1000),
        JSON_UINT("limitMib", struct mps_record_allocation, request.limit_mib, 0, UINT32_MAX),
        JSON_UINT("sms", struct mps_record_allocation, request.sms, 0, UINT16_MAX),
        JSON_WORD("tier", struct mps_record_allocation, allocation.tier, message_tier, MESSAGE_TIERS),
        JSON_TEXT("pipe", struct mps_record_allocation, allocation.pipe, message_path),
        JSON_TEXT("partition", struct mps_record_allocation, allocation.partition, message_any),
        JSON_UINT("grantedSms", struct mps_record_allocation, allocation.sms, 0, UINT16_MAX),
        JSON_BOOL("void", struct mps_record_allocation, is_void),
        JSON_BOOL("over", struct mps_record_allocation, is_over),
};
static const struct json_shape allocation_shape = JSON_SHAPE(struct mps_record_allocation, allocation_fields);

static const struct json_field limit_fields[] = {
        JSON_TEXT("unit", struct mps_container_limit, unit, message_uuid, .is_needed = true),
        JSON_TEXT("cgroup", struct mps_container_limit, cgroup, message_any, .is_needed = true),
        JSON_TEXT("grant", struct mps_container_limit, allocation, message_allocation, .is_needed = true),
        JSON_UINT("limitMib", struct mps_container_limit, limit_mib, 1, UINT32_MAX),
};
static const struct json_shape limit_shape = JSON_SHAPE(struct mps_container_limit, limit_fields);

static const struct json_field record_fields[] = {
        JSON_UINT("generation", struct mps_record, generation, 0, INT64_MAX),
        JSON_ITEMS("daemons", struct mps_record, wanted.daemons, wanted.n_daemons, message_daemon, 0,
                MESSAGE_DAEMONS_MAX, .is_needed = true),
        JSON_ITEMS("processes", struct mps_record, daemons, n_daemons, process_shape, 0, MESSAGE_DAEMONS_MAX),
        JSON_ITEMS("computeModes", struct mps_record, modes, n_modes, mode_shape, 0, MODES_MAX),
        JSON_ITEMS("grants", struct mps_record, allocations, n_allocations, allocation_shape, 0, ALLOCATIONS_MAX),
        JSON_ITEMS("containerLimits", struct mps_record, limits, n_limits, limit_shape, 0, LIMITS_MAX),
};
static const struct json_shape record_shape = JSON_SHAPE(struct mps_record, record_fields);

char *mps_record_print(const struct mps_record *record)
{
        json_t *object = json_object();

        json_fields_put(object, &record_shape, record);
        return json_fields_print(object, JSON_INDENT(2));
}

int mps_record_write(const struct mps_record *record, const char *path, struct error *err)
{
        _free_ char *text = mps_record_print(record);

        return file_write_private(path, text, strlen(text), err);
}

int mps_record_read(struct mps_record *ret, const char *path, struct error *err)
{
        struct strbuf text = STRBUF_INIT;
        struct json_in in = {.arena = &ret->arena, .err = err};
        json_t *object;

        *ret = (struct mps_record){0};
        if (file_read_private(path, MPS_RECORD_MAX, &text, err) < 0) {
                strbuf_done(&text);
                return err->kind == ERROR_NOT_FOUND ? 0 : -1;
        }
        object = json_fields_load(&in, text.data, text.size);
        strbuf_done(&text);
        json_fields_take(&in, object, &record_shape, ret);
        json_decref(object);
        if (!in.is_bad)
                return 0;
        mps_record_done(ret);
        return error_prefix(err, "'%s'", path);
}

/* ---- daemons that are not on record ---- */

/* Whether the record takes such a text. */
static bool supervisor_record_is_text(const struct json_text *kind, const char *text)
{
        return strlen(text) <= kind->most && kind->is(text);
}

bool mps_guess(struct mps_daemon_wanted *ret, struct arena *arena, const char *name, const char *units)
{
        struct mps_unit *all;
        size_t most = 1;
        size_t count = 0;

        for (const char *at = units; *at; at++)
                most += *at == ',';
        if (!supervisor_record_is_text(&message_path, name) || most > MESSAGE_UNITS_MAX)
                return false;
        all = ARENA_ARRAY(arena, struct mps_unit, most);
        for (const char *at = units; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
                const char *uuid = arena_printf(arena, "%.*s", (int)strcspn(at, ","), at);

                if (!supervisor_record_is_text(&message_uuid, uuid))
                        return false;
                all[count++] = (struct mps_unit){.uuid = uuid, .gpu_uuid = uuid, .index = "", .name = ""};
        }
        *ret = (struct mps_daemon_wanted){
                .name = arena_strdup(arena, name),
                .resource = "",
                .threads_permille = 1000,
                .units = all,
                .n_units = count,
        };
        return true;
}

/* Each wanted daemon is of a resource. */
bool mps_guess_is(const struct mps_daemon_wanted *settings)
{
        return settings->resource && !*settings->resource;
}

bool mps_guess_fits(const struct mps_daemon_wanted *guess, const struct mps_daemon_wanted *wanted)
{
        if (guess->n_units != wanted->n_units)
                return false;
        for (size_t i = 0; i < guess->n_units; i++)
                if (strcmp(guess->units[i].uuid, wanted->units[i].uuid) != 0)
                        return false;
        return true;
}
