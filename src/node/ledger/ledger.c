// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "node/ledger/allocator.h"
#include "node/ledger/claim_set.h"
#include "node/ledger/container_start.h"
#include "plan/mps_wanted.h"
#include "plan/share.h"

struct ledger {
        struct ledger_core core;
        struct pod_events pod_events;
        struct several several;
        struct declared_containers declared_containers;
        struct declared_pods declared_pods;
        struct container_start start;
        struct share_metadata metadata;
        struct claim_set claims;
        struct violations violations;
        struct allocator allocator;
        struct broker broker;
        bool is_left; /* ledger_leave_gpus() */
        struct closing closing;
        void (*closed)(void *data);
        void *closed_data;
};

/* ---- the broker ---- */

static const bool *ledger_unavailable(const struct resource *resource, void *data)
{
        const struct ledger *ledger = data;
        const struct mps_resource *shared = mps_resources_find(&ledger->core.resources, resource->name);

        return shared && shared->resource == resource ? shared->unavailable : NULL;
}

static void ledger_bind(const struct resource *resource, const char *const *ids, size_t n_ids, broker_bound_fn *bound,
        void *context, void *data)
{
        struct ledger *ledger = data;

        allocator_bind(&ledger->allocator, resource, ids, n_ids, bound, context);
}

static void ledger_start(const char *resource, const char *const *ids, size_t n_ids, broker_started_fn *started,
        void *context, void *data)
{
        struct ledger *ledger = data;

        container_start(&ledger->start, resource, ids, n_ids, started, context);
}

const struct broker *ledger_broker(struct ledger *ledger)
{
        return &ledger->broker;
}

/* ---- what is granted, for the supervisor ---- */

/*
 * If the record was lost, the id was derived from the devices (plan/allocations_sync.c), and the original id is
 * unknown.
 */
#define GUESSED_ID_LENGTH ((size_t)17)

static bool is_granted_known(const struct allocation *allocation)
{
        return !allocation->is_guess && strlen(allocation->id) != GUESSED_ID_LENGTH;
}

/* True if the tier needs a partition or a namespace. The supervisor decides whether the daemon can make one now. */
static bool is_made(const struct ledger_core *core, const struct mps_resource *shared, const struct unit *unit)
{
        return unit->shared && share_tier(core->plan, shared->resource, unit) >= MPS_TIER_PARTITION;
}

static bool makes_any(const struct ledger_core *core, const struct mps_resource *shared)
{
        for (size_t i = 0; i < shared->resource->n_units; i++)
                if (shared->resource->units[i].is_kept || is_made(core, shared, &shared->resource->units[i]))
                        return true;
        return false;
}

/* False: the share is unknown, perhaps only while its unit is missing. */
static bool add_granted(const struct ledger_core *core, const struct ledger_share *of, struct arena *arena,
        struct mps_allocation_request *ret, size_t *ret_count)
{
        const struct resource *resource = of->shared->resource;
        const struct unit *unit = of->unit;
        struct share share;

        if (!makes_any(core, of->shared))
                return true;
        if (!is_granted_known(of->allocation) || !unit || unit->is_kept)
                return false;
        if (!is_made(core, of->shared, unit))
                return true;
        share = share_of(resource, unit, (unsigned int)MIN(of->allocation->n_devices, unit->replicas));
        ret[(*ret_count)++] = (struct mps_allocation_request){
                .id = of->allocation->id,
                .daemon = mps_daemon_name(arena, resource, unit),
                .unit = unit->uuid,
                .threads_permille = share.threads_permille,
                .limit_mib = share.memory_mib,
                .sms = share.sms,
        };
        return true;
}

static size_t name_claims(const struct claim_set *claims, struct arena *arena, struct mps_holder *ret)
{
        const struct ledger_claim_state *states;
        size_t n_claims = claim_set_all(claims, arena, &states);
        size_t count = 0;

        for (size_t i = 0; i < n_claims; i++)
                for (size_t j = 0; j < states[i].claim->n_devices; j++)
                        if (states[i].claim->devices[j].is_shared)
                                ret[count++] = (struct mps_holder){
                                        .unit = states[i].claim->devices[j].unit, .claim = states[i].claim->name};
        return count;
}

static int compare_pod_names(const void *a, const void *b)
{
        const struct mps_holder *x = a;
        const struct mps_holder *y = b;
        const int by_unit = strcmp(x->unit, y->unit);

        return by_unit ? by_unit : strcmp(x->pod, y->pod);
}

