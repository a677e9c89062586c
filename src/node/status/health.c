#include "node/status/health.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

/* The name of a unit of the inventory. */
struct named_unit {
        char *uuid;
        char *parent; /* of a MIG device: the UUID of its GPU */
        char *name;
};

struct node_health {
        const struct unit_health *now;
        struct unit_health before; /* at the end of the turn before */
        struct named_unit *units;
        size_t n_units;
        const struct plan *plan;
        char *unavailable;
        char *refused;
        char *reduced;
        struct node_change *changes; /* of the newest turn */
};

static void health_set_text(char **to, const char *text)
{
        char *copy = text ? xstrdup(text) : NULL;

        free(*to);
        *to = copy;
}

static void free_units(struct node_health *health)
{
        for (size_t i = 0; i < health->n_units; i++) {
                free(health->units[i].uuid);
                free(health->units[i].parent);
                free(health->units[i].name);
        }
        free(health->units);
        health->units = NULL;
        health->n_units = 0;
}

struct node_health *node_health_new(const struct unit_health *table)
{
        struct node_health *health = xcalloc(1, sizeof(*health));

        health->now = table;
        return health;
}

struct node_health *node_health_free(struct node_health *health)
{
        if (!health)
                return NULL;
        free_units(health);
        unit_health_clear(&health->before);
        free(health->unavailable);
        free(health->refused);
        free(health->reduced);
        free(health->changes);
        free(health);
        return NULL;
}

/* ---- units ---- */

/* NULL: the inventory does not have it. */
static const struct named_unit *health_find_named(const struct node_health *health, const char *uuid)
{
        for (size_t i = 0; i < health->n_units; i++)
                if (strcmp(health->units[i].uuid, uuid) == 0)
                        return &health->units[i];
        return NULL;
}

static void add_named(struct node_health *health, const char *uuid, const char *parent, char *name)
{
        health->units = xrealloc(health->units, (health->n_units + 1) * sizeof(*health->units));
        health->units[health->n_units++] =
                (struct named_unit){.uuid = xstrdup(uuid), .parent = parent ? xstrdup(parent) : NULL, .name = name};
}

static void health_add_gpu(struct node_health *health, const struct gpu *gpu)
{
        add_named(health, gpu->uuid, NULL, xasprintf("GPU %u (%s)", gpu->index, gpu->uuid));
        for (size_t i = 0; i < gpu->n_mig_devices; i++) {
                const struct mig_device *mig = &gpu->mig_devices[i];

                add_named(health, mig->uuid, gpu->uuid,
                        xasprintf("MIG device %u:%u (%s)", gpu->index, mig->index, mig->uuid));
        }
}

void node_health_set_inventory(struct node_health *health, const struct inventory *inventory)
{
        health_set_text(&health->unavailable, NULL);
        free_units(health);
        for (size_t i = 0; i < inventory->n_gpus; i++)
                health_add_gpu(health, &inventory->gpus[i]);
}

void node_health_set_plan(struct node_health *health, const struct plan *plan)
{
        health->plan = plan;
}

void node_health_set_unavailable(struct node_health *health, const char *reason)
{
        health_set_text(&health->unavailable, reason);
}

void node_health_set_refused(struct node_health *health, const char *reason)
{
        health_set_text(&health->refused, reason);
}

void node_health_set_reduced(struct node_health *health, const char *reason)
{
        health_set_text(&health->reduced, reason);
}

/* ---- what changed ---- */

static bool has_changed(const struct node_health *health, const char *uuid)
{
        return !unit_health_find(health->now, uuid) != !unit_health_find(&health->before, uuid);
}

static bool is_part_of_other(const struct node_health *health, const struct named_unit *unit, bool is_healthy)
{
        return unit->parent && has_changed(health, unit->parent) &&
               is_healthy == !unit_health_find(health->now, unit->parent);
}

static struct node_change change_of(const struct node_health *health, const struct named_unit *unit)
{
        const struct unhealthy_unit *unhealthy = unit_health_find(health->now, unit->uuid);

        return (struct node_change){
                .uuid = unit->uuid,
                .name = unit->name,
                .is_healthy = !unhealthy,
                .reason = unhealthy ? unhealthy->reason : "",
                .is_part_of_other = is_part_of_other(health, unit, !unhealthy),
        };
}

static void health_remember(struct node_health *health)
{
        unit_health_clear(&health->before);
        for (size_t i = 0; i < health->now->n_unhealthy; i++)
                unit_health_set(&health->before, health->now->unhealthy[i].uuid, false, "");
}

