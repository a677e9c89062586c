// SPDX-License-Identifier: Apache-2.0
#include "node/dra/wanted.h"

#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "net/kube/object.h"
#include "node/dra/parameters.h"

#define MIB ((uint64_t)1024 * 1024)

/* ---- the pods of a claim ---- */

static const json_t *pod_find_named(const json_t *list, const char *name)
{
        const json_t *item;
        size_t i;

        json_array_foreach(list, i, item)
        {
                if (text_is_same(object_text(item, "name", NULL), name))
                        return item;
        }
        return NULL;
}

/* The ResourceClaim that the pod's entry |name| stands for, or NULL. */
static const char *pod_resolve(const json_t *pod, const char *name)
{
        const json_t *entry = pod_find_named(object_find(pod, "spec", "resourceClaims", NULL), name);
        const char *claim = object_text(entry, "resourceClaimName", NULL);

        if (claim)
                return claim;
        entry = pod_find_named(object_find(pod, "status", "resourceClaimStatuses", NULL), name);
        return object_text(entry, "resourceClaimName", NULL);
}

/* ---- what a container uses of a claim ---- */

#define REQUESTS_MAX ((size_t)64)

static void add_request(struct arena *arena, struct dra_use *use, const char **requests, const char *request)
{
        if (request && use->n_requests < REQUESTS_MAX)
                requests[use->n_requests++] = arena_strdup(arena, request);
}

/* Through an extended resource that DRA serves ("nvidia.com/gpu.shared: 1"). */
static bool find_mapped(const json_t *pod, const char *container, const char *claim, struct arena *arena,
        struct dra_use *use, const char **requests)
{
        const json_t *status = object_find(pod, "status", "extendedResourceClaimStatus", NULL);
        const json_t *mapping;
        bool is_found = false;
        size_t i;

        if (!container || !text_is_same(object_text(status, "resourceClaimName", NULL), claim))
                return false;
        json_array_foreach(json_object_get(status, "requestMappings"), i, mapping)
        {
                if (!text_is_same(object_text(mapping, "containerName", NULL), container))
                        continue;
                add_request(arena, use, requests, object_text(mapping, "requestName", NULL));
                is_found = true;
        }
        return is_found;
}

/* False: the container does not use the claim. */
static bool pod_find_use(
        struct dra_use *ret, const json_t *pod, const json_t *container, const char *claim, struct arena *arena)
{
        const char **requests = ARENA_ARRAY(arena, const char *, REQUESTS_MAX);
        bool is_found = false;
        bool is_all = false;
        const json_t *use;
        size_t i;

        *ret = (struct dra_use){.requests = requests};
        json_array_foreach(object_find(container, "resources", "claims", NULL), i, use)
        {
                const char *entry = object_text(use, "name", NULL);
                const char *request = object_text(use, "request", NULL);

                if (!entry || !text_is_same(pod_resolve(pod, entry), claim))
                        continue;
                is_found = true;
                is_all |= !request || !*request;
                add_request(arena, ret, requests, request);
        }
        is_found |= find_mapped(pod, object_text(container, "name", NULL), claim, arena, ret, requests);
        if (is_all)
                ret->n_requests = 0;
        return is_found;
}

static bool uses_share(const json_t *pod, const json_t *container, const struct dra_pod_claim *claim)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dra_use use;

        if (!pod_find_use(&use, pod, container, claim->name, &arena))
                return false;
        for (size_t i = 0; i < use.n_requests; i++)
                for (size_t j = 0; j < claim->n_requests; j++)
                        if (strcmp(use.requests[i], claim->requests[j]) == 0)
                                return true;
        return use.n_requests == 0 || claim->n_requests == 0;
}

static const char *const container_lists[] = {"initContainers", "containers"};

void dra_pod_add_uses(const json_t *pod, const char *claim, struct arena *arena, struct dra_uses *uses)
{
        for (size_t i = 0; i < ARRAY_SIZE(container_lists); i++) {
                const json_t *container;
                size_t j;

                json_array_foreach(object_find(pod, "spec", container_lists[i], NULL), j, container)
                {
                        struct dra_use use;

                        if (!pod_find_use(&use, pod, container, claim, arena))
                                continue;
                        if (uses->count == DRA_USES_MAX)
                                uses->is_whole = false;
                        else
                                uses->all[uses->count++] = use;
                }
        }
}

/* ---- several claims ---- */

bool dra_claim_is_beside(const struct ledger_claim *other, const char *uid, const char *pod_uid)
{
        bool has_share = false;

        for (size_t i = 0; i < other->n_devices; i++)
                has_share |= other->devices[i].is_shared;
        for (size_t i = 0; has_share && strcmp(other->uid, uid) != 0 && i < other->n_pods; i++)
                if (strcmp(other->pods[i].uid, pod_uid) == 0)
                        return true;
        return false;
}

