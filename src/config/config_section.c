/*
 * What the keys of one sharing section mean together: defaults that follow from each other, and what cannot be had at
 * once.
 */
#include "config/config_file.h"
#include "config/word.h"

/* One section while its keys are held against each other. */
struct settling {
        struct sharing_section *section;
        struct shared_resource *resources; /* the same as section->resources */
        const struct tree *tree;
        const struct file_section *file;
        const struct sharing_defaults *defaults;
        struct error *err;
};

/* The section's |key|, which it has; else the section itself, for what was not said but follows. */
static struct tree_node place_of(const struct settling *settling, const char *key)
{
        struct tree_node node;

        return tree_member(settling->tree, &settling->file->node, key, &node) ? node : settling->file->node;
}

static const struct tree_node *entry_node(const struct settling *settling, size_t i)
{
        const struct file_resource *items = settling->file->resources.items;

        return &items[i].node;
}

/* ---- values and their defaults ---- */

static enum daemon_scope daemon_scope_of(const struct settling *settling)
{
        if (tree_has(settling->tree, &settling->file->node, "daemonScope"))
                return (enum daemon_scope)settling->file->daemon_scope;
        if (settling->section->provisioning == PROVISIONING_SM)
                return DAEMON_SCOPE_GPU; /* partitions of SMs are of one GPU */
        if (settling->defaults->drop_in)
                return DAEMON_SCOPE_RESOURCE;
        /* Who has a resource a GPU asks for two of them in one container. */
        return settling->section->scope == SCOPE_INDIVIDUAL ? DAEMON_SCOPE_NODE : DAEMON_SCOPE_GPU;
}

static void take_values(const struct settling *settling)
{
        const struct file_section *file = settling->file;
        struct sharing_section *section = settling->section;

        section->scope = (enum sharing_scope)file->scope;
        section->max_per_request = file->max_per_request;
        section->reserve = (enum reserve)file->reserve;
        section->daemon_scope = daemon_scope_of(settling);
        section->guard = tree_has(settling->tree, &file->node, "guard") ? (enum guard_mode)file->guard : GUARD_REPORT;
        /* The first of the words is "auto". */
        section->tier_limit = file->tier == 0 ? MPS_TIER_NAMESPACE : (enum mps_tier)(file->tier - 1);
        section->has_memory_reserve = file->memory_reserve.is_given;
        section->memory_reserve_mib = file->memory_reserve.mib;
        section->max_threads = file->max_threads;
        section->max_memory_mib = file->max_memory.mib;
        section->refuses_overcommit =
                tree_has(settling->tree, &file->node, "declaredOvercommit") && !file->declared_overcommit;
}

/* ---- provisioning ---- */

static int check_sms(const struct settling *settling)
{
        struct tree_node node;

        for (size_t i = 0; i < settling->section->n_resources; i++)
                if (tree_member(settling->tree, entry_node(settling, i), "sms", &node) &&
                        settling->section->provisioning != PROVISIONING_SM)
                        return tree_fail(settling->tree, &node, settling->err,
                                "%u, only with provisioning sm: set sharing.mps.provisioning: sm, or remove it",
                                settling->resources[i].sms);
        return 0;
}

static int check_memory(const struct settling *settling)
{
        struct tree_node node;

        for (size_t i = 0; i < settling->section->n_resources; i++)
                if (tree_member(settling->tree, entry_node(settling, i), "memory", &node) &&
                        settling->section->strategy != SHARING_MPS)
                        return tree_fail(settling->tree, &node, settling->err,
                                "only in sharing.mps: time-slicing limits no memory; remove it");
        return 0;
}

static int check_ceilings(const struct settling *settling)
{
        static const char *const keys[] = {"maxThreads", "maxMemory", "declaredOvercommit"};
        struct tree_node node;

        for (size_t i = 0; i < ARRAY_SIZE(keys) && settling->section->provisioning != PROVISIONING_DECLARED; i++)
                if (tree_member(settling->tree, &settling->file->node, keys[i], &node))
                        return tree_fail(settling->tree, &node, settling->err,
                                "only with provisioning declared: set sharing.mps.provisioning: declared, or remove it");
        if (settling->file->max_memory.is_given && settling->file->max_memory.mib == 0) {
                node = place_of(settling, "maxMemory");
                return tree_fail(settling->tree, &node, settling->err,
                        "0, at least 1 MiB: leave it out where there is to be no ceiling");
        }
        return 0;
}

