/*
 * The section "sharing". Its two parts are objects whose keys NVIDIA's plugin looks up in a plain map: in one spelling only.
 */
#include <string.h>

#include "config/config_file.h"
#include "config/resource_name.h"

#define SHARED_SUFFIX ".shared"

static int read_provisioning(
        const struct tree *tree, const struct tree_node *section, struct sharing_section *sharing, struct error *err)
{
        struct tree_node node;
        const char *text;

        if (!tree_member(tree, section, "provisioning", &node))
                return 0;
        if (tree_string(tree, &node, &text, err) < 0)
                return -1;
        for (enum provisioning p = PROVISIONING_UNIFORM; p <= PROVISIONING_WEIGHTED; p++) {
                if (strcmp(text, provisioning_name(p)) != 0)
                        continue;
                sharing->provisioning = p;
                return 0;
        }
        if (strcmp(text, "sm") == 0) {
                tree_fail(tree, &node, err, "'sm' is not supported by this version, use uniform, half or weighted");
                err->kind = ERROR_UNSUPPORTED;
                return -1;
        }
        return tree_fail(tree, &node, err, "'%.100s' is not a known value, use uniform, half or weighted", text);
}

static int read_name(
        const struct tree *tree, const struct tree_node *item, const char *key, const char **ret, struct error *err)
{
        struct tree_node node;
        const char *text;

        if (!tree_member(tree, item, key, &node))
                return 0;
        if (tree_string(tree, &node, &text, err) < 0)
                return -1;
        if (resource_name_check(text, tree->arena, ret, err) < 0)
                return tree_prefix(tree, &node, err);
        return 0;
}

static void warn_devices(const struct tree *tree, const struct tree_node *item)
{
        char text[TREE_VALUE_SIZE];
        struct tree_node node;

        if (tree_member(tree, item, "devices", &node) && strcmp(tree_print(&node, text), "\"all\"") != 0)
                tree_warn(tree, &node, "%s is ignored: this version shares all GPUs of the node alike", text);
}

static int read_resource(const struct tree *tree, const struct tree_node *item, const struct sharing_section *section,
        bool rename_by_default, struct shared_resource *resource, struct error *err)
{
        static const struct tree_key keys[] = {{"name"}, {"rename"}, {"replicas"}, {"devices", "*"}};
        struct tree_node replicas;

        if (tree_object(tree, item, err) < 0)
                return -1;
        tree_check_keys(tree, item, keys, ARRAY_SIZE(keys));
        if (read_name(tree, item, "name", &resource->name, err) < 0)
                return -1;
        if (!resource->name)
                return tree_fail(tree, item, err, "name is missing, for example nvidia.com/gpu");
        if (read_name(tree, item, "rename", &resource->rename, err) < 0)
                return -1;
        if (!resource->rename && rename_by_default)
                resource->rename = arena_printf(tree->arena, "%s" SHARED_SUFFIX, resource->name);
        if (!tree_member(tree, item, "replicas", &replicas))
                return tree_fail(tree, item, err, "replicas is missing: into how many parts to share each GPU");
        if (tree_uint(tree, &replicas, 1, CONFIG_MAX_REPLICAS, &resource->replicas, err) < 0)
                return -1;
        resource->line = replicas.line;
        resource->path = item->path;
        resource->section = section;
        warn_devices(tree, item);
        return 0;
}

static const char *advertised(const struct shared_resource *resource)
{
        return resource->rename ? resource->rename : resource->name;
}

/* Two entries for the same GPUs, or two resources under one name, cannot both be served. */
static int check_distinct(const struct tree *tree, const struct tree_node *item,
        const struct shared_resource *resources, size_t i, struct error *err)
{
        for (size_t j = 0; j < i; j++) {
                if (strcmp(resources[i].name, resources[j].name) == 0)
                        return tree_fail(tree, item, err, "'%s' is shared already by the entry at line %d",
                                resources[i].name, resources[j].line);
                if (strcmp(advertised(&resources[i]), advertised(&resources[j])) == 0)
                        return tree_fail(tree, item, err, "'%s' is advertised already by the entry at line %d",
                                advertised(&resources[i]), resources[j].line);
        }
        return 0;
}

static int read_resources(const struct tree *tree, const struct tree_node *section, bool rename_by_default,
        struct sharing_section *sharing, struct error *err)
{
        struct shared_resource *resources;
        struct tree_node list;
        size_t count;

