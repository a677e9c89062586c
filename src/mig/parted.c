// SPDX-License-Identifier: Apache-2.0
#include "mig/parted.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "base/data/tree.h"
#include "mig/profile_text.h"
#include "mig/geometry.h"

#define NAMES_SIZE 200U /* of those that a message lists */
#define NVIDIA 0x10DEU
#define GPUS_NAMED 4U

/* ---- the tree ---- */

/* An object with no other keys than these. */
static int check_object(const struct tree *tree, const struct tree_node *node, const char *const *names, size_t n_names,
        struct error *err)
{
        return tree_object(tree, node, err) < 0 ? -1 : tree_refuse_keys(tree, node, names, n_names, err);
}

static int need_member(const struct tree *tree, const struct tree_node *node, const char *key, const char *way_out,
        struct tree_node *ret, struct error *err)
{
        if (tree_member(tree, node, key, ret))
                return 0;
        return tree_fail(tree, node, err, "'%s' is missing, %s", key, way_out);
}

/* ---- an entry ---- */

/* "0x233010DE", of at most 8 digits. */
static bool take_id(const char *text, size_t length, uint32_t *ret)
{
        uint32_t value = 0;

        if (length < 3 || length > 10 || text[0] != '0' || (text[1] != 'x' && text[1] != 'X'))
                return false;
        for (size_t i = 2; i < length; i++) {
                const char *digit = strchr("0123456789abcdef", text[i] | 0x20);

                if (!digit || !*digit)
                        return false;
                value = value << 4 | (uint32_t)(digit - "0123456789abcdef");
        }
        *ret = value;
        return true;
}

/* NVIDIA's program takes it, too, and it is for no GPU: most often it is the device alone. */
static void warn_of_vendor(
        const struct tree *tree, const struct tree_node *node, const struct mig_parted_filter *filter)
{
        char printed[TREE_VALUE_SIZE];

        if ((filter->device & 0xFFFF) == NVIDIA)
                return;
        if (filter->device <= 0xFFFF)
                tree_warn(tree, node, "%s has no vendor and is for no GPU, use \"0x%04X%04X\"",
                        tree_print(node, printed), filter->device, NVIDIA);
        else
                tree_warn(tree, node, "%s is for no GPU of NVIDIA, whose vendor is %04X", tree_print(node, printed),
                        NVIDIA);
}

static int read_filter(
        const struct tree *tree, const struct tree_node *node, struct mig_parted_filter *ret, struct error *err)
{
        const char *text = json_string_value(node->json);
        char printed[TREE_VALUE_SIZE];
        size_t length;

        if (text) {
                length = strcspn(text, ":");
                ret->has_subsystem = text[length] == ':';
                if (take_id(text, length, &ret->device) &&
                        (!ret->has_subsystem ||
                                take_id(text + length + 1, strlen(text + length + 1), &ret->subsystem))) {
                        warn_of_vendor(tree, node, ret);
                        return 0;
                }
        }
        return tree_fail(tree, node, err,
                "%s, must be device and vendor of a GPU in quotes, like \"0x233010DE\", or with its subsystem, like "
                "\"0x233010DE:0x16C110DE\"",
                tree_print(node, printed));
}

static int read_filters(
        const struct tree *tree, const struct tree_node *node, struct mig_parted_entry *entry, struct error *err)
{
        struct mig_parted_filter *filters;
        struct tree_node list;
        size_t count = 1;

        if (!tree_member(tree, node, "device-filter", &list) ||
                (json_is_string(list.json) && json_string_length(list.json) == 0))
                return 0;
        if (json_is_array(list.json) && tree_array(tree, &list, MIG_PARTED_MAX_FILTERS, &count, err) < 0)
                return -1;
        filters = ARENA_ARRAY(tree->arena, struct mig_parted_filter, count);
        for (size_t i = 0; i < count; i++) {
                struct tree_node item = list;

                if (json_is_array(list.json))
                        tree_item(tree, &list, i, &item);
                if (read_filter(tree, &item, &filters[i], err) < 0)
                        return -1;
        }
        entry->filters = filters;
        entry->n_filters = count;
        return 0;
}

