#include "mps/wire/message_parts.h"

const char *message_tier(unsigned int position)
{
        return mps_tier_name((enum mps_tier)position);
}

static const char *provisioning_word(unsigned int position)
{
        return provisioning_name((enum provisioning)position);
}

static const struct json_field unit_fields[] = {
        JSON_TEXT("uuid", struct mps_unit, uuid, message_uuid, .is_needed = true),
        JSON_TEXT("gpuUuid", struct mps_unit, gpu_uuid, message_uuid, .is_needed = true),
        JSON_TEXT("index", struct mps_unit, index, message_any, .is_needed = true),
        JSON_TEXT("name", struct mps_unit, name, message_any, .is_needed = true),
        JSON_BOOL("isMig", struct mps_unit, is_mig),
        JSON_UINT("memoryBytes", struct mps_unit, memory, 0, INT64_MAX),
        JSON_UINT("replicas", struct mps_unit, replicas, 0, CONFIG_MAX_REPLICAS),
        JSON_UINT("sms", struct mps_unit, sms, 0, UINT16_MAX),
        JSON_UINT("chunkSms", struct mps_unit, chunk_sms, 0, UINT16_MAX),
        JSON_KNOWN("chunksNeeded", struct mps_unit, chunks_needed, 0, UINT16_MAX),
        JSON_UINT("limitMib", struct mps_unit, limit_mib, 0, UINT32_MAX),
        JSON_UINT("replicaMib", struct mps_unit, replica_mib, 0, UINT32_MAX),
        JSON_UINT("clients", struct mps_unit, clients, 0, UINT16_MAX),
};
static const struct json_shape unit_shape = JSON_SHAPE(struct mps_unit, unit_fields);

static const struct json_field daemon_fields[] = {
        JSON_TEXT("name", struct mps_daemon_wanted, name, message_path, .is_needed = true),
        JSON_TEXT("resource", struct mps_daemon_wanted, resource, message_any, .is_needed = true),
        JSON_WORD("provisioning", struct mps_daemon_wanted, provisioning, provisioning_word, PROVISIONING_LAST + 1),
        JSON_WORD("tierLimit", struct mps_daemon_wanted, tier_limit, message_tier, MESSAGE_TIERS),
        JSON_UINT("threadsPermille", struct mps_daemon_wanted, threads_permille, 1, 1000),
        JSON_ITEMS("units", struct mps_daemon_wanted, units, n_units, unit_shape, 1, MESSAGE_UNITS_MAX),
        JSON_TEXTS(
                "away", struct mps_daemon_wanted, away, n_away, message_uuid, 0, MESSAGE_UNITS_MAX, .leaves_out = true),
};
const struct json_shape message_daemon = JSON_SHAPE(struct mps_daemon_wanted, daemon_fields);