/* A pod whose containers hold several shares of a unit, one after the other or at a time, is named once. */
static size_t sort_pods(struct mps_holder *pods, size_t n_pods)
{
        size_t count = 0;

        qsort(pods, n_pods, sizeof(*pods), compare_pod_names);
        for (size_t i = 0; i < n_pods; i++)
                if (count == 0 || compare_pod_names(&pods[count - 1], &pods[i]) != 0)
                        pods[count++] = pods[i];
        return count;
}

/* Each id names its own unit where the allocation is bound to none. */
static size_t name_pod(const struct ledger_share *of, struct arena *arena, struct mps_holder *ret)
{
        const struct allocation *allocation = of->allocation;
        struct mps_holder holder = {.unit = allocation->unit};
        size_t count = 0;

        if (!of->holder || !of->holder->pod)
                return 0;
        holder.pod = arena_printf(arena, "%s/%s", of->holder->pod_namespace, of->holder->pod);
        if (holder.unit)
                ret[count++] = holder;
        for (size_t i = 0; !allocation->unit && i < allocation->n_devices; i++) {
                const struct unit *unit = resource_unit_of(of->shared->resource, allocation->devices[i]);

                if (!unit)
                        continue;
                holder.unit = unit->uuid;
                ret[count++] = holder;
        }
        return count;
}

/* Sends the names: pods as far as kubelet has listed them, and claims, for people who ask the supervisor. */
static void send_names(const struct ledger *ledger)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const struct ledger_share *all;
        size_t n_all = ledger_shares(&ledger->core, &scratch, &all);
        size_t most = claim_set_count_devices(&ledger->claims) + 1;
        struct mps_holder *holders;
        size_t n_claims;
        size_t count;

        for (size_t i = 0; i < n_all; i++)
                most += MAX(all[i].allocation->n_devices, 1U);
        holders = ARENA_ARRAY(&scratch, struct mps_holder, most);
        count = n_claims = name_claims(&ledger->claims, &scratch, holders);
        for (size_t i = 0; i < n_all; i++)
                count += name_pod(&all[i], &scratch, &holders[count]);
        count = n_claims + sort_pods(holders + n_claims, count - n_claims);
        mps_link_name_holders(daemons_link(&ledger->core.daemons), holders, count);
}

/*
 * True if a kept unit is missing from the node. Its allocations may be unknown then: if nothing else of its resource is
 * shared, they are not in the record.
 */
static bool has_unit_away(const struct plan *plan)
{
        for (size_t i = 0; i < plan->n_resources; i++)
                for (size_t j = 0; j < plan->resources[i].n_units; j++)
                        if (plan->resources[i].units[j].is_kept &&
                                !inventory_has(plan->inventory, plan->resources[i].units[j].uuid))
                                return true;
        return false;
}

/*
 * Sends all present allocations, and the names of their holders, to the supervisor of the MPS daemons.
 *
 * The supervisor compares the list of allocations with what it has made (mps/supervisor/allocations.c has the rule). So
 * nothing is left of a container that has ended, even if its release was lost, and a running container lacks nothing.
 * The list is sent only if each allocation has its original id and its share is known: the supervisor removes what the
 * list does not name. Example: of three containers one was found in kubelet's list alone, because the record was lost.
 * Its id is a guess, so no list is sent, and the supervisor keeps all that it has.
 *
 * To be called once the ledger has kubelet's list.
 */
static void send_granted(const struct ledger *ledger)
{
        const struct ledger_core *core = &ledger->core;
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const struct ledger_share *all;
        size_t n_all = ledger_shares(core, &scratch, &all);
        struct mps_allocation_request *requests = ARENA_ARRAY(
                &scratch, struct mps_allocation_request, n_all + claim_set_count_devices(&ledger->claims) + 1);
        bool is_whole = core->plan && !has_unit_away(core->plan);
        size_t count = 0;

        for (size_t i = 0; is_whole && i < n_all; i++)
                is_whole = add_granted(core, &all[i], &scratch, requests, &count);
        is_whole = is_whole && claim_set_add_made(&ledger->claims, &scratch, requests, &count);
        mps_link_hold(daemons_link(&core->daemons), is_whole ? requests : NULL, count);
        send_names(ledger);
}

/* ---- the plan ---- */

static void list_wanted(const struct ledger *ledger, struct arena *arena, struct mps_wanted *ret)
{
        if (ledger->is_left) {
                *ret = (struct mps_wanted){.ends_clients = true};
                return;
        }
        mps_wanted_of(ret, arena, ledger->core.plan);
        claim_daemons_want(&ledger->claims, arena, ret);
}

