// SPDX-License-Identifier: Apache-2.0
#include "config/config_sharing.h"

#include <stdint.h>
#include <string.h>

#include "base/map.h"
#include "config/kube_name.h"
#include "config/word.h"

/* A section while its keys and entries are checked against each other. */
struct sharing_draft {
        const struct tree *tree;
        const struct sharing_defaults *defaults;
        struct tree_node node;
        struct sharing_section *section;   /* NULL: not in the file */
        struct shared_resource *resources; /* the same as section->resources */
        struct tree_node *nodes;           /* of each of them */
};

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

/* The defaults of a section that follow from its other keys, and the combinations that are refused. */
static int settle_section(const struct sharing_draft *draft, struct error *err)
{
        set_defaults(draft);
        if (check_provisioning(draft, err) < 0 || settle_placement(draft, err) < 0)
                return -1;
        return check_max_per_request(draft, err);
}

/* ---- one section ---- */

static int set_names(const struct sharing_draft *draft, size_t i, struct error *err)
{
        struct shared_resource *resource = &draft->resources[i];
        size_t length = strlen(resource->name) + strlen(RESOURCE_NAME_SHARED);

        if (resource->rename || !draft->section->rename_by_default)
                return 0;
        if (length > RESOURCE_NAME_MAX)
                return tree_fail(draft->tree, &draft->nodes[i], err,
                        "'%s" RESOURCE_NAME_SHARED
                        "', the name that renameByDefault gives, has %zu characters, at most %zu: set rename",
                        resource->name, length, RESOURCE_NAME_MAX);
        resource->rename = arena_printf(draft->tree->arena, "%s" RESOURCE_NAME_SHARED, resource->name);
        resource->is_suffixed = true;
        return 0;
}

/* Takes the section |key| as it was read, or NULL, and completes it. */
static int draft_section(struct sharing_draft *draft, const struct tree_node *sharing, const char *key,
        enum sharing_strategy strategy, const struct sharing_section *section, struct error *err)
{
        struct sharing_reading *reading = (struct sharing_reading *)(uintptr_t)section;
        struct tree_node list;

        if (!reading)
                return 0;
        tree_member(draft->tree, sharing, key, &draft->node);
        draft->node.fold = false; /* as in file_schema.c */
        tree_member(draft->tree, &draft->node, "resources", &list);
        draft->section = &reading->section;
        draft->section->strategy = strategy;
        draft->resources = (struct shared_resource *)(uintptr_t)section->resources;
        draft->nodes = ARENA_ARRAY(draft->tree->arena, struct tree_node, section->n_resources);
        for (size_t i = 0; i < section->n_resources; i++) {
                struct shared_resource *resource = &draft->resources[i];
                struct tree_node replicas;

                tree_item(draft->tree, &list, i, &draft->nodes[i]);
                tree_member(draft->tree, &draft->nodes[i], "replicas", &replicas);
                resource->section = draft->section;
                resource->path = draft->nodes[i].path;
                resource->line = replicas.line;
                if (!resource->has_placement) {
                        resource->has_placement = reading->has_placement;
                        resource->placement = reading->placement;
                }
                if (set_names(draft, i, err) < 0)
                        return -1;
        }
        return settle_section(draft, err);
}

/* ---- entries beside each other ---- */

/* An entry of either section, with its place in the file. */
struct entry {
        const struct shared_resource *resource;
        const struct tree_node *node;
};

static const char *advertised(const struct shared_resource *resource)
{
        return resource->rename ? resource->rename : resource->name;
}

static bool is_everything(const struct shared_resource *resource)
{
        return resource->devices.kind == SELECT_ALL;
}

static bool is_repeated(const struct shared_resource *a, const struct shared_resource *b)
{
        return strcmp(a->name, b->name) == 0 && is_everything(a) && is_everything(b) &&
               strcmp(advertised(a), advertised(b)) == 0 && a->has_placement == b->has_placement &&
               (!a->has_placement || a->placement == b->placement) && a->sms == b->sms &&
               a->memory_mib == b->memory_mib;
}

/* NVIDIA's plugin lets MPS win whenever both sections are there; here it wins for the resources that both mean. */
static void sharing_drop_slicing(struct sharing_draft *slicing, const struct sharing_draft *mps)
{
        size_t kept = 0;

        for (size_t i = 0; i < slicing->section->n_resources; i++) {
                const struct shared_resource *resource = &slicing->resources[i];
                size_t j = 0;

                while (j < mps->section->n_resources &&
                        (strcmp(mps->resources[j].name, resource->name) != 0 ||
                                (!is_everything(resource) && !is_everything(&mps->resources[j]))))
                        j++;
                if (j == mps->section->n_resources) {
                        slicing->resources[kept] = *resource;
                        slicing->nodes[kept++] = slicing->nodes[i];
                } else {
                        tree_warn(slicing->tree, &slicing->nodes[i],
                                "ignored, since sharing.mps (line %d) shares '%s', too; to share different GPUs "
                                "differently, list the devices of both",
                                mps->nodes[j].line, resource->name);
                }
        }
        slicing->section->n_resources = kept;
}

/*
 * If two entries of a section mean all units of one resource and differ in nothing else, the one with more replicas
 * counts: NVIDIA's plugin makes ids of both, and the larger one has all ids of the smaller one.
 */
