#include "mps/supervisor/record.h"

#include <string.h>

#include "base/file.h"
#include "mps/wire/message_parts.h"

#define MODES_MAX ((size_t)4096)
#define ALLOCATIONS_MAX ((size_t)65536)
#define LIMITS_MAX ((size_t)65536)

void mps_record_done(struct mps_record *record)
{
        arena_done(&record->arena);
        *record = (struct mps_record){0};
}

/* ---- writing ---- */

static void put_process(json_t *object, pid_t pid, uint64_t start_time)
{
        message_put_uint(object, "pid", (uint64_t)MAX(pid, 0));
        message_put_uint(object, "startTime", start_time);
}

static json_t *of_daemon(const struct mps_record_daemon *daemon)
{
        const struct mps_wanted settings = {&daemon->settings, 1};
        json_t *object = json_object();

        put_process(object, daemon->pid, daemon->start_time);
        message_put_uint(object, "inode", daemon->inode);
        message_put_uint(object, "options", daemon->options);
        message_put_uint(object, "can", daemon->can);
        json_object_set_new(object, "daemons", message_of_wanted(&settings));
        return object;
}

static json_t *of_mode(const struct mps_record_mode *mode)
{
        json_t *object = json_object();

        message_put_text(object, "uuid", mode->uuid);
        message_put_uint(object, "before", mode->before);
        return object;
}

static json_t *of_allocation(const struct mps_record_allocation *allocation)
{
        json_t *object = json_object();

        put_process(object, allocation->pid, allocation->start_time);
        message_put_text(object, "id", allocation->request.id);
        message_put_text(object, "daemon", allocation->request.daemon);
        message_put_text(object, "unit", allocation->request.unit);
        message_put_uint(object, "threadsPermille", allocation->request.threads_permille);
        message_put_uint(object, "limitMib", allocation->request.limit_mib);
        message_put_uint(object, "sms", allocation->request.sms);
        message_put_text(object, "tier", mps_tier_name(allocation->allocation.tier));
        message_put_text(object, "pipe", allocation->allocation.pipe);
        message_put_text(object, "partition", allocation->allocation.partition);
        message_put_uint(object, "grantedSms", allocation->allocation.sms);
        json_object_set_new(object, "void", json_boolean(allocation->is_void));
        json_object_set_new(object, "over", json_boolean(allocation->is_over));
        return object;
}

static json_t *of_limit(const struct mps_record_limit *limit)
{
        json_t *object = json_object();

        message_put_text(object, "unit", limit->unit);
        message_put_text(object, "cgroup", limit->cgroup);
        message_put_text(object, "grant", limit->allocation);
        message_put_uint(object, "limitMib", limit->limit_mib);
        return object;
}

int mps_record_write(const struct mps_record *record, const char *path, struct error *err)
{
        json_t *object = json_object();
        json_t *daemons = json_array();
        json_t *modes = json_array();
        json_t *allocations = json_array();
        json_t *limits = json_array();
        _free_ char *text = NULL;

        for (size_t i = 0; i < record->n_daemons; i++)
                json_array_append_new(daemons, of_daemon(&record->daemons[i]));
        for (size_t i = 0; i < record->n_modes; i++)
                json_array_append_new(modes, of_mode(&record->modes[i]));
        for (size_t i = 0; i < record->n_allocations; i++)
                json_array_append_new(allocations, of_allocation(&record->allocations[i]));
        for (size_t i = 0; i < record->n_limits; i++)
                json_array_append_new(limits, of_limit(&record->limits[i]));
        message_put_uint(object, "generation", record->generation);
        json_object_set_new(object, "daemons", message_of_wanted(&record->wanted));
        json_object_set_new(object, "processes", daemons);
        json_object_set_new(object, "computeModes", modes);
        json_object_set_new(object, "grants", allocations);
        json_object_set_new(object, "containerLimits", limits);
        text = message_print(object, JSON_INDENT(2));
        return file_write_private(path, text, strlen(text), err);
}

/* ---- reading ---- */

static void to_daemon(struct message_in *in, const json_t *object, struct mps_record_daemon *daemon)
{
        struct mps_wanted settings = {NULL, 0};

        daemon->pid = (pid_t)message_uint(in, object, "pid", 1, INT32_MAX);
        daemon->start_time = message_uint(in, object, "startTime", 1, INT64_MAX);
        daemon->inode = message_uint(in, object, "inode", 0, INT64_MAX);
        daemon->options = (unsigned int)message_uint(in, object, "options", 0, UINT16_MAX);
        daemon->can = (unsigned int)message_uint(in, object, "can", 0, UINT16_MAX);
        message_to_wanted(in, object, &settings);
        if (!in->is_bad && settings.n_daemons != 1)
                message_bad(in, "daemons: %zu, must be 1", settings.n_daemons);
        if (!in->is_bad)
                daemon->settings = settings.daemons[0];
}

