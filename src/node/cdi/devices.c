// SPDX-License-Identifier: Apache-2.0
#include "node/cdi/devices.h"

#include <jansson.h>
#include <string.h>

#include "base/text.h"
#include "node/cdi/cdi.h"
#include "node/cdi/hooks.h"

/* A GPU with all its MIG devices has 1 + 2 × 8; this is more than enough. */
#define MAX_OLD_NODES ((size_t)64)

const char *devices_name(const struct config *config, const struct unit *unit)
{
        return config->devices.id_strategy == ID_STRATEGY_INDEX ? unit->index : unit->uuid;
}

/* ---- the nodes of one device ---- */

static const char *gpu_node(const struct cdi_context *context, const struct gpu *gpu)
{
        return arena_printf(context->arena, "/dev/nvidia%d", gpu->minor);
}

static const char *cap_node(const struct cdi_context *context, int minor)
{
        return arena_printf(context->arena, "/dev/nvidia-caps/nvidia-cap%d", minor);
}

/* For graphics: the kernel's DRM nodes, and the links by which programs find them. CUDA does not need them. */
static void add_graphics(const struct cdi_context *context, struct spec_edits *edits, const struct gpu *gpu)
{
        static const char *const nodes[] = {"card*", "renderD*", "controlD*", NULL};
        struct driver_link links[2];
        size_t n_links = 0;
        const char *folder;
        const char *const *names;
        size_t count;

        if (!gpu->bus || strchr(gpu->bus, '/'))
                return;
        folder = arena_printf(context->arena, "/sys/bus/pci/devices/%s/drm", gpu->bus);
        count = cdi_list(context, context->roots.system, folder, nodes, &names);
        for (size_t i = 0; i < count; i++) {
                bool is_card = text_starts_with(names[i], "card");

                if (!cdi_add_node(context, edits, arena_printf(context->arena, "/dev/dri/%s", names[i])) ||
                        n_links == ARRAY_SIZE(links) || text_starts_with(names[i], "controlD"))
                        continue;
                links[n_links++] = (struct driver_link){
                        .target = arena_printf(context->arena, "../%s", names[i]),
                        .link = arena_printf(
                                context->arena, "/dev/dri/by-path/pci-%s-%s", gpu->bus, is_card ? "card" : "render"),
                };
        }
        hooks_add_links(context, edits, links, n_links);
}

/* Returns NULL if the GPU's node does not exist: a device without edits would make the whole file invalid. */
static struct spec_edits *new_device(
        const struct cdi_context *context, struct spec *spec, const struct gpu *gpu, const char *name)
{
        struct spec_edits *edits;

        if (gpu->minor < 0 || !cdi_has_node(context, gpu_node(context, gpu)))
                return NULL;
        edits = spec_device(spec, name);
        if (edits)
                cdi_add_node(context, edits, gpu_node(context, gpu));
        return edits;
}

static void add_cap(
        const struct cdi_context *context, struct spec_edits *edits, const char *name, const char *what, int minor)
{
        if (minor < 0)
                cdi_warn(context,
                        "CDI device '%s' has no access to its %s: /proc/driver/nvidia-caps/mig-minors does not name it",
                        name, what);
        else if (!cdi_add_node(context, edits, cap_node(context, minor))) {
                *context->lacks_nodes = true;
                cdi_warn(context, "CDI device '%s' has no access to its %s: there is no '%s'; nvidia-modprobe makes it",
                        name, what, cap_node(context, minor));
        }
}

static void add_caps(
        const struct cdi_context *context, struct spec_edits *edits, const struct mig_device *mig, const char *name)
{
        add_cap(context, edits, name, "GPU instance", mig->gpu_instance_cap);
        add_cap(context, edits, name, "compute instance", mig->compute_instance_cap);
}

static void devices_add_device(
        const struct cdi_context *context, struct spec *spec, const struct unit *present, const char *name)
{
        struct spec_edits *edits = new_device(context, spec, present->gpu, name);

        if (!edits)
                return;
        if (present->mig)
                add_caps(context, edits, present->mig, name);
        else if (present->gpu->coherent >= 0 &&
                 cdi_lists(context->config->cdi.feature_flags, "enable-coherent-annotations"))
                spec_annotate(edits, "gpu.nvidia.com/coherent", present->gpu->coherent ? "true" : "false");
        if (!present->mig || (present->mig->profile && strstr(present->mig->profile, "+gfx")))
                add_graphics(context, edits, present->gpu);
        for (size_t i = 0; !present->mig && i < present->gpu->n_mig_devices; i++)
                add_caps(context, edits, &present->gpu->mig_devices[i], name);
}

