#include "node/ledger/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* How often, and how long at first, a request for which there is no room waits for kubelet's record. */
#define MAX_WAITS 3U
#define WAIT_MS UINT64_C(30)

/* ---- requests ---- */

static void free_bind(struct bind *bind)
{
        list_remove(&bind->link);
        arena_done(&bind->arena);
        free(bind);
}

void ledger_refuse(struct bind *bind, const struct error *err)
{
        bind->bound(err, NULL, bind->context);
        free_bind(bind);
}

/* The daemon is that of its unit; several units have one daemon. */
static const char *find_shm(struct bind *bind)
{
        const char *id = bind->unit ? bind->unit : bind->ids[0];
        const char *end = strstr(id, "::");
        const char *unit = end ? arena_strndup(&bind->arena, id, (size_t)(end - id)) : id;
        const struct mps_daemon_status *daemon = ledger_find_daemon(bind->ledger, unit);

        return daemon && daemon->has_own_shm ? arena_printf(&bind->arena, "%s/shm", daemon->name) : NULL;
}

static void answer_unbound(struct bind *bind)
{
        const struct allocate_binding binding = {.shm = find_shm(bind)};

        bind->bound(NULL, &binding, bind->context);
        free_bind(bind);
}

/* kubelet cannot list the container earlier than that. */
static void renew(const struct bind *bind)
{
        struct ledger_resource *shared = ledger_find_shared_for(bind->ledger, bind->resource, bind->ids, bind->n_ids);

        if (shared)
                allocations_renew(shared->allocations, bind->allocation, ledger_clock(bind->ledger));
}

void ledger_renew_awaited(const struct ledger *ledger)
{
        LIST_FOR_EACH(link, &ledger->binds) {
                const struct bind *bind = container_of(link, struct bind, link);

                if (bind->asks_daemon)
                        renew(bind);
        }
}

static void ledger_requests_answer(struct bind *bind, const struct mps_allocation *made)
{
        struct allocate_binding binding = {
                .allocation = bind->allocation, .unit = bind->unit, .tier = bind->tier, .shm = find_shm(bind)};

        if (made) {
                binding.tier = made->tier;
                binding.pipe = made->pipe;
                binding.partition = made->partition;
                binding.sms = made->sms;
        }
        renew(bind);
        bind->ledger->allocated_at = ledger_clock(bind->ledger);
        bind->bound(NULL, &binding, bind->context);
        free_bind(bind);
}

static void on_granted(const struct error *err, const struct mps_allocation *made, void *data)
{
        struct bind *bind = data;

        if (!err) {
                ledger_requests_answer(bind, made);
                return;
        }
        if (bind->tier == MPS_TIER_PARTITION) { /* a daemon with partitions takes no client without one */
                struct error refusal = *err;

                if (refusal.kind == ERROR_INVALID) /* the daemon refuses it; the request itself was right */
                        refusal.kind = ERROR_EXHAUSTED;
                ledger_refuse(bind, &refusal);
                return;
        }
        log_warn("no MPS namespace could be created, the limits in the container's environment apply instead",
                LOG_STR("resource", bind->resource), LOG_STR("allocation", bind->allocation), LOG_ERR(err));
        bind->tier = MPS_TIER_VERIFIED;
        ledger_requests_answer(bind, NULL);
}

/* The tier that the plan expects, or a lower one if the daemon cannot do that. */
enum mps_tier ledger_tier(const struct ledger *ledger, const struct resource *resource, const struct unit *unit)
{
        const struct mps_daemon_status *daemon = ledger_find_daemon(ledger, unit->uuid);
        enum mps_tier tier = share_tier(ledger->plan, resource, unit);

        return daemon ? MIN(tier, daemon->tier) : tier;
}

/* The supervisor has made what the container needs before it starts; the rest is in the answer. */
static void make(struct bind *bind, const struct resource *resource, const struct unit *unit)
{
        struct ledger *ledger = bind->ledger;
        const struct mps_daemon_status *daemon = ledger_find_daemon(ledger, unit->uuid);
        struct share share = share_of(resource, unit, (unsigned int)MIN(bind->n_ids, unit->replicas));
        struct mps_allocation_request request;

        bind->tier = ledger_tier(ledger, resource, unit);
        if (!daemon || bind->tier < MPS_TIER_PARTITION) {
                ledger_requests_answer(bind, NULL);
                return;
        }
        request = (struct mps_allocation_request){
                .id = bind->allocation,
                .daemon = daemon->name,
                .unit = unit->uuid,
                .threads_permille = share.threads_permille,
                .limit_mib = share.memory_mib,
                .sms = share.sms,
        };
        bind->asks_daemon = true;
        mps_link_allocation(ledger->link, &request, on_granted, bind);
}

struct ledger_resource *ledger_find_shared_for(
        struct ledger *ledger, const char *name, const char *const *ids, size_t n_ids)
{
        struct ledger_resource *main = ledger_find_shared(ledger, name);

        if (n_ids == 0 || (main && map_find(&main->resource->by_id, ids[0])))
                return main;
        for (size_t i = 0; i < ledger->n_shared; i++) {
                struct ledger_resource *shared = &ledger->shared[i];

                if (shared->is_draining && strcmp(shared->resource->name, name) == 0 &&
                        map_find(&shared->resource->by_id, ids[0]))
                        return shared;
        }
        return main;
}

