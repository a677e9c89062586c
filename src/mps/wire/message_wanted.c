#include "mps/wire/message.h"
#include "mps/wire/message_parts.h"

const char *message_tier(unsigned int position)
{
        return mps_tier_name((enum mps_tier)position);
}

static const char *provisioning_word(unsigned int position)
{
        return provisioning_name((enum provisioning)position);
}

/* ---- writing ---- */

static json_t *of_unit(const struct mps_unit *unit)
{
        json_t *object = json_object();

        message_put_text(object, "uuid", unit->uuid);
        message_put_text(object, "gpuUuid", unit->gpu_uuid);
        message_put_text(object, "index", unit->index);
        message_put_text(object, "name", unit->name);
        json_object_set_new(object, "isMig", json_boolean(unit->is_mig));
        message_put_uint(object, "memoryBytes", unit->memory);
        message_put_uint(object, "replicas", unit->replicas);
        message_put_uint(object, "sms", unit->sms);
        message_put_uint(object, "chunkSms", unit->chunk_sms);
        message_put_uint(object, "limitMib", unit->limit_mib);
        message_put_uint(object, "replicaMib", unit->replica_mib);
        message_put_uint(object, "clients", unit->clients);
        return object;
}

static json_t *of_daemon(const struct mps_daemon_wanted *daemon)
{
        json_t *object = json_object();
        json_t *units = json_array();

        for (size_t i = 0; i < daemon->n_units; i++)
                json_array_append_new(units, of_unit(&daemon->units[i]));
        message_put_text(object, "name", daemon->name);
        message_put_text(object, "resource", daemon->resource);
        message_put_text(object, "provisioning", provisioning_name(daemon->provisioning));
        message_put_text(object, "tierLimit", mps_tier_name(daemon->tier_limit));
        message_put_uint(object, "threadsPermille", daemon->threads_permille);
        json_object_set_new(object, "units", units);
        return object;
}

json_t *message_of_wanted(const struct mps_wanted *wanted)
{
        json_t *daemons = json_array();

        for (size_t i = 0; i < wanted->n_daemons; i++)
                json_array_append_new(daemons, of_daemon(&wanted->daemons[i]));
        return daemons;
}

/* ---- reading ---- */

static void to_unit(struct message_in *in, const json_t *object, struct mps_unit *unit)
{
        *unit = (struct mps_unit){
                .uuid = message_need_text(in, object, "uuid", MESSAGE_UUID),
                .gpu_uuid = message_need_text(in, object, "gpuUuid", MESSAGE_UUID),
                .index = message_need_text(in, object, "index", MESSAGE_ANY),
                .name = message_need_text(in, object, "name", MESSAGE_ANY),
                .is_mig = message_bool(in, object, "isMig"),
                .memory = message_uint(in, object, "memoryBytes", 0, INT64_MAX),
                .replicas = (unsigned int)message_uint(in, object, "replicas", 0, CONFIG_MAX_REPLICAS),
                .sms = (unsigned int)message_uint(in, object, "sms", 0, UINT16_MAX),
                .chunk_sms = (unsigned int)message_uint(in, object, "chunkSms", 0, UINT16_MAX),
                .limit_mib = message_uint(in, object, "limitMib", 0, UINT32_MAX),
                .replica_mib = message_uint(in, object, "replicaMib", 0, UINT32_MAX),
                .clients = (unsigned int)message_uint(in, object, "clients", 0, UINT16_MAX),
        };
}

static void to_daemon(struct message_in *in, const json_t *object, struct mps_daemon_wanted *daemon)
{
        size_t count;
        const json_t *array = message_array(in, object, "units", MESSAGE_UNITS_MAX, &count);
        struct mps_unit *units = ARENA_ARRAY(in->arena, struct mps_unit, count);

        *daemon = (struct mps_daemon_wanted){
                .name = message_need_text(in, object, "name", MESSAGE_PATH),
                .resource = message_need_text(in, object, "resource", MESSAGE_ANY),
                .provisioning = (enum provisioning)message_word(
                        in, object, "provisioning", provisioning_word, PROVISIONING_LAST + 1),
                .tier_limit = (enum mps_tier)message_word(in, object, "tierLimit", message_tier, MESSAGE_TIERS),
                .threads_permille = (unsigned int)message_uint(in, object, "threadsPermille", 1, 1000),
                .units = units,
                .n_units = count,
        };
        if (count == 0)
                message_bad(in, "units: a daemon without any");
        for (size_t i = 0; i < count && !in->is_bad; i++) {
                to_unit(in, json_array_get(array, i), &units[i]);
                message_bad_item(in, "units", i);
        }
}

void message_to_wanted(struct message_in *in, const json_t *object, struct mps_wanted *ret)
{
        size_t count;
        const json_t *array = message_array(in, object, "daemons", MESSAGE_DAEMONS_MAX, &count);
        struct mps_daemon_wanted *daemons = ARENA_ARRAY(in->arena, struct mps_daemon_wanted, count);

        if (!array)
                message_bad(in, "daemons: missing");
        for (size_t i = 0; i < count && !in->is_bad; i++) {
                to_daemon(in, json_array_get(array, i), &daemons[i]);
                message_bad_item(in, "daemons", i);
        }
        *ret = (struct mps_wanted){daemons, count};
}
