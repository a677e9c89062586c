#include "dra/pod_claims.h"

#include <stdbool.h>
#include <string.h>

#include "kube/object.h"

static bool is_text(const char *text, const char *expected)
{
        return text && strcmp(text, expected) == 0;
}

static const json_t *find_named(const json_t *list, const char *name)
{
        const json_t *item;
        size_t i;

        json_array_foreach(list, i, item)
        {
                if (is_text(object_text(item, "name", NULL), name))
                        return item;
        }
        return NULL;
}

/* The ResourceClaim that the pod's entry |name| stands for, or NULL. */
static const char *resolve(const json_t *pod, const char *name)
{
        const json_t *entry = find_named(object_find(pod, "spec", "resourceClaims", NULL), name);
        const char *claim = object_text(entry, "resourceClaimName", NULL);

        if (claim)
                return claim;
        entry = find_named(object_find(pod, "status", "resourceClaimStatuses", NULL), name);
        return object_text(entry, "resourceClaimName", NULL);
}

/* Whether the container uses the claim through an extended resource that DRA serves ("nvidia.com/gpu.shared: 1"). */
static bool uses_by_resource(const json_t *pod, const char *container, const char *claim)
{
        const json_t *status = object_find(pod, "status", "extendedResourceClaimStatus", NULL);
        const json_t *mapping;
        size_t i;

        if (!is_text(object_text(status, "resourceClaimName", NULL), claim))
                return false;
        json_array_foreach(json_object_get(status, "requestMappings"), i, mapping)
        {
                if (is_text(object_text(mapping, "containerName", NULL), container))
                        return true;
        }
        return false;
}

static bool uses(const json_t *pod, const json_t *container, const char *claim)
{
        const char *name = object_text(container, "name", NULL);
        const json_t *use;
        size_t i;

        json_array_foreach(object_find(container, "resources", "claims", NULL), i, use)
        {
                const char *entry = object_text(use, "name", NULL);

                if (entry && is_text(resolve(pod, entry), claim))
                        return true;
        }
        return name && uses_by_resource(pod, name, claim);
}

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

const json_t *dra_pod_with_others(const json_t *claim, const char *uid, const struct ledger_claim_state *states,
        size_t n_states, size_t *position)
{
        const json_t *users = object_find(claim, "status", "reservedFor", NULL);

        while (*position < json_array_size(users)) {
                const json_t *user = json_array_get(users, (*position)++);
                const char *pod_uid = object_text(user, "uid", NULL);

                for (size_t i = 0; pod_uid && object_text(user, "name", NULL) && i < n_states; i++)
                        if (dra_claim_is_beside(states[i].claim, uid, pod_uid))
                                return user;
        }
        return NULL;
}

const char *dra_pod_container_of_both(const json_t *pod, const char *claim, const char *other)
{
        static const char *const lists[] = {"initContainers", "containers"};

        for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
                const json_t *container;
                size_t j;

                json_array_foreach(object_find(pod, "spec", lists[i], NULL), j, container)
                {
                        if (uses(pod, container, claim) && uses(pod, container, other))
                                return object_text(container, "name", NULL);
                }
        }
        return NULL;
}
