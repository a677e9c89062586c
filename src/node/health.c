#include "node/health.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

struct unit_health {
        char *uuid;
        char *parent; /* of a MIG device: the UUID of its GPU */
        char *name;
        char *reason; /* why it is unhealthy, reported or to be reported */
        bool is_unhealthy;
        bool was_unhealthy; /* at the end of the turn before */
};

struct node_health {
        struct unit_health *units;
        size_t n_units;
        const struct plan *plan;
        char *unavailable;
        char *refused;
        struct node_change *changes; /* of the newest turn */
};

static void set_text(char **to, const char *text)
{
        char *copy = text ? xstrdup(text) : NULL;

        free(*to);
        *to = copy;
}

static void free_units(struct unit_health *units, size_t n_units)
{
        for (size_t i = 0; i < n_units; i++) {
                free(units[i].uuid);
                free(units[i].parent);
                free(units[i].name);
                free(units[i].reason);
        }
        free(units);
}

struct node_health *node_health_new(void)
{
        return xcalloc(1, sizeof(struct node_health));
}

struct node_health *node_health_free(struct node_health *health)
{
        if (!health)
                return NULL;
        free_units(health->units, health->n_units);
        free(health->unavailable);
        free(health->refused);
        free(health->changes);
        free(health);
        return NULL;
}

/* ---- units ---- */

static struct unit_health *find_among(struct unit_health *units, size_t n_units, const char *uuid)
{
        for (size_t i = 0; i < n_units; i++)
                if (strcmp(units[i].uuid, uuid) == 0)
                        return &units[i];
        return NULL;
}

static const struct unit_health *health_find(const struct node_health *health, const char *uuid)
{
        return find_among(health->units, health->n_units, uuid);
}

static struct unit_health *health_add(struct node_health *health, const char *uuid, const char *parent, char *name)
{
        struct unit_health *unit;

        health->units = xrealloc(health->units, (health->n_units + 1) * sizeof(*health->units));
        unit = &health->units[health->n_units++];
        *unit = (struct unit_health){
                .uuid = xstrdup(uuid), .parent = parent ? xstrdup(parent) : NULL, .name = name, .reason = xstrdup("")};
        return unit;
}

static void add_gpu(struct node_health *health, const struct gpu *gpu)
{
        health_add(health, gpu->uuid, NULL, xasprintf("GPU %u (%s)", gpu->index, gpu->uuid));
        for (size_t i = 0; i < gpu->n_mig_devices; i++) {
                const struct mig_device *mig = &gpu->mig_devices[i];

                health_add(health, mig->uuid, gpu->uuid,
                        xasprintf("MIG device %u:%u (%s)", gpu->index, mig->index, mig->uuid));
        }
}

void node_health_set_inventory(struct node_health *health, const struct inventory *inventory)
{
        struct unit_health *before = health->units;
        size_t n_before = health->n_units;

        set_text(&health->unavailable, NULL);
        health->units = NULL;
        health->n_units = 0;
        for (size_t i = 0; i < inventory->n_gpus; i++)
                add_gpu(health, &inventory->gpus[i]);
        for (size_t i = 0; i < health->n_units; i++) {
                const struct unit_health *old = find_among(before, n_before, health->units[i].uuid);

                if (old) {
                        health->units[i].was_unhealthy = old->was_unhealthy;
                        set_text(&health->units[i].reason, old->reason);
                }
        }
        free_units(before, n_before);
}

void node_health_set_unit(struct node_health *health, const char *uuid, bool healthy, const char *reason)
{
        struct unit_health *unit = find_among(health->units, health->n_units, uuid);

        if (!unit)
                unit = health_add(health, uuid, NULL, xstrdup(uuid));
        unit->is_unhealthy = !healthy;
        if (!healthy)
                set_text(&unit->reason, reason ? reason : "");
}

void node_health_set_plan(struct node_health *health, const struct plan *plan)
{
        health->plan = plan;
}

void node_health_set_unavailable(struct node_health *health, const char *reason)
{
        set_text(&health->unavailable, reason);
}

void node_health_set_refused(struct node_health *health, const char *reason)
{
        set_text(&health->refused, reason);
}

/* ---- what changed ---- */

