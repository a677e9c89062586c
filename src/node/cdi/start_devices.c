#include "node/cdi/start_devices.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "node/cdi/spec.h"
#include "plan/cdi_name.h"

#define PREFIX CDI_VENDOR "-" CDI_CLASS_MPS "-"
#define SUFFIX ".json"
/* Our own files have a few hundred bytes. */
#define PREVIOUS_LIMIT ((size_t)64 * 1024)

static bool start_devices_has_content(const char *path, const struct strbuf *content)
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
        if (start_devices_has_content(path, &content))
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
