#include "node/ledger/parts.h"

#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"

/* ---- the limit monitor ---- */

static bool has_clients(const struct mps_status *status)
{
        for (size_t i = 0; i < status->n_daemons; i++)
                if (status->daemons[i].n_clients)
                        return true;
        return false;
}

static enum guard_mode guard_mode(const struct ledger *ledger)
{
        const struct sharing_section *mps = ledger->plan ? ledger->plan->config->sharing.mps : NULL;

        /* Who holds under a previous sharing policy is monitored under it, where there are no others. */
        for (size_t i = 0; !mps && i < ledger->n_shared; i++)
                if (ledger->shared[i].is_draining)
                        mps = ledger->shared[i].resource->units[0].shared->section;
        if (!mps && ledger->plan && ledger->plan->claimable && ledger->plan->claimable->n_units)
                mps = ledger->plan->claimable->units[0].shared->section;
        return mps ? mps->guard : GUARD_OFF;
}

const struct holder *ledger_holder_of(
        const struct ledger *ledger, const struct ledger_resource *shared, const struct allocation *allocation)
{
        const struct holder *holder = NULL;

        for (size_t i = 0; i < allocation->n_devices && ledger->holders && !holder; i++)
                holder = holders_find(ledger->holders, shared->resource->name, allocation->devices[i]);
        return holder;
}

unsigned int ledger_replicas_of(
        const struct ledger_resource *shared, const struct allocation *allocation, const struct unit *unit)
{
        unsigned int count = 0;

        if (allocation->unit)
                return strcmp(allocation->unit, unit->uuid) == 0
                               ? (unsigned int)MIN(allocation->n_devices, unit->replicas)
                               : 0;
        for (size_t i = 0; i < allocation->n_devices; i++) {
                const struct device *device = map_find(&shared->resource->by_id, allocation->devices[i]);

                count += device && &shared->resource->units[device->unit] == unit;
        }
        return count;
}

static void add_monitored_on(const struct ledger *ledger, const struct ledger_resource *shared,
        const struct allocation *allocation, const struct unit *unit, struct arena *arena,
        struct limit_monitor_allocation *allocations, size_t *n_allocations)
{
        const struct holder *holder = ledger_holder_of(ledger, shared, allocation);
        const unsigned int replicas = ledger_replicas_of(shared, allocation, unit);
        struct share share;
        bool is_guess;

        if (replicas == 0)
                return;
        share = ledger_share(ledger, shared, allocation, unit, replicas, &is_guess);
        allocations[(*n_allocations)++] = (struct limit_monitor_allocation){
                .id = allocation->id,
                .unit = unit->uuid,
                .pod_uid = holder ? holder->pod_uid : NULL,
                .pod = holder && holder->pod ? arena_printf(arena, "%s/%s", holder->pod_namespace, holder->pod) : NULL,
                .limit_mib = share.memory_mib,
                .threads_permille = share.threads_permille,
                .tier = ledger_tier(ledger, shared->resource, unit),
                .is_guess = is_guess,
        };
}

static size_t most_monitored(const struct ledger_resource *shared, const struct allocation *allocation)
{
        return allocation->unit ? 1 : MIN(allocation->n_devices, shared->resource->n_units);
}

/* One that is bound is on its unit alone. */
static void add_monitored(const struct ledger *ledger, const struct ledger_resource *shared,
        const struct allocation *allocation, struct arena *arena, struct limit_monitor_allocation *allocations,
        size_t *n_allocations)
{
        const struct unit *unit = allocation->unit ? resource_find_unit(shared->resource, allocation->unit) : NULL;

        if (unit)
                add_monitored_on(ledger, shared, allocation, unit, arena, allocations, n_allocations);
        for (size_t i = 0; !allocation->unit && i < shared->resource->n_units; i++)
                add_monitored_on(
                        ledger, shared, allocation, &shared->resource->units[i], arena, allocations, n_allocations);
}

/*
 * The pods that were named at Prepare, and one that is not known: kubelet does not ask again when another pod uses the
 * same claim, so whoever has no allocation on that unit may be one of these. While a unit is away its claims are not.
 */
static void add_claimed(const struct ledger *ledger, const struct ledger_claim_state *state,
        struct limit_monitor_allocation *allocations, size_t *n_allocations)
{
        const struct ledger_claim *claim = state->claim;

