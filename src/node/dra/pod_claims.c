#include "node/dra/pod_claims.h"

#include <stdbool.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "net/kube/object.h"

static const json_t *pod_claims_find_named(const json_t *list, const char *name)
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
static const char *pod_claims_resolve(const json_t *pod, const char *name)
{
        const json_t *entry = pod_claims_find_named(object_find(pod, "spec", "resourceClaims", NULL), name);
        const char *claim = object_text(entry, "resourceClaimName", NULL);

        if (claim)
                return claim;
        entry = pod_claims_find_named(object_find(pod, "status", "resourceClaimStatuses", NULL), name);
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
static bool pod_claims_find_use(
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

                if (!entry || !text_is_same(pod_claims_resolve(pod, entry), claim))
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

        if (!pod_claims_find_use(&use, pod, container, claim->name, &arena))
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

                        if (!pod_claims_find_use(&use, pod, container, claim, arena))
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
