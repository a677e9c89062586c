#include "node/dra/booking.h"

#include <string.h>

#define MIB ((uint64_t)1024 * 1024)

const char *dra_booking_id(struct arena *arena, const char *uid, size_t position)
{
        char *id = arena_printf(arena, "c%s_%zu", uid, position);
        char *to = id;

        for (const char *at = id; *at; at++)
                if (*at != '-')
                        *to++ = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
        *to = '\0';
        return id;
}

static void add_share(struct ledger_claim_device *to, const struct ledger_claim_device *share)
{
        to->limit_mib += share->limit_mib;
        to->threads_permille += share->threads_permille;
}

/* ---- of a claim that is to be prepared ---- */

static struct ledger_claim_device device_of(
        struct arena *arena, const struct dra_claim *claim, const struct dra_wanted *wanted, size_t position)
{
        enum dra_device_kind kind = wanted->device->kind;

        return (struct ledger_claim_device){
                .id = dra_booking_id(arena, claim->uid, position),
                .unit = arena_strdup(arena, wanted->device->uuid),
                .is_shared = dra_device_kind_is_by_mps(kind),
                .is_alone = kind == DRA_DEVICE_WHOLE || kind == DRA_DEVICE_MIG || kind == DRA_DEVICE_MIG_CANDIDATE,
                .limit_mib = wanted->memory_bytes / MIB,
                .threads_permille = wanted->thread_percentage ? wanted->thread_percentage * 10 : 1000,
        };
}

/* An earlier result whose device has the share of result |i|, too; |i| itself if there is none. */
static size_t find_first(const struct dra_wanted *wanted, size_t i)
{
        for (size_t j = 0; wanted[i].together && j < i; j++)
                if (wanted[j].together == wanted[i].together &&
                        strcmp(wanted[j].device->uuid, wanted[i].device->uuid) == 0)
                        return j;
        return i;
}

void dra_booking_make(
        struct dra_booking *ret, struct arena *arena, const struct dra_claim *claim, const struct dra_wanted *wanted)
{
        *ret = (struct dra_booking){
                .devices = ARENA_ARRAY(arena, struct ledger_claim_device, claim->n_results),
                .of = ARENA_ARRAY(arena, size_t, claim->n_results),
        };
        for (size_t i = 0; i < claim->n_results; i++) {
                struct ledger_claim_device device = device_of(arena, claim, &wanted[i], i);
                size_t first = find_first(wanted, i);

                if (claim->results[i].admin_access) {
                        ret->of[i] = DRA_NOT_BOOKED;
                } else if (first < i) {
                        ret->of[i] = ret->of[first];
                        add_share(&ret->devices[ret->of[i]], &device);
                } else {
                        ret->of[i] = ret->n_devices;
                        ret->devices[ret->n_devices++] = device;
                }
        }
}

/* ---- of a claim that is prepared ---- */

static enum mps_tier tier_of(const char *name)
{
        enum mps_tier tier = MPS_TIER_NAMESPACE;

        while (tier > MPS_TIER_DEFAULT && (!name || strcmp(mps_tier_name(tier), name) != 0))
                tier--;
        return tier;
}

static struct ledger_claim_device *find_device(struct ledger_claim_device *devices, size_t count, const char *id)
{
        for (size_t i = 0; i < count; i++)
                if (strcmp(devices[i].id, id) == 0)
                        return &devices[i];
        return NULL;
}

void dra_booking_keep(struct ledger_claim *ret, struct arena *arena, const struct dra_prepared_claim *recorded)
{
        struct ledger_claim_device *devices = ARENA_ARRAY(arena, struct ledger_claim_device, recorded->n_results);
        size_t count = 0;

        for (size_t i = 0; i < recorded->n_results; i++) {
                const struct dra_prepared_result *result = &recorded->results[i];
                const struct ledger_claim_device device = {
                        .id = result->allocation ? result->allocation : dra_booking_id(arena, recorded->uid, i),
                        .unit = result->unit,
                        .is_shared = result->daemon != NULL,
                        .is_alone = !result->daemon && !result->share_id,
                        .limit_mib = result->memory_bytes / MIB,
                        .threads_permille = result->thread_percentage ? result->thread_percentage * 10 : 1000,
                        .tier = tier_of(result->tier),
                        .daemon = result->daemon,
                };
                struct ledger_claim_device *first = find_device(devices, count, device.id);

                if (result->is_admin)
                        continue;
                if (first)
                        add_share(first, &device);
                else
                        devices[count++] = device;
        }
        *ret = (struct ledger_claim){
                .uid = recorded->uid,
                .name = arena_printf(arena, "%s/%s", recorded->namespace, recorded->name),
                .devices = devices,
                .n_devices = count,
        };
}