static struct ledger_resource *shared_of(const struct bind *bind)
{
        return ledger_find_shared_for(bind->ledger, bind->resource, bind->ids, bind->n_ids);
}

/* Enters the request into the ledger and asks the daemon for what it needs; an error leaves the request as it was. */
static int requests_settle(struct bind *bind, enum allocations_try which, struct error *err)
{
        struct ledger_resource *shared = shared_of(bind);
        struct allocations_moment now = {.clock = ledger_clock(bind->ledger), .date = ledger_now(bind->ledger)};
        const struct unit *unit;
        const struct allocation *entered;

        if (!shared)
                return error_set(err, ERROR_INVALID, "resource '%s' was changed meanwhile", bind->resource);
        if (allocations_make(shared->allocations, bind->ids, bind->n_ids, now, bind->allocation, which, &entered, err) <
                0)
                return -1;
        bind->unit = entered->unit ? arena_strdup(&bind->arena, entered->unit) : NULL;
        ledger_list_soon(bind->ledger);
        ledger_note_change(bind->ledger, shared);
        unit = bind->unit ? resource_find_unit(shared->resource, bind->unit) : NULL;
        bind->tier = shared->resource->provisioning == PROVISIONING_UNIFORM ? MPS_TIER_DEFAULT : MPS_TIER_VERIFIED;
        if (unit)
                make(bind, shared->resource, unit);
        else
                ledger_requests_answer(bind, NULL); /* several units: the container's own variables are all there is */
        return 0;
}

/*
 * An allocation may be of a pod that has ended, or of an init container that runs. kubelet's record shows which, once
 * kubelet writes it: kubelet asks for this container, so it knows by now which pods have ended.
 */
static bool wait_for_record(struct bind *bind)
{
        struct ledger *ledger = bind->ledger;

        if (bind->n_waits == MAX_WAITS || !ledger_renew_record(ledger, true))
                return false;
        bind->is_waiting = true;
        if (!uv_is_active((uv_handle_t *)&ledger->wait_timer))
                uv_timer_start(&ledger->wait_timer, ledger_on_wait_timer, WAIT_MS << bind->n_waits, 0);
        bind->n_waits++;
        return true;
}

static void on_listed_for(const struct error *listing, void *data)
{
        struct bind *bind = data;
        struct ledger *ledger = bind->ledger;
        struct ledger_resource *shared = shared_of(bind);
        struct error err;

        if (!listing && wait_for_record(bind))
                return;
        if (!listing && shared && ledger_list_is_whole(ledger))
                ledger_sync_allocations(ledger, shared, INT64_MAX);
        if (requests_settle(bind, ALLOCATIONS_AFTER_KUBELET, &err) == 0)
                return;
        if (listing)
                error_raise_prefix(&err, "kubelet does not report which devices were released (%.200s)", listing->text);
        ledger_refuse(bind, &err);
}

/* This calls no callback, so the list of waiting requests does not change meanwhile. */
void ledger_on_wait_timer(uv_timer_t *timer)
{
        struct ledger *ledger = timer->data;

        LIST_FOR_EACH(link, &ledger->binds) {
                struct bind *bind = container_of(link, struct bind, link);

                if (!bind->is_waiting)
                        continue;
                bind->is_waiting = false;
                ledger_list(ledger, on_listed_for, bind);
        }
}

static struct bind *new_bind(struct ledger *ledger, const char *resource, const char *const *ids, size_t n_ids,
        broker_bound_fn *bound, void *context)
{
        struct bind *bind = xcalloc(1, sizeof(*bind));

        bind->ledger = ledger;
        bind->resource = arena_strdup(&bind->arena, resource);
        bind->bound = bound;
        bind->context = context;
        bind->n_ids = n_ids;
        bind->ids = ARENA_ARRAY(&bind->arena, const char *, n_ids);
        for (size_t i = 0; i < n_ids; i++)
                bind->ids[i] = arena_strdup(&bind->arena, ids[i]);
        snprintf(bind->allocation, sizeof(bind->allocation), ALLOCATION_ID_PREFIX "%" PRIx64, ledger->incarnation,
                ++ledger->n_allocations);
        list_append(&ledger->binds, &bind->link);
        return bind;
}

void ledger_bind(const struct resource *resource, const char *const *ids, size_t n_ids, broker_bound_fn *bound,
        void *context, void *data)
{
        struct ledger *ledger = data;
        struct bind *bind;
        struct error err;

        ledger_note_request(ledger, resource, ids, n_ids);
        ledger_check_several_soon(ledger);
        if (!ledger_find_shared_for(ledger, resource->name, ids, n_ids)) {
                bound(NULL, NULL, context);
                return;
        }
        bind = new_bind(ledger, resource->name, ids, n_ids, bound, context);
        if (requests_settle(bind, ALLOCATIONS_BEFORE_KUBELET, &err) == 0)
                return;
        if (err.kind == ERROR_NOT_FOUND)
                answer_unbound(bind); /* of the previous plan: kubelet's list will say it */
        else if (err.kind == ERROR_EXHAUSTED && ledger->pods)
                ledger_list(ledger, on_listed_for, bind);
        else
                ledger_refuse(bind, &err);
}

const bool *ledger_unavailable(const struct resource *resource, void *data)
{
        const struct ledger_resource *shared = ledger_find_shared(data, resource->name);

        return shared && shared->resource == resource ? shared->unavailable : NULL;
}