static int parted_read_devices(
        const struct tree *tree, const struct tree_node *node, struct mig_parted_entry *entry, struct error *err)
{
        char printed[TREE_VALUE_SIZE];
        struct tree_node list;
        unsigned int *devices;

        if (need_member(tree, node, "devices", "use all, or a list of indices such as [0, 1]", &list, err) < 0)
                return -1;
        if (!json_is_array(list.json)) {
                entry->is_for_all = json_is_string(list.json) && strcmp(json_string_value(list.json), "all") == 0;
                return entry->is_for_all
                               ? 0
                               : tree_fail(tree, &list, err, "%s, must be all, or a list of indices such as [0, 1]",
                                         tree_print(&list, printed));
        }
        if (tree_array(tree, &list, MIG_PARTED_MAX_DEVICES, &entry->n_devices, err) < 0)
                return -1;
        devices = ARENA_ARRAY(tree->arena, unsigned int, entry->n_devices);
        for (size_t i = 0; i < entry->n_devices; i++) {
                struct tree_node item;

                tree_item(tree, &list, i, &item);
                if (tree_uint(tree, &item, 0, MIG_PARTED_MAX_DEVICES - 1, &devices[i], err) < 0)
                        return -1;
        }
        entry->devices = devices;
        return 0;
}

static int parted_read_count(const struct tree *tree, const struct tree_node *list, const char *profile,
        struct mig_wanted_count *ret, struct error *err)
{
        struct mig_profile_text text;
        struct tree_node node;

        if (!tree_member(tree, list, profile, &node))
                return tree_fail(
                        tree, list, err, "%.40s: has no count, must be from 0 to %u", profile, MIG_PARTED_MAX_COUNT);
        if (!mig_profile_text_parse(&text, profile) || strlen(profile) > MIG_PROFILE_TEXT_MAX)
                return tree_fail(
                        tree, &node, err, "is no MIG profile, use names like 1g.10gb, 1g.10gb+me or 1c.3g.20gb");
        if (text.slices > MIG_SHAPE_SLICES && !mig_profile_text_is_whole(&text))
                return tree_fail(tree, &node, err,
                        "a part of a GPU instance of %u slices, of which parts are not supported, at most %u: use %s",
                        text.slices, MIG_SHAPE_SLICES, mig_profile_text_instance(profile));
        *ret = (struct mig_wanted_count){.profile = arena_strdup(tree->arena, mig_profile_text_instance(profile)),
                .compute = mig_profile_text_is_whole(&text) ? 0 : text.compute};
        return tree_uint(tree, &node, 0, MIG_PARTED_MAX_COUNT, &ret->count, err);
}

static int read_counts(
        const struct tree *tree, const struct tree_node *node, struct mig_parted_entry *entry, struct error *err)
{
        struct mig_wanted_count *counts;
        struct tree_node list;
        const char *profile;
        json_t *value;

        if (!tree_member(tree, node, "mig-devices", &list)) {
                if (entry->is_enabled)
                        return tree_fail(tree, node, err,
                                "'mig-devices' is missing where mig-enabled is true, use {} for MIG without devices");
                return 0;
        }
        if (tree_object(tree, &list, err) < 0)
                return -1;
        if (json_object_size(list.json) > MIG_PARTED_MAX_PROFILES)
                return tree_fail(tree, &list, err, "%zu profiles, at most %zu", json_object_size(list.json),
                        MIG_PARTED_MAX_PROFILES);
        if (!entry->is_enabled && json_object_size(list.json) > 0)
                return tree_fail(
                        tree, &list, err, "has devices where mig-enabled is false: remove them, or enable MIG");
        counts = ARENA_ARRAY(tree->arena, struct mig_wanted_count, json_object_size(list.json));
        entry->counts = counts;
        json_object_foreach((json_t *)(uintptr_t)list.json, profile, value)
        {
                if (parted_read_count(tree, &list, profile, &counts[entry->n_counts], err) < 0)
                        return -1;
                if (counts[entry->n_counts].count > 0)
                        entry->n_counts++;
        }
        if (json_object_size(list.json) > 0 && entry->n_counts == 0)
                return tree_fail(tree, &list, err, "all counts are 0, use {} for MIG without devices");
        return 0;
}

/* NVIDIA's program reads null as false. */
static int read_enabled(
        const struct tree *tree, const struct tree_node *node, struct mig_parted_entry *entry, struct error *err)
{
        struct tree_node enabled;

        if (json_is_null(json_object_get(node->json, "mig-enabled")))
                return 0;
        return need_member(tree, node, "mig-enabled", "use true or false", &enabled, err) < 0
                       ? -1
                       : tree_bool(tree, &enabled, &entry->is_enabled, err);
}

