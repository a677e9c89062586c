#include "node/dra/wanted.h"

#include <string.h>

#include "node/dra/parameters.h"

#define MIB ((uint64_t)1024 * 1024)

/* Reads the limit; 0 for a device without this capacity. */
static int take_limit(const struct dra_wanted *wanted, const char *name, uint64_t *ret, struct error *err)
{
        const struct dra_capacity *capacity = dra_device_capacity(wanted->device, name);
        uint64_t value;

        *ret = 0;
        if (!capacity)
                return 0;
        value = wanted->device->allows_multiple ? dra_claim_capacity(wanted->result, name, 0) : capacity->value;
        if (value == 0)
                return error_set(err, ERROR_INVALID, "consumedCapacity has no %s", name);
        if (value > capacity->value)
                return error_set(err, ERROR_INVALID, "consumedCapacity %s: %ju, the device has %ju", name,
                        (uintmax_t)value, (uintmax_t)capacity->value);
        *ret = value;
        return 0;
}

static int wanted_read_one(struct dra_wanted *wanted, const struct dra_wanted_rules *rules, struct error *err)
{
        const struct dra_claim_result *result = wanted->result;
        const struct dra_device *device = dra_layout_find(rules->layout, result->device);
        uint64_t threads, clients;

        if (!device)
                return error_set(err, ERROR_UNAVAILABLE, "this node does not offer it now");
        if (result->admin_access && dra_device_kind_is_by_mps(device->kind))
                return error_set(err, ERROR_UNSUPPORTED,
                        "admin access to a share by MPS is not supported, since its limits would be taken from others; ask "
                        "for the device class of whole GPUs");
        if (result->admin_access && device->kind == DRA_DEVICE_MIG_CANDIDATE)
                return error_set(err, ERROR_UNSUPPORTED,
                        "admin access to a MIG device that is still to be made is not supported: it would take what others can have");
        if (device->allows_multiple && !result->share_id && !result->admin_access)
                return error_set(err, ERROR_INVALID, "it is shared, and the result has no shareID");
        wanted->device = device;
        if (!dra_device_kind_is_by_mps(device->kind))
                return 0;
        if (take_limit(wanted, DRA_CAPACITY_MEMORY, &wanted->memory_bytes, err) < 0 ||
                take_limit(wanted, DRA_CAPACITY_THREADS, &threads, err) < 0 ||
                take_limit(wanted, DRA_CAPACITY_CLIENTS, &clients, err) < 0)
                return -1;
        wanted->thread_percentage = (unsigned int)threads;
        wanted->clients = (unsigned int)clients;
        return 0;
}

/* ---- what containers use together ---- */

static uint32_t bit_of(size_t i)
{
        return UINT32_C(1) << i;
}

static bool names(const struct dra_use *use, const char *request)
{
        for (size_t i = 0; i < use->n_requests; i++)
                if (strcmp(use->requests[i], request) == 0)
                        return true;
        return use->n_requests == 0;
}

/* The results by MPS that a container has with this use; NULL: all of the claim. */
static uint32_t shares_of(const struct dra_wanted *all, size_t count, const struct dra_use *use)
{
        uint32_t shares = 0;

        for (size_t i = 0; i < count; i++)
                if (dra_device_kind_is_by_mps(all[i].device->kind) && (!use || names(use, all[i].result->request)))
                        shares |= bit_of(i);
        return shares;
}

static bool are_of_one_unit(const struct dra_device *a, const struct dra_device *b)
{
        return strcmp(a->uuid, b->uuid) == 0;
}

static int wanted_check_daemon(
        const struct dra_device *a, const struct dra_device *b, const struct dra_wanted_rules *rules, struct error *err)
{
        bool is_mig = a->mig || b->mig;

        if (are_of_one_unit(a, b) || (rules->one_daemon && !is_mig))
                return 0;
        return error_set(err, ERROR_UNSUPPORTED,
                "devices '%s' and '%s' are shared by different MPS daemons, and a process can use only one; use a claim for "
                "each, in different containers%s",
                a->name, b->name, is_mig ? "" : ", or one daemon for all GPUs of the node (dra.daemonScope: resource)");
}

