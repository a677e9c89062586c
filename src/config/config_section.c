/*
 * The keys of one sharing section together: defaults that follow from other keys, and combinations that are refused.
 */
#include "config/config_reading.h"
#include "config/word.h"

/* The node of the section's |key|; of the section itself for a value that was not written but follows. */
static struct tree_node section_place(const struct sharing_draft *draft, const char *key)
{
        struct tree_node node;

        return tree_member(draft->tree, &draft->node, key, &node) ? node : draft->node;
}

/* ---- defaults ---- */

static enum daemon_scope default_daemon_scope(const struct sharing_draft *draft)
{
        if (draft->section->provisioning == PROVISIONING_SM)
                return DAEMON_SCOPE_GPU; /* partitions of SMs are of one GPU */
        if (draft->defaults->drop_in)
                return DAEMON_SCOPE_RESOURCE;
        /* With a resource for each GPU, a container asks for two resources to get two GPUs. */
        return draft->section->scope == SCOPE_INDIVIDUAL ? DAEMON_SCOPE_NODE : DAEMON_SCOPE_GPU;
}

/*
 * NVIDIA's defaults: several replicas of one GPU give no more time, but do no harm under time-slicing; under MPS with
 * equal shares they would not even give more memory. Under the other provisionings they give just what is asked for.
 */
static void set_defaults(const struct sharing_draft *draft)
{
        struct sharing_section *section = draft->section;

        if (!section->shows_fail_requests)
                section->fail_requests_greater_than_one =
                        section->strategy == SHARING_MPS && section->provisioning == PROVISIONING_UNIFORM;
        section->shows_fail_requests |= section->strategy == SHARING_MPS;
        if (!tree_has(draft->tree, &draft->node, "daemonScope"))
                section->daemon_scope = default_daemon_scope(draft);
}

/* ---- provisioning ---- */

static int section_check_sms(const struct sharing_draft *draft, struct error *err)
{
        struct tree_node node;

        for (size_t i = 0; i < draft->section->n_resources; i++)
                if (tree_member(draft->tree, &draft->nodes[i], "sms", &node) &&
                        draft->section->provisioning != PROVISIONING_SM)
                        return tree_fail(draft->tree, &node, err,
                                "%u, only with provisioning sm: set sharing.mps.provisioning: sm, or remove it",
                                draft->resources[i].sms);
        return 0;
}

static int section_check_memory(const struct sharing_draft *draft, struct error *err)
{
        struct tree_node node;

        for (size_t i = 0; i < draft->section->n_resources; i++)
                if (tree_member(draft->tree, &draft->nodes[i], "memory", &node) &&
                        draft->section->strategy != SHARING_MPS)
                        return tree_fail(draft->tree, &node, err,
                                "only in sharing.mps: time-slicing limits no memory; remove it");
        return 0;
}

static int check_ceilings(const struct sharing_draft *draft, struct error *err)
{
        static const char *const keys[] = {"maxThreads", "maxMemory", "declaredOvercommit"};
        struct tree_node node;

        for (size_t i = 0; i < ARRAY_SIZE(keys) && draft->section->provisioning != PROVISIONING_DECLARED; i++)
                if (tree_member(draft->tree, &draft->node, keys[i], &node))
                        return tree_fail(draft->tree, &node, err,
                                "only with provisioning declared: set sharing.mps.provisioning: declared, or remove it");
        return 0;
}

static int check_provisioning(const struct sharing_draft *draft, struct error *err)
{
        const struct sharing_section *section = draft->section;
        struct tree_node node;

        if (section_check_sms(draft, err) < 0 || section_check_memory(draft, err) < 0 || check_ceilings(draft, err) < 0)
                return -1;
        if (section->provisioning == PROVISIONING_SM && section->daemon_scope != DAEMON_SCOPE_GPU) {
                node = section_place(draft, "daemonScope");
                return tree_fail(draft->tree, &node, err,
                        "%s, but provisioning sm gives SMs of one GPU: use gpu, or another provisioning",
                        daemon_scope_name(section->daemon_scope));
        }
        if (section->provisioning != PROVISIONING_UNIFORM && section->tier_limit == MPS_TIER_DEFAULT) {
                node = section_place(draft, "tier");
                return tree_fail(draft->tree, &node, err,
                        "default, which has the same limits for every container, but with provisioning %s they differ: use "
                        "verified or better, or provisioning uniform",
                        provisioning_name(section->provisioning));
        }
        if (section->provisioning == PROVISIONING_UNIFORM && section->has_memory_reserve) {
                node = section_place(draft, "memoryReserve");
                tree_warn(draft->tree, &node, "ignored, since provisioning uniform shares out all of the memory");
        }
        return 0;
}

