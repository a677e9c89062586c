// SPDX-License-Identifier: Apache-2.0
#include "node/dra/claim_cdi.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "node/cdi/metadata.h"
#include "node/cdi/spec.h"
#include "node/dra/claim.h"
#include "plan/mps_limits.h"

#define CLASS "claim"
#define VARIABLES_MAX ((size_t)9)
#define MOUNTS_MAX ((size_t)2)
#define MIB ((uint64_t)1024 * 1024)

const char *dra_claim_cdi_id(
        struct arena *arena, const char *driver, const char *uid, const char *device, const char *share_id)
{
        return arena_printf(
                arena, "%s/" CLASS "=%s-%s%s%s", driver, uid, device, share_id ? "-" : "", share_id ? share_id : "");
}

static char *claim_cdi_path_of(const char *root, const char *driver, const char *uid)
{
        return xasprintf("%s/%s-" CLASS "_%s.json", root, driver, uid);
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

static int print_claim(struct strbuf *ret, const char *driver, const struct dra_claim *claim, struct error *err)
{
        _cleanup_(spec_freep) struct spec *spec = spec_new(driver, CLASS);

        for (size_t i = 0; i < claim->n_results; i++) {
                const struct dra_result *result = &claim->results[i];
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

int dra_claim_cdi_write(
        struct cdi_files *files, const char *root, const char *driver, const struct dra_claim *claim, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        _free_ char *path = claim_cdi_path_of(root, driver, claim->uid);

        if (print_claim(&content, driver, claim, err) < 0)
                return error_prefix(err, "CDI");
        return cdi_files_write(files, path, &content, err);
}

int dra_claim_cdi_remove(
        struct cdi_files *files, const char *root, const char *driver, const char *uid, struct error *err)
{
        _free_ char *path = claim_cdi_path_of(root, driver, uid);

        return cdi_files_remove(files, path, err);
}

/* The UID in a file name that claim_cdi_path_of() has made, for the caller to free; NULL: another file. */
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

bool dra_claim_cdi_is_file(const char *driver, const char *name)
{
        _free_ char *uid = uid_of(name, driver);

        return uid;
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

/* ---- edits ---- */

/* A namespace limits memory itself, and the variable could only lift that: plan/mps_limits.h. */
static size_t claim_cdi_add_limits(struct arena *arena, const struct ledger_claim_device *const *devices,
        size_t n_devices, enum mps_tier tier, const char **env)
{
        uint64_t *mib = ARENA_ARRAY(arena, uint64_t, n_devices);
        unsigned int permille = 1000;
        const char *memory;
        size_t count = 0;

        for (size_t i = 0; i < n_devices; i++) {
                mib[i] = devices[i]->limit_mib;
                permille = MIN(permille, devices[i]->threads_permille);
        }
        memory = mps_limits_memory(arena, mib, n_devices);
        env[count++] = arena_printf(arena, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%s", mps_limits_threads(arena, permille));
        if (memory && tier != MPS_TIER_NAMESPACE)
                env[count++] = arena_printf(arena, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=%s", memory);
        if (n_devices > 1)
                env[count++] = "CUDA_DEVICE_ORDER=PCI_BUS_ID";
        else if (memory)
                env[count++] = arena_printf(arena, "WARPSHARE_MEMORY_LIMIT_MIB=%ju", (uintmax_t)mib[0]);
        env[count++] = arena_printf(arena, "WARPSHARE_THREAD_PERCENTAGE=%u.%u", permille / 10, permille % 10);
        return count;
}

/* WARPSHARE_FRACTION of the devices together, or NULL. */
static const char *claim_cdi_fraction(struct arena *arena, const struct resource *claimable,
        const struct ledger_claim_device *const *devices, size_t n_devices)
{
        struct mps_part *parts = ARENA_ARRAY(arena, struct mps_part, n_devices);

        for (size_t i = 0; i < n_devices; i++) {
                parts[i].unit = claimable ? resource_find_unit(claimable, devices[i]->unit) : NULL;
                parts[i].share.memory_mib = devices[i]->limit_mib;
                if (!parts[i].unit)
                        return NULL;
        }
        return mps_parts_fraction(arena, parts, n_devices);
}

static bool limits_memory(const struct ledger_claim_device *const *devices, size_t n_devices)
{
        for (size_t i = 0; i < n_devices; i++)
                if (!devices[i]->limit_mib)
                        return false;
        return true;
}

struct dra_edits dra_edits_of(struct arena *arena, const struct plan *plan,
        const struct ledger_claim_device *const *devices, size_t n_devices, const struct ledger_claimed *claimed)
{
        const char **env = ARENA_ARRAY(arena, const char *, VARIABLES_MAX);
        struct dra_edit_mount *mounts = ARENA_ARRAY(arena, struct dra_edit_mount, MOUNTS_MAX);
        struct dra_edits edits = {.env = env, .mounts = mounts};
        const char *fraction;
        const char *pipe;

        env[edits.n_env++] = "NVIDIA_VISIBLE_DEVICES=void";
        if (!claimed->daemon)
                return edits;
        pipe = arena_printf(arena, "/mps/%s/pipe", claimed->daemon);
        env[edits.n_env++] = arena_printf(arena, "CUDA_MPS_PIPE_DIRECTORY=%s", pipe);
        env[edits.n_env++] = arena_printf(arena, "WARPSHARE_GRANT=%s", devices[0]->id);
        env[edits.n_env++] = arena_printf(
                arena, "WARPSHARE_TIER=%s", mps_tier_promise(claimed->tier, limits_memory(devices, n_devices)));
        edits.n_env += claim_cdi_add_limits(arena, devices, n_devices, claimed->tier, &env[edits.n_env]);
        fraction = claim_cdi_fraction(arena, plan->claimable, devices, n_devices);
        if (fraction)
                env[edits.n_env++] = arena_printf(arena, "WARPSHARE_FRACTION=%s", fraction);
        mounts[edits.n_mounts++] =
                (struct dra_edit_mount){.host_path = arena_path(arena, plan->config->mps.root, claimed->pipe),
                        .path = pipe,
                        .is_writable = plan->config->mps.pipes_writable};
        mounts[edits.n_mounts++] =
                (struct dra_edit_mount){.host_path = arena_path(arena, plan->config->mps.root, claimed->shm),
                        .path = "/dev/shm",
                        .is_writable = true};
        return edits;
}

/* ---- device metadata ---- */

static bool is_first_of_request(const struct dra_claim *claim, size_t i)
{
        for (size_t other = 0; other < i; other++)
                if (strcmp(claim->results[other].request, claim->results[i].request) == 0)
                        return false;
        return true;
}

static const char *metadata_path(struct arena *arena, const char *folder, const char *uid, const char *request)
{
        return arena_printf(arena, "%s/%s_%s.json", folder, uid, request);
}

static struct metadata metadata_of_request(
        const char *driver, const struct dra_claim *claim, const struct dra_result *first)
{
        return (struct metadata){
                .driver = driver,
                .name = claim->name,
                .namespace = claim->namespace,
                .uid = claim->uid,
                .pod_claim_name = claim->pod_claim_name,
                .request = first->request,
                .subrequest = first->subrequest,
        };
}

static void add_metadata_mount(struct arena *arena, const char *folder, const char *driver,
        const struct dra_claim *claim, struct dra_result *result)
{
        const struct metadata metadata = metadata_of_request(driver, claim, result);
        struct dra_edits *edits = &result->edits;
        struct dra_edit_mount *mounts = ARENA_ARRAY(arena, struct dra_edit_mount, edits->n_mounts + 1);

        for (size_t i = 0; i < edits->n_mounts; i++)
                mounts[i] = edits->mounts[i];
        mounts[edits->n_mounts++] =
                (struct dra_edit_mount){.host_path = metadata_path(arena, folder, claim->uid, result->request),
                        .path = metadata_container_path(arena, &metadata)};
        edits->mounts = mounts;
}

void dra_metadata_add(
        struct arena *arena, const char *folder, const char *driver, struct dra_claim *claim, size_t i, json_t *of_unit)
{
        struct dra_result *result = &claim->results[i];
        _free_ char *text = NULL;

        metadata_put_limits(of_unit, result->memory_bytes / MIB, result->thread_percentage, result->tier);
        text = json_dumps(of_unit, JSON_COMPACT | JSON_SORT_KEYS);
        json_decref(of_unit);
        result->attributes = arena_strdup(arena, text);
        if (is_first_of_request(claim, i))
                add_metadata_mount(arena, folder, driver, claim, result);
}

/* A reference to the devices of the request; NULL, with an error: the record has attributes that are not JSON. */
static json_t *metadata_devices(
        const char *driver, const struct dra_claim *claim, const char *request, struct error *err)
{
        json_t *devices = json_array();

        for (size_t i = 0; i < claim->n_results; i++) {
                const struct dra_result *result = &claim->results[i];
                json_t *attributes;

                if (strcmp(result->request, request) != 0 || !result->attributes)
                        continue;
                attributes = json_loads(result->attributes, 0, NULL);
                if (!attributes) {
                        error_raise(err, ERROR_INVALID, "results[%zu].attributes: must be JSON", i);
                        json_decref(devices);
                        return NULL;
                }
                metadata_add_device(devices, driver, result->pool, result->device, attributes);
        }
        return devices;
}

/* |of|: the first result of the request. */
static int print_metadata(struct strbuf *ret, const char *driver, const struct dra_claim *claim,
        const struct dra_result *of, struct error *err)
{
        const struct metadata metadata = metadata_of_request(driver, claim, of);
        json_t *devices = metadata_devices(driver, claim, of->request, err);

        if (!devices)
                return -1;
        metadata_print(ret, &metadata, devices);
        json_decref(devices);
        return 0;
}

int dra_metadata_write(struct cdi_files *files, const char *folder, const char *driver, const struct dra_claim *claim,
        struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < claim->n_results; i++) {
                const struct dra_result *result = &claim->results[i];
                _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;

                if (!result->attributes || !is_first_of_request(claim, i))
                        continue;
                if (print_metadata(&content, driver, claim, result, err) < 0 ||
                        cdi_files_write(
                                files, metadata_path(&arena, folder, claim->uid, result->request), &content, err) < 0)
                        return error_prefix(err, "device metadata of request '%s'", result->request);
        }
        return 0;
}

/* The UID in a file name that metadata_path() has made, for the caller to free; NULL: another file. */
static char *metadata_uid_of(const char *name)
{
        const char *end = strchr(name, '_');
        const char *dot = strrchr(name, '.');
        char *uid;

        if (!end || !dot || dot < end || strcmp(dot, ".json") != 0)
                return NULL;
        uid = xasprintf("%.*s", (int)(end - name), name);
        if (dra_name_is_uid(uid) && dra_name_is_label(end + 1, (size_t)(dot - end - 1)))
                return uid;
        free(uid);
        return NULL;
}

bool dra_metadata_is_file(const char *driver UNUSED, const char *name)
{
        _free_ char *uid = metadata_uid_of(name);

        return uid;
}

/* Removes the files for whose UID |is_gone| is true; the first failure is returned after the others were tried. */
static int metadata_remove_if(struct cdi_files *files, const char *folder, bool (*is_gone)(const char *uid, void *data),
        void *data, struct error *err)
{
        DIR *directory = opendir(folder);
        const struct dirent *entry;
        int result = 0;

        if (!directory)
                return errno == ENOENT ? 0 : error_errno(err, errno, "open folder '%s'", folder);
        while ((entry = readdir(directory))) {
                _free_ char *uid = metadata_uid_of(entry->d_name);
                _free_ char *path = uid && is_gone(uid, data) ? xasprintf("%s/%s", folder, entry->d_name) : NULL;
                struct error failure;

                if (!path || cdi_files_remove(files, path, &failure) == 0)
                        continue;
                if (result == 0)
                        *err = failure;
                result = -1;
        }
        closedir(directory);
        return result;
}

static bool is_same_uid(const char *uid, void *data)
{
        return strcmp(uid, data) == 0;
}

int dra_metadata_remove(struct cdi_files *files, const char *folder, const char *uid, struct error *err)
{
        return metadata_remove_if(files, folder, is_same_uid, (void *)(uintptr_t)uid, err);
}

struct metadata_kept {
        bool (*is_kept)(const char *uid, void *data);
        void *data;
};

static bool is_not_kept(const char *uid, void *data)
{
        const struct metadata_kept *kept = data;

        return !kept->is_kept(uid, kept->data);
}

void dra_metadata_sweep(
        struct cdi_files *files, const char *folder, bool (*is_kept)(const char *uid, void *data), void *data)
{
        struct metadata_kept kept = {is_kept, data};
        struct error err;

        if (metadata_remove_if(files, folder, is_not_kept, &kept, &err) < 0)
                log_warn("a file with device metadata that no claim needs stays", LOG_ERR(&err));
}
