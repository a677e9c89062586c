// SPDX-License-Identifier: Apache-2.0
#include "plan/several.h"

#include <string.h>

#include "base/strbuf.h"
#include "plan/mps_wanted.h"

#define USE_CDI                                                                                                               \
        "set deviceListStrategy: cdi-cri; the container runtime has to know CDI: CRI-O, containerd from 2.0 on, or 1.7 with " \
        "enable_cdi = true"

static const char *several_join(struct arena *arena, const char *const *names, size_t n)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < n; i++)
                strbuf_printf(&text, "%s%s", i == 0 ? "" : i + 1 == n ? " and " : ", ", names[i]);
        return arena_strdup(arena, text.data);
}

static bool resource_has_own_daemon(const struct resource *resource)
{
        for (size_t i = 0; i < resource->n_units; i++)
                if (resource->units[i].shared && mps_has_own_daemon(resource->daemon_scope, resource->units[i].uuid))
                        return true;
        return false;
}

static bool resource_has_mig(const struct resource *resource)
{
        for (size_t i = 0; i < resource->n_units; i++)
                if (resource->units[i].mig)
                        return true;
        return false;
}

/* One control daemon serves the GPUs of both resources. */
static bool is_one_daemon(const struct resource *a, const struct resource *b)
{
        return !resource_has_own_daemon(a) && !resource_has_own_daemon(b) &&
               mps_daemon_is_common(a->daemon_scope, a->name, b->daemon_scope, b->name);
}

/*
 * |names|: |n| resources of |plan|, each once. Returns why a container with devices of all of them does not get all of
 * them, or NULL.
 */
static const char *several_check(struct arena *arena, const struct plan *plan, const char *const *names, size_t n)
{
        unsigned int lists = plan_device_lists(plan);
        const struct resource *mps = NULL;
        const struct resource *other = NULL; /* units that the daemon of |mps| does not serve */
        bool is_mig = false;

        if (n < 2)
                return NULL;
        for (size_t i = 0; i < n; i++) {
                const struct resource *resource = plan_find(plan, names[i]);

                if (!resource)
                        return NULL;
                is_mig = is_mig || resource_has_mig(resource);
                if (!mps && resource->strategy == SHARING_MPS)
                        mps = resource;
        }
        if (!(lists & (DEVICE_LIST_CDI | DEVICE_LIST_VOLUME_MOUNTS)))
                return arena_printf(arena,
                        "it has devices of %s but sees only those of one of them: an environment variable names "
                        "them, and kubelet passes on only one value of it: " USE_CDI ", or use volume-mounts",
                        several_join(arena, names, n));
        if (!mps)
                return NULL;
        for (size_t i = 0; i < n && !other; i++) {
                const struct resource *resource = plan_find(plan, names[i]);

                if (resource != mps && (resource->strategy != SHARING_MPS || !is_one_daemon(mps, resource)))
                        other = resource;
        }
        if (other)
                return arena_printf(arena,
                        "it has devices of %s, but a program that uses CUDA there sees only the devices of one MPS "
                        "control daemon, and no daemon serves all of them: %s",
                        several_join(arena, names, n),
                        other->strategy != SHARING_MPS ? "share all of them by MPS, or none that one container asks for"
                        : is_mig ? "MPS has a daemon for each MIG device; ask for one in a container"
                                 : "set sharing.mps.daemonScope: node");
        if (mps->provisioning != PROVISIONING_UNIFORM && !(lists & DEVICE_LIST_CDI))
                return arena_printf(arena,
                        "it has shares of %s but the limits of only one of them: environment variables carry the "
                        "limits, and kubelet passes on only one value of each: " USE_CDI,
                        several_join(arena, names, n));
        return NULL;
}

/* ---- kubelet's record ---- */

static bool is_first_of_container(const struct checkpoint *record, size_t position)
{
        for (size_t i = 0; i < position; i++)
                if (checkpoint_is_of_container(&record->entries[i], &record->entries[position]))
                        return false;
        return true;
}

static bool has_any(const struct checkpoint *record, const struct checkpoint_entry *of, const char *resource)
{
        for (size_t i = 0; i < record->n_entries; i++)
                if (checkpoint_is_of_container(&record->entries[i], of) &&
                        strcmp(record->entries[i].resource, resource) == 0)
                        return true;
        return false;
}

size_t several_faults(
        struct several_fault **ret, struct arena *arena, const struct plan *plan, const struct checkpoint *record)
{
        struct several_fault *faults = ARENA_ARRAY(arena, struct several_fault, record->n_entries);
        const char **names = ARENA_ARRAY(arena, const char *, plan->n_resources);
        size_t count = 0;

        for (size_t i = 0; i < record->n_entries; i++) {
                const struct checkpoint_entry *entry = &record->entries[i];
                const char *text;
                size_t n = 0;

                if (!is_first_of_container(record, i))
                        continue;
                for (size_t j = 0; j < plan->n_resources; j++)
                        if (has_any(record, entry, plan->resources[j].name))
                                names[n++] = plan->resources[j].name;
                text = several_check(arena, plan, names, n);
                if (text)
                        faults[count++] = (struct several_fault){entry, text};
        }
        *ret = faults;
        return count;
}
