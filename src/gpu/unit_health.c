#include "gpu/unit_health.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

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
