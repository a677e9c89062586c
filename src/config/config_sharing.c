/*
 * What the section "sharing" means: names, defaults, and which entries can stand beside each other.
 */
#include <stdint.h>
#include <string.h>

#include "base/map.h"
#include "config/config_file.h"
#include "config/resource_name.h"

#define SHARED_SUFFIX ".shared"

/* One section while it is built. */
struct draft {
        const struct file_section *file;
        struct sharing_section *section;
        struct shared_resource *resources; /* the same as section->resources */
        const struct tree_node **nodes;    /* of each of them */
};

/* ---- one entry ---- */

static int build_names(const struct tree *tree, const struct file_resource *file, bool rename_by_default,
        struct shared_resource *resource, struct error *err)
{
        size_t length = strlen(file->name) + strlen(SHARED_SUFFIX);

        resource->name = file->name;
        resource->rename = file->rename;
        if (file->rename || !rename_by_default)
                return 0;
        if (length > RESOURCE_NAME_MAX)
                return tree_fail(tree, &file->node, err,
                        "'%s" SHARED_SUFFIX
                        "', the name that renameByDefault gives, has %zu characters, at most %zu: set rename",
                        file->name, length, RESOURCE_NAME_MAX);
        resource->rename = arena_printf(tree->arena, "%s" SHARED_SUFFIX, file->name);
        resource->is_suffixed = true;
        return 0;
}

static int build_resource(const struct tree *tree, const struct draft *draft, const struct file_resource *file,
        struct shared_resource *resource, struct error *err)
{
        struct tree_node replicas;

        tree_member(tree, &file->node, "replicas", &replicas);
        *resource = (struct shared_resource){
                .section = draft->section,
                .path = file->node.path,
                .replicas = file->replicas,
                .sms = file->sms,
                .memory_mib = file->memory.mib,
                .devices = file->devices,
                .line = replicas.line,
        };
        if (tree_has(tree, &file->node, "placement")) {
                resource->has_placement = true;
                resource->placement = (enum placement)file->placement;
        } else if (tree_has(tree, &draft->file->node, "placement")) {
                resource->has_placement = true;
                resource->placement = (enum placement)draft->file->placement;
        }
        return build_names(tree, file, draft->file->rename_by_default, resource, err);
}

/* ---- one section ---- */

static int build_section(const struct tree *tree, const struct file_section *file, enum sharing_strategy strategy,
        const struct sharing_defaults *defaults, struct draft *ret, struct error *err)
{
        struct sharing_section *section = ARENA_NEW(tree->arena, struct sharing_section);
        const struct file_resource *items = file->resources.items;

        ret->file = file;
        ret->section = section;
        ret->resources = ARENA_ARRAY(tree->arena, struct shared_resource, file->resources.count);
        ret->nodes = ARENA_ARRAY(tree->arena, const struct tree_node *, file->resources.count);
        section->strategy = strategy;
        section->line = file->node.line;
        section->rename_by_default = file->rename_by_default;
        section->provisioning = (enum provisioning)file->provisioning;
        /*
         * NVIDIA's defaults: several replicas of one GPU give no more time, but do no harm under time-slicing; under
         * MPS with equal shares they would not even give more memory. Under the other provisionings they give just what
         * is asked for.
         */
        section->says_fail_requests = tree_has(tree, &file->node, "failRequestsGreaterThanOne");
        section->fail_requests_greater_than_one =
                section->says_fail_requests ? file->fail_requests_greater_than_one
                                            : strategy == SHARING_MPS && section->provisioning == PROVISIONING_UNIFORM;
        section->resources = ret->resources;
        section->n_resources = file->resources.count;
        for (size_t i = 0; i < section->n_resources; i++) {
                ret->nodes[i] = &items[i].node;
                if (build_resource(tree, ret, &items[i], &ret->resources[i], err) < 0)
                        return -1;
        }
        return config_sharing_settle(section, ret->resources, tree, file, defaults, err);
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
static void drop_slicing(const struct tree *tree, struct draft *slicing, const struct draft *mps)
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
                        tree_warn(tree, slicing->nodes[i],
                                "ignored, since sharing.mps (line %d) shares '%s', too; to share different GPUs "
                                "differently, list the devices of both",
                                mps->nodes[j]->line, resource->name);
                }
        }
        slicing->section->n_resources = kept;
}

/*
 * Of two entries of a section that mean all units of one resource, and differ in nothing else, the one with more
 * replicas counts: NVIDIA's plugin makes ids of both, of which those of the smaller one are among those of the larger
 * one.
 */
static void drop_repeated(const struct tree *tree, struct draft *draft)
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
                tree_warn(tree, draft->nodes[i],
                        "'%s' is shared by the entry at line %d, too; the one with more replicas counts: %u",
                        resource->name, draft->nodes[j]->line, MAX(resource->replicas, draft->resources[j].replicas));
                if (resource->replicas > draft->resources[j].replicas) {
                        draft->resources[j] = *resource;
                        draft->nodes[j] = draft->nodes[i];
                }
        }
        draft->section->n_resources = kept;
}

/*
 * What two entries that are advertised under one name cannot have differently. Provisioning and
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
static int check_devices(const struct tree *tree, const struct entry *entry, struct map *owners, struct error *err)
{
        const struct device_selector *devices = &entry->resource->devices;

        for (size_t i = 0; i < devices->n_refs; i++) {
                const struct device_ref *ref = &devices->refs[i];
                const char *name = ref->uuid      ? ref->uuid
                                   : ref->mig < 0 ? arena_printf(tree->arena, "%u", ref->gpu)
                                                  : arena_printf(tree->arena, "%u:%d", ref->gpu, ref->mig);
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
                if (check_devices(tree, &entries[i], &owners, err) < 0)
                        return -1;
        }
        return 0;
}

int config_sharing_build(struct sharing *ret, const struct tree *tree, const struct file_sharing *sharing,
        const struct sharing_defaults *defaults, struct error *err)
{
        struct entry entries[2 * CONFIG_MAX_RESOURCES];
        struct draft drafts[2] = {0};
        size_t n_entries = 0;

        if (sharing && sharing->time_slicing &&
                build_section(tree, sharing->time_slicing, SHARING_TIME_SLICING, defaults, &drafts[0], err) < 0)
                return -1;
        if (sharing && sharing->mps && build_section(tree, sharing->mps, SHARING_MPS, defaults, &drafts[1], err) < 0)
                return -1;
        for (size_t d = 0; d < ARRAY_SIZE(drafts); d++)
                if (drafts[d].section)
                        drop_repeated(tree, &drafts[d]);
        if (drafts[0].section && drafts[1].section)
                drop_slicing(tree, &drafts[0], &drafts[1]);
        for (size_t d = 0; d < ARRAY_SIZE(drafts); d++)
                for (size_t i = 0; drafts[d].section && i < drafts[d].section->n_resources; i++)
                        entries[n_entries++] = (struct entry){&drafts[d].resources[i], drafts[d].nodes[i]};
        if (check_entries(tree, entries, n_entries, err) < 0)
                return -1;
        if (drafts[0].section && drafts[0].section->n_resources > 0)
                ret->time_slicing = drafts[0].section;
        ret->mps = drafts[1].section;
        return 0;
}
