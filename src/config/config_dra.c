/*
 * What the section "dra" means: its defaults, and what cannot be said in it.
 */
#include <string.h>

#include "base/text.h"
#include "config/config_file.h"

static bool said(const struct tree *tree, const struct tree_node *node, const char *key, bool value, bool fallback)
{
        return tree_has(tree, node, key) ? value : fallback;
}

static int fail_at(
        const struct tree *tree, const struct tree_node *parent, const char *key, const char *text, struct error *err)
{
        struct tree_node node;

        tree_member(tree, parent, key, &node);
        return tree_fail(tree, &node, err, "%s", text);
}

/*
 * Files are made for many nodes, so a list, too, may name what one of them does not have; a number would mean any of
 * them.
 */
static int check_devices(const struct tree *tree, const struct file_dra *file, struct error *err)
{
        if (file->devices.kind == SELECT_COUNT)
                return fail_at(tree, &file->node, "devices",
                        "a number, must be all, or a list of indices and UUIDs of GPUs", err);
        for (size_t i = 0; i < file->devices.n_refs; i++) {
                const struct device_ref *ref = &file->devices.refs[i];

                if (ref->uuid ? text_starts_with(ref->uuid, "MIG-") : ref->mig >= 0)
                        return fail_at(tree, &file->node, "devices",
                                "has a MIG device, must be all, or a list of indices and UUIDs of GPUs, to which their MIG "
                                "devices belong",
                                err);
        }
        return 0;
}

static int check(const struct tree *tree, const struct config_dra *dra, const struct file_dra *file, struct error *err)
{
        const struct file_dra_defaults *defaults = file->defaults;

        if (check_devices(tree, file, err) < 0)
                return -1;
        if (!dra->whole && !dra->mps && !dra->time_slicing)
                return tree_fail(
                        tree, &file->node, err, "whole, mps and timeSlicing are all false: at least one must be true");
        if (dra->daemon_scope == DAEMON_SCOPE_RESOURCE && (dra->whole || dra->time_slicing))
                return fail_at(tree, &file->node, "daemonScope",
                        "resource, but then the MPS daemon has all GPUs as long as any is shared, and none can be given as a "
                        "whole or by time-slicing: set whole: false and timeSlicing: false",
                        err);
        if (defaults && defaults->memory.is_given && defaults->memory.mib == 0)
                return fail_at(tree, &defaults->node, "memory", "0, at least 1 MiB, or auto", err);
        return 0;
}

int config_dra_build(struct config_dra *ret, const struct tree *tree, const struct file_dra *file, struct error *err)
{
        struct config_dra dra = {.whole = true,
                .mps = true,
                .slots = 4,
                .default_thread_percentage = 10,
                .default_clients = 1,
                .shares = 4};

        if (file) {
                const struct tree_node *node = &file->node;
                const struct file_dra_defaults *defaults = file->defaults;

                dra.devices = file->devices;
                dra.whole = said(tree, node, "whole", file->whole, dra.whole);
                dra.mps = said(tree, node, "mps", file->mps, dra.mps);
                dra.time_slicing = file->time_slicing;
                dra.slots = file->slots ? file->slots : dra.slots;
                dra.memory_mib = file->memory.mib;
                dra.has_memory_reserve = file->memory_reserve.is_given;
                dra.memory_reserve_mib = file->memory_reserve.mib;
                dra.daemon_scope = (enum daemon_scope)file->daemon_scope;
                dra.fallback = (enum dra_fallback)file->fallback;
                dra.one_form = (enum dra_one_form)file->one_form;
                dra.shares = file->shares ? file->shares : dra.shares;
                dra.unenforced = (enum dra_unenforced)file->unenforced;
                dra.unhealthy = (enum dra_unhealthy)file->unhealthy;
                if (defaults) {
                        dra.default_memory_mib = defaults->memory.mib;
                        if (defaults->thread_percentage)
                                dra.default_thread_percentage = defaults->thread_percentage;
                        if (defaults->clients)
                                dra.default_clients = defaults->clients;
                }
                if (check(tree, &dra, file, err) < 0)
                        return -1;
        }
        *ret = dra;
        return 0;
}

bool config_dra_selects(const struct config_dra *dra, unsigned int index, const char *uuid)
{
        const struct device_selector *devices = &dra->devices;

        if (devices->kind == SELECT_ALL)
                return true;
        for (size_t i = 0; i < devices->n_refs; i++)
                if (devices->refs[i].uuid ? strcmp(devices->refs[i].uuid, uuid) == 0 : devices->refs[i].gpu == index)
                        return true;
        return false;
}