/* Claims have changed: sends the wanted daemons to the supervisor if they have changed. */
static void renew_wanted(struct ledger *ledger)
{
        struct daemons *daemons = &ledger->core.daemons;
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct mps_wanted wanted;

        if (!ledger->core.plan)
                return;
        list_wanted(ledger, &scratch, &wanted);
        if (!daemons_are_wanted(daemons, &wanted)) {
                daemons_want(daemons, &wanted);
                daemons_send(daemons);
        }
        send_names(ledger);
}

void ledger_leave_gpus(struct ledger *ledger, bool is_left)
{
        ledger->is_left = is_left;
        renew_wanted(ledger);
}

void ledger_apply(struct ledger *ledger, const struct plan *plan)
{
        struct ledger_core *core = &ledger->core;
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct mps_wanted wanted;
        bool is_first = !core->plan;

        if (is_first)
                daemons_raise_generation(&core->daemons, (uint64_t)ledger_now(core).date);
        core->plan = plan;
        list_wanted(ledger, &scratch, &wanted);
        daemons_want(&core->daemons, &wanted);
        mps_resources_apply(&core->resources, plan);
        if (is_first)
                container_start_all(&ledger->start);
        daemons_send(&core->daemons);
        holdings_begin(&core->holdings);
        several_forget(&ledger->several);
        several_check_soon(&ledger->several);
        if (mps_resources_count(&core->resources) == 0)
                send_granted(ledger); /* else after kubelet's answer */
        claim_set_advance(&ledger->claims);
        send_names(ledger);
}

void ledger_leave(struct ledger *ledger)
{
        struct ledger_core *core = &ledger->core;

        core->plan = NULL;
        core->incarnation++; /* from here on another agent sees which containers start */
        mps_resources_forget(&core->resources);
        holdings_forget(&core->holdings);
        several_forget(&ledger->several);
        declared_containers_forget(&ledger->declared_containers);
        declared_pods_forget(&ledger->declared_pods);
        violations_forget(&ledger->violations);
        claim_set_forget(&ledger->claims);
        daemons_forget(&core->daemons);
}

/* ---- what has changed ---- */

void ledger_health_changed(struct ledger *ledger, const char *uuid)
{
        mps_resources_update_unit(&ledger->core.resources, uuid);
}

static void on_status(const struct mps_status *status, const char *reason, void *data)
{
        struct ledger *ledger = data;
        struct ledger_core *core = &ledger->core;

        daemons_set_status(&core->daemons, status);
        if (core->is_closing)
                return;
        violations_note_status(&ledger->violations, reason);
        mps_resources_update(&core->resources);
        claim_set_advance(&ledger->claims);
        core->options.on_change(core->options.data);
}

static void sync_allocations(struct ledger *ledger)
{
        struct ledger_core *core = &ledger->core;
        size_t count;
        struct mps_resource *all = mps_resources_all(&core->resources, &count);

        allocator_renew_awaited(&ledger->allocator);
        for (size_t i = 0; i < count; i++)
                mps_resources_sync(&core->resources, &all[i], holdings_holders(&core->holdings), core->plan->inventory,
                        ledger_clock(core) - HOLDINGS_GRACE_MS);
        send_granted(ledger);
        share_metadata_sync(&ledger->metadata);
}

static void on_holdings_change(bool is_listed, void *data)
{
        struct ledger *ledger = data;

        if (holdings_are_whole(&ledger->core.holdings))
                sync_allocations(ledger);
        if (is_listed)
                declared_pods_read_next(&ledger->declared_pods);
}

/* ---- what is asked ---- */

enum ledger_word ledger_held(struct ledger *ledger, struct arena *arena, struct rollout_held **ret, size_t *ret_count)
{
        struct ledger_core *core = &ledger->core;
        enum ledger_word word = holdings_all(&core->holdings, arena, ret, ret_count);

        if (core->plan)
                mps_resources_name_units(&core->resources, arena, *ret, *ret_count);
        else
                mps_resources_name_recorded_units(&core->resources, arena, *ret, *ret_count);
        return word;
}

const struct pod_source *ledger_pod_source(const struct ledger *ledger)
{
        return &ledger->core.pods;
}

const char *ledger_list_folder(const struct ledger *ledger)
{
        return holdings_folder(&ledger->core.holdings);
}