static void sharing_drop_repeated(struct sharing_draft *draft)
{
        size_t kept = 0;

        for (size_t i = 0; i < draft->section->n_resources; i++) {
                const struct shared_resource *resource = &draft->resources[i];
                size_t j = 0;

                while (j < kept && !is_repeated(resource, &draft->resources[j]))
                        j++;
                if (j == kept) {
                        draft->resources[kept] = *resource;
                        draft->nodes[kept++] = draft->nodes[i];
                        continue;
                }
                tree_warn(draft->tree, &draft->nodes[i],
                        "'%s' is shared by the entry at line %d, too; the one with more replicas counts: %u",
                        resource->name, draft->nodes[j].line, MAX(resource->replicas, draft->resources[j].replicas));
                if (resource->replicas > draft->resources[j].replicas) {
                        draft->resources[j] = *resource;
                        draft->nodes[j] = draft->nodes[i];
                }
        }
        draft->section->n_resources = kept;
}

/*
 * The setting in which two entries that are advertised under one name must not differ, or NULL. Provisioning and
 * failRequestsGreaterThanOne are those of a section. Without a placement of its own, an entry has the default, which
 * the plan knows.
 */
static const char *difference(const struct shared_resource *a, const struct shared_resource *b)
{
        if (a->section != b->section)
                return "strategy";
        return a->has_placement && b->has_placement && a->placement != b->placement ? "placement" : NULL;
}

/* Beside an entry that lists or counts its units, one without a selector means the rest: the plan sees to it. */
static int check_pair(
        const struct tree *tree, const struct entry *entry, const struct entry *earlier, struct error *err)
{
        const char *name = advertised(entry->resource);
        const char *what = difference(entry->resource, earlier->resource);

        if (strcmp(entry->resource->name, earlier->resource->name) == 0 && is_everything(entry->resource) &&
                is_everything(earlier->resource))
                return tree_fail(tree, entry->node, err,
                        "'%s' is shared already by the entry at line %d; to share different GPUs differently, list the "
                        "devices of one of them",
                        entry->resource->name, earlier->node->line);
        if (what && strcmp(name, advertised(earlier->resource)) == 0)
                return tree_fail(tree, entry->node, err,
                        "'%s' is the name of the entry at line %d, too, which has another %s: give one of them another "
                        "rename",
                        name, earlier->node->line, what);
        return 0;
}

/* A device that two entries for one resource list; |owners| has what was listed before. */
static int sharing_check_devices(
        const struct tree *tree, const struct entry *entry, struct map *owners, struct error *err)
{
        const struct device_selector *devices = &entry->resource->devices;

        for (size_t i = 0; i < devices->n_refs; i++) {
                const struct device_ref *ref = &devices->refs[i];
                const char *name = device_ref_text(tree->arena, ref);
                const char *key = arena_printf(tree->arena, "%s %s", entry->resource->name, name);
                const struct device_ref *owner = map_find(owners, key);
                struct tree_node node = *entry->node;

                node.line = ref->line;
                if (owner)
                        return tree_fail(tree, &node, err, "device %s of '%s' is listed at line %d already", name,
                                entry->resource->name, owner->line);
                map_add(owners, key, (void *)(uintptr_t)ref);
        }
        return 0;
}

static int check_entries(const struct tree *tree, const struct entry *entries, size_t n_entries, struct error *err)
{
        _cleanup_(map_done) struct map owners = MAP_INIT;

        for (size_t i = 0; i < n_entries; i++) {
                for (size_t j = 0; j < i; j++)
                        if (check_pair(tree, &entries[i], &entries[j], err) < 0)
                                return -1;
                if (sharing_check_devices(tree, &entries[i], &owners, err) < 0)
                        return -1;
        }
        return 0;
}

int config_sharing_build(struct sharing *sharing, const struct tree *tree, const struct tree_node *root,
        const struct sharing_defaults *defaults, struct error *err)
{
        struct sharing_draft slicing = {.tree = tree, .defaults = defaults};
        struct sharing_draft mps = slicing;
        const struct sharing_draft *const drafts[] = {&slicing, &mps};
        struct entry entries[2 * CONFIG_MAX_RESOURCES];
        struct tree_node node;
        size_t n_entries = 0;

        if (!tree_member(tree, root, "sharing", &node))
                return 0;
        if (draft_section(&slicing, &node, "timeSlicing", SHARING_TIME_SLICING, sharing->time_slicing, err) < 0 ||
                draft_section(&mps, &node, "mps", SHARING_MPS, sharing->mps, err) < 0)
                return -1;
        if (slicing.section)
                sharing_drop_repeated(&slicing);
        if (mps.section)
                sharing_drop_repeated(&mps);
        if (slicing.section && mps.section)
                sharing_drop_slicing(&slicing, &mps);
        for (size_t d = 0; d < ARRAY_SIZE(drafts); d++)
                for (size_t i = 0; drafts[d]->section && i < drafts[d]->section->n_resources; i++)
                        entries[n_entries++] = (struct entry){&drafts[d]->resources[i], &drafts[d]->nodes[i]};
        if (check_entries(tree, entries, n_entries, err) < 0)
                return -1;
        if (slicing.section && slicing.section->n_resources == 0)
                sharing->time_slicing = NULL;
        return 0;
}
