// SPDX-License-Identifier: Apache-2.0
/* Makes the documents and writes them to disk. */
#include "node/cdi/cdi.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "node/cdi/context.h"
#include "node/cdi/devices.h"
#include "node/cdi/driver.h"
#include "node/cdi/hooks.h"
#include "node/cdi/mps_devices.h"
#include "node/cdi/platforms.h"
#include "node/cdi/spec.h"

/* Our own files are much smaller; a larger one was written by another program, and is replaced without reading it. */
#define PREVIOUS_LIMIT ((size_t)8 * 1024 * 1024)

/* ---- files of the driver ---- */

/* |file| is below the driver's root; sockets are mounted writable. */
static void publish_add_mount(
        const struct cdi_context *context, struct spec_edits *edits, const struct driver_file *file)
{
        static const char *const read_only[] = {"ro", "nosuid", "nodev", "rbind", "rprivate", NULL};
        static const char *const socket_options[] = {"nosuid", "nodev", "rbind", "rprivate", "noexec", NULL};

        spec_add_mount(edits, arena_printf(context->arena, "%s%s", context->roots.driver_host, file->source),
                file->target, file->is_socket ? socket_options : read_only);
}

/*
 * Sets NVIDIA_VISIBLE_DEVICES=void, so that the older hook of NVIDIA's runtime does not act on the value that the image
 * sets.
 */
static void add_void(struct spec_edits *edits)
{
        spec_add_env(edits, "NVIDIA_VISIBLE_DEVICES=void");
}

static void add_driver(const struct cdi_context *context, struct spec_edits *edits, const struct driver *driver)
{
        for (size_t i = 0; i < driver->n_files; i++)
                publish_add_mount(context, edits, &driver->files[i]);
        hooks_add_driver(context, edits, driver);
        add_void(edits);
}

/* ---- NVML: a driver for servers and workstations ---- */

static const struct {
        const char *path;
        bool is_needed; /* CUDA does not work without it */
} control_nodes[] = {{"/dev/nvidia-modeset", false}, {"/dev/nvidia-uvm-tools", false}, {"/dev/nvidia-uvm", true},
        {"/dev/nvidiactl", true}};

/* A node that CUDA needs in every container, and that is not there; NULL: none. */
static const char *find_missing_node(const struct cdi_context *context)
{
        for (size_t i = 0; i < ARRAY_SIZE(control_nodes); i++)
                if (control_nodes[i].is_needed && !cdi_has_node(context, control_nodes[i].path))
                        return control_nodes[i].path;
        return NULL;
}

static void add_control_nodes(const struct cdi_context *context, struct spec_edits *edits)
{
        for (size_t i = 0; i < ARRAY_SIZE(control_nodes); i++)
                if (!cdi_add_node(context, edits, control_nodes[i].path) && control_nodes[i].is_needed) {
                        *context->lacks_nodes = true;
                        cdi_warn(context,
                                "containers get no '%s', since it is not there, and CUDA will not work in them: "
                                "nvidia-modprobe -u -c0 makes it",
                                control_nodes[i].path);
                }
}

static int build_nvml(const struct cdi_context *context, struct spec *spec, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf folders = STRBUF_INIT;
        struct spec_edits *common = spec_common(spec);
        struct driver driver;

        devices_add(context, spec);
        if (driver_find(&driver, context, err) < 0)
                return -1;
        add_control_nodes(context, common);
        for (size_t i = 0; i < driver.n_cuda_folders; i++)
                strbuf_printf(&folders, "%s%s", i ? ":" : "NVIDIA_CTK_LIBCUDA_DIR=", driver.cuda_folders[i]);
        if (folders.size)
                spec_add_env(common, folders.data);
        add_driver(context, common, &driver);
        return 0;
}

/* ---- WSL and Tegra: one unit, without NVML ---- */

/*
 * The unit has the nodes under its UUID and under its index, which cannot be ambiguous: it is the only device.
 */
