#include "node/cdi/gpu.h"

#include "base/strbuf.h"
#include "node/cdi/devices.h"
#include "node/cdi/hooks.h"
#include "node/cdi/nodes.h"
#include "node/cdi/platforms.h"

/* ---- NVML: a driver for servers and workstations ---- */

static const struct {
        const char *path;
        bool is_needed; /* CUDA does not work without it */
} control_nodes[] = {{"/dev/nvidia-modeset", false}, {"/dev/nvidia-uvm-tools", false}, {"/dev/nvidia-uvm", true},
        {"/dev/nvidiactl", true}};

const char *gpu_missing_node(const struct cdi_context *context)
{
        for (size_t i = 0; i < ARRAY_SIZE(control_nodes); i++)
                if (control_nodes[i].is_needed && !nodes_exist(context, control_nodes[i].path))
                        return control_nodes[i].path;
        return NULL;
}

static void add_control_nodes(const struct cdi_context *context, struct spec_edits *edits)
{
        for (size_t i = 0; i < ARRAY_SIZE(control_nodes); i++)
                if (!nodes_add(context, edits, control_nodes[i].path) && control_nodes[i].is_needed) {
                        *context->lacks_nodes = true;
                        cdi_warn(context,
                                "containers get no '%s', since it is not there, and CUDA will not work in them: "
                                "nvidia-modprobe -u -c0 makes it",
                                control_nodes[i].path);
                }
}

static void add_driver(const struct cdi_context *context, struct spec_edits *edits, const struct driver *driver)
{
        _cleanup_(strbuf_done) struct strbuf folders = STRBUF_INIT;

        for (size_t i = 0; i < driver->n_files; i++)
                mounts_add(context, edits, &driver->files[i]);
        for (size_t i = 0; i < driver->n_cuda_folders; i++)
                strbuf_printf(&folders, "%s%s", i ? ":" : "NVIDIA_CTK_LIBCUDA_DIR=", driver->cuda_folders[i]);
        if (folders.size)
                spec_add_env(edits, folders.data);
        hooks_add_links(context, edits, driver->links, driver->n_links);
        hooks_add_cuda_compat(context, edits);
        hooks_add_ldcache(context, edits, driver->library_folders, driver->n_library_folders);
        hooks_add_restrictions(context, edits);
}

static int build_nvml(const struct cdi_context *context, struct spec *spec, struct error *err)
{
        const char *const *flags = context->config->cdi.feature_flags;
        struct driver driver;
        struct driver_search search = {
                .roots = &context->roots,
                .version = context->plan->inventory->driver_version,
                .explicit_libraries = cdi_lists(flags, "enable-explicit-driver-libraries"),
                .no_sockets = cdi_lists(flags, "disable-ipc-discoverer"),
        };

        devices_add(context, spec);
        if (driver_find(&driver, context->arena, &search, err) < 0)
                return -1;
        add_control_nodes(context, spec_common(spec));
        add_driver(context, spec_common(spec), &driver);
        mounts_add_void(spec_common(spec));
        return 0;
}

/* ---- WSL and Tegra: one unit, without NVML ---- */

/* Adds the unit under its UUID and under its index, which cannot be ambiguous: it is the only device. */
static void gpu_add_units(
        const struct cdi_context *context, struct spec *spec, const char *const *nodes, size_t n_nodes)
{
        for (size_t i = 0; i < context->plan->n_resources; i++)
                for (size_t j = 0; j < context->plan->resources[i].n_units; j++) {
                        const struct unit *unit = &context->plan->resources[i].units[j];
                        const char *const names[] = {unit->uuid, unit->index};

                        for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
                                struct spec_edits *edits = spec_device(spec, names[k]);

                                for (size_t l = 0; edits && l < n_nodes; l++)
                                        nodes_add(context, edits, nodes[l]);
                        }
                }
}

static int build_simple(const struct cdi_context *context, struct spec *spec, struct error *err)
{
        struct driver driver;
        const char **nodes;
        size_t n_nodes;

        if (context->plan->inventory->platform == PLATFORM_WSL) {
                if (wsl_find(&driver, context, &nodes, &n_nodes, err) < 0)
                        return -1;
        } else if (tegra_find(&driver, context, &nodes, &n_nodes, err) < 0)
                return -1;
        gpu_add_units(context, spec, nodes, n_nodes);
        for (size_t i = 0; i < driver.n_files; i++)
                mounts_add(context, spec_common(spec), &driver.files[i]);
        hooks_add_links(context, spec_common(spec), driver.links, driver.n_links);
        hooks_add_ldcache(context, spec_common(spec), driver.library_folders, driver.n_library_folders);
        mounts_add_void(spec_common(spec));
        return 0;
}

int gpu_build(const struct cdi_context *context, struct spec *spec, struct error *err)
{
        return context->plan->inventory->platform == PLATFORM_NVML ? build_nvml(context, spec, err)
                                                                   : build_simple(context, spec, err);
}
