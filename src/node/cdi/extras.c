#include "node/cdi/extras.h"

#include <string.h>

#include "node/cdi/nodes.h"
#include "plan/cdi_name.h"

static const char *const no_files[] = {NULL};
static const char *const gds_files[] = {"/run/udev", "/etc/cufile.json", NULL};
static const char *const gdrcopy_names[] = {"gdrdrv", NULL};
static const char *const gds_names[] = {"nvidia-fs*", NULL};
static const char *const mofed_names[] = {"uverbs*", "rdma_cm", NULL};
static const char *const imex_names[] = {"channel0", NULL};

const struct extra extras_table[N_EXTRAS] = {
        {EXTRA_GDRCOPY, CDI_CLASS_GDRCOPY, "all", "/dev", gdrcopy_names, no_files},
        {EXTRA_GDS, CDI_CLASS_GDS, "all", "/dev", gds_names, gds_files},
        {EXTRA_MOFED, CDI_CLASS_MOFED, "all", "/dev/infiniband", mofed_names, no_files},
        {0, CDI_CLASS_IMEX, "0", "/dev/nvidia-caps-imex-channels", imex_names, no_files},
};

bool extras_is_enabled(const struct config *config, const struct extra *extra)
{
        return extra->bit ? config->devices.extras & extra->bit : config->devices.has_imex_channel;
}

static bool extras_is_wanted(const char *name, const void *data)
{
        const struct extra *extra = data;

        for (size_t i = 0; extra->names[i]; i++) {
                const char *star = strchr(extra->names[i], '*');
                size_t length = star ? (size_t)(star - extra->names[i]) : 0;

                if (!star && strcmp(name, extra->names[i]) == 0)
                        return true;
                if (star && strncmp(name, extra->names[i], length) == 0 &&
                        strspn(name + length, "0123456789") == strlen(name + length))
                        return true;
        }
        return false;
}

void extras_add(const struct cdi_context *context, const struct extra *extra, struct spec *spec)
{
        const char **paths;
        size_t count = nodes_list(context, extra->folder, extras_is_wanted, extra, &paths);
        struct spec_edits *edits;

        if (count == 0)
                return;
        edits = spec_device(spec, extra->device);
        for (size_t i = 0; i < count; i++)
                nodes_add(context, edits, paths[i]);
        for (size_t i = 0; extra->files[i]; i++) {
                const char *source = roots_resolve(&context->roots, context->arena, extra->files[i]);

                if (source)
                        mounts_add(context, edits, &(struct driver_file){.source = source, .target = extra->files[i]});
        }
        if (extra->bit)
                mounts_add_void(spec_common(spec));
}