static bool has_changed(const struct unit_health *unit)
{
        return unit->is_unhealthy != unit->was_unhealthy;
}

static bool is_part_of_other(const struct node_health *health, const struct unit_health *unit)
{
        const struct unit_health *parent = unit->parent ? health_find(health, unit->parent) : NULL;

        return parent && has_changed(parent) && parent->is_unhealthy == unit->is_unhealthy;
}

size_t node_health_end_turn(struct node_health *health, const struct node_change **ret)
{
        size_t count = 0;

        free(health->changes);
        health->changes = xcalloc(health->n_units, sizeof(*health->changes));
        for (size_t i = 0; i < health->n_units; i++) {
                const struct unit_health *unit = &health->units[i];

                if (has_changed(unit))
                        health->changes[count++] = (struct node_change){
                                .uuid = unit->uuid,
                                .name = unit->name,
                                .is_healthy = !unit->is_unhealthy,
                                .reason = unit->is_unhealthy ? unit->reason : "",
                                .is_part_of_other = is_part_of_other(health, unit),
                        };
        }
        for (size_t i = 0; i < health->n_units; i++)
                health->units[i].was_unhealthy = health->units[i].is_unhealthy;
        *ret = health->changes;
        return count;
}

/* ---- what it comes to ---- */

struct tally {
        size_t n_units;
        size_t n_unhealthy;
        const struct unit_health *first_unhealthy;
};

static struct tally count_units(const struct node_health *health)
{
        struct tally tally = {0};

        for (size_t i = 0; i < health->plan->n_resources; i++) {
                const struct resource *resource = &health->plan->resources[i];

                for (size_t j = 0; j < resource->n_units; j++) {
                        const struct unit_health *unit = health_find(health, resource->units[j].uuid);

                        tally.n_units++;
                        if (!unit || !unit->is_unhealthy)
                                continue;
                        tally.n_unhealthy++;
                        tally.first_unhealthy = tally.first_unhealthy ? tally.first_unhealthy : unit;
                }
        }
        return tally;
}

static void set(struct node_verdict *verdict, enum node_status status, const char *reason, const char *format, ...)
        PRINTF_LIKE(4, 5);

static void set(struct node_verdict *verdict, enum node_status status, const char *reason, const char *format, ...)
{
        va_list args;

        verdict->status = status;
        verdict->reason = reason;
        va_start(args, format);
        vsnprintf(verdict->message, sizeof(verdict->message), format, args);
        va_end(args);
}

static void judge_without_plan(const struct node_health *health, struct node_verdict *ret)
{
        if (health->unavailable)
                set(ret, NODE_NOT_READY, "NVMLUnavailable", "NVML cannot be used: %s", health->unavailable);
        else if (health->refused)
                set(ret, NODE_NOT_READY, "ChangeRefused", "no plan is in force: %s", health->refused);
        else
                set(ret, NODE_UNKNOWN, "Starting", "the GPUs have not been read yet");
}

static void judge_plan(const struct node_health *health, struct node_verdict *ret)
{
        struct tally tally = count_units(health);

        if (tally.n_units == 0)
                set(ret, NODE_NOT_READY, "NoGPU", "the node has no GPU that its configuration advertises");
        else if (tally.n_unhealthy == tally.n_units)
                set(ret, NODE_NOT_READY, "NoHealthyGPU", "none of %zu units is healthy; %s: %s", tally.n_units,
                        tally.first_unhealthy->name, tally.first_unhealthy->reason);
        else if (health->refused)
                set(ret, NODE_READY, "ChangeRefused", "the previous plan stays in force: %s", health->refused);
        else if (tally.n_unhealthy > 0)
                set(ret, NODE_READY, "SomeUnhealthy", "%zu of %zu units are unhealthy; %s: %s", tally.n_unhealthy,
                        tally.n_units, tally.first_unhealthy->name, tally.first_unhealthy->reason);
        else
                set(ret, NODE_READY, "Ready", "%zu units are healthy, %zu resources are advertised", tally.n_units,
                        health->plan->n_resources);
}

void node_health_judge(const struct node_health *health, struct node_verdict *ret)
{
        if (health->plan)
                judge_plan(health, ret);
        else
                judge_without_plan(health, ret);
        text_make_utf8(ret->message);
}