void ledger_ask(struct ledger *ledger)
{
        holdings_ask(&ledger->core.holdings);
}

bool ledger_containers(const struct ledger *ledger, const struct holder **ret, size_t *ret_count)
{
        const struct holders *holders = holdings_holders(&ledger->core.holdings);

        if (!holders)
                return false;
        *ret_count = holders_containers(holders, ret);
        return true;
}

void ledger_report_pods(struct ledger *ledger, const char *unit, enum node_event event, const char *text)
{
        pod_events_report(&ledger->pod_events, unit, event, text);
}

/* The unit that the allocation has a share of: that it is bound to, or that has all its ids. NULL: none, or several. */
static const struct unit *find_unit(const struct ledger_share *of)
{
        const struct unit *found = NULL;

        if (of->allocation->unit)
                return of->unit;
        for (size_t i = 0; i < of->allocation->n_devices; i++) {
                const struct unit *unit = resource_unit_of(of->shared->resource, of->allocation->devices[i]);

                if (!unit || (found && unit != found))
                        return NULL;
                found = unit;
        }
        return found;
}

static struct ledger_allocation measure_allocation(
        const struct ledger *ledger, const struct ledger_share *of, struct arena *arena)
{
        const char **left = ARENA_ARRAY(arena, const char *, of->allocation->n_devices);
        const struct unit *unit = find_unit(of);
        struct ledger_allocation measured = {
                .allocation = of->allocation,
                .resource = of->shared->resource,
                .holder = of->holder,
                .left = left,
                .threads_permille = 1000,
        };

        for (size_t i = 0; i < of->allocation->n_devices; i++)
                if (allocations_of_device(of->shared->allocations, of->allocation->devices[i]) == of->allocation)
                        left[measured.n_left++] = of->allocation->devices[i];
        if (unit) {
                bool is_guess;
                struct share share = declared_containers_share(&ledger->declared_containers, of, unit,
                        mps_resource_replicas(of->shared, of->allocation, unit), &is_guess);

                measured.tier = ledger_tier(&ledger->core, of->shared->resource, unit);
                measured.limit_mib = share.memory_mib;
                measured.threads_permille = share.threads_permille;
        }
        return measured;
}

size_t ledger_allocations(
        const struct ledger *ledger, const char *resource, struct arena *arena, const struct ledger_allocation **ret)
{
        const struct ledger_share *all;
        size_t n_all = ledger_shares(&ledger->core, arena, &all);
        struct ledger_allocation *allocations = ARENA_ARRAY(arena, struct ledger_allocation, n_all);
        size_t count = 0;

        *ret = allocations;
        for (size_t i = 0; i < n_all; i++)
                if (strcmp(all[i].shared->resource->name, resource) == 0)
                        allocations[count++] = measure_allocation(ledger, &all[i], arena);
        return count;
}

void ledger_measure(const struct ledger *ledger, struct ledger_measures *ret)
{
        violations_measure(&ledger->violations, ret);
}

/* ---- DRA claims ---- */

static void advance_claims(struct ledger *ledger)
{
        renew_wanted(ledger);
        claim_set_advance(&ledger->claims);
}

void ledger_claim(struct ledger *ledger, const struct ledger_claim *claim, ledger_claimed_fn *done, void *data)
{
        if (claim_set_add(&ledger->claims, claim, done, data))
                advance_claims(ledger);
}

int ledger_claim_fits(const struct ledger *ledger, const struct ledger_claim *claim, ledger_claim_over_fn *is_over,
        void *data, struct error *err)
{
        return claim_set_check_fit(&ledger->claims, claim, is_over, data, err);
}

void ledger_unclaim(struct ledger *ledger, const char *uid)
{
        if (claim_set_remove(&ledger->claims, uid))
                advance_claims(ledger);
}

void ledger_keep_claims(struct ledger *ledger, const struct ledger_claim *claims, size_t n_claims)
{
        struct ledger_core *core = &ledger->core;

        claim_set_keep(&ledger->claims, claims, n_claims);
        renew_wanted(ledger);
        if (core->plan && (mps_resources_count(&core->resources) == 0 || holdings_are_whole(&core->holdings)))
                send_granted(ledger);
}

void ledger_set_claim_pods(struct ledger *ledger, const char *uid, const struct ledger_claim_pod *pods, size_t n_pods)
{
        claim_set_name_pods(&ledger->claims, uid, pods, n_pods);
}