        for (size_t i = 0; i < claim->n_devices; i++) {
                const struct ledger_claim_device *device = &claim->devices[i];
                const struct unit *unit = ledger_claimable_unit(ledger, device->unit);

                for (size_t j = 0; device->is_shared && j <= claim->n_pods; j++)
                        allocations[(*n_allocations)++] = (struct limit_monitor_allocation){
                                .id = device->id,
                                .unit = device->unit,
                                .pod_uid = j < claim->n_pods ? claim->pods[j].uid : NULL,
                                .limit_mib = device->limit_mib,
                                .threads_permille = device->threads_permille,
                                .tier = unit ? ledger_tier(ledger, ledger->plan->claimable, unit) : device->tier,
                                .is_guess = !unit || j == claim->n_pods,
                        };
        }
}

static size_t collect_monitored(const struct ledger *ledger, struct arena *arena, struct limit_monitor_allocation **ret)
{
        const struct ledger_claim_state *claims;
        size_t n_claims = ledger_claims(ledger, arena, &claims);
        size_t most = 0;
        size_t count = 0;

        for (size_t i = 0; i < n_claims; i++)
                most += claims[i].claim->n_devices * (claims[i].claim->n_pods + 1);
        for (size_t i = 0; i < ledger->n_shared; i++)
                for (size_t j = 0; j < allocations_count(ledger->shared[i].allocations); j++)
                        most += most_monitored(&ledger->shared[i], allocations_get(ledger->shared[i].allocations, j));
        *ret = ARENA_ARRAY(arena, struct limit_monitor_allocation, most);
        for (size_t i = 0; i < ledger->n_shared; i++) {
                const struct ledger_resource *shared = &ledger->shared[i];

                for (size_t j = 0; j < allocations_count(shared->allocations); j++)
                        add_monitored(ledger, shared, allocations_get(shared->allocations, j), arena, *ret, &count);
        }
        for (size_t i = 0; i < n_claims; i++)
                add_claimed(ledger, &claims[i], *ret, &count);
        return count;
}

static void on_terminated(const struct error *err, void *data)
{
        struct ledger *ledger = data;

        if (err)
                log_warn("the MPS client could not be terminated", LOG_ERR(err));
        else
                ledger->clients_ended_total++;
}

static void on_violations_listed(const struct error *err, void *data);
static void on_looked(const struct error *err, void *data);

static void ask_for_proof(struct ledger *ledger, const struct limit_monitor_report *found)
{
        if (found->wants_list && ledger->pods && !ledger->limit_monitor_is_asking) {
                ledger->limit_monitor_is_asking = true;
                ledger_list(ledger, on_violations_listed, ledger);
        }
        if (found->wants_look && !ledger->limit_monitor_is_looking) {
                ledger->limit_monitor_is_looking = true;
                ledger->look_asked_at = ledger_clock(ledger);
                mps_link_look(ledger->link, on_looked, ledger);
        }
}

/* |may_ask|: for proof, and then there is another poll at once. */
static void violations_poll(struct ledger *ledger, bool may_ask)
{
        static const struct mps_status nothing;
        const struct mps_status *status = ledger->status ? ledger->status : &nothing;
        const struct limit_monitor_proof proof = {.listed_at = ledger->listed_at,
                .looked_at = ledger->looked_at,
                .allocated_at = ledger->allocated_at,
                .pods = ledger->holders ? holders_pods(ledger->holders) : NULL};
        struct arena scratch = ARENA_INIT;
        struct limit_monitor_report *found = &ledger->found;
        struct limit_monitor_allocation *allocations;
        size_t n_allocations = collect_monitored(ledger, &scratch, &allocations);

        if (ledger_claims_are_unclear(ledger))
                ledger->options.wants_pods(ledger->options.data);
        limit_monitor_poll(ledger->limit_monitor, guard_mode(ledger), allocations, n_allocations, status, &proof,
                ledger_clock(ledger), found);
        mps_report_violations(ledger->report, found);
        for (size_t i = 0; i < found->n_appeared; i++)
                ledger->violations_total[found->appeared[i]->kind]++;
        for (size_t i = 0; i < found->n_ending; i++)
                mps_link_terminate(ledger->link, found->ending[i]->daemon, found->ending[i]->client,
                        found->ending[i]->container_id, on_terminated, ledger);
        if (found->n_standing == 0 && !has_clients(status))
                uv_timer_stop(&ledger->limit_monitor_timer);
        arena_done(&scratch);
        if (may_ask)
                ask_for_proof(ledger, found);
}