static int read_entry(
        const struct tree *tree, const struct tree_node *node, struct mig_parted_entry *entry, struct error *err)
{
        static const char *const keys[] = {"device-filter", "devices", "mig-enabled", "mig-devices"};

        if (check_object(tree, node, keys, ARRAY_SIZE(keys), err) < 0 || read_enabled(tree, node, entry, err) < 0 ||
                read_filters(tree, node, entry, err) < 0 || parted_read_devices(tree, node, entry, err) < 0)
                return -1;
        entry->place = arena_printf(tree->arena, "%s line %d: %s", tree->yaml->name, node->line, node->path);
        return read_counts(tree, node, entry, err);
}

/* ---- the file ---- */

static int parted_read_config(
        const struct tree *tree, const struct tree_node *node, struct mig_parted_config *config, struct error *err)
{
        struct mig_parted_entry *entries;

        if (tree_array(tree, node, MIG_PARTED_MAX_ENTRIES, &config->n_entries, err) < 0)
                return -1;
        if (config->n_entries == 0)
                return tree_fail(tree, node, err, "is empty, must have an entry");
        entries = ARENA_ARRAY(tree->arena, struct mig_parted_entry, config->n_entries);
        config->entries = entries;
        for (size_t i = 0; i < config->n_entries; i++) {
                struct tree_node item;

                tree_item(tree, node, i, &item);
                if (read_entry(tree, &item, &entries[i], err) < 0)
                        return -1;
        }
        return 0;
}

static int parted_read_named(const struct tree *tree, const struct tree_node *node, const char *name,
        struct mig_parted_config *config, struct error *err)
{
        struct tree_node member;

        if (!tree_member(tree, node, name, &member))
                return tree_fail(tree, node, err, "%.100s: is empty, must have an entry", name);
        return parted_read_config(tree, &member, config, err);
}

static int parted_read_configs(
        const struct tree *tree, const struct tree_node *node, struct mig_parted *parted, struct error *err)
{
        struct mig_parted_config *configs;
        size_t count;
        const char *name;
        json_t *value;

        if (tree_object(tree, node, err) < 0)
                return -1;
        count = json_object_size(node->json);
        if (count == 0)
                return tree_fail(tree, node, err, "is empty, must have a configuration");
        if (count > MIG_PARTED_MAX_CONFIGS)
                return tree_fail(tree, node, err, "%zu configurations, at most %zu", count, MIG_PARTED_MAX_CONFIGS);
        configs = ARENA_ARRAY(tree->arena, struct mig_parted_config, count);
        parted->configs = configs;
        json_object_foreach((json_t *)(uintptr_t)node->json, name, value)
        {
                struct mig_parted_config *config = &configs[parted->n_configs];
                struct error problem;

                if (strlen(name) > MIG_PARTED_MAX_NAME)
                        return tree_fail(tree, node, err, "%.40s…: the name has %zu bytes, at most %zu", name,
                                strlen(name), MIG_PARTED_MAX_NAME);
                if (parted_read_named(tree, node, name, config, &problem) < 0)
                        *config = (struct mig_parted_config){.problem = arena_strdup(tree->arena, problem.text)};
                config->name = arena_strdup(tree->arena, name);
                parted->n_configs++;
        }
        return 0;
}

static int parted_read_root(const struct tree *tree, struct mig_parted *parted, struct error *err)
{
        static const char *const keys[] = {"version", "mig-configs"};
        const struct tree_node root = {.json = tree->yaml->root, .path = "", .line = 1};
        struct tree_node version;
        struct tree_node configs;
        char printed[TREE_VALUE_SIZE];

        if (json_is_null(root.json))
                return error_set(err, ERROR_INVALID, "%s: is empty, must begin with 'version: v1'", tree->yaml->name);
        if (check_object(tree, &root, keys, ARRAY_SIZE(keys), err) < 0 ||
                need_member(tree, &root, "version", "use 'version: v1'", &version, err) < 0)
                return -1;
        if (!json_is_string(version.json) || strcmp(json_string_value(version.json), "v1") != 0)
                return tree_fail(
                        tree, &version, err, "%s is not a known version, use v1", tree_print(&version, printed));
        if (need_member(tree, &root, "mig-configs", "name a configuration in it", &configs, err) < 0)
                return -1;
        return parted_read_configs(tree, &configs, parted, err);
}