size_t node_health_end_turn(struct node_health *health, const struct node_change **ret)
{
        size_t count = 0;

        free(health->changes);
        health->changes = xcalloc(health->n_units + health->now->n_unhealthy, sizeof(*health->changes));
        for (size_t i = 0; i < health->n_units; i++)
                if (has_changed(health, health->units[i].uuid))
                        health->changes[count++] = change_of(health, &health->units[i]);
        for (size_t i = 0; i < health->now->n_unhealthy; i++) {
                char *uuid = health->now->unhealthy[i].uuid;

                if (!health_find_named(health, uuid) && has_changed(health, uuid))
                        health->changes[count++] = change_of(health, &(struct named_unit){.uuid = uuid, .name = uuid});
        }
        health_remember(health);
        *ret = health->changes;
        return count;
}

/* ---- what it comes to ---- */

struct tally {
        size_t n_units;
        size_t n_unhealthy;
        const struct unhealthy_unit *first_unhealthy;
        const char *first_name;
};

static void count_units_of(const struct node_health *health, const struct resource *resource, struct tally *tally)
{
        tally->n_units += resource->n_units;
        for (size_t i = 0; i < resource->n_units; i++) {
                const char *uuid = resource->units[i].uuid;
                const struct unhealthy_unit *unhealthy = unit_health_find(health->now, uuid);
                const struct named_unit *named;

                if (!unhealthy || tally->n_unhealthy++)
                        continue;
                named = health_find_named(health, uuid);
                tally->first_unhealthy = unhealthy;
                tally->first_name = named ? named->name : uuid;
        }
}

static struct tally count_units(const struct node_health *health)
{
        struct tally tally = {0};

        for (size_t i = 0; i < health->plan->n_resources; i++)
                count_units_of(health, &health->plan->resources[i], &tally);
        if (health->plan->claimable)
                count_units_of(health, health->plan->claimable, &tally);
        return tally;
}

static void health_set(struct node_condition *condition, enum node_status status, const char *reason,
        const char *format, ...) PRINTF_LIKE(4, 5);

static void health_set(
        struct node_condition *condition, enum node_status status, const char *reason, const char *format, ...)
{
        va_list args;

        condition->status = status;
        condition->reason = reason;
        va_start(args, format);
        vsnprintf(condition->message, sizeof(condition->message), format, args);
        va_end(args);
}

static void condition_without_plan(const struct node_health *health, struct node_condition *ret)
{
        if (health->unavailable)
                health_set(ret, NODE_NOT_READY, "NVMLUnavailable", "NVML cannot be used: %s", health->unavailable);
        else if (health->refused)
                health_set(ret, NODE_NOT_READY, "ChangeRefused", "no plan is in force: %s", health->refused);
        else
                health_set(ret, NODE_UNKNOWN, "Starting",
                        "the GPUs have not been read yet, or it is not known yet which MIG configuration they are to have");
}

static void condition_of_plan(const struct node_health *health, struct node_condition *ret)
{
        struct tally tally = count_units(health);

        if (tally.n_units == 0)
                health_set(ret, NODE_NOT_READY, "NoGPU", "the node has no GPU that its configuration advertises");
        else if (tally.n_unhealthy == tally.n_units)
                health_set(ret, NODE_NOT_READY, "NoHealthyGPU", "none of %zu units is healthy; %s: %s", tally.n_units,
                        tally.first_name, tally.first_unhealthy->reason);
        else if (health->refused)
                health_set(ret, NODE_READY, "ChangeRefused", "the previous plan stays in force: %s", health->refused);
        else if (tally.n_unhealthy > 0)
                health_set(ret, NODE_READY, "SomeUnhealthy", "%zu of %zu units are unhealthy; %s: %s",
                        tally.n_unhealthy, tally.n_units, tally.first_name, tally.first_unhealthy->reason);
        else if (health->reduced)
                health_set(ret, NODE_READY, "OfferReduced", "%s", health->reduced);
        else
                health_set(ret, NODE_READY, "Ready", "%zu units are healthy, %zu resources are advertised",
                        tally.n_units, health->plan->n_resources);
}

void node_health_condition(const struct node_health *health, struct node_condition *ret)
{
        if (health->plan)
                condition_of_plan(health, ret);
        else
                condition_without_plan(health, ret);
        text_clean(ret->message);
}