static int build_simple(const struct cdi_context *context, struct spec *spec, struct error *err)
{
        const struct plan *plan = context->plan;
        struct driver driver;

        if ((plan->inventory->platform == PLATFORM_WSL ? wsl_find : tegra_find)(&driver, context, err) < 0)
                return -1;
        for (size_t i = 0; i < plan->n_resources; i++)
                for (size_t j = 0; j < 2 * plan->resources[i].n_units; j++) {
                        const struct unit *unit = &plan->resources[i].units[j / 2];
                        struct spec_edits *edits = spec_device(spec, j % 2 ? unit->index : unit->uuid);

                        for (size_t k = 0; edits && k < driver.n_nodes; k++)
                                cdi_add_node(context, edits, driver.nodes[k]);
                }
        add_driver(context, spec_common(spec), &driver);
        return 0;
}

/* ---- the other classes ---- */

/*
 * gdrcopy, gds and mofed, each with one device "all", and imex-channel, whose device has the channel's number as its
 * name.
 */
struct extra {
        unsigned int bit; /* EXTRA_*; 0: the IMEX channel */
        const char *class_name;
        const char *device;
        const char *folder;
        const char *names[3];  /* patterns of nodes in |folder|; NULL ends the list */
        const char *needed[2]; /* files in the driver's tree that are needed, too */
};

static const struct extra extras[] = {
        {EXTRA_GDRCOPY, CDI_CLASS_GDRCOPY, "all", "/dev", {"gdrdrv"}, {NULL}},
        {EXTRA_GDS, CDI_CLASS_GDS, "all", "/dev", {"nvidia-fs[0-9]*"}, {"/run/udev", "/etc/cufile.json"}},
        {EXTRA_MOFED, CDI_CLASS_MOFED, "all", "/dev/infiniband", {"uverbs[0-9]*", "rdma_cm"}, {NULL}},
        {0, CDI_CLASS_IMEX, "0", "/dev/nvidia-caps-imex-channels", {"channel0"}, {NULL}},
};

static bool extra_is_enabled(const struct config *config, const struct extra *extra)
{
        return extra->bit ? config->devices.extras & extra->bit : config->devices.has_imex_channel;
}

/* Nothing but digits follows the first digit: true for "uverbs0", false for "uverbs0-old". */
static bool is_numbered(const char *name)
{
        const char *number = name + strcspn(name, "0123456789");

        return !number[strspn(number, "0123456789")];
}

/* Only one of the two folders is used: if the driver's /dev has any of the nodes, it has all. */
static void extra_add_nodes(const struct cdi_context *context, const struct extra *extra, struct spec *spec)
{
        const char *const here[] = {context->roots.driver, context->roots.system};

        for (size_t i = *here[0] ? 0 : 1; i < ARRAY_SIZE(here) && spec_count(spec) == 0; i++) {
                const char *const *names;
                size_t count = cdi_list(context, here[i], extra->folder, extra->names, &names);

                for (size_t j = 0; j < count; j++) {
                        const char *path = arena_printf(context->arena, "%s/%s", extra->folder, names[j]);

                        if (is_numbered(names[j]) && cdi_has_node(context, path))
                                cdi_add_node(context, spec_device(spec, extra->device), path);
                }
        }
}

/* Adds the device to |spec| if at least one of its nodes exists. */
static void extra_add(const struct cdi_context *context, const struct extra *extra, struct spec *spec)
{
        extra_add_nodes(context, extra, spec);
        if (spec_count(spec) == 0)
                return;
        for (size_t i = 0; i < ARRAY_SIZE(extra->needed) && extra->needed[i]; i++) {
                const char *source = cdi_resolve(context, extra->needed[i]);

                if (source)
                        publish_add_mount(context, spec_device(spec, extra->device),
                                &(struct driver_file){.source = source, .target = extra->needed[i]});
        }
        if (extra->bit)
                add_void(spec_common(spec));
}

/* ---- on disk ---- */

static char *publish_file_path(const struct cdi_context *context, const char *class_name)
{
        return xasprintf("%s/" CDI_VENDOR "-%s.json", context->config->cdi.root, class_name);
}

