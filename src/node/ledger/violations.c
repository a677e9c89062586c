// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/violations.h"

#include <string.h>

#include "base/log.h"

#define INTERVAL_MS UINT64_C(2000)

/* ---- what is granted ---- */

/* An allocation that is bound to a unit counts only there. */
static void add_monitored(const struct violations *violations, const struct ledger_share *of, struct arena *arena,
        struct limit_monitor_allocation *allocations, size_t *n_allocations)
{
        const struct resource *resource = of->shared->resource;
        const struct holder *holder = of->holder;

        for (size_t i = 0; i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];
                const unsigned int replicas = mps_resource_replicas(of->shared, of->allocation, unit);
                struct share share;
                bool is_guess;

                if (replicas == 0)
                        continue;
                share = declared_containers_share(violations->containers, of, unit, replicas, &is_guess);
                allocations[(*n_allocations)++] = (struct limit_monitor_allocation){
                        .id = of->allocation->id,
                        .unit = unit->uuid,
                        .pod_uid = holder ? holder->pod_uid : NULL,
                        .pod = holder && holder->pod ? arena_printf(arena, "%s/%s", holder->pod_namespace, holder->pod)
                                                     : NULL,
                        .limit_mib = share.memory_mib,
                        .threads_permille = share.threads_permille,
                        .tier = ledger_tier(violations->core, resource, unit),
                        .is_guess = is_guess,
                };
        }
}

/*
 * Adds the claim's allocation for each pod that was named at Prepare, and once for an unknown pod: kubelet does not
 * call Prepare again when another pod uses the same claim, so each pod without an allocation on that unit may be one of
 * them. Claims of a missing unit are guesses, too.
 */
static void add_claimed(const struct ledger_core *core, const struct ledger_claim_state *state,
        struct limit_monitor_allocation *allocations, size_t *n_allocations)
{
        const struct ledger_claim *claim = state->claim;

        for (size_t i = 0; i < claim->n_devices; i++) {
                const struct ledger_claim_device *device = &claim->devices[i];
                const struct unit *unit = ledger_claimable_unit(core, device->unit);

                for (size_t j = 0; device->is_shared && j <= claim->n_pods; j++)
                        allocations[(*n_allocations)++] = (struct limit_monitor_allocation){
                                .id = device->id,
                                .unit = device->unit,
                                .pod_uid = j < claim->n_pods ? claim->pods[j].uid : NULL,
                                .limit_mib = device->limit_mib,
                                .threads_permille = device->threads_permille,
                                .tier = unit ? ledger_tier(core, core->plan->claimable, unit) : device->tier,
                                .is_guess = !unit || j == claim->n_pods,
                        };
        }
}

static size_t collect_monitored(
        const struct violations *violations, struct arena *arena, struct limit_monitor_allocation **ret)
{
        const struct ledger_core *core = violations->core;
        const struct ledger_share *all;
        size_t n_all = ledger_shares(core, arena, &all);
        const struct ledger_claim_state *claims;
        size_t n_claims = claim_set_all(violations->claims, arena, &claims);
        size_t most = 0;
        size_t count = 0;

        for (size_t i = 0; i < n_claims; i++)
                most += claims[i].claim->n_devices * (claims[i].claim->n_pods + 1);
        for (size_t i = 0; i < n_all; i++)
                most += all[i].allocation->unit ? 1
                                                : MIN(all[i].allocation->n_devices, all[i].shared->resource->n_units);
        *ret = ARENA_ARRAY(arena, struct limit_monitor_allocation, most);
        for (size_t i = 0; i < n_all; i++)
                add_monitored(violations, &all[i], arena, *ret, &count);
        for (size_t i = 0; i < n_claims; i++)
                add_claimed(core, &claims[i], *ret, &count);
        return count;
}

/* ---- the limit monitor ---- */

static bool has_clients(const struct mps_status *status)
{
        for (size_t i = 0; i < status->n_daemons; i++)
                if (status->daemons[i].n_clients)
                        return true;
        return false;
}

static enum guard_mode guard_mode(const struct ledger_core *core)
{
        const struct sharing_section *mps = core->plan ? core->plan->config->sharing.mps : NULL;
        size_t count;
        const struct mps_resource *all = mps_resources_all(&core->resources, &count);

        /*
         * Without a present sharing policy, allocations under a previous one are monitored by the previous guard mode.
         */
        for (size_t i = 0; !mps && i < count; i++)
                if (all[i].is_draining)
                        mps = all[i].resource->units[0].shared->section;
        if (!mps && core->plan && core->plan->claimable && core->plan->claimable->n_units)
                mps = core->plan->claimable->units[0].shared->section;
        return mps ? mps->guard : GUARD_OFF;
}

static void violations_on_terminated(const struct error *err, void *data)
{
        struct violations *violations = data;

        if (err)
                log_warn("the MPS client could not be terminated", LOG_ERR(err));
        else
                violations->clients_ended_total++;
}

