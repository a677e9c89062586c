// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/claim_set.h"

#include <string.h>

#include "base/log.h"
#include "plan/share.h"
#include "plan/mps_wanted.h"

enum claim_state { CLAIM_WAITING, CLAIM_MAKING, CLAIM_HELD, CLAIM_FAILED, CLAIM_REFUSED };

struct claim;

struct claim_device {
        struct claim *claim;
        struct ledger_claimed given;
        bool is_made; /* the supervisor was asked to make something for it */
};

struct claim {
        struct list link; /* claim_set.claims */
        const struct ledger_core *core;
        struct arena arena;
        struct arena pods_arena;
        struct ledger_claim asked;
        struct claim_device *devices; /* one for each of asked.devices */
        enum claim_state state;
        int64_t since;           /* ledger_clock(), while it waits */
        size_t n_awaited;        /* answers of the supervisor */
        bool is_over;            /* it is in no list, and goes with the last answer */
        struct error failure;    /* kind ERROR_NONE: nothing failed yet */
        ledger_claimed_fn *done; /* NULL: answered */
        void *data;
};

/* ---- one claim ---- */

static const struct ledger_claim_device *asked_of(const struct claim_device *device)
{
        return &device->claim->asked.devices[device - device->claim->devices];
}

static void claim_set_pods(struct claim *claim, const struct ledger_claim_pod *pods, size_t n_pods)
{
        struct ledger_claim_pod *copies;

        arena_done(&claim->pods_arena);
        copies = ARENA_ARRAY(&claim->pods_arena, struct ledger_claim_pod, n_pods);
        for (size_t i = 0; i < n_pods; i++)
                copies[i] = (struct ledger_claim_pod){.uid = arena_strdup(&claim->pods_arena, pods[i].uid),
                        .name = arena_strdup(&claim->pods_arena, pods[i].name)};
        claim->asked.pods = copies;
        claim->asked.n_pods = n_pods;
}

static struct claim *claim_new(struct claim_set *set, const struct ledger_claim *asked)
{
        struct claim *claim = xcalloc(1, sizeof(*claim));
        struct arena *arena = &claim->arena;
        struct ledger_claim_device *devices = ARENA_ARRAY(arena, struct ledger_claim_device, asked->n_devices);

        claim->core = set->core;
        claim->devices = ARENA_ARRAY(arena, struct claim_device, asked->n_devices);
        for (size_t i = 0; i < asked->n_devices; i++) {
                devices[i] = asked->devices[i];
                devices[i].id = arena_strdup(arena, asked->devices[i].id);
                devices[i].unit = arena_strdup(arena, asked->devices[i].unit);
                devices[i].daemon = arena_strdup(arena, asked->devices[i].daemon);
                claim->devices[i] = (struct claim_device){.claim = claim};
        }
        claim->asked = (struct ledger_claim){
                .uid = arena_strdup(arena, asked->uid),
                .name = arena_strdup(arena, asked->name),
                .devices = devices,
                .n_devices = asked->n_devices,
        };
        claim_set_pods(claim, asked->pods, asked->n_pods);
        list_append(&set->claims, &claim->link);
        return claim;
}

static void claim_free(struct claim *claim)
{
        arena_done(&claim->pods_arena);
        arena_done(&claim->arena);
        free(claim);
}

static void on_claim_released(const struct error *err, void *data UNUSED)
{
        /* The supervisor removes it with the next list of allocations. */
        if (err)
                log_debug("what was made for a DRA claim is removed later", LOG_ERR(err));
}

/* Out of the list; what was made for it is given back. */
static void claim_end(struct claim *claim)
{
        list_remove(&claim->link);
        claim->done = NULL;
        for (size_t i = 0; i < claim->asked.n_devices; i++)
                if (claim->devices[i].is_made)
                        mps_link_release(daemons_link(&claim->core->daemons), claim->asked.devices[i].id,
                                on_claim_released, NULL);
        claim->is_over = true;
        if (claim->n_awaited == 0)
                claim_free(claim);
}

static struct claim *claim_find(const struct claim_set *set, const char *uid)
{
        LIST_FOR_EACH(link, &set->claims) {
                struct claim *claim = container_of(link, struct claim, link);

                if (strcmp(claim->asked.uid, uid) == 0)
                        return claim;
        }
        return NULL;
}