static void on_violations_listed(const struct error *err, void *data)
{
        struct ledger *ledger = data;

        ledger->limit_monitor_is_asking = false;
        if (!err && ledger->plan)
                violations_poll(ledger, false);
}

static void on_looked(const struct error *err, void *data)
{
        struct ledger *ledger = data;

        ledger->limit_monitor_is_looking = false;
        if (err)
                return;
        ledger->looked_at = ledger->look_asked_at;
        if (ledger->plan && !ledger->closing)
                violations_poll(ledger, false);
}

void ledger_on_limit_monitor_timer(uv_timer_t *timer)
{
        violations_poll(timer->data, true);
}

/* ---- what the daemons say ---- */

char *ledger_pods_of(const char *unit, void *data)
{
        const struct ledger *ledger = data;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct arena scratch = ARENA_INIT;
        struct limit_monitor_allocation *allocations;
        size_t n_allocations = collect_monitored(ledger, &scratch, &allocations);

        for (size_t i = 0; i < n_allocations; i++)
                if (strcmp(allocations[i].unit, unit) == 0 && allocations[i].pod &&
                        !strstr(text.data, allocations[i].pod))
                        strbuf_printf(&text, "%s%s", text.size ? ", " : "", allocations[i].pod);
        arena_done(&scratch);
        return xstrdup(text.data);
}

void ledger_on_status(const struct mps_status *status, const char *reason, void *data)
{
        struct ledger *ledger = data;

        ledger->status = status;
        if (ledger->closing)
                return;
        if (status)
                mps_faults_follow(&ledger->faults, status);
        mps_report_status(ledger->report, status, reason, ledger->wanted.n_daemons > 0);
        for (size_t i = 0; i < ledger->n_shared; i++)
                ledger_update_unavailable(ledger, &ledger->shared[i]);
        if (status && has_clients(status) && !uv_is_active((uv_handle_t *)&ledger->limit_monitor_timer))
                uv_timer_start(
                        &ledger->limit_monitor_timer, ledger_on_limit_monitor_timer, 0, LIMIT_MONITOR_INTERVAL_MS);
        ledger_claims_advance(ledger);
        ledger->options.on_change(ledger->options.data);
}

/* ---- metrics ---- */

static struct ledger_allocation measure_allocation(
        const struct ledger *ledger, const struct ledger_resource *shared, const struct allocation *allocation)
{
        const struct unit *unit = allocation->unit ? resource_find_unit(shared->resource, allocation->unit) : NULL;
        struct ledger_allocation measured = {
                .allocation = allocation,
                .holder = ledger_holder_of(ledger, shared, allocation),
                .threads_permille = 1000,
        };

        if (unit) {
                bool is_guess;
                struct share share = ledger_share(
                        ledger, shared, allocation, unit, ledger_replicas_of(shared, allocation, unit), &is_guess);

                measured.tier = ledger_tier(ledger, shared->resource, unit);
                measured.limit_mib = share.memory_mib;
                measured.threads_permille = share.threads_permille;
        }
        return measured;
}

size_t ledger_allocations(
        const struct ledger *ledger, const char *resource, struct arena *arena, const struct ledger_allocation **ret)
{
        struct ledger_allocation *allocations;
        size_t most = 0;
        size_t count = 0;

        for (size_t i = 0; i < ledger->n_shared; i++)
                most += allocations_count(ledger->shared[i].allocations);
        *ret = allocations = ARENA_ARRAY(arena, struct ledger_allocation, most);
        for (size_t i = 0; i < ledger->n_shared; i++) {
                const struct ledger_resource *shared = &ledger->shared[i];

                for (size_t j = 0; j < allocations_count(shared->allocations); j++)
                        if (strcmp(shared->resource->name, resource) == 0)
                                allocations[count++] =
                                        measure_allocation(ledger, shared, allocations_get(shared->allocations, j));
        }
        return count;
}

void ledger_measure(const struct ledger *ledger, struct ledger_measures *ret)
{
        *ret = (struct ledger_measures){
                .mps = ledger->status,
                .faults = &ledger->faults,
                .standing = ledger->found.standing,
                .n_standing = ledger->found.n_standing,
                .clients_ended_total = ledger->clients_ended_total,
                .n_twice = ledger->n_twice,
        };
        memcpy(ret->violations_total, ledger->violations_total, sizeof(ret->violations_total));
}
