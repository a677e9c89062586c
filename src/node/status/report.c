// SPDX-License-Identifier: Apache-2.0
#include "node/status/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "node/status/state.h"

/* ---- health ---- */

/* The name of a unit of the inventory. */
struct named_unit {
        const char *uuid;
        const char *parent; /* of a MIG device: the UUID of its GPU */
        const char *name;
};

struct node_health {
        const struct unit_health *now;
        struct unit_health before; /* at the end of the turn before */
        struct arena arena;        /* of the units */
        struct named_unit *units;
        size_t n_units;
        const struct plan *plan;
        char *problems[NODE_N_PROBLEMS]; /* NULL: it does not exist now */
        struct node_change *changes;     /* of the newest turn */
};

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
        arena_done(&health->arena);
        unit_health_clear(&health->before);
        for (size_t i = 0; i < NODE_N_PROBLEMS; i++)
                free(health->problems[i]);
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

void node_health_set_inventory(struct node_health *health, const struct inventory *inventory)
{
        struct arena *arena = &health->arena;
        size_t most = inventory->n_gpus;

        (void)node_health_set_problem(health, NODE_UNAVAILABLE, NULL);
        for (size_t i = 0; i < inventory->n_gpus; i++)
                most += inventory->gpus[i].n_mig_devices;
        arena_done(arena);
        health->units = ARENA_ARRAY(arena, struct named_unit, most);
        health->n_units = 0;
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];
                const char *uuid = arena_strdup(arena, gpu->uuid);

                health->units[health->n_units++] =
                        (struct named_unit){.uuid = uuid, .name = arena_printf(arena, "GPU %u (%s)", gpu->index, uuid)};
                for (size_t j = 0; j < gpu->n_mig_devices; j++) {
                        const struct mig_device *mig = &gpu->mig_devices[j];

                        health->units[health->n_units++] = (struct named_unit){.uuid = arena_strdup(arena, mig->uuid),
                                .parent = uuid,
                                .name = arena_printf(
                                        arena, "MIG device %u:%u (%s)", gpu->index, mig->index, mig->uuid)};
                }
        }
}

void node_health_set_plan(struct node_health *health, const struct plan *plan)
{
        health->plan = plan;
}