/* Whether all of |shares| are of one unit, and if not, that the same containers use all of them. */
static int wanted_check_units(const struct dra_wanted *all, size_t count, uint32_t shares,
        const struct dra_wanted_rules *rules, struct error *err)
{
        bool are_of_one = true;

        for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j < i; j++) {
                        if (!(shares & bit_of(i)) || !(shares & bit_of(j)))
                                continue;
                        if (wanted_check_daemon(all[j].device, all[i].device, rules, err) < 0)
                                return -1;
                        are_of_one &= are_of_one_unit(all[j].device, all[i].device);
                }
        if (are_of_one)
                return 0;
        if (!rules->knows_uses)
                return error_set(err, ERROR_UNSUPPORTED,
                        "it has shares of several GPUs, whose limits count by their order, so a container must use all of them; "
                        "whether they do is not known, since the agent may not get pods (rbac.readPods of the chart)");
        for (size_t i = 0; i < rules->n_uses; i++) {
                uint32_t used = shares_of(all, count, &rules->uses[i]);

                if (used && used != shares)
                        return error_set(err, ERROR_UNSUPPORTED,
                                "it has shares of several GPUs, whose limits count by their order, and a container uses only a "
                                "part of them: name no request there, or use a claim for each container");
        }
        return 0;
}

static int check_use(const struct dra_wanted *all, size_t count, uint32_t used, const struct dra_wanted_rules *rules,
        struct error *err)
{
        for (size_t i = 0; i < rules->n_uses; i++) {
                uint32_t other = shares_of(all, count, &rules->uses[i]);

                if (used != other && used & other)
                        return error_set(err, ERROR_UNSUPPORTED,
                                "it has several shares of one unit, on which a process has one limit of each kind, and containers "
                                "use them in ways that overlap: let all use the same requests, or each its own");
        }
        return 0;
}

static int wanted_group_shares(
        struct dra_wanted *all, size_t count, const struct dra_wanted_rules *rules, struct error *err)
{
        const uint32_t shares = shares_of(all, count, NULL);
        uint32_t rest = shares;

        if (wanted_check_units(all, count, shares, rules, err) < 0)
                return -1;
        for (size_t i = 0; i < rules->n_uses; i++) {
                uint32_t used = shares_of(all, count, &rules->uses[i]);

                if (check_use(all, count, used, rules, err) < 0)
                        return -1;
                rest &= ~used;
                for (size_t j = 0; j < count; j++)
                        if (used & bit_of(j))
                                all[j].together = used;
        }
        for (size_t j = 0; j < count; j++)
                if (rest & bit_of(j))
                        all[j].together = rest;
        return 0;
}

int dra_wanted_read(const struct dra_wanted **ret, struct arena *arena, const struct dra_claim *claim,
        const struct dra_wanted_rules *rules, struct error *err)
{
        struct dra_wanted *all = ARENA_ARRAY(arena, struct dra_wanted, claim->n_results);

        if (!rules->layout)
                return error_set(err, ERROR_UNAVAILABLE, "the GPUs of this node are not known yet");
        for (size_t i = 0; i < claim->n_results; i++) {
                all[i].result = &claim->results[i];
                if (wanted_read_one(&all[i], rules, err) < 0)
                        return error_prefix(err, "device '%s'", claim->results[i].device);
        }
        if (wanted_group_shares(all, claim->n_results, rules, err) < 0)
                return -1;
        for (size_t i = 0; i < claim->n_results; i++)
                if (dra_parameters_apply(all, claim->n_results, i, claim, rules, err) < 0)
                        return error_prefix(err, "device '%s'", claim->results[i].device);
        *ret = all;
        return 0;
}

/* ---- booking ---- */

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

static void wanted_add_share(struct ledger_claim_device *to, const struct ledger_claim_device *share)
{
        to->limit_mib += share->limit_mib;
        to->threads_permille += share->threads_permille;
}

static struct ledger_claim_device wanted_device_of(
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
static size_t wanted_find_first(const struct dra_wanted *wanted, size_t i)
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
                struct ledger_claim_device device = wanted_device_of(arena, claim, &wanted[i], i);
                size_t first = wanted_find_first(wanted, i);

                if (claim->results[i].admin_access) {
                        ret->of[i] = DRA_NOT_BOOKED;
                } else if (first < i) {
                        ret->of[i] = ret->of[first];
                        wanted_add_share(&ret->devices[ret->of[i]], &device);
                } else {
                        ret->of[i] = ret->n_devices;
                        ret->devices[ret->n_devices++] = device;
                }
        }
}

static enum mps_tier tier_of(const char *name)
{
        enum mps_tier tier = MPS_TIER_NAMESPACE;

        while (tier > MPS_TIER_DEFAULT && (!name || strcmp(mps_tier_name(tier), name) != 0))
                tier--;
        return tier;
}

static struct ledger_claim_device *wanted_find_device(struct ledger_claim_device *devices, size_t count, const char *id)
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
                struct ledger_claim_device *first = wanted_find_device(devices, count, device.id);

                if (result->is_admin)
                        continue;
                if (first)
                        wanted_add_share(first, &device);
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