size_t ledger_claims(const struct ledger *ledger, struct arena *arena, const struct ledger_claim_state **ret)
{
        return claim_set_all(&ledger->claims, arena, ret);
}

/* ---- begin and end ---- */

static struct ledger_time read_clocks(void *data UNUSED)
{
        return (struct ledger_time){.clock = (int64_t)clock_now_ms(), .date = clock_unix_us() / 1000};
}

static int open_core(struct ledger *ledger, const struct ledger_options *options, struct error *err)
{
        struct ledger_core *core = &ledger->core;
        const struct mps_link_options link = {
                .loop = options->loop,
                .directory = options->config->mps.directory,
                .control = options->config->mps.control,
                .on_status = on_status,
                .data = ledger,
        };

        core->options = *options;
        if (!core->options.now)
                core->options.now = read_clocks;
        if (holdings_init(&core->holdings, &core->options, &core->resources, on_holdings_change, ledger, err) < 0)
                return -1;
        if (pod_source_init(&core->pods, options->loop, options->config->kubelet.pods, options->client, err) < 0)
                return -1;
        core->options.config = NULL;
        if (getrandom(&core->incarnation, sizeof(core->incarnation), 0) != sizeof(core->incarnation))
                return error_errno(err, errno, "random bytes for the ids of allocations");
        if (daemons_init(&core->daemons, &link, err) < 0)
                return -1;
        daemons_raise_generation(&core->daemons, (uint64_t)ledger_now(core).date);
        mps_resources_init(&core->resources, &core->options, &core->daemons, options->config->mps.directory);
        return 0;
}

static void open_objects(struct ledger *ledger)
{
        struct ledger_core *core = &ledger->core;

        pod_events_init(&ledger->pod_events, core);
        several_init(&ledger->several, core);
        claim_set_init(&ledger->claims, core);
        declared_containers_init(&ledger->declared_containers, core, &ledger->pod_events);
        ledger->declared_pods = (struct declared_pods){
                .core = core, .containers = &ledger->declared_containers, .start = &ledger->start};
        declared_pods_init(&ledger->declared_pods);
        ledger->metadata = (struct share_metadata){.core = core, .containers = &ledger->declared_containers};
        ledger->start = (struct container_start){.core = core,
                .containers = &ledger->declared_containers,
                .pods = &ledger->declared_pods,
                .metadata = &ledger->metadata};
        violations_init(&ledger->violations, core, &ledger->claims, &ledger->declared_containers, &ledger->pod_events);
        allocator_init(&ledger->allocator, core, &ledger->violations, &ledger->several, &ledger->metadata);
        ledger->broker = (struct broker){
                .unavailable = ledger_unavailable, .bind = ledger_bind, .start = ledger_start, .data = ledger};
}

int ledger_new(struct ledger **ret, const struct ledger_options *options, struct error *err)
{
        struct ledger *ledger = xcalloc(1, sizeof(*ledger));

        if (open_core(ledger, options, err) < 0) {
                pod_source_done(&ledger->core.pods);
                holdings_done(&ledger->core.holdings);
                free(ledger);
                return -1;
        }
        open_objects(ledger);
        *ret = ledger;
        return 0;
}

static void on_ledger_closed(void *data)
{
        struct ledger *ledger = data;
        void (*closed)(void *) = ledger->closed;
        void *closed_data = ledger->closed_data;

        mps_resources_done(&ledger->core.resources);
        pod_source_done(&ledger->core.pods);
        holdings_done(&ledger->core.holdings);
        daemons_done(&ledger->core.daemons);
        declared_containers_forget(&ledger->declared_containers);
        violations_done(&ledger->violations);
        free(ledger);
        closed(closed_data);
}

void ledger_close(struct ledger *ledger, void (*closed)(void *data), void *data)
{
        struct ledger_core *core = &ledger->core;
        struct closing *closing = &ledger->closing;

        core->is_closing = true;
        ledger->closed = closed;
        ledger->closed_data = data;
        holdings_close(&core->holdings, closing);
        pod_events_forget(&ledger->pod_events);
        allocator_close(&ledger->allocator, closing);
        mps_resources_close(&core->resources, closing);
        violations_close(&ledger->violations, closing);
        several_close(&ledger->several, closing);
        declared_pods_close(&ledger->declared_pods, closing);
        claim_set_close(&ledger->claims, closing);
        mps_link_close(daemons_link(&core->daemons), closing_release, closing_hold(closing));
        closing_end(closing, on_ledger_closed, ledger);
}
