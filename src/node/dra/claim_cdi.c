#include "node/dra/claim_cdi.h"

#include <dirent.h>
#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "node/cdi/spec.h"
#include "node/dra/name.h"

#define CLASS "claim"

const char *dra_claim_cdi_id(
        struct arena *arena, const char *driver, const char *uid, const char *device, const char *share_id)
{
        return arena_printf(
                arena, "%s/" CLASS "=%s-%s%s%s", driver, uid, device, share_id ? "-" : "", share_id ? share_id : "");
}

static char *path_of(const char *root, const char *driver, const char *uid)
{
        return xasprintf("%s/%s-" CLASS "_%s.json", root, driver, uid);
}

bool dra_claim_cdi_is_file(const char *driver, const char *name)
{
        _free_ char *begin = path_of("", driver, "");
        const size_t length = strlen(begin) - strlen("/.json");
        const size_t n_name = strlen(name);

        return n_name > length + strlen(".json") && strncmp(name, begin + 1, length) == 0 &&
               strcmp(name + n_name - strlen(".json"), ".json") == 0;
}

static void add_edits(struct spec_edits *to, const struct dra_edits *edits)
{
        static const char *const read_only[] = {"ro", "nosuid", "nodev", "rbind", "rprivate", NULL};
        static const char *const writable[] = {"rw", "nosuid", "nodev", "rbind", "rprivate", NULL};

        for (size_t i = 0; i < edits->n_env; i++)
                spec_add_env(to, edits->env[i]);
        for (size_t i = 0; i < edits->n_nodes; i++) {
                const struct dra_edit_node *node = &edits->nodes[i];

                spec_add_node(to, &(struct spec_node){.path = node->path,
                                          .host_path = node->host_path,
                                          .mode = node->mode,
                                          .gid = node->gid,
                                          .needs_group = true});
        }
        for (size_t i = 0; i < edits->n_mounts; i++) {
                const struct dra_edit_mount *mount = &edits->mounts[i];

                spec_add_mount(to, mount->host_path, mount->path, mount->is_writable ? writable : read_only);
        }
}

static int print_claim(
        struct strbuf *ret, const char *driver, const struct dra_prepared_claim *claim, struct error *err)
{
        _cleanup_(spec_freep) struct spec *spec = spec_new(driver, CLASS);

        for (size_t i = 0; i < claim->n_results; i++) {
                const struct dra_prepared_result *result = &claim->results[i];
                const struct dra_edits *edits = &result->edits;
                const char *name = strchr(result->cdi_id, '=');
                struct spec_edits *device = name ? spec_device(spec, name + 1) : NULL;

                if (!device)
                        return error_set(err, ERROR_INVALID, "'%s' can be no name of a CDI device", result->cdi_id);
                if (edits->n_env + edits->n_nodes + edits->n_mounts == 0)
                        return error_set(err, ERROR_INVALID, "device '%s' has nothing for a container", result->device);
                add_edits(device, edits);
        }
        return spec_print(spec, ret, err);
}

int dra_claim_cdi_write(struct cdi_files *files, const char *root, const char *driver,
        const struct dra_prepared_claim *claim, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        _free_ char *path = path_of(root, driver, claim->uid);

        if (print_claim(&content, driver, claim, err) < 0)
                return error_prefix(err, "CDI");
        return cdi_files_write(files, path, &content, err);
}

int dra_claim_cdi_remove(
        struct cdi_files *files, const char *root, const char *driver, const char *uid, struct error *err)
{
        _free_ char *path = path_of(root, driver, uid);

        return cdi_files_remove(files, path, err);
}

/* The UID in a file name that path_of() has made, for the caller to free; NULL: another file. */
static char *uid_of(const char *name, const char *driver)
{
        _free_ char *prefix = xasprintf("%s-" CLASS "_", driver);
        size_t length = strlen(prefix);
        const char *end = strrchr(name, '.');
        char *uid;

        if (strncmp(name, prefix, length) != 0 || end < name + length || strcmp(end, ".json") != 0)
                return NULL;
        uid = xasprintf("%.*s", (int)(end - name - (ptrdiff_t)length), name + length);
        if (dra_name_is_uid(uid))
                return uid;
        free(uid);
        return NULL;
}

void dra_claim_cdi_sweep(struct cdi_files *files, const char *root, const char *driver,
        bool (*is_kept)(const char *uid, void *data), void *data)
{
        DIR *folder = opendir(root);
        const struct dirent *entry;
        struct error err;

        while (folder && (entry = readdir(folder))) {
                _free_ char *uid = uid_of(entry->d_name, driver);

                if (uid && !is_kept(uid, data) && dra_claim_cdi_remove(files, root, driver, uid, &err) < 0)
                        log_warn("a CDI file that no claim needs stays", LOG_ERR(&err));
        }
        if (folder)
                closedir(folder);
}