int mig_parted_parse(struct mig_parted *ret, struct arena *arena, const char *name, const char *text, size_t size,
        yaml_warn_fn *warn, void *warn_data, struct error *err)
{
        _cleanup_(yaml_unloadp) struct yaml *yaml = NULL;
        struct mig_parted parted = {.name = arena_strdup(arena, name)};
        struct tree tree = {.arena = arena, .warn = warn, .warn_data = warn_data};

        if (size > MIG_PARTED_FILE_LIMIT)
                return error_set(err, ERROR_INVALID, "%s: %zu bytes, at most %zu", name, size, MIG_PARTED_FILE_LIMIT);
        if (yaml_load(&yaml, name, text, size, warn, warn_data, err) < 0)
                return -1;
        tree.yaml = yaml;
        if (parted_read_root(&tree, &parted, err) < 0)
                return -1;
        *ret = parted;
        return 0;
}

int mig_parted_read(struct mig_parted *ret, struct arena *arena, const char *path, yaml_warn_fn *warn, void *warn_data,
        struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const bool is_input = strcmp(path, "-") == 0;

        if (file_read(is_input ? "/dev/stdin" : path, MIG_PARTED_FILE_LIMIT, &text, err) < 0)
                return -1;
        return mig_parted_parse(ret, arena, is_input ? "standard input" : arena_printf(arena, "config '%.200s'", path),
                text.data, text.size, warn, warn_data, err);
}

/* ---- choosing ---- */

static const char *list_names(struct arena *arena, const struct mig_parted *parted)
{
        _cleanup_(names_done) struct names names = NAMES_INIT(MIG_PARTED_MAX_CONFIGS);

        for (size_t i = 0; i < parted->n_configs; i++) {
                if (names.text.size >= NAMES_SIZE)
                        names.max = MIN(names.max, names.count);
                names_add(&names, "%.60s", parted->configs[i].name);
        }
        return arena_strdup(arena, names.text.data);
}

int mig_parted_choose(
        const struct mig_parted_config **ret, const struct mig_parted *parted, const char *name, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < parted->n_configs; i++)
                if (strcmp(parted->configs[i].name, name) == 0 || (parted->n_configs == 1 && !*name)) {
                        if (parted->configs[i].problem)
                                return error_set(err, ERROR_INVALID, "%s", parted->configs[i].problem);
                        *ret = &parted->configs[i];
                        return 0;
                }
        if (!*name)
                return error_set(err, ERROR_INVALID, "%s has several configurations, name one of them: %s",
                        parted->name, list_names(&arena, parted));
        return error_set(err, ERROR_NOT_FOUND, "%s has no configuration '%.100s', use one of: %s", parted->name, name,
                list_names(&arena, parted));
}

/* ---- what is wanted of each GPU ---- */

/* Also true for a GPU whose PCI device could not be read. */
static bool filter_matches(const struct mig_parted_entry *entry, const struct mig_node_gpu *gpu)
{
        if (entry->n_filters == 0 || (gpu->problem && !gpu->pci_device))
                return true;
        for (size_t i = 0; i < entry->n_filters; i++)
                if (entry->filters[i].device == gpu->pci_device &&
                        (!entry->filters[i].has_subsystem || entry->filters[i].subsystem == gpu->pci_subsystem))
                        return true;
        return false;
}

static bool lists(const struct mig_parted_entry *entry, unsigned int index)
{
        for (size_t i = 0; i < entry->n_devices; i++)
                if (entry->devices[i] == index)
                        return true;
        return entry->is_for_all;
}

static const char *parted_place_of(const struct mig_parted_entry *entry)
{
        return entry->place ? entry->place : "the configuration";
}

/* NULL: the GPU is left alone. */
static int parted_find_entry(const struct mig_parted_entry **ret, const struct mig_parted_config *config,
        const struct mig_node_gpu *gpu, struct error *err)
{
        *ret = NULL;
        for (size_t i = 0; i < config->n_entries; i++) {
                const struct mig_parted_entry *entry = &config->entries[i];

                if (!lists(entry, gpu->index) || !filter_matches(entry, gpu))
                        continue;
                if (*ret && (*ret)->is_enabled != entry->is_enabled && !gpu->problem)
                        return error_set(err, ERROR_INVALID,
                                "%s: %s MIG on GPU %u (%s), and another entry %s it (%s): leave one of them for this GPU",
                                parted_place_of(entry), entry->is_enabled ? "enables" : "disables", gpu->index,
                                gpu->name, (*ret)->is_enabled ? "enables" : "disables", parted_place_of(*ret));
                *ret = entry;
        }
        return 0;
}