/*
 * Reads the previous content: what this process wrote last, or at first the file's. Empty if the file is not regular or
 * is too large to be ours.
 */
static void read_previous(const struct cdi_context *context, const char *path, struct strbuf *ret)
{
        const struct strbuf *written = cdi_files_find(context->files, path);
        struct error err;
        struct stat info;

        if (written) {
                strbuf_append(ret, written->data, written->size);
        } else if (!cdi_look(context, "", path, &info) || !S_ISREG(info.st_mode)) {
                strbuf_clear(ret);
        } else if (file_read(path, PREVIOUS_LIMIT, ret, &err) < 0) {
                cdi_note(context, &err);
                strbuf_clear(ret);
        }
}

/* A specification without it would be in force until the next plan. */
static int check_seen(const struct cdi_context *context, struct error *err)
{
        if (context->unseen->kind == ERROR_NONE)
                return 0;
        *err = *context->unseen;
        return error_prefix(err, "CDI");
}

static int write_spec(const struct cdi_context *context, const struct spec *spec, const char *path, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;

        if (check_seen(context, err) < 0 || spec_print(spec, &content, err) < 0)
                return -1;
        return cdi_files_write(context->files, path, &content, err);
}

static int publish_gpu(const struct cdi_context *context, struct error *err)
{
        _cleanup_(spec_freep) struct spec *spec = spec_new(CDI_VENDOR, CDI_CLASS_GPU);
        _cleanup_(strbuf_done) struct strbuf previous = STRBUF_INIT;
        _free_ char *path = publish_file_path(context, CDI_CLASS_GPU);

        if ((context->plan->inventory->platform == PLATFORM_NVML ? build_nvml : build_simple)(context, spec, err) < 0) {
                (void)!check_seen(context, err); /* why the driver was not found */
                return -1;
        }
        read_previous(context, path, &previous);
        devices_keep(context, spec, previous.data, previous.size);
        if (devices_check(context, spec, err) < 0)
                return -1;
        return write_spec(context, spec, path, err);
}

/* 1: written; 0: there is nothing to inject, and an earlier file stays for the containers that were created with it. */
static int publish_extra(const struct cdi_context *context, const struct extra *extra, struct error *err)
{
        _cleanup_(spec_freep) struct spec *spec = spec_new(CDI_VENDOR, extra->class_name);
        _free_ char *path = publish_file_path(context, extra->class_name);

        extra_add(context, extra, spec);
        if (check_seen(context, err) < 0)
                return -1;
        if (spec_count(spec) == 0) {
                cdi_warn(context, "%s is enabled, but none of its device nodes is in '%s'", extra->class_name,
                        extra->folder);
                return 0;
        }
        return write_spec(context, spec, path, err) < 0 ? -1 : 1;
}

/* 1: written; 0: no container gets limits by CDI, and an earlier file stays. */
static int publish_limits(const struct cdi_context *context, struct error *err)
{
        _cleanup_(spec_freep) struct spec *spec = spec_new(CDI_VENDOR_MPS, CDI_CLASS_MPS);
        _cleanup_(strbuf_done) struct strbuf previous = STRBUF_INIT;
        _free_ char *path = publish_file_path(context, CDI_CLASS_MPS);

        if (!limit_devices_add(context, spec) || spec_count(spec) == 0)
                return 0;
        read_previous(context, path, &previous);
        limit_devices_keep(spec, previous.data, previous.size);
        return write_spec(context, spec, path, err) < 0 ? -1 : 1;
}

static void find_hooks(struct cdi_context *context)
{
        const char *program;

        context->unknown_hooks = hooks_find_unknown(context, &program);
        for (const char *const *hook = context->unknown_hooks; *hook; hook++)
                cdi_warn(context,
                        "the hook %s is left out of CDI specifications: '%s' does not know it; upgrade NVIDIA's container "
                        "toolkit",
                        *hook, program);
}

