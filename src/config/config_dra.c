/*
 * The section "dra": the combinations that are refused, and which GPUs it selects.
 */
#include <string.h>

#include "base/text.h"
#include "config/config_reading.h"

static int refuse_key(
        const struct tree *tree, const struct tree_node *section, const char *key, const char *text, struct error *err)
{
        struct tree_node node;

        tree_member(tree, section, key, &node);
        return tree_fail(tree, &node, err, "%s", text);
}

/*
 * One file is made for many nodes, so a list may name GPUs that a node does not have; a number would not say which GPUs
 * belong to DRA.
 */
static int dra_check_devices(
        const struct config_dra *dra, const struct tree *tree, const struct tree_node *section, struct error *err)
{
        if (dra->devices.kind == SELECT_COUNT)
                return refuse_key(
                        tree, section, "devices", "a number, must be all, or a list of indices and UUIDs of GPUs", err);
        for (size_t i = 0; i < dra->devices.n_refs; i++) {
                const struct device_ref *ref = &dra->devices.refs[i];

                if (ref->uuid ? text_starts_with(ref->uuid, "MIG-") : ref->mig >= 0)
                        return refuse_key(tree, section, "devices",
                                "has a MIG device, must be all, or a list of indices and UUIDs of GPUs, to which their MIG "
                                "devices belong",
                                err);
        }
        return 0;
}

int config_dra_check(
        const struct config_dra *dra, const struct tree *tree, const struct tree_node *root, struct error *err)
{
        struct tree_node section;

        if (!tree_member(tree, root, "dra", &section))
                return 0;
        if (dra_check_devices(dra, tree, &section, err) < 0)
                return -1;
        if (!dra->whole && !dra->mps && !dra->time_slicing)
                return tree_fail(
                        tree, &section, err, "whole, mps and timeSlicing are all false: at least one must be true");
        if (dra->daemon_scope == DAEMON_SCOPE_RESOURCE && (dra->whole || dra->time_slicing))
                return refuse_key(tree, &section, "daemonScope",
                        "resource, but then the MPS daemon has all GPUs as long as any is shared, and none can be given as a "
                        "whole or by time-slicing: set whole: false and timeSlicing: false",
                        err);
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
