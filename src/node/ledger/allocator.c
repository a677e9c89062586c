// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/allocator.h"

#include <string.h>

#include "base/log.h"
#include "plan/share.h"

#define MAX_WAITS 3U
#define WAIT_MS UINT64_C(30) /* at first */

enum bind_state { BIND_NEW, BIND_LISTING, BIND_WAITING, BIND_MAKING };

struct bind {
        struct list link;
        struct allocator *allocator;
        struct arena arena;
        enum bind_state state;
        const char *resource; /* its name: the plan may change meanwhile */
        const char **ids;
        size_t n_ids;
        char allocation[LEDGER_ID_SIZE];
        const char *unit; /* NULL: the ids are of several units */
        enum mps_tier tier;
        unsigned int n_waits;
        broker_bound_fn *bound;
        void *context;
};

/* ---- answers ---- */

static void bind_answer(struct bind *bind, const struct error *err, const struct allocate_binding *binding)
{
        bind->bound(err, binding, bind->context);
        list_remove(&bind->link);
        arena_done(&bind->arena);
        free(bind);
}

/* The folder for /dev/shm of the daemon of the unit, or of the first id, if it has one of its own. */
static const char *find_shm(struct bind *bind)
{
        const char *id = bind->unit ? bind->unit : bind->ids[0];
        const char *end = strstr(id, "::");
        const char *unit = end ? arena_strndup(&bind->arena, id, (size_t)(end - id)) : id;
        const struct mps_daemon_status *daemon = daemons_find(&bind->allocator->core->daemons, unit);

        return daemon && daemon->has_own_shm ? arena_printf(&bind->arena, "%s/shm", daemon->name) : NULL;
}

static struct mps_resource *shared_of(const struct bind *bind)
{
        return mps_resources_find_for(&bind->allocator->core->resources, bind->resource, bind->ids, bind->n_ids);
}

/* Writes the container's device metadata, and names it in |binding|. */
static void bind_add_metadata(struct bind *bind, struct allocate_binding *binding)
{
        const struct mps_resource *shared = shared_of(bind);
        struct ledger_share of = {.shared = shared};

        of.allocation = shared ? allocations_find(shared->allocations, bind->allocation) : NULL;
        if (!of.allocation || !bind->allocator->core->plan)
                return;
        of.unit = of.allocation->unit ? resource_find_unit(shared->resource, of.allocation->unit) : NULL;
        share_metadata_add(bind->allocator->metadata, &of, binding->tier, &bind->arena, binding);
}

static void renew_allocation(const struct bind *bind)
{
        struct mps_resource *shared = shared_of(bind);

        if (shared)
                allocations_renew(shared->allocations, bind->allocation, ledger_clock(bind->allocator->core));
}

/* |made|: what the supervisor made for it; NULL: nothing. */
static void bind_answer_bound(struct bind *bind, const struct mps_allocation *made)
{
        struct allocate_binding binding = {
                .allocation = bind->allocation, .unit = bind->unit, .tier = bind->tier, .shm = find_shm(bind)};

        if (made) {
                binding.tier = made->tier;
                binding.pipe = made->pipe;
                binding.partition = made->partition;
                binding.sms = made->sms;
        }
        bind_add_metadata(bind, &binding);
        renew_allocation(bind);
        violations_note_allocation(bind->allocator->violations);
        bind_answer(bind, NULL, &binding);
}

static void take_made(struct bind *bind, const struct error *err, const struct mps_allocation *made)
{
        if (!err) {
                bind_answer_bound(bind, made);
                return;
        }
        if (bind->tier == MPS_TIER_PARTITION) { /* a daemon with partitions takes no client without one */
                struct error refusal = *err;

                if (refusal.kind == ERROR_INVALID) /* the daemon refuses it; the request itself was right */
                        refusal.kind = ERROR_EXHAUSTED;
                bind_answer(bind, &refusal, NULL);
                return;
        }
        log_warn("no MPS namespace could be created, the limits in the container's environment apply instead",
                LOG_STR("resource", bind->resource), LOG_STR("allocation", bind->allocation), LOG_ERR(err));
        bind->tier = MPS_TIER_VERIFIED;
        bind_answer_bound(bind, NULL);
}

