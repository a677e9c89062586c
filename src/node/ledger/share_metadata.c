// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/share_metadata.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "node/cdi/metadata.h"
#include "plan/share.h"

#define SUFFIX ".json"
#define CLAIM_NAME "device-plugin"

static bool is_wanted(const struct share_metadata *metadata)
{
        return metadata->core->plan->config->devices.metadata;
}

static const char *share_metadata_file(struct arena *arena, const char *allocation)
{
        return arena_printf(arena, SHARE_METADATA_NAME "/%s" SUFFIX, allocation);
}

static const char *share_metadata_path(
        const struct share_metadata *metadata, struct arena *arena, const char *allocation)
{
        return arena_path(arena, metadata->core->resources.directory, share_metadata_file(arena, allocation));
}

/* ---- content ---- */

/* "gpu.shared" of "nvidia.com/gpu.shared". */
static const char *name_in_domain(const char *resource)
{
        const char *slash = strrchr(resource, '/');

        return slash ? slash + 1 : resource;
}

static struct metadata share_metadata_of(const struct share_metadata *metadata, const struct ledger_share *of)
{
        return (struct metadata){
                .driver = metadata->core->plan->config->dra.driver_name,
                .name = CLAIM_NAME,
                .uid = of->allocation->id,
                .request = name_in_domain(of->shared->resource->name),
        };
}

/* "gpu-0" of a GPU, "gpu-0-1" of a MIG device. */
static const char *name_device(struct arena *arena, const struct unit *unit)
{
        char *name = arena_printf(arena, "gpu-%s", unit->index);

        for (char *at = name; *at; at++)
                if (*at == ':')
                        *at = '-';
        return name;
}

/* The parts of the allocation, each with what the container is limited to on its unit. */
static size_t list_parts(const struct share_metadata *metadata, const struct ledger_share *of, struct arena *arena,
        struct mps_part **ret)
{
        const struct resource *resource = of->shared->resource;
        struct mps_part *parts = ARENA_ARRAY(arena, struct mps_part, resource->n_units);
        size_t count = 0;

        for (size_t i = 0; i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];
                unsigned int replicas = mps_resource_replicas(of->shared, of->allocation, unit);
                bool ignored;

                if (replicas)
                        parts[count++] = (struct mps_part){resource, unit, replicas,
                                declared_containers_share(metadata->containers, of, unit, replicas, &ignored)};
        }
        *ret = parts;
        return count;
}

static void print_share(const struct share_metadata *metadata, const struct ledger_share *of, enum mps_tier tier,
        const struct mps_part *parts, size_t n_parts, struct arena *arena, struct strbuf *ret)
{
        const struct inventory *inventory = metadata->core->plan->inventory;
        const struct metadata about = share_metadata_of(metadata, of);
        json_t *devices = json_array();

        for (size_t i = 0; i < n_parts; i++) {
                const struct share *share = &parts[i].share;
                json_t *attributes = metadata_unit_attributes(inventory, parts[i].unit);

                metadata_put_limits(attributes, share->memory_mib, share->threads_permille / 10,
                        mps_tier_promise(tier, share->memory_mib));
                metadata_add_device(devices, about.driver, of->shared->resource->name,
                        name_device(arena, parts[i].unit), attributes);
        }
        metadata_print(ret, &about, devices);
        json_decref(devices);
}

/* ---- files ---- */

/*
 * A runtime that finds no file to mount may make a folder there (containerd does), with which the container starts
 * instead. It makes room for the file.
 */
static bool has_metadata_file(const char *path)
{
        struct stat status;

        if (lstat(path, &status) < 0)
                return false;
        if (S_ISDIR(status.st_mode))
                rmdir(path);
        return S_ISREG(status.st_mode);
}

/* The folder is in no container, but readable: a mount shows the file to any user of the container. */
static bool share_metadata_write(struct share_metadata *metadata, const struct ledger_share *of, enum mps_tier tier,
        const struct mps_part *parts, size_t n_parts)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        const char *path = share_metadata_path(metadata, &arena, of->allocation->id);
        _free_ char *folder = file_folder(path);
        struct error err;

        print_share(metadata, of, tier, parts, n_parts, &arena, &content);
        mkdir(folder, 0755); /* not the MPS directory itself, if that is away */
        if (file_write(path, content.data, content.size, &err) < 0) {
                complain(&metadata->bad_file, "containers start without device metadata", &err);
                return false;
        }
        complaint_settle(&metadata->bad_file);
        return true;
}