static int publish_all(
        struct plan *plan, struct cdi_files *files, config_warn_fn *warn, void *warn_data, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        bool lacks_nodes = false;
        struct cdi_context context = cdi_context_of(plan->config, plan, &arena);
        struct error unseen = {.kind = ERROR_NONE};
        unsigned int found = 0;
        int limits;

        context.files = files;
        context.lacks_nodes = &lacks_nodes;
        context.unseen = &unseen;
        context.warn = warn;
        context.warn_data = warn_data;
        if (plan->n_resources == 0 && !(plan->claimable && plan->claimable->n_units))
                return 0;
        find_hooks(&context);
        if (file_make_folder(plan->config->cdi.root, err) < 0)
                return error_prefix(err, "CDI");
        if (publish_gpu(&context, err) < 0)
                return -1;
        for (size_t i = 0; i < ARRAY_SIZE(extras); i++) {
                const struct extra *extra = &extras[i];
                int written = extra_is_enabled(plan->config, extra) ? publish_extra(&context, extra, err) : 0;

                if (written < 0)
                        return -1;
                found |= written ? extra->bit : 0;
        }
        limits = publish_limits(&context, err);
        if (limits < 0)
                return -1;
        plan->cdi_extras = found;
        plan->cdi_limits = limits;
        plan->lacks_nodes = lacks_nodes;
        plan->has_cdi_units = true;
        return 0;
}

/*
 * Turns the failure of a specification that the configuration does not ask for into a warning, so that the plugin
 * serves without it.
 */
static int continue_without_cdi(struct plan *plan, config_warn_fn *warn, void *warn_data, const struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct sharing_section *mps = plan->config->sharing.mps;
        const char *what = "DRA claims cannot be prepared";

        if (plan->adds_cdi)
                what = arena_printf(&arena,
                        "a container that asks for several resources will see only the GPUs of one of them%s",
                        mps && mps->provisioning == PROVISIONING_DECLARED
                                ? ", and what annotations of pods declare is ignored"
                                : "");
        plan->adds_cdi = false;
        plan->lacks_cdi = true;
        if (warn)
                warn(arena_printf(&arena, "no CDI specification can be written, so %s: %s", what, err->text),
                        warn_data);
        return 0;
}

int cdi_publish(struct plan *plan, struct cdi_files *files, config_warn_fn *warn, void *warn_data, struct error *err)
{
        bool is_asked_for = plan_device_lists(plan) & DEVICE_LIST_CDI;

        if ((!is_asked_for && !plan->claimable) || publish_all(plan, files, warn, warn_data, err) == 0)
                return 0;
        return plan->adds_cdi || !is_asked_for ? continue_without_cdi(plan, warn, warn_data, err) : -1;
}

int cdi_publish_again(struct plan *plan, struct cdi_files *files, struct error *err)
{
        if (publish_all(plan, files, NULL, NULL, err) < 0)
                return -1;
        plan->lacks_cdi = false;
        return 0;
}

const char *const *cdi_unknown_hooks(const struct config *config, struct arena *arena, const char **ret_program)
{
        const struct cdi_context context = cdi_context_of(config, NULL, arena);

        return hooks_find_unknown(&context, ret_program);
}

int cdi_check_nodes(const struct plan *plan, const struct unit *unit, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct cdi_context context = cdi_context_of(plan->config, plan, &arena);
        const char *missing = NULL;

        if (plan->inventory->platform == PLATFORM_NVML)
                missing = find_missing_node(&context);
        if (plan->inventory->platform == PLATFORM_NVML && !missing && unit)
                missing = devices_missing_node(&context, unit);
        if (!missing)
                return 0;
        return error_set(err, ERROR_UNAVAILABLE,
                "'%s' is not there, and CUDA does not work in a container without it: nvidia-modprobe -u -c0 makes it",
                missing);
}

const char *cdi_unit_id(struct arena *arena, const struct config *config, const struct unit *unit)
{
        return arena_printf(arena, CDI_VENDOR "/" CDI_CLASS_GPU "=%s", devices_name(config, unit));
}