/* ---- a request ---- */

static void bind_step(struct bind *bind, const struct error *err, const struct mps_allocation *made);

static void on_made(const struct error *err, const struct mps_allocation *made, void *data)
{
        bind_step(data, err, made);
}

static void on_listed_for(const struct error *err, void *data)
{
        bind_step(data, err, NULL);
}

static void bind_list(struct bind *bind)
{
        bind->state = BIND_LISTING;
        holdings_list(&bind->allocator->core->holdings, on_listed_for, bind);
}

/* Has the supervisor make what the container needs before it starts; the rest is in the answer. */
static void make_allocation(struct bind *bind, const struct resource *resource, const struct unit *unit)
{
        const struct ledger_core *core = bind->allocator->core;
        const struct mps_daemon_status *daemon = daemons_find(&core->daemons, unit->uuid);
        struct share share = share_of(resource, unit, (unsigned int)MIN(bind->n_ids, unit->replicas));

        bind->tier = ledger_tier(core, resource, unit);
        if (!daemon || bind->tier < MPS_TIER_PARTITION) {
                bind_answer_bound(bind, NULL);
                return;
        }
        mps_link_allocation(daemons_link(&core->daemons),
                &(struct mps_allocation_request){
                        .id = bind->allocation,
                        .daemon = daemon->name,
                        .unit = unit->uuid,
                        .threads_permille = share.threads_permille,
                        .limit_mib = share.memory_mib,
                        .sms = share.sms,
                },
                on_made, bind);
}

/* Adds the allocation, and sets the state BIND_MAKING; an error leaves the request as it was. */
static int bind_enter(struct bind *bind, enum allocations_try which, struct error *err)
{
        struct ledger_core *core = bind->allocator->core;
        struct mps_resource *shared = shared_of(bind);
        const struct ledger_time time = ledger_now(core);
        const struct allocations_moment now = {.clock = time.clock, .date = time.date / 1000};
        const struct unit *unit;
        const struct allocation *entered;

        if (!shared)
                return error_set(err, ERROR_INVALID, "resource '%s' was changed meanwhile", bind->resource);
        if (allocations_make(shared->allocations, bind->ids, bind->n_ids, now, bind->allocation, which, &entered, err) <
                0)
                return -1;
        bind->state = BIND_MAKING;
        bind->unit = entered->unit ? arena_strdup(&bind->arena, entered->unit) : NULL;
        holdings_list_soon(&core->holdings);
        mps_resources_note_change(&core->resources, shared);
        unit = bind->unit ? resource_find_unit(shared->resource, bind->unit) : NULL;
        bind->tier = shared->resource->provisioning == PROVISIONING_UNIFORM ? MPS_TIER_DEFAULT : MPS_TIER_VERIFIED;
        if (unit)
                make_allocation(bind, shared->resource, unit);
        else
                bind_answer_bound(bind, NULL); /* several units: the container's own variables are all there is */
        return 0;
}

static void begin_bind(struct bind *bind)
{
        struct error err;

        if (bind_enter(bind, ALLOCATIONS_BEFORE_KUBELET, &err) == 0)
                return;
        if (err.kind == ERROR_NOT_FOUND) /* ids of the previous plan: kubelet's list will say who has them */
                bind_answer(bind, NULL, &(struct allocate_binding){.shm = find_shm(bind)});
        else if (err.kind == ERROR_EXHAUSTED && holdings_folder(&bind->allocator->core->holdings))
                bind_list(bind);
        else
                bind_answer(bind, &err, NULL);
}

/*
 * The only callback from here is that of kubelet's list, which comes later, from the loop. So the list of requests does
 * not change during the walk.
 */
static void on_wait_timer(uv_timer_t *timer)
{
        struct allocator *allocator = container_of(timer, struct allocator, timer);

        LIST_FOR_EACH(link, &allocator->binds) {
                struct bind *bind = container_of(link, struct bind, link);

                if (bind->state == BIND_WAITING)
                        bind_step(bind, NULL, NULL);
        }
}