const struct ledger_claim_pod *dra_pod_with_others(
        const struct dra_claim *claim, const struct ledger_claim_state *states, size_t n_states, size_t *position)
{
        while (*position < claim->n_pods) {
                const struct ledger_claim_pod *pod = &claim->pods[(*position)++];

                for (size_t i = 0; i < n_states; i++)
                        if (dra_claim_is_beside(states[i].claim, claim->uid, pod->uid))
                                return pod;
        }
        return NULL;
}

const char *dra_pod_container_of_both(
        const json_t *pod, const struct dra_pod_claim *claim, const struct dra_pod_claim *other)
{
        for (size_t i = 0; i < ARRAY_SIZE(container_lists); i++) {
                const json_t *container;
                size_t j;

                json_array_foreach(object_find(pod, "spec", container_lists[i], NULL), j, container)
                {
                        if (uses_share(pod, container, claim) && uses_share(pod, container, other))
                                return object_text(container, "name", NULL);
                }
        }
        return NULL;
}

/* ---- the limits of a result ---- */

/* Reads the limit; 0 for a device without this capacity. */
static int take_limit(const struct dra_result *result, const char *name, uint64_t *ret, struct error *err)
{
        const struct dra_capacity *capacity = dra_device_capacity(result->offered, name);
        uint64_t value;

        *ret = 0;
        if (!capacity)
                return 0;
        value = result->offered->allows_multiple ? dra_claim_capacity(result, name, 0) : capacity->value;
        if (value == 0)
                return error_set(err, ERROR_INVALID, "consumedCapacity has no %s", name);
        if (value > capacity->value)
                return error_set(err, ERROR_INVALID, "consumedCapacity %s: %ju, the device has %ju", name,
                        (uintmax_t)value, (uintmax_t)capacity->value);
        *ret = value;
        return 0;
}