/* |failed|: its state, if it has failed. */
static void claim_answer(struct claim *claim, enum claim_state failed)
{
        struct ledger_claimed given[LEDGER_CLAIM_DEVICES_MAX];
        struct ledger_claim_device *devices =
                (struct ledger_claim_device *)(uintptr_t)claim->asked.devices; /* a copy */
        ledger_claimed_fn *done = claim->done;
        const struct error failure = claim->failure;

        claim->state = failure.kind == ERROR_NONE ? CLAIM_HELD : failed;
        for (size_t i = 0; i < claim->asked.n_devices; i++) {
                devices[i].tier = claim->devices[i].given.tier;
                devices[i].daemon = claim->devices[i].given.daemon;
        }
        if (!done)
                return;
        claim->done = NULL;
        for (size_t i = 0; i < claim->asked.n_devices; i++)
                given[i] = claim->devices[i].given;
        if (failure.kind == ERROR_NONE)
                done(NULL, given, claim->data);
        else
                done(&failure, NULL, claim->data);
}

/* ---- what is made for it ---- */

static void on_claim_made(const struct error *err, const struct mps_allocation *made, void *data)
{
        struct claim_device *device = data;
        struct claim *claim = device->claim;

        claim->n_awaited--;
        if (claim->is_over) {
                if (claim->n_awaited == 0)
                        claim_free(claim);
                return;
        }
        if (!err) {
                device->given.tier = made->tier;
                if (made->pipe)
                        device->given.pipe = arena_strdup(&claim->arena, made->pipe);
        } else if (err->kind == ERROR_UNAVAILABLE) {
                claim->failure = *err;
        } else {
                log_warn("no MPS namespace could be created, the limits in the containers' environment apply instead",
                        LOG_STR("claim", claim->asked.name), LOG_STR("allocation", asked_of(device)->id), LOG_ERR(err));
                device->given.tier = MPS_TIER_VERIFIED;
        }
        if (claim->n_awaited == 0)
                claim_answer(claim, CLAIM_FAILED);
}

static struct mps_allocation_request claim_request_of(const struct ledger_claim_device *asked, const char *daemon)
{
        return (struct mps_allocation_request){
                .id = asked->id,
                .daemon = daemon,
                .unit = asked->unit,
                .threads_permille = asked->threads_permille,
                .limit_mib = asked->limit_mib,
        };
}

static void claim_set_make_device(struct claim_device *device)
{
        struct claim *claim = device->claim;
        const struct ledger_core *core = claim->core;
        const struct ledger_claim_device *asked = asked_of(device);
        const struct mps_daemon_status *daemon = claim_daemon_find(core, asked);
        const struct mps_allocation_request request = claim_request_of(asked, daemon->name);

        device->given = (struct ledger_claimed){
                .tier = ledger_tier(core, core->plan->claimable, ledger_claimable_unit(core, asked->unit)),
                .daemon = arena_strdup(&claim->arena, daemon->name),
                .pipe = arena_printf(&claim->arena, "%s/pipe", daemon->name),
                .shm = daemon->has_own_shm ? arena_printf(&claim->arena, "%s/shm", daemon->name) : "shm",
        };
        if (device->given.tier < MPS_TIER_PARTITION)
                return;
        device->is_made = true;
        claim->n_awaited++;
        mps_link_allocation(daemons_link(&core->daemons), &request, on_claim_made, device);
}

static void claim_make(struct claim *claim)
{
        claim->state = CLAIM_MAKING;
        for (size_t i = 0; i < claim->asked.n_devices; i++)
                if (claim->asked.devices[i].is_shared)
                        claim_set_make_device(&claim->devices[i]);
        if (claim->n_awaited == 0)
                claim_answer(claim, CLAIM_FAILED);
}

static void claim_advance(const struct claim_set *set, struct claim *claim)
{
        struct error err;

        if (claim_daemons_check(set, &claim->asked, &err) == 0) {
                claim_make(claim);
        } else {
                claim->failure = err;
                claim_answer(claim, CLAIM_FAILED);
        }
}

/* ---- all of them ---- */

static int64_t deadline_of(const struct claim *claim)
{
        return claim->since + (daemons_status(&claim->core->daemons) ? LEDGER_CLAIM_WAIT_MS : LEDGER_CLAIM_ALONE_MS);
}

static void on_claims_timer(uv_timer_t *timer)
{
        claim_set_advance(container_of(timer, struct claim_set, timer));
}

static void start_timer(struct claim_set *set)
{
        int64_t first = INT64_MAX;

        LIST_FOR_EACH(link, &set->claims) {
                const struct claim *claim = container_of(link, struct claim, link);

                if (claim->state == CLAIM_WAITING)
                        first = MIN(first, deadline_of(claim));
        }
        if (first == INT64_MAX || set->core->is_closing)
                uv_timer_stop(&set->timer);
        else
                uv_timer_start(
                        &set->timer, on_claims_timer, (uint64_t)MAX(first - ledger_clock(set->core), INT64_C(0)), 0);
}

static struct claim *find_due(const struct claim_set *set)
{
        struct error err;