static void to_mode(struct message_in *in, const json_t *object, struct mps_record_mode *mode)
{
        mode->uuid = message_need_text(in, object, "uuid", MESSAGE_UUID);
        mode->before = (nvmlComputeMode_t)message_uint(in, object, "before", 0, NVML_COMPUTEMODE_EXCLUSIVE_PROCESS);
}

static void to_allocation(struct message_in *in, const json_t *object, struct mps_record_allocation *allocation)
{
        *allocation = (struct mps_record_allocation){
                .request =
                        {
                                .id = message_need_text(in, object, "id", MESSAGE_ALLOCATION),
                                .daemon = message_need_text(in, object, "daemon", MESSAGE_PATH),
                                .unit = message_need_text(in, object, "unit", MESSAGE_UUID),
                                .threads_permille = (unsigned int)message_uint(in, object, "threadsPermille", 0, 1000),
                                .limit_mib = message_uint(in, object, "limitMib", 0, UINT32_MAX),
                                .sms = (unsigned int)message_uint(in, object, "sms", 0, UINT16_MAX),
                        },
                .allocation =
                        {
                                .tier = (enum mps_tier)message_word(in, object, "tier", message_tier, MESSAGE_TIERS),
                                .pipe = message_text(in, object, "pipe", MESSAGE_PATH),
                                .partition = message_text(in, object, "partition", MESSAGE_ANY),
                                .sms = (unsigned int)message_uint(in, object, "grantedSms", 0, UINT16_MAX),
                        },
                .pid = (pid_t)message_uint(in, object, "pid", 0, INT32_MAX),
                .start_time = message_uint(in, object, "startTime", 0, INT64_MAX),
                .is_void = message_bool(in, object, "void"),
                .is_over = message_bool(in, object, "over"),
        };
}

static void to_limit(struct message_in *in, const json_t *object, struct mps_record_limit *limit)
{
        *limit = (struct mps_record_limit){
                .unit = message_need_text(in, object, "unit", MESSAGE_UUID),
                .cgroup = message_need_text(in, object, "cgroup", MESSAGE_ANY),
                .allocation = message_need_text(in, object, "grant", MESSAGE_ALLOCATION),
                .limit_mib = message_uint(in, object, "limitMib", 1, UINT32_MAX),
        };
}

#define READ_ARRAY(in, object, key, most, ret, ret_n, read)                                                            \
        do {                                                                                                           \
                const json_t *array_ = message_array((in), (object), (key), (most), (ret_n));                          \
                                                                                                                       \
                (ret) = arena_alloc((in)->arena, *(ret_n), sizeof(*(ret)));                                            \
                for (size_t i_ = 0; i_ < *(ret_n) && !(in)->is_bad; i_++) {                                            \
                        read((in), json_array_get(array_, i_), &(ret)[i_]);                                            \
                        message_bad_item((in), (key), i_);                                                             \
                }                                                                                                      \
        } while (0)

static void to_record(struct message_in *in, const json_t *object, struct mps_record *record)
{
        record->generation = message_uint(in, object, "generation", 0, INT64_MAX);
        message_to_wanted(in, object, &record->wanted);
        READ_ARRAY(in, object, "processes", MESSAGE_DAEMONS_MAX, record->daemons, &record->n_daemons, to_daemon);
        READ_ARRAY(in, object, "computeModes", MODES_MAX, record->modes, &record->n_modes, to_mode);
        READ_ARRAY(in, object, "grants", ALLOCATIONS_MAX, record->allocations, &record->n_allocations, to_allocation);
        READ_ARRAY(in, object, "containerLimits", LIMITS_MAX, record->limits, &record->n_limits, to_limit);
}

int mps_record_read(struct mps_record *ret, const char *path, struct error *err)
{
        struct strbuf text = STRBUF_INIT;
        struct message_in in = {.arena = &ret->arena, .err = err};
        json_t *object;

        *ret = (struct mps_record){0};
        if (file_read_private(path, MPS_RECORD_MAX, &text, err) < 0) {
                strbuf_done(&text);
                return err->kind == ERROR_NOT_FOUND ? 0 : -1;
        }
        object = message_load(&in, text.data, text.size);
        strbuf_done(&text);
        if (object)
                to_record(&in, object, ret);
        json_decref(object);
        if (!in.is_bad)
                return 0;
        mps_record_done(ret);
        return error_prefix(err, "'%s'", path);
}
