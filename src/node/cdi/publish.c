/* Makes the documents and writes them to disk. */
#include "node/cdi/cdi.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "node/cdi/context.h"
#include "node/cdi/devices.h"
#include "node/cdi/extras.h"
#include "node/cdi/gpu.h"
#include "node/cdi/hooks.h"
#include "node/cdi/limit_devices.h"
#include "node/cdi/spec.h"

/* Our own files are much smaller; a larger one was written by another program, and is replaced without reading it. */
#define PREVIOUS_LIMIT ((size_t)8 * 1024 * 1024)

void cdi_warn(const struct cdi_context *context, const char *format, ...)
{
        va_list args;

        if (!context->warn)
                return;
        va_start(args, format);
        context->warn(arena_vprintf(context->arena, format, args), context->warn_data);
        va_end(args);
}

bool cdi_lists(const char *const *list, const char *word)
{
        for (; list && *list; list++)
                if (strcmp(*list, word) == 0)
                        return true;
        return false;
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
        } else if (!roots_look(&context->roots, path, &info) || !S_ISREG(info.st_mode)) {
                strbuf_clear(ret);
        } else if (file_read(path, PREVIOUS_LIMIT, ret, &err) < 0) {
                roots_note(&context->roots, &err);
                strbuf_clear(ret);
        }
}

/* A specification without it would be in force until the next plan. */
static int check_seen(const struct cdi_context *context, struct error *err)
{
        if (context->roots.unseen->kind == ERROR_NONE)
                return 0;
        *err = *context->roots.unseen;
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

        if (gpu_build(context, spec, err) < 0) {
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

        extras_add(context, extra, spec);
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
        struct cdi_context context = {
                .arena = &arena,
                .plan = plan,
                .config = plan->config,
                .roots = roots_of(plan->config, &arena),
                .files = files,
                .lacks_nodes = &lacks_nodes,
                .warn = warn,
                .warn_data = warn_data,
        };
        struct error unseen = {.kind = ERROR_NONE};
        unsigned int found = 0;
        int limits;

        context.roots.unseen = &unseen;
        if (plan->n_resources == 0 && !(plan->claimable && plan->claimable->n_units))
                return 0;
        find_hooks(&context);
        if (file_make_folder(plan->config->cdi.root, err) < 0)
                return error_prefix(err, "CDI");
        if (publish_gpu(&context, err) < 0)
                return -1;
        for (size_t i = 0; i < N_EXTRAS; i++) {
                const struct extra *extra = &extras_table[i];
                int written = extras_is_enabled(plan->config, extra) ? publish_extra(&context, extra, err) : 0;

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
        const struct cdi_context context = {.arena = arena, .config = config, .roots = roots_of(config, arena)};

        return hooks_find_unknown(&context, ret_program);
}

int cdi_check_nodes(const struct plan *plan, const struct unit *unit, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct cdi_context context = {
                .arena = &arena, .plan = plan, .config = plan->config, .roots = roots_of(plan->config, &arena)};
        const char *missing = NULL;

        if (plan->inventory->platform == PLATFORM_NVML)
                missing = gpu_missing_node(&context);
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