        LIST_FOR_EACH(link, &set->claims) {
                struct claim *claim = container_of(link, struct claim, link);

                if (claim->state == CLAIM_WAITING && (ledger_clock(set->core) >= deadline_of(claim) ||
                                                             claim_daemons_check(set, &claim->asked, &err) == 0))
                        return claim;
        }
        return NULL;
}

/* The callback of a claim that is answered may begin and end claims. */
void claim_set_advance(struct claim_set *set)
{
        struct claim *claim;

        while (!set->core->is_closing && (claim = find_due(set)))
                claim_advance(set, claim);
        start_timer(set);
}

/* ---- room ---- */

/* The sum of all claims on one unit. */
struct taken {
        uint64_t mib;
        unsigned int permille;
};

/* Adds what |claim| has of the unit of |device|. */
static int claim_set_take(struct taken *taken, const struct ledger_claim *claim,
        const struct ledger_claim_device *device, struct error *err)
{
        for (size_t i = 0; i < claim->n_devices; i++) {
                const struct ledger_claim_device *beside = &claim->devices[i];

                if (strcmp(beside->unit, device->unit) != 0)
                        continue;
                if (beside != device &&
                        (beside->is_alone || device->is_alone || beside->is_shared != device->is_shared))
                        return error_set(err, ERROR_EXHAUSTED,
                                "%s: claim %s has %s of it; a claim has a unit alone, or all share it in the same way",
                                device->unit, claim->name, beside->is_alone ? "all" : "a share");
                taken->mib += beside->limit_mib;
                taken->permille += beside->is_shared ? beside->threads_permille : 0;
        }
        return 0;
}

static int check_taken(const struct ledger_core *core, const struct taken *taken,
        const struct ledger_claim_device *device, struct error *err)
{
        const struct unit *unit = ledger_claimable_unit(core, device->unit);

        if (device->is_shared && unit && unit->memory && taken->mib > share_usable_mib(unit))
                return error_set(err, ERROR_EXHAUSTED, "%s: its claims would have %ju MiB of %ju", device->unit,
                        (uintmax_t)taken->mib, (uintmax_t)share_usable_mib(unit));
        if (taken->permille > 1000)
                return error_set(err, ERROR_EXHAUSTED, "%s: its claims would have %u.%u %% of its threads",
                        device->unit, taken->permille / 10, taken->permille % 10);
        return 0;
}

int claim_set_check_fit(const struct claim_set *set, const struct ledger_claim *claim, ledger_claim_over_fn *is_over,
        void *data, struct error *err)
{
        for (size_t i = 0; i < claim->n_devices; i++) {
                const struct ledger_claim_device *device = &claim->devices[i];
                struct taken taken = {0};

                LIST_FOR_EACH(link, &set->claims) {
                        const struct claim *holder = container_of(link, struct claim, link);
                        const struct ledger_claim *other = &holder->asked;

                        if (holder->state == CLAIM_REFUSED || strcmp(other->uid, claim->uid) == 0 ||
                                (is_over && is_over(other->uid, data)))
                                continue;
                        if (claim_set_take(&taken, other, device, err) < 0)
                                return -1;
                }
                if (claim_set_take(&taken, claim, device, err) < 0 || check_taken(set->core, &taken, device, err) < 0)
                        return -1;
        }
        return 0;
}

/* ---- for the rest of the ledger ---- */

bool claim_set_add_made(
        const struct claim_set *set, struct arena *arena, struct mps_allocation_request *ret, size_t *count)
{
        const struct ledger_core *core = set->core;

        LIST_FOR_EACH(link, &set->claims) {
                const struct claim *claim = container_of(link, struct claim, link);

                for (size_t i = 0; i < claim->asked.n_devices; i++) {
                        const struct ledger_claim_device *device = &claim->asked.devices[i];
                        const struct unit *unit = ledger_claimable_unit(core, device->unit);

                        if (!claim->devices[i].is_made)
                                continue;
                        if (!unit)
                                return false;
                        ret[(*count)++] = claim_request_of(device, claim_daemon_name(core, arena, device));
                }
        }
        return set->is_known || !core->plan->claimable;
}

size_t claim_set_count_devices(const struct claim_set *set)
{
        size_t count = 0;

        LIST_FOR_EACH(link, &set->claims)
                count += container_of(link, struct claim, link)->asked.n_devices;
        return count;
}

void claim_set_forget(struct claim_set *set)
{
        while (!list_is_empty(&set->claims)) {
                struct claim *claim = container_of(set->claims.next, struct claim, link);

                for (size_t i = 0; i < claim->asked.n_devices; i++)
                        claim->devices[i].is_made = false;
                claim_end(claim);
        }
        set->is_known = false;
}