static int resolve_profile(const char **ret, struct arena *arena, const struct mig_parted_entry *entry,
        const struct mig_node_gpu *gpu, const char *profile, struct error *err)
{
        const struct mig_gpu_profile *found = mig_profile_text_find(&gpu->geometry, profile);

        if (found || gpu->geometry.n_profiles == 0) {
                *ret = found ? found->name : profile;
                return 0;
        }
        return error_set(err, ERROR_INVALID, "%s%s%s: GPU %u (%s) has no such profile, use one of: %s",
                entry->place ? entry->place : "", entry->place ? ".mig-devices." : "", profile, gpu->index, gpu->name,
                mig_profile_text_list(arena, &gpu->geometry));
}

static int resolve_gpu(struct mig_wanted *ret, struct arena *arena, const struct mig_parted_entry *entry,
        const struct mig_node_gpu *gpu, bool is_mode_only, struct error *err)
{
        struct mig_wanted_count *counts;

        if (!gpu->is_capable && !gpu->problem) {
                if (entry->is_enabled && !entry->is_for_all)
                        return error_set(err, ERROR_UNSUPPORTED,
                                "%s: GPU %u (%s) has no MIG: remove its index from devices", parted_place_of(entry),
                                gpu->index, gpu->name);
                return 0;
        }
        counts = ARENA_ARRAY(arena, struct mig_wanted_count, entry->n_counts);
        *ret = (struct mig_wanted){.is_named = true, .is_enabled = entry->is_enabled, .counts = counts};
        for (size_t i = 0; i < entry->n_counts && !is_mode_only; i++) {
                struct mig_wanted_count count = entry->counts[i];

                if (resolve_profile(&count.profile, arena, entry, gpu, count.profile, err) < 0)
                        return -1;
                mig_wanted_add(counts, &ret->n_counts, &count); /* a profile may be there by two of its names */
        }
        return 0;
}

static int refuse_for_none(const struct mig_parted_config *config, const struct mig_node *node, struct error *err)
{
        _cleanup_(names_done) struct names names = NAMES_INIT(GPUS_NAMED);

        for (size_t i = 0; i < node->n_gpus; i++)
                names_add(&names, "GPU %u (%s, 0x%08X%s)", node->gpus[i].index, node->gpus[i].name,
                        node->gpus[i].pci_device, node->gpus[i].is_capable ? "" : ", without MIG");
        return error_set(err, ERROR_NOT_FOUND,
                "the configuration '%.100s' is for none of this node's GPUs: look at devices and device-filter of its "
                "entries; the node has %s",
                config->name, names.count ? names.text.data : "no GPU");
}

int mig_parted_resolve(const struct mig_wanted **ret, struct arena *arena, const struct mig_parted_config *config,
        const struct mig_node *node, bool is_mode_only, struct error *err)
{
        struct mig_wanted *wanted = ARENA_ARRAY(arena, struct mig_wanted, node->n_gpus);
        bool is_for_any = false;

        for (size_t i = 0; i < node->n_gpus; i++) {
                const struct mig_parted_entry *entry;

                if (parted_find_entry(&entry, config, &node->gpus[i], err) < 0)
                        return -1;
                if (!entry)
                        continue;
                if (resolve_gpu(&wanted[i], arena, entry, &node->gpus[i], is_mode_only, err) < 0)
                        return -1;
                /* A GPU without MIG has what is wanted if MIG is to be off. */
                is_for_any = is_for_any || wanted[i].is_named || !entry->is_enabled;
        }
        if (!is_for_any)
                return refuse_for_none(config, node, err);
        *ret = wanted;
        return 0;
}

void mig_parted_warn(
        const struct mig_parted_config *config, const struct mig_node *node, yaml_warn_fn *warn, void *warn_data)
{
        for (size_t i = 0; i < config->n_entries; i++) {
                const struct mig_parted_entry *entry = &config->entries[i];
                _cleanup_(names_done) struct names names = NAMES_INIT(GPUS_NAMED);
                _free_ char *text = NULL;

                for (size_t k = 0; k < entry->n_devices; k++)
                        if (entry->devices[k] >= node->n_gpus)
                                names_add(&names, "%u", entry->devices[k]);
                if (names.count == 0)
                        continue;
                text = xasprintf("%s.devices: %s: the node has no such GPU, it has %zu", parted_place_of(entry),
                        names.text.data, node->n_gpus);
                warn(text, warn_data);
        }
}
