// SPDX-License-Identifier: Apache-2.0
#include "gpu/units.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void units_done(struct units *units)
{
        for (size_t g = 0; g < units->n_groups; g++) {
                for (size_t u = 0; u < units->groups[g].n_units; u++)
                        free(units->groups[g].units[u].uuid);
                free(units->groups[g].units);
        }
        free(units->groups);
        *units = (struct units)UNITS_INIT;
}

static const struct unit_state *units_find(const struct units *units, const char *uuid)
{
        for (size_t g = 0; g < units->n_groups; g++)
                for (size_t u = 0; u < units->groups[g].n_units; u++)
                        if (strcmp(units->groups[g].units[u].uuid, uuid) == 0)
                                return &units->groups[g].units[u];
        return NULL;
}

struct unit_group *units_find_group(const struct units *units, const char *gpu)
{
        for (size_t g = 0; g < units->n_groups; g++)
                if (strcmp(units->groups[g].units[0].uuid, gpu) == 0)
                        return &units->groups[g];
        return NULL;
}

static void init_unit(struct unit_state *unit, const struct units *before, const char *uuid, uint64_t probe_ms)
{
        const struct unit_state *known = units_find(before, uuid);

        *unit = (struct unit_state){
                .uuid = xstrdup(uuid),
                .gpu_instance = UNIT_NO_INSTANCE,
                .compute_instance = UNIT_NO_INSTANCE,
        };
        if (known) {
                unit->health = known->health;
                unit->is_news = known->is_news;
                unit->is_doubtful = known->is_doubtful;
        } else {
                health_init(&unit->health, probe_ms);
        }
}

static void init_group(
        struct unit_group *group, const struct units *before, const struct gpu *gpu, uint64_t probe_ms, uint64_t now_ms)
{
        const struct unit_group *known = units_find_group(before, gpu->uuid);

        group->must_poll = known && known->must_poll;
        group->fails = known && known->fails;
        group->n_units = 1 + gpu->n_mig_devices;
        group->units = xcalloc(group->n_units, sizeof(*group->units));
        init_unit(&group->units[0], before, gpu->uuid, probe_ms);
        for (size_t i = 0; i < gpu->n_mig_devices; i++) {
                struct unit_state *unit = &group->units[1 + i];

                init_unit(unit, before, gpu->mig_devices[i].uuid, probe_ms);
                unit->gpu_instance = gpu->mig_devices[i].gpu_instance;
                unit->compute_instance = gpu->mig_devices[i].compute_instance;
        }
        for (size_t i = 0; gpu->failure && i < group->n_units; i++) {
                struct unit_state *unit = &group->units[i];

                /* A unit that is already unhealthy has its own probes, which find the same. */
                if (!unit->health.unhealthy)
                        unit->is_news = health_fail(&unit->health, gpu->failure, now_ms);
        }
}

void units_update(struct units *units, const struct inventory *inventory, uint64_t probe_ms, uint64_t now_ms)
{
        struct units updated = {
                .groups = xcalloc(inventory->n_gpus, sizeof(*updated.groups)),
                .n_groups = inventory->n_gpus,
        };

        for (size_t i = 0; i < inventory->n_gpus; i++)
                init_group(&updated.groups[i], units, &inventory->gpus[i], probe_ms, now_ms);
        units_done(units);
        *units = updated;
}

static bool concerns(const struct unit_state *unit, unsigned int gpu_instance, unsigned int compute_instance)
{
        if (gpu_instance == UNIT_NO_INSTANCE)
                return true;
        return unit->gpu_instance == gpu_instance &&
               (compute_instance == UNIT_NO_INSTANCE || unit->compute_instance == compute_instance);
}

bool units_xid(struct units *units, size_t group, unsigned int gpu_instance, unsigned int compute_instance,
        uint64_t xid, uint64_t now_ms)
{
        bool found = false;

        for (size_t i = 0; i < units->groups[group].n_units; i++) {
                struct unit_state *unit = &units->groups[group].units[i];

                if (!concerns(unit, gpu_instance, compute_instance))
                        continue;
                found = true;
                if (health_xid(&unit->health, xid, now_ms))
                        unit->is_news = true;
        }
        return found;
}

void units_fail(struct unit_group *group, const char *reason, uint64_t now_ms)
{
        for (size_t i = 0; i < group->n_units; i++)
                if (health_fail(&group->units[i].health, reason, now_ms))
                        group->units[i].is_news = true;
}

void units_release(struct units *units)
{
        for (size_t g = 0; g < units->n_groups; g++)
                for (size_t u = 0; u < units->groups[g].n_units; u++)
                        health_release(&units->groups[g].units[u].health);
}

uint64_t units_probe_at(const struct unit_group *group)
{
        uint64_t at = HEALTH_NEVER;

        for (size_t i = 0; i < group->n_units; i++)
                at = MIN(at, group->units[i].health.probe_at_ms);
        return at;
}

/* ---- unit health ---- */

static size_t unit_health_position_of(const struct unit_health *health, const char *uuid)
{
        size_t i = 0;

        while (i < health->n_unhealthy && strcmp(health->unhealthy[i].uuid, uuid) != 0)
                i++;
        return i;
}

static void free_unhealthy(const struct unhealthy_unit *unit)
{
        free(unit->uuid);
        free(unit->reason);
}

void unit_health_clear(struct unit_health *health)
{
        for (size_t i = 0; i < health->n_unhealthy; i++)
                free_unhealthy(&health->unhealthy[i]);
        free(health->unhealthy);
        *health = (struct unit_health)UNIT_HEALTH_INIT;
}

void unit_health_set(struct unit_health *health, const char *uuid, bool healthy, const char *reason)
{
        /* Copied before the old entry goes: they may be its own texts. */
        struct unhealthy_unit unit = {healthy ? NULL : xstrdup(uuid), healthy ? NULL : xstrdup(reason)};
        size_t i = unit_health_position_of(health, uuid);

        if (i < health->n_unhealthy) {
                free_unhealthy(&health->unhealthy[i]);
                health->unhealthy[i] = healthy ? health->unhealthy[--health->n_unhealthy] : unit;
        } else if (!healthy) {
                health->unhealthy = xrealloc(health->unhealthy, (i + 1) * sizeof(*health->unhealthy));
                health->unhealthy[health->n_unhealthy++] = unit;
        }
}

const struct unhealthy_unit *unit_health_find(const struct unit_health *health, const char *uuid)
{
        size_t i = unit_health_position_of(health, uuid);

        return i < health->n_unhealthy ? &health->unhealthy[i] : NULL;
}
