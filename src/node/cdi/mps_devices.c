// SPDX-License-Identifier: Apache-2.0
#include "node/cdi/mps_devices.h"

#include <dirent.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "plan/allocate.h"
#include "plan/mps_limits.h"

#define PREFIX CDI_VENDOR "-" CDI_CLASS_MPS "-"
#define SUFFIX ".json"
/* Our own files have a few hundred bytes. */
#define PREVIOUS_LIMIT ((size_t)64 * 1024)
/* Pipe directory, threads, memory. */
#define MAX_VARIABLES ((size_t)3)

static void add_variables(const struct cdi_context *context, struct spec_edits *edits, const struct resource *resource,
        const struct unit *unit, unsigned int k)
{
        struct arena *arena = context->arena;
        struct mps_part part = {.resource = resource, .unit = unit, .replicas = k};
        const char **variables;
        size_t count;

        if (k == 0) {
                spec_add_env(edits,
                        arena_printf(arena, "CUDA_MPS_PIPE_DIRECTORY=%s", mps_limits_pipe(arena, resource, unit)));
                return;
        }
        part.share = share_of(resource, unit, k);
        count = mps_limits_variables(arena, &part, 1, 0, &variables);
        for (size_t i = 0; i < count; i++)
                spec_add_env(edits, variables[i]);
}

/* Adds the device of the unit's daemon (k is 0), then those of 1, 2, … replicas. */
static bool limit_devices_add_unit(
        const struct cdi_context *context, struct spec *spec, const struct resource *resource, const struct unit *unit)
{
        unsigned int most = mps_limits_most(resource, unit);

        for (unsigned int k = 0; k <= most; k++) {
                const char *name = mps_limits_device(context->arena, resource, unit, k);
                struct spec_edits *edits = spec_device(spec, name);

                if (!edits) {
                        cdi_warn(context,
                                "%s: variables of a pod override the variables of its share "
                                "(CUDA_MPS_PIPE_DIRECTORY, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, "
                                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT), since there is no CDI device '%s' to prevent "
                                "that: %s",
                                resource->name, name,
                                spec_is_name(name)
                                        ? arena_printf(context->arena, "there are more than %zu", SPEC_MAX_DEVICES)
                                        : "the format does not allow such a name");
                        return false;
                }
                add_variables(context, edits, resource, unit, k);
        }
        return true;
}

bool limit_devices_add(const struct cdi_context *context, struct spec *spec)
{
        for (size_t i = 0; i < context->plan->n_resources; i++) {
                const struct resource *resource = &context->plan->resources[i];

                for (size_t j = 0; resource->strategy == SHARING_MPS && j < resource->n_units; j++)
                        if (resource->units[j].shared &&
                                !limit_devices_add_unit(context, spec, resource, &resource->units[j]))
                                return false;
        }
        return true;
}

/* ---- devices of the previous specification ---- */

static void keep_variables(struct spec *spec, const char *name, const json_t *variables)
{
        const json_t *variable;
        size_t i;

        json_array_foreach(variables, i, variable)
        {
                const char *text = json_string_value(variable);
                struct spec_edits *edits;

                if (i == MAX_VARIABLES)
                        return;
                edits = text && text_starts_with(text, "CUDA_MPS_") && strchr(text, '=') ? spec_device(spec, name)
                                                                                         : NULL;
                if (edits)
                        spec_add_env(edits, text);
        }
}

void limit_devices_keep(struct spec *spec, const char *previous, size_t size)
{
        json_t *document = json_loadb(previous, size, JSON_REJECT_DUPLICATES, NULL);
        const char *kind = json_string_value(json_object_get(document, "kind"));
        bool is_ours = kind && strcmp(kind, CDI_KIND_MPS) == 0;
        const json_t *device;
        size_t i;

        json_array_foreach(is_ours ? json_object_get(document, "devices") : NULL, i, device)
        {
                const char *name = json_string_value(json_object_get(device, "name"));

                if (name && !spec_has(spec, name))
                        keep_variables(spec, name, json_object_get(json_object_get(device, "containerEdits"), "env"));
        }
        json_decref(document);
}

/* ---- for one container ---- */

static bool has_content(const char *path, const struct strbuf *content)
{
        _cleanup_(strbuf_done) struct strbuf previous = STRBUF_INIT;
        struct error ignored;

        return file_read(path, PREVIOUS_LIMIT, &previous, &ignored) == 0 && previous.size == content->size &&
               memcmp(previous.data, content->data, content->size) == 0;
}

int start_device_write(
        const char *root, const char *allocation, const char *const *variables, size_t n_variables, struct error *err)
{
        _cleanup_(spec_freep) struct spec *spec = spec_new(CDI_VENDOR_MPS, CDI_CLASS_MPS);
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        _free_ char *path = xasprintf("%s/" PREFIX "%s" SUFFIX, root, allocation);
        struct spec_edits *edits = spec_device(spec, allocation);

        for (size_t i = 0; edits && i < n_variables; i++)
                spec_add_env(edits, variables[i]);
        if (spec_print(spec, &content, err) < 0 || file_make_folder(root, err) < 0)
                return error_prefix(err, "CDI");
        if (has_content(path, &content))
                return 0;
        if (file_write(path, content.data, content.size, err) < 0)
                return error_prefix(err, "CDI");
        return 0;
}

/* The allocation in a file's name: "g12ab" in "<PREFIX>g12ab.json"; NULL: another file. */
static char *allocation_of(const char *file)
{
        size_t length = strlen(file);

        if (!text_starts_with(file, PREFIX) || length <= strlen(PREFIX) + strlen(SUFFIX) ||
                strcmp(file + length - strlen(SUFFIX), SUFFIX) != 0)
                return NULL;
        return xasprintf("%.*s", (int)(length - strlen(PREFIX) - strlen(SUFFIX)), file + strlen(PREFIX));
}

void start_devices_each(
        const char *root, void (*visit)(const char *path, const char *allocation, void *data), void *data)
{
        DIR *folder = opendir(root);
        const struct dirent *entry;

        while (folder && (entry = readdir(folder))) {
                _free_ char *allocation = allocation_of(entry->d_name);
                _free_ char *path = allocation ? xasprintf("%s/%s", root, entry->d_name) : NULL;

                if (path)
                        visit(path, allocation, data);
        }
        if (folder)
                closedir(folder);
}

struct sweep {
        bool (*is_kept)(const char *allocation, void *data);
        void *data;
};

static void sweep_one(const char *path, const char *allocation, void *data)
{
        const struct sweep *sweep = data;

        if (!sweep->is_kept(allocation, sweep->data))
                unlink(path);
}

void start_devices_sweep(const char *root, bool (*is_kept)(const char *allocation, void *data), void *data)
{
        start_devices_each(root, sweep_one, &(struct sweep){is_kept, data});
}