/* ---- placement ---- */

#define NOT_SEVERAL                                                                                                         \
        "but with daemonScope gpu a container cannot have replicas of several units: %s, or set daemonScope: resource, or " \
        "failRequestsGreaterThanOne: true"

static int refuse_placement(const struct sharing_draft *draft, size_t i, struct error *err)
{
        struct tree_node node;

        if (!tree_member(draft->tree, &draft->nodes[i], "placement", &node))
                node = section_place(draft, "placement");
        return tree_fail(draft->tree, &node, err, "%s, " NOT_SEVERAL, placement_name(draft->resources[i].placement),
                "use same-gpu");
}

static int refuse_policy(const struct sharing_draft *draft, struct error *err)
{
        struct tree_node node = draft->node;

        return tree_fail(draft->tree, &node, err, "sharedDevicesAllocationPolicy is %s, " NOT_SEVERAL,
                draft->defaults->policy, "set placement: same-gpu here");
}

/*
 * Where a daemon or a resource has one unit, a request is of one unit, too; only same-gpu makes kubelet choose replicas
 * of one.
 */
static int settle_placement(const struct sharing_draft *draft, struct error *err)
{
        const struct sharing_section *section = draft->section;
        bool has_one_unit = section->scope == SCOPE_INDIVIDUAL;

        bool is_bound = section->daemon_scope == DAEMON_SCOPE_GPU ||
                        (section->daemon_scope == DAEMON_SCOPE_NODE && has_one_unit);

        if (section->strategy != SHARING_MPS || !is_bound || section->fail_requests_greater_than_one)
                return 0;
        for (size_t i = 0; i < section->n_resources; i++) {
                struct shared_resource *resource = &draft->resources[i];

                if (resource->has_placement && resource->placement != PLACEMENT_SAME_GPU && !has_one_unit)
                        return refuse_placement(draft, i, err);
                if (!resource->has_placement && draft->defaults->policy && !has_one_unit)
                        return refuse_policy(draft, err);
                if (resource->has_placement || draft->defaults->policy)
                        continue;
                resource->has_placement = true;
                resource->placement = PLACEMENT_SAME_GPU;
        }
        return 0;
}

/* ---- the largest request ---- */

static int check_max_per_request(const struct sharing_draft *draft, struct error *err)
{
        const struct sharing_section *section = draft->section;
        struct tree_node node = section_place(draft, "maxPerRequest");
        unsigned int most = 0;

        if (section->max_per_request == 0)
                return 0;
        if (section->fail_requests_greater_than_one)
                return tree_fail(draft->tree, &node, err,
                        "%u, but failRequestsGreaterThanOne is true, so a request is one replica: set that to false, or "
                        "remove this",
                        section->max_per_request);
        for (size_t i = 0; i < section->n_resources; i++) {
                const struct shared_resource *resource = &draft->resources[i];

                if (!resource->has_placement || resource->placement != PLACEMENT_SAME_GPU)
                        return tree_fail(draft->tree, &node, err,
                                "%u, only with placement same-gpu, which %s (line %d) does not have: set it there or for "
                                "the section, or remove this",
                                section->max_per_request, resource->path, draft->nodes[i].line);
                most = MAX(most, resource->replicas);
        }
        if (section->max_per_request > most)
                return tree_fail(draft->tree, &node, err,
                        "%u, at most %u, the replicas of one unit: a request has to fit on one",
                        section->max_per_request, most);
        return 0;
}

int config_section_settle(const struct sharing_draft *draft, struct error *err)
{
        set_defaults(draft);
        if (check_provisioning(draft, err) < 0 || settle_placement(draft, err) < 0)
                return -1;
        return check_max_per_request(draft, err);
}