/* Likewise, with the parts that the ledger knows. False also if none of its units is on this node. */
static bool share_metadata_write_known(
        struct share_metadata *metadata, const struct ledger_share *of, enum mps_tier tier)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mps_part *parts;
        size_t n_parts = list_parts(metadata, of, &arena, &parts);

        return n_parts && share_metadata_write(metadata, of, tier, parts, n_parts);
}

void share_metadata_add(struct share_metadata *metadata, const struct ledger_share *of, enum mps_tier tier,
        struct arena *arena, struct allocate_binding *binding)
{
        const struct metadata about = share_metadata_of(metadata, of);

        if (!is_wanted(metadata) || !share_metadata_write_known(metadata, of, tier))
                return;
        binding->metadata = share_metadata_file(arena, of->allocation->id);
        binding->metadata_path = metadata_container_path(arena, &about);
}

static enum mps_tier share_metadata_tier(const struct share_metadata *metadata, const struct ledger_share *of)
{
        const struct resource *resource = of->shared->resource;

        if (of->unit)
                return ledger_tier(metadata->core, resource, of->unit);
        return resource->provisioning == PROVISIONING_UNIFORM ? MPS_TIER_DEFAULT : MPS_TIER_VERIFIED;
}

static const struct ledger_share *find_share(const struct ledger_share *all, size_t n_all, const char *allocation)
{
        for (size_t i = 0; i < n_all; i++)
                if (strcmp(all[i].allocation->id, allocation) == 0)
                        return &all[i];
        return NULL;
}

void share_metadata_update(
        struct share_metadata *metadata, const char *allocation, const struct mps_part *parts, size_t n_parts)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mps_part *own = ARENA_ARRAY(&arena, struct mps_part, n_parts);
        const struct ledger_share *all;
        size_t n_all = ledger_shares(metadata->core, &arena, &all);
        const struct ledger_share *of = find_share(all, n_all, allocation);
        size_t n_own = 0;

        if (!of || !has_metadata_file(share_metadata_path(metadata, &arena, allocation)))
                return;
        for (size_t i = 0; i < n_parts; i++)
                if (parts[i].resource == of->shared->resource)
                        own[n_own++] = parts[i];
        if (n_own)
                share_metadata_write(metadata, of, share_metadata_tier(metadata, of), own, n_own);
}

/* Whether |file| is the name of a file of an allocation that is in none of |all|. */
static bool is_of_none(const char *file, const struct ledger_share *all, size_t n_all)
{
        const char *end = strrchr(file, '.');

        if (file[0] == '.' || !end || strcmp(end, SUFFIX) != 0)
                return false;
        for (size_t i = 0; i < n_all; i++)
                if (strlen(all[i].allocation->id) == (size_t)(end - file) &&
                        strncmp(all[i].allocation->id, file, (size_t)(end - file)) == 0)
                        return false;
        return true;
}

static void remove_ended(const struct share_metadata *metadata, const struct ledger_share *all, size_t n_all)
{
        _free_ char *path = xasprintf("%s/" SHARE_METADATA_NAME, metadata->core->resources.directory);
        DIR *folder = opendir(path);
        const struct dirent *entry;

        while (folder && (entry = readdir(folder)))
                if (is_of_none(entry->d_name, all, n_all))
                        unlinkat(dirfd(folder), entry->d_name, 0);
        if (folder)
                closedir(folder);
}

void share_metadata_sync(struct share_metadata *metadata)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct ledger_share *all;
        size_t n_all = ledger_shares(metadata->core, &arena, &all);
        bool is_known = true;

        for (size_t i = 0; i < n_all; i++) {
                is_known = is_known && !all[i].allocation->is_guess;
                if (is_wanted(metadata) &&
                        !has_metadata_file(share_metadata_path(metadata, &arena, all[i].allocation->id)))
                        share_metadata_write_known(metadata, &all[i], share_metadata_tier(metadata, &all[i]));
        }
        if (is_known)
                remove_ended(metadata, all, n_all);
}