static int check_provisioning(const struct settling *settling)
{
        const struct sharing_section *section = settling->section;
        struct tree_node node;

        if (check_sms(settling) < 0 || check_memory(settling) < 0 || check_ceilings(settling) < 0)
                return -1;
        if (section->provisioning == PROVISIONING_SM && section->daemon_scope != DAEMON_SCOPE_GPU) {
                node = place_of(settling, "daemonScope");
                return tree_fail(settling->tree, &node, settling->err,
                        "%s, but provisioning sm gives SMs of one GPU: use gpu, or another provisioning",
                        daemon_scope_name(section->daemon_scope));
        }
        if (section->provisioning != PROVISIONING_UNIFORM && section->tier_limit == MPS_TIER_DEFAULT) {
                node = place_of(settling, "tier");
                return tree_fail(settling->tree, &node, settling->err,
                        "default, which has the same limits for every container, but with provisioning %s they differ: use "
                        "verified or better, or provisioning uniform",
                        provisioning_name(section->provisioning));
        }
        if (section->provisioning == PROVISIONING_UNIFORM && section->has_memory_reserve) {
                node = place_of(settling, "memoryReserve");
                tree_warn(settling->tree, &node, "ignored, since provisioning uniform shares out all of the memory");
        }
        return 0;
}

/* ---- placement ---- */

#define NOT_SEVERAL                                                                                                         \
        "but with daemonScope gpu a container cannot have replicas of several units: %s, or set daemonScope: resource, or " \
        "failRequestsGreaterThanOne: true"

static int refuse_placement(const struct settling *settling, size_t i)
{
        struct tree_node node;

        if (!tree_member(settling->tree, entry_node(settling, i), "placement", &node))
                node = place_of(settling, "placement");
        return tree_fail(settling->tree, &node, settling->err, "%s, " NOT_SEVERAL,
                placement_name(settling->resources[i].placement), "use same-gpu");
}

static int refuse_policy(const struct settling *settling)
{
        struct tree_node node = settling->file->node;

        return tree_fail(settling->tree, &node, settling->err, "sharedDevicesAllocationPolicy is %s, " NOT_SEVERAL,
                settling->defaults->policy, "set placement: same-gpu here");
}

/*
 * Where a daemon or a resource has one unit, so has each request; only same-gpu sees to it that kubelet's choice can be
 * kept.
 */
static int settle_placement(const struct settling *settling)
{
        const struct sharing_section *section = settling->section;
        bool has_one_unit = section->scope == SCOPE_INDIVIDUAL;

        bool is_bound = section->daemon_scope == DAEMON_SCOPE_GPU ||
                        (section->daemon_scope == DAEMON_SCOPE_NODE && has_one_unit);

        if (section->strategy != SHARING_MPS || !is_bound || section->fail_requests_greater_than_one)
                return 0;
        for (size_t i = 0; i < section->n_resources; i++) {
                struct shared_resource *resource = &settling->resources[i];

                if (resource->has_placement && resource->placement != PLACEMENT_SAME_GPU && !has_one_unit)
                        return refuse_placement(settling, i);
                if (!resource->has_placement && settling->defaults->policy && !has_one_unit)
                        return refuse_policy(settling);
                if (resource->has_placement || settling->defaults->policy)
                        continue;
                resource->has_placement = true;
                resource->placement = PLACEMENT_SAME_GPU;
        }
        return 0;
}

/* ---- the largest request ---- */

static int check_max_per_request(const struct settling *settling)
{
        const struct sharing_section *section = settling->section;
        struct tree_node node = place_of(settling, "maxPerRequest");
        unsigned int most = 0;

        if (section->max_per_request == 0)
                return 0;
        if (section->fail_requests_greater_than_one)
                return tree_fail(settling->tree, &node, settling->err,
                        "%u, but failRequestsGreaterThanOne is true, so a request is one replica: set that to false, or "
                        "remove this",
                        section->max_per_request);
        for (size_t i = 0; i < section->n_resources; i++) {
                const struct shared_resource *resource = &settling->resources[i];

                if (!resource->has_placement || resource->placement != PLACEMENT_SAME_GPU)
                        return tree_fail(settling->tree, &node, settling->err,
                                "%u, only with placement same-gpu, which %s (line %d) does not have: set it there or for "
                                "the section, or remove this",
                                section->max_per_request, resource->path, entry_node(settling, i)->line);
                most = MAX(most, resource->replicas);
        }
        if (section->max_per_request > most)
                return tree_fail(settling->tree, &node, settling->err,
                        "%u, at most %u, the replicas of one unit: a request has to fit on one",
                        section->max_per_request, most);
        return 0;
}

int config_sharing_settle(struct sharing_section *section, struct shared_resource *resources, const struct tree *tree,
        const struct file_section *file, const struct sharing_defaults *defaults, struct error *err)
{
        const struct settling settling = {section, resources, tree, file, defaults, err};

        take_values(&settling);
        if (check_provisioning(&settling) < 0 || settle_placement(&settling) < 0)
                return -1;
        return check_max_per_request(&settling);
}