static void violations_poll(struct violations *violations)
{
        static const struct mps_status nothing;
        struct ledger_core *core = violations->core;
        const struct mps_status *reported = daemons_status(&core->daemons);
        const struct mps_status *status = reported ? reported : &nothing;
        const struct holders *holders = holdings_holders(&core->holdings);
        const struct limit_monitor_proof proof = {.listed_at = holdings_listed_at(&core->holdings),
                .looked_at = violations->looked_at,
                .allocated_at = violations->allocated_at,
                .pods = holders ? holders_pods(holders) : NULL};
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct limit_monitor_report *found = &violations->found;
        struct limit_monitor_allocation *allocations;
        size_t n_allocations = collect_monitored(violations, &scratch, &allocations);

        if (claim_set_has_unknown_pods(violations->claims))
                core->options.wants_pods(core->options.data);
        limit_monitor_poll(&violations->monitor, guard_mode(core), allocations, n_allocations, status, &proof,
                ledger_clock(core), found);
        mps_report_violations(&violations->report, found);
        for (size_t i = 0; i < found->n_appeared; i++)
                violations->violations_total[found->appeared[i]->kind]++;
        for (size_t i = 0; i < found->n_ending; i++)
                mps_link_terminate(daemons_link(&core->daemons), found->ending[i]->daemon, found->ending[i]->client,
                        found->ending[i]->container_id, violations_on_terminated, violations);
        if (found->n_standing == 0 && !has_clients(status))
                uv_timer_stop(&violations->timer);
}

static void on_proof_listed(const struct error *err, void *data)
{
        struct violations *violations = data;

        violations->is_listing = false;
        if (!err && violations->core->plan)
                violations_poll(violations);
}

static void violations_ask_kubelet(struct violations *violations)
{
        struct holdings *holdings = &violations->core->holdings;

        if (!violations->found.wants_list || !holdings_folder(holdings) || violations->is_listing)
                return;
        violations->is_listing = true;
        holdings_list(holdings, on_proof_listed, violations);
}

static void on_looked(const struct error *err, void *data)
{
        struct violations *violations = data;

        violations->is_looking = false;
        if (err)
                return;
        violations->looked_at = violations->look_asked_at;
        if (!violations->core->plan || violations->core->is_closing)
                return;
        violations_poll(violations);
        violations_ask_kubelet(violations);
}

/* Polls, and asks for the proof that the monitor wants; with each answer there is another poll at once. */
static void on_violations_timer(uv_timer_t *timer)
{
        struct violations *violations = container_of(timer, struct violations, timer);
        struct ledger_core *core = violations->core;

        violations_poll(violations);
        violations_ask_kubelet(violations);
        if (violations->found.wants_look && !violations->is_looking) {
                violations->is_looking = true;
                violations->look_asked_at = ledger_clock(core);
                mps_link_look(daemons_link(&core->daemons), on_looked, violations);
        }
}

/* ---- for the rest of the ledger ---- */

void violations_note_allocation(struct violations *violations)
{
        violations->allocated_at = ledger_clock(violations->core);
}

void violations_note_status(struct violations *violations, const char *reason)
{
        const struct daemons *daemons = &violations->core->daemons;
        const struct mps_status *status = daemons_status(daemons);

        mps_report_status(&violations->report, status, reason, daemons_any_wanted(daemons));
        if (status && has_clients(status) && !uv_is_active((uv_handle_t *)&violations->timer))
                uv_timer_start(&violations->timer, on_violations_timer, 0, INTERVAL_MS);
}

void violations_measure(const struct violations *violations, struct ledger_measures *ret)
{
        *ret = (struct ledger_measures){
                .mps = daemons_status(&violations->core->daemons),
                .faults = mps_report_faults(&violations->report),
                .standing = violations->found.standing,
                .n_standing = violations->found.n_standing,
                .clients_ended_total = violations->clients_ended_total,
                .n_twice = holdings_n_twice(&violations->core->holdings),
        };
        memcpy(ret->violations_total, violations->violations_total, sizeof(ret->violations_total));
}

/* ---- begin and end ---- */

void violations_init(struct violations *violations, struct ledger_core *core, const struct claim_set *claims,
        const struct declared_containers *containers, struct pod_events *pod_events)
{
        *violations = (struct violations){
                .core = core,
                .claims = claims,
                .containers = containers,
                .looked_at = HOLDINGS_NEVER,
                .allocated_at = HOLDINGS_NEVER,
        };
        mps_report_init(&violations->report, pod_events);
        uv_timer_init(core->options.loop, &violations->timer);
}

void violations_forget(struct violations *violations)
{
        uv_timer_stop(&violations->timer);
        limit_monitor_done(&violations->monitor);
        violations->found = (struct limit_monitor_report){0};
}

void violations_close(struct violations *violations, struct closing *closing)
{
        closing_close(closing, &violations->timer);
}

void violations_done(struct violations *violations)
{
        limit_monitor_done(&violations->monitor);
        mps_report_done(&violations->report);
}