static int wanted_read_one(struct dra_result *result, const struct dra_wanted_rules *rules, struct error *err)
{
        const struct dra_device *device = dra_layout_find(rules->layout, result->device);
        uint64_t threads = 0, clients;

        if (!device)
                return error_set(err, ERROR_UNAVAILABLE, "this node does not offer it now");
        if (result->is_admin && dra_device_kind_is_by_mps(device->kind))
                return error_set(err, ERROR_UNSUPPORTED,
                        "admin access to a share by MPS is not supported, since its limits would be taken from others; ask "
                        "for the device class of whole GPUs");
        if (result->is_admin && device->kind == DRA_DEVICE_MIG_CANDIDATE)
                return error_set(err, ERROR_UNSUPPORTED,
                        "admin access to a MIG device that is still to be made is not supported: it would take what others can have");
        if (device->allows_multiple && !result->share_id && !result->is_admin)
                return error_set(err, ERROR_INVALID, "it is shared, and the result has no shareID");
        result->offered = device;
        result->unit = device->uuid;
        result->memory_bytes = 0;
        result->together = 0;
        if (dra_device_kind_is_by_mps(device->kind) &&
                (take_limit(result, DRA_CAPACITY_MEMORY, &result->memory_bytes, err) < 0 ||
                        take_limit(result, DRA_CAPACITY_THREADS, &threads, err) < 0 ||
                        take_limit(result, DRA_CAPACITY_CLIENTS, &clients, err) < 0))
                return -1;
        result->thread_percentage = (unsigned int)threads;
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
static uint32_t shares_of(const struct dra_claim *claim, const struct dra_use *use)
{
        uint32_t shares = 0;

        for (size_t i = 0; i < claim->n_results; i++)
                if (dra_device_kind_is_by_mps(claim->results[i].offered->kind) &&
                        (!use || names(use, claim->results[i].request)))
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
static int wanted_check_units(
        const struct dra_claim *claim, uint32_t shares, const struct dra_wanted_rules *rules, struct error *err)
{
        const struct dra_result *all = claim->results;
        bool are_of_one = true;

        for (size_t i = 0; i < claim->n_results; i++)
                for (size_t j = 0; j < i; j++) {
                        if (!(shares & bit_of(i)) || !(shares & bit_of(j)))
                                continue;
                        if (wanted_check_daemon(all[j].offered, all[i].offered, rules, err) < 0)
                                return -1;
                        are_of_one &= are_of_one_unit(all[j].offered, all[i].offered);
                }
        if (are_of_one)
                return 0;
        if (!rules->knows_uses)
                return error_set(err, ERROR_UNSUPPORTED,
                        "it has shares of several GPUs, whose limits count by their order, so a container must use all of them; "
                        "whether they do is not known, since the agent may not get pods (rbac.readPods of the chart)");
        for (size_t i = 0; i < rules->n_uses; i++) {
                uint32_t used = shares_of(claim, &rules->uses[i]);

                if (used && used != shares)
                        return error_set(err, ERROR_UNSUPPORTED,
                                "it has shares of several GPUs, whose limits count by their order, and a container uses only a "
                                "part of them: name no request there, or use a claim for each container");
        }
        return 0;
}

static int check_use(
        const struct dra_claim *claim, uint32_t used, const struct dra_wanted_rules *rules, struct error *err)
{
        for (size_t i = 0; i < rules->n_uses; i++) {
                uint32_t other = shares_of(claim, &rules->uses[i]);

                if (used != other && used & other)
                        return error_set(err, ERROR_UNSUPPORTED,
                                "it has several shares of one unit, on which a process has one limit of each kind, and containers "
                                "use them in ways that overlap: let all use the same requests, or each its own");
        }
        return 0;
}

static int wanted_group_shares(struct dra_claim *claim, const struct dra_wanted_rules *rules, struct error *err)
{
        const uint32_t shares = shares_of(claim, NULL);
        uint32_t rest = shares;

        if (wanted_check_units(claim, shares, rules, err) < 0)
                return -1;
        for (size_t i = 0; i < rules->n_uses; i++) {
                uint32_t used = shares_of(claim, &rules->uses[i]);

                if (check_use(claim, used, rules, err) < 0)
                        return -1;
                rest &= ~used;
                for (size_t j = 0; j < claim->n_results; j++)
                        if (used & bit_of(j))
                                claim->results[j].together = used;
        }
        for (size_t j = 0; j < claim->n_results; j++)
                if (rest & bit_of(j))
                        claim->results[j].together = rest;
        return 0;
}

int dra_wanted_read(struct dra_claim *claim, const struct dra_wanted_rules *rules, struct error *err)
{
        if (!rules->layout)
                return error_set(err, ERROR_UNAVAILABLE, "the GPUs of this node are not known yet");
        for (size_t i = 0; i < claim->n_results; i++)
                if (wanted_read_one(&claim->results[i], rules, err) < 0)
                        return error_prefix(err, "device '%s'", claim->results[i].device);
        if (wanted_group_shares(claim, rules, err) < 0)
                return -1;
        for (size_t i = 0; i < claim->n_results; i++)
                if (dra_parameters_apply(claim, i, rules, err) < 0)
                        return error_prefix(err, "device '%s'", claim->results[i].device);
        return 0;
}

/* ---- booking ---- */

static const char *booking_id_at(struct arena *arena, const char *uid, size_t position)
{
        char *id = arena_printf(arena, "c%s_%zu", uid, position);
        char *to = id;

        for (const char *at = id; *at; at++)
                if (*at != '-')
                        *to++ = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
        *to = '\0';
        return id;
}

const char *dra_booking_id(struct arena *arena, const struct dra_claim *claim, size_t i)
{
        const struct dra_result *result = &claim->results[i];
        size_t first = 0;

        if (result->is_admin || result->allocation)
                return result->allocation;
        while (first < i && (!result->together || claim->results[first].together != result->together ||
                                    strcmp(claim->results[first].unit, result->unit) != 0))
                first++;
        return booking_id_at(arena, claim->uid, first);
}

static enum mps_tier tier_of(const char *name)
{
        enum mps_tier tier = MPS_TIER_NAMESPACE;

        while (tier > MPS_TIER_DEFAULT && (!name || strcmp(mps_tier_name(tier), name) != 0))
                tier--;
        return tier;
}

struct ledger_claim_device *dra_booking_find(const struct ledger_claim *booking, const char *id)
{
        for (size_t i = 0; id && i < booking->n_devices; i++)
                if (strcmp(booking->devices[i].id, id) == 0)
                        return (struct ledger_claim_device *)(uintptr_t)&booking->devices[i];
        return NULL;
}

void dra_booking_make(struct ledger_claim *ret, struct arena *arena, const struct dra_claim *claim)
{
        struct ledger_claim_device *devices = ARENA_ARRAY(arena, struct ledger_claim_device, claim->n_results);

        *ret = (struct ledger_claim){.uid = claim->uid,
                .name = arena_printf(arena, "%s/%s", claim->namespace, claim->name),
                .devices = devices};
        for (size_t i = 0; i < claim->n_results; i++) {
                const struct dra_result *result = &claim->results[i];
                const char *id = dra_booking_id(arena, claim, i);
                bool is_shared =
                        result->offered ? dra_device_kind_is_by_mps(result->offered->kind) : result->daemon != NULL;
                unsigned int permille = result->thread_percentage ? result->thread_percentage * 10 : 1000;
                struct ledger_claim_device *first = dra_booking_find(ret, id);

                if (first) {
                        first->limit_mib += result->memory_bytes / MIB;
                        first->threads_permille += permille;
                } else if (id) {
                        devices[ret->n_devices++] = (struct ledger_claim_device){.id = id,
                                .unit = result->unit,
                                .is_shared = is_shared,
                                .is_alone = !is_shared && !result->share_id,
                                .limit_mib = result->memory_bytes / MIB,
                                .threads_permille = permille,
                                .tier = tier_of(result->tier),
                                .daemon = result->daemon};
                }
        }
}