/*
 * An allocation may be of a pod that has ended, or of an init container that runs. kubelet's record shows which, once
 * kubelet writes it: kubelet asks for this container, so it knows by now which pods have ended.
 */
static bool wait_for_record(struct bind *bind)
{
        uv_timer_t *timer = &bind->allocator->timer;

        if (bind->n_waits == MAX_WAITS || !holdings_renew_record(&bind->allocator->core->holdings))
                return false;
        bind->state = BIND_WAITING;
        if (!uv_is_active((uv_handle_t *)timer))
                uv_timer_start(timer, on_wait_timer, WAIT_MS << bind->n_waits, 0);
        bind->n_waits++;
        return true;
}

static void take_list_for(struct bind *bind, const struct error *listing)
{
        struct ledger_core *core = bind->allocator->core;
        struct mps_resource *shared = shared_of(bind);
        struct error err;

        if (!listing && wait_for_record(bind))
                return;
        if (!listing && shared && holdings_are_whole(&core->holdings))
                mps_resources_sync(
                        &core->resources, shared, holdings_holders(&core->holdings), core->plan->inventory, INT64_MAX);
        if (bind_enter(bind, ALLOCATIONS_AFTER_KUBELET, &err) == 0)
                return;
        if (listing)
                error_raise_prefix(&err, "kubelet does not report which devices were released (%.200s)", listing->text);
        bind_answer(bind, &err, NULL);
}

/* The event for which the state waits, with |err| if that failed. |made|: by the supervisor, in BIND_MAKING. */
static void bind_step(struct bind *bind, const struct error *err, const struct mps_allocation *made)
{
        switch (bind->state) {
        case BIND_NEW:
                begin_bind(bind);
                break;
        case BIND_LISTING:
                take_list_for(bind, err);
                break;
        case BIND_WAITING:
                bind_list(bind);
                break;
        case BIND_MAKING:
                take_made(bind, err, made);
                break;
        }
}

void allocator_bind(struct allocator *allocator, const struct resource *resource, const char *const *ids, size_t n_ids,
        broker_bound_fn *bound, void *context)
{
        struct ledger_core *core = allocator->core;
        struct bind *bind;

        violations_note_allocation(allocator->violations);
        holdings_note_request(&core->holdings, resource->name, ids, n_ids);
        several_check_soon(allocator->several);
        if (!mps_resources_find_for(&core->resources, resource->name, ids, n_ids)) {
                bound(NULL, NULL, context);
                return;
        }
        bind = xcalloc(1, sizeof(*bind));
        bind->allocator = allocator;
        bind->resource = arena_strdup(&bind->arena, resource->name);
        bind->bound = bound;
        bind->context = context;
        bind->n_ids = n_ids;
        bind->ids = ARENA_ARRAY(&bind->arena, const char *, n_ids);
        for (size_t i = 0; i < n_ids; i++)
                bind->ids[i] = arena_strdup(&bind->arena, ids[i]);
        ledger_write_id(core, bind->allocation, ++allocator->n_allocations);
        list_append(&allocator->binds, &bind->link);
        bind_step(bind, NULL, NULL);
}

void allocator_renew_awaited(const struct allocator *allocator)
{
        LIST_FOR_EACH(link, &allocator->binds) {
                const struct bind *bind = container_of(link, struct bind, link);

                if (bind->state == BIND_MAKING)
                        renew_allocation(bind);
        }
}

/* ---- begin and end ---- */

void allocator_init(struct allocator *allocator, struct ledger_core *core, struct violations *violations,
        struct several *several, struct share_metadata *metadata)
{
        *allocator =
                (struct allocator){.core = core, .violations = violations, .several = several, .metadata = metadata};
        list_init(&allocator->binds);
        uv_timer_init(core->options.loop, &allocator->timer);
}

void allocator_close(struct allocator *allocator, struct closing *closing)
{
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE, "the agent is stopping");
        while (!list_is_empty(&allocator->binds)) {
                struct bind *bind = container_of(allocator->binds.next, struct bind, link);

                list_remove(&bind->link);
                if (bind->state != BIND_MAKING)
                        bind_answer(bind, &err, NULL);
        }
        closing_close(closing, &allocator->timer);
}