/* ---- present devices, as units with both names that each can have ---- */

/* Whether |gpu| as a whole is a unit of the plan. */
static bool devices_is_unit(const struct plan *plan, const struct gpu *gpu)
{
        for (size_t i = 0; i < plan->n_resources; i++)
                for (size_t j = 0; j < plan->resources[i].n_units; j++)
                        if (plan->resources[i].units[j].gpu == gpu && !plan->resources[i].units[j].mig)
                                return true;
        return false;
}

static size_t list_devices(const struct cdi_context *context, struct unit **ret)
{
        const struct inventory *inventory = context->plan->inventory;
        size_t count = 0, most = inventory->n_gpus;
        struct unit *list;

        for (size_t i = 0; i < inventory->n_gpus; i++)
                most += inventory->gpus[i].n_mig_devices;
        list = ARENA_ARRAY(context->arena, struct unit, most);
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];

                if (!gpu->mig_enabled || devices_is_unit(context->plan, gpu))
                        list[count++] = (struct unit){
                                .gpu = gpu, .uuid = gpu->uuid, .index = arena_printf(context->arena, "%u", gpu->index)};
                for (size_t j = 0; j < gpu->n_mig_devices; j++) {
                        const struct mig_device *mig = &gpu->mig_devices[j];

                        list[count++] = (struct unit){.gpu = gpu,
                                .mig = mig,
                                .uuid = mig->uuid,
                                .index = arena_printf(context->arena, "%u:%u", gpu->index, mig->index)};
                }
        }
        *ret = list;
        return count;
}

void devices_add(const struct cdi_context *context, struct spec *spec)
{
        bool by_index = context->config->devices.id_strategy == ID_STRATEGY_INDEX;
        struct unit *list;
        size_t count = list_devices(context, &list);

        for (size_t i = 0; i < count; i++)
                devices_add_device(context, spec, &list[i], by_index ? list[i].index : list[i].uuid);
}

/* ---- units without a device ---- */

static const char *why_missing(const struct cdi_context *context, const struct unit *unit, const char *name)
{
        if (!spec_is_name(name))
                return "the format does not allow such a name; use --device-id-strategy=index";
        if (unit->gpu->minor < 0)
                return "the minor number of its GPU is unknown";
        if (!cdi_has_node(context, gpu_node(context, unit->gpu)))
                return arena_printf(context->arena, "there is no '%s'", gpu_node(context, unit->gpu));
        return arena_printf(context->arena, "there are more than %zu", SPEC_MAX_DEVICES);
}

const char *devices_missing_node(const struct cdi_context *context, const struct unit *unit)
{
        const int caps[] = {
                unit->mig ? unit->mig->gpu_instance_cap : -1, unit->mig ? unit->mig->compute_instance_cap : -1};

        if (unit->gpu->minor >= 0 && !cdi_has_node(context, gpu_node(context, unit->gpu)))
                return gpu_node(context, unit->gpu);
        for (size_t i = 0; i < ARRAY_SIZE(caps); i++)
                if (caps[i] >= 0 && !cdi_has_node(context, cap_node(context, caps[i])))
                        return cap_node(context, caps[i]);
        return NULL;
}

/* Returns how many units of |resource| have a device; if one has none, |*why| is the reason. */
static size_t check_resource(
        const struct cdi_context *context, const struct spec *spec, const struct resource *resource, const char **why)
{
        size_t n_found = 0;

        for (size_t i = 0; i < resource->n_units; i++) {
                const char *name = devices_name(context->config, &resource->units[i]);

                if (spec_has(spec, name)) {
                        n_found++;
                        continue;
                }
                *why = why_missing(context, &resource->units[i], name);
                *context->lacks_nodes = *context->lacks_nodes || devices_missing_node(context, &resource->units[i]);
                cdi_warn(context, "%s: no container that gets '%s' will start, since it has no CDI device: %s",
                        resource->name, name, *why);
        }
        return n_found;
}