        if (!tree_member(tree, section, "resources", &list))
                return tree_fail(tree, section, err,
                        "resources is missing; list what to share, for example {name: nvidia.com/gpu, replicas: 4}, or "
                        "remove the section");
        if (tree_array(tree, &list, err) < 0)
                return -1;
        count = json_array_size(list.json);
        if (count == 0)
                return tree_fail(tree, &list, err,
                        "empty; list what to share, for example {name: nvidia.com/gpu, replicas: 4}, or remove the section");
        /* Far more than a node has resources, and it bounds check_distinct(). */
        if (count > CONFIG_MAX_RESOURCES)
                return tree_fail(tree, &list, err, "%zu entries, at most %zu", count, CONFIG_MAX_RESOURCES);
        resources = ARENA_ARRAY(tree->arena, struct shared_resource, count);
        for (size_t i = 0; i < count; i++) {
                struct tree_node item;

                tree_item(tree, &list, i, &item);
                if (read_resource(tree, &item, sharing, rename_by_default, &resources[i], err) < 0 ||
                        check_distinct(tree, &item, resources, i, err) < 0)
                        return -1;
        }
        sharing->resources = resources;
        sharing->n_resources = count;
        return 0;
}

static int read_section(
        const struct tree *tree, const struct tree_node *section, struct sharing_section *sharing, struct error *err)
{
        static const struct tree_key mps_keys[] = {
                {"renameByDefault"}, {"failRequestsGreaterThanOne"}, {"resources"}, {"provisioning"}};
        bool is_mps = sharing->strategy == SHARING_MPS;
        bool rename_by_default = false;
        struct tree_node node;

        sharing->line = section->line;
        if (tree_object(tree, section, err) < 0)
                return -1;
        tree_check_keys(tree, section, mps_keys, ARRAY_SIZE(mps_keys) - !is_mps);
        if (tree_member(tree, section, "renameByDefault", &node) && tree_bool(tree, &node, &rename_by_default, err) < 0)
                return -1;
        if (is_mps && read_provisioning(tree, section, sharing, err) < 0)
                return -1;
        /*
         * NVIDIA's defaults: several replicas of one GPU give no more time, but do no harm under time-slicing; under MPS with
         * equal shares they would not even give more memory. Under the other provisionings they give just what is asked for.
         */
        sharing->fail_requests_greater_than_one = is_mps && sharing->provisioning == PROVISIONING_UNIFORM;
        if (tree_member(tree, section, "failRequestsGreaterThanOne", &node) &&
                tree_bool(tree, &node, &sharing->fail_requests_greater_than_one, err) < 0)
                return -1;
        return read_resources(tree, section, rename_by_default, sharing, err);
}

int config_sharing_read(
        struct config_file *file, const struct tree *tree, const struct tree_node *root, struct error *err)
{
        static const struct tree_key keys[] = {{"timeSlicing"}, {"mps"}};
        struct sharing_section *slicing = ARENA_NEW(tree->arena, struct sharing_section);
        struct sharing_section *mps = ARENA_NEW(tree->arena, struct sharing_section);
        struct tree_node sharing;
        struct tree_node slicing_node = {0};
        struct tree_node mps_node = {0};
        bool has_slicing;
        bool has_mps;

        if (!tree_member(tree, root, "sharing", &sharing))
                return 0;
        if (tree_object(tree, &sharing, err) < 0)
                return -1;
        tree_check_keys(tree, &sharing, keys, ARRAY_SIZE(keys));
        slicing->strategy = SHARING_TIME_SLICING;
        mps->strategy = SHARING_MPS;
        has_slicing = tree_member(tree, &sharing, "timeSlicing", &slicing_node);
        has_mps = tree_member(tree, &sharing, "mps", &mps_node);
        slicing_node.fold = mps_node.fold = false;
        if (has_slicing && read_section(tree, &slicing_node, slicing, err) < 0)
                return -1;
        if (has_mps && read_section(tree, &mps_node, mps, err) < 0)
                return -1;
        if (has_slicing && has_mps)
                tree_warn(tree, &slicing_node, "ignored, since sharing.mps (line %d) is there too", mps_node.line);
        if (has_mps)
                file->sharing.mps = mps;
        else if (has_slicing)
                file->sharing.time_slicing = slicing;
        return 0;
}