/* ---- changes ---- */

bool claim_set_add(struct claim_set *set, const struct ledger_claim *asked, ledger_claimed_fn *done, void *data)
{
        struct claim *previous = claim_find(set, asked->uid);
        struct claim *claim;

        if (previous)
                claim_end(previous);
        claim = claim_new(set, asked);
        claim->since = ledger_clock(set->core);
        claim->done = done;
        claim->data = data;
        if (claim_set_check_fit(set, &claim->asked, NULL, NULL, &claim->failure) == 0)
                return true;
        claim_answer(claim, CLAIM_REFUSED);
        return false;
}

bool claim_set_remove(struct claim_set *set, const char *uid)
{
        struct claim *claim = claim_find(set, uid);

        if (!claim)
                return false;
        claim_end(claim);
        return true;
}

void claim_set_keep(struct claim_set *set, const struct ledger_claim *claims, size_t n_claims)
{
        claim_set_forget(set);
        for (size_t i = 0; i < n_claims; i++) {
                struct claim *claim = claim_new(set, &claims[i]);

                claim->state = CLAIM_HELD;
                for (size_t j = 0; j < claims[i].n_devices; j++) {
                        const struct ledger_claim_device *device = &claims[i].devices[j];

                        claim->devices[j].given.tier = device->tier;
                        claim->devices[j].given.daemon = claim->asked.devices[j].daemon;
                        claim->devices[j].is_made = device->is_shared && device->tier >= MPS_TIER_PARTITION;
                }
        }
        set->is_known = true;
}

void claim_set_name_pods(struct claim_set *set, const char *uid, const struct ledger_claim_pod *pods, size_t n_pods)
{
        struct claim *claim = claim_find(set, uid);

        if (claim)
                claim_set_pods(claim, pods, n_pods);
}

static bool has_pod(const struct claim *claim, const char *pod)
{
        for (size_t i = 0; i < claim->asked.n_pods; i++)
                if (strcmp(claim->asked.pods[i].uid, pod) == 0)
                        return true;
        return false;
}

/* True if the client uses |unit|, or may use it: if its unit is unknown, each unit of its daemon may be the one. */
static bool may_be_on(const struct mps_client *client, const struct mps_daemon_status *daemon, const char *unit)
{
        for (size_t i = 0; !client->unit && i < daemon->n_units; i++)
                if (strcmp(daemon->units[i], unit) == 0)
                        return true;
        return client->unit && strcmp(client->unit, unit) == 0;
}

static bool is_of_unknown_pod(
        const struct claim_set *set, const struct mps_client *client, const struct mps_daemon_status *daemon)
{
        bool has_claim = false;

        LIST_FOR_EACH(link, &set->claims) {
                const struct claim *claim = container_of(link, struct claim, link);

                for (size_t i = 0; i < claim->asked.n_devices; i++) {
                        if (!claim->asked.devices[i].is_shared ||
                                !may_be_on(client, daemon, claim->asked.devices[i].unit))
                                continue;
                        has_claim = true;
                        if (has_pod(claim, client->pod_uid))
                                return false;
                }
        }
        return has_claim;
}

bool claim_set_has_unknown_pods(const struct claim_set *set)
{
        const struct mps_status *status = daemons_status(&set->core->daemons);

        for (size_t i = 0; status && i < status->n_daemons; i++) {
                const struct mps_daemon_status *daemon = &status->daemons[i];

                for (size_t j = 0; j < daemon->n_clients; j++)
                        if (daemon->clients[j].pod_uid && is_of_unknown_pod(set, &daemon->clients[j], daemon))
                                return true;
        }
        return false;
}

size_t claim_set_all(const struct claim_set *set, struct arena *arena, const struct ledger_claim_state **ret)
{
        struct ledger_claim_state *states;
        size_t count = 0;

        LIST_FOR_EACH(link, &set->claims)
                count++;
        *ret = states = ARENA_ARRAY(arena, struct ledger_claim_state, count);
        count = 0;
        LIST_FOR_EACH(link, &set->claims) {
                const struct claim *claim = container_of(link, struct claim, link);

                states[count++] = (struct ledger_claim_state){
                        &claim->asked, claim->state == CLAIM_HELD, claim->state == CLAIM_REFUSED};
        }
        return count;
}

/* ---- begin and end ---- */

void claim_set_init(struct claim_set *set, const struct ledger_core *core)
{
        *set = (struct claim_set){.core = core};
        list_init(&set->claims);
        uv_timer_init(core->options.loop, &set->timer);
}

void claim_set_close(struct claim_set *set, struct closing *closing)
{
        claim_set_forget(set);
        closing_close(closing, &set->timer);
}