bool node_health_set_problem(struct node_health *health, enum node_problem problem, const char *reason)
{
        char **place = &health->problems[problem];

        if (text_is_same(*place, reason))
                return false;
        free(*place);
        *place = reason ? xstrdup(reason) : NULL;
        return true;
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
                const char *uuid = health->now->unhealthy[i].uuid;

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

static void PRINTF_LIKE(4, 5) health_set(
        struct node_condition *condition, enum node_status status, const char *reason, const char *format, ...)
{
        va_list args;

        condition->status = status;
        condition->reason = reason;
        va_start(args, format);
        vsnprintf(condition->message, sizeof(condition->message), format, args);
        va_end(args);
}

/* Why the newest configuration, or else the newest plan, is refused; NULL: neither is. */
static const char *health_refused(const struct node_health *health)
{
        return health->problems[NODE_CONFIG_REFUSED] ? health->problems[NODE_CONFIG_REFUSED]
                                                     : health->problems[NODE_PLAN_REFUSED];
}

static void condition_without_plan(const struct node_health *health, struct node_condition *ret)
{
        const char *unavailable = health->problems[NODE_UNAVAILABLE];
        const char *refused = health_refused(health);

        if (unavailable)
                health_set(ret, NODE_NOT_READY, "NVMLUnavailable", "NVML cannot be used: %s", unavailable);
        else if (refused)
                health_set(ret, NODE_NOT_READY, "ChangeRefused", "no plan is in force: %s", refused);
        else
                health_set(ret, NODE_UNKNOWN, "Starting",
                        "the GPUs have not been read yet, or it is not known yet which MIG configuration they are to have");
}

static void condition_of_plan(const struct node_health *health, struct node_condition *ret)
{
        struct tally tally = count_units(health);
        const char *refused = health_refused(health);

        if (tally.n_units == 0)
                health_set(ret, NODE_NOT_READY, "NoGPU", "the node has no GPU that its configuration advertises");
        else if (tally.n_unhealthy == tally.n_units)
                health_set(ret, NODE_NOT_READY, "NoHealthyGPU", "none of %zu units is healthy; %s: %s", tally.n_units,
                        tally.first_name, tally.first_unhealthy->reason);
        else if (refused)
                health_set(ret, NODE_READY, "ChangeRefused", "the previous plan stays in force: %s", refused);
        else if (tally.n_unhealthy > 0)
                health_set(ret, NODE_READY, "SomeUnhealthy", "%zu of %zu units are unhealthy; %s: %s",
                        tally.n_unhealthy, tally.n_units, tally.first_name, tally.first_unhealthy->reason);
        else if (health->problems[NODE_OFFER_REDUCED])
                health_set(ret, NODE_READY, "OfferReduced", "%s", health->problems[NODE_OFFER_REDUCED]);
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

/* ---- the report ---- */

struct node_report {
        struct node_events *events;
        void (*report_pods)(const char *unit, enum node_event event, const char *text, void *data);
        void *data;
        struct node_health *health;
        struct node_state *state;
        bool is_serving;
        uv_timer_t turn; /* fires at the end of this turn of the loop */
};

/* ---- at the end of a turn ---- */

static void report_change(const struct node_report *report, const struct node_change *change)
{
        enum node_event event = change->is_healthy ? NODE_EVENT_GPU_HEALTHY : NODE_EVENT_GPU_UNHEALTHY;
        _free_ char *text = change->is_healthy ? xasprintf("%s is healthy again", change->name)
                                               : xasprintf("%s is unhealthy%s%s", change->name,
                                                         *change->reason ? ": " : "", change->reason);

        if (!change->is_part_of_other)
                node_events_report(report->events, event, "%s", text);
        report->report_pods(change->uuid, event, text, report->data);
}

static void on_report_turn(uv_timer_t *timer)
{
        struct node_report *report = timer->data;
        const struct node_change *changes;
        size_t count = node_health_end_turn(report->health, &changes);
        struct node_condition condition;

        for (size_t i = 0; report->is_serving && i < count; i++)
                report_change(report, &changes[i]);
        node_health_condition(report->health, &condition);
        node_state_set(report->state, &condition);
}

static void end_turn(struct node_report *report)
{
        uv_timer_start(&report->turn, on_report_turn, 0, 0);
}

/* ---- reporting ---- */

static void send_problem(const struct node_report *report, enum node_problem problem)
{
        static const struct {
                enum node_event event;
                const char *what;
        } words[] = {
                [NODE_UNAVAILABLE] = {NODE_EVENT_GPUS_UNAVAILABLE, "NVML cannot be used"},
                [NODE_CONFIG_REFUSED] = {NODE_EVENT_CONFIG_REFUSED, "configuration refused, the one in force stays"},
                [NODE_PLAN_REFUSED] = {NODE_EVENT_PLAN_REFUSED, "no plan can be made, the one in force, if any, stays"},
        };

        if (problem < ARRAY_SIZE(words) && report->health->problems[problem])
                node_events_report(report->events, words[problem].event, "%s: %s", words[problem].what,
                        report->health->problems[problem]);
}

void node_report_serve(struct node_report *report, bool is_serving)
{
        if (!report)
                return;
        report->is_serving = is_serving;
        node_state_serve(report->state, is_serving);
        for (enum node_problem problem = 0; is_serving && problem < NODE_N_PROBLEMS; problem++)
                send_problem(report, problem);
}

void node_report_inventory(struct node_report *report, const struct inventory *inventory)
{
        if (!report)
                return;
        if (report->health->problems[NODE_UNAVAILABLE])
                node_events_report(report->events, NODE_EVENT_GPUS_AVAILABLE, "NVML can be used again, %zu GPUs",
                        inventory->n_gpus);
        node_health_set_inventory(report->health, inventory);
        end_turn(report);
}

void node_report_plan(struct node_report *report, const struct plan *plan)
{
        if (!report)
                return;
        node_health_set_plan(report->health, plan);
        end_turn(report);
}

void node_report_health_changed(struct node_report *report)
{
        if (report)
                end_turn(report);
}

void node_report_problem(struct node_report *report, enum node_problem problem, const char *reason)
{
        if (!report || !node_health_set_problem(report->health, problem, reason))
                return;
        send_problem(report, problem);
        if (problem == NODE_PLAN_REFUSED && !reason)
                node_events_report(report->events, NODE_EVENT_PLAN_ACCEPTED, "a new plan is in force");
        end_turn(report);
}

/* ---- start and end ---- */

struct node_report *node_report_new(const struct node_report_options *options)
{
        const struct node_state_options state = {
                .loop = options->loop,
                .client = *options->config->node.name ? options->client : NULL,
                .watch = options->watch,
                .node = options->config->node.name,
                .condition = options->config->node.condition,
                .taint = options->config->node.taint,
        };
        struct node_report *report;

        report = xcalloc(1, sizeof(*report));
        report->events = options->events;
        report->report_pods = options->report_pods;
        report->data = options->data;
        report->health = node_health_new(options->health);
        report->state = node_state_new(&state);
        uv_timer_init(options->loop, &report->turn);
        report->turn.data = report;
        return report;
}

static void on_report_closed(uv_handle_t *handle)
{
        struct node_report *report = container_of(handle, struct node_report, turn);

        node_health_free(report->health);
        free(report);
}

void node_report_close(struct node_report *report)
{
        if (!report)
                return;
        node_state_close(report->state);
        uv_close((uv_handle_t *)&report->turn, on_report_closed);
}