int devices_check(const struct cdi_context *context, const struct spec *spec, struct error *err)
{
        const struct plan *plan = context->plan;
        const char *why = "none is known";
        size_t n_found = plan->claimable ? check_resource(context, spec, plan->claimable, &why) : 0;

        for (size_t i = 0; i < plan->n_resources; i++)
                n_found += check_resource(context, spec, &plan->resources[i], &why);
        if (n_found)
                return 0;
        return error_set(err, ERROR_NOT_FOUND, "CDI: no unit has a device: %s", why);
}

/* ---- devices of the previous specification ---- */

static bool owns_node(const struct cdi_context *context, const struct unit *present, const char *path)
{
        if (!present->mig)
                return strcmp(path, gpu_node(context, present->gpu)) == 0;
        return strcmp(path, cap_node(context, present->mig->gpu_instance_cap)) == 0 ||
               strcmp(path, cap_node(context, present->mig->compute_instance_cap)) == 0;
}

/*
 * Whether the node identifies a device: "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3". Other nodes of a device (DRM)
 * are not kept, because they may belong to another GPU by now.
 */
static bool is_own_node(const char *path)
{
        static const char *const prefixes[] = {"/dev/nvidia", "/dev/nvidia-caps/nvidia-cap"};

        for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
                size_t length = strlen(prefixes[i]);
                uint64_t minor;

                if (strncmp(path, prefixes[i], length) == 0 && text_to_uint(path + length, INT32_MAX, &minor))
                        return true;
        }
        return false;
}

/* The nodes that an old device keeps; 0 if the device is to be removed. */
static size_t list_old_nodes(const struct cdi_context *context, const json_t *device, const struct unit *list,
        size_t n_present, const char **ret)
{
        const json_t *nodes = json_object_get(json_object_get(device, "containerEdits"), "deviceNodes");
        const json_t *node;
        size_t i, count = 0;

        json_array_foreach(nodes, i, node)
        {
                const char *path = json_string_value(json_object_get(node, "path"));

                if (!path || !is_own_node(path))
                        continue;
                if (count == MAX_OLD_NODES || !cdi_has_node(context, path))
                        return 0;
                for (size_t j = 0; j < n_present; j++)
                        if (owns_node(context, &list[j], path))
                                return 0;
                ret[count++] = path;
        }
        return count;
}

static void keep_nodes(const struct cdi_context *context, struct spec *spec, const char *name, const json_t *device,
        const struct unit *list, size_t n_present)
{
        const char *paths[MAX_OLD_NODES];
        size_t count = list_old_nodes(context, device, list, n_present, paths);
        struct spec_edits *edits = count ? spec_device(spec, name) : NULL;

        for (size_t i = 0; edits && i < count; i++)
                cdi_add_node(context, edits, paths[i]);
}

/* The present device whose UUID or index is |name|, or NULL. */
static const struct unit *find_present(const struct unit *list, size_t n_present, const char *name)
{
        for (size_t i = 0; i < n_present; i++)
                if (strcmp(list[i].uuid, name) == 0 || strcmp(list[i].index, name) == 0)
                        return &list[i];
        return NULL;
}

static bool devices_is_ours(const json_t *document)
{
        const char *kind = json_string_value(json_object_get(document, "kind"));

        return kind && strcmp(kind, CDI_VENDOR "/" CDI_CLASS_GPU) == 0;
}

void devices_keep(const struct cdi_context *context, struct spec *spec, const char *previous, size_t size)
{
        json_t *document = json_loadb(previous, size, JSON_REJECT_DUPLICATES, NULL);
        struct unit *list;
        size_t n_present = list_devices(context, &list);
        size_t i, most = spec_count(spec) + DEVICES_MAX_KEPT;
        const json_t *device;

        json_array_foreach(devices_is_ours(document) ? json_object_get(document, "devices") : NULL, i, device)
        {
                const char *name = json_string_value(json_object_get(device, "name"));
                const struct unit *present = name ? find_present(list, n_present, name) : NULL;

                if (!name || !spec_is_name(name) || spec_has(spec, name) || spec_count(spec) >= most)
                        continue;
                if (present)
                        devices_add_device(context, spec, present, name);
                if (!spec_has(spec, name))
                        keep_nodes(context, spec, name, device, list, n_present);
        }
        json_decref(document);
}
