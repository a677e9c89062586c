// SPDX-License-Identifier: Apache-2.0
#include "fake_supervisor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_supervisor supervisor;

struct mps_link {
        struct mps_link_options options;
        struct arena arena; /* of |wanted| */
        struct mps_wanted wanted;
        struct mps_status status;
};

/* One at a time: the agent has one. */
static struct mps_link *the_link;

/* ---- what is granted ---- */

static void put(struct fake_allocations *allocations, const struct mps_allocation_request *request)
{
        struct fake_allocation *allocation = &allocations->all[allocations->count++];

        assert_true(allocations->count < FAKE_ALLOCATIONS);
        snprintf(allocation->id, sizeof(allocation->id), "%s", request->id);
        snprintf(allocation->daemon, sizeof(allocation->daemon), "%s", request->daemon);
        snprintf(allocation->unit, sizeof(allocation->unit), "%s", request->unit);
        allocation->threads_permille = request->threads_permille;
        allocation->limit_mib = request->limit_mib;
        allocation->sms = request->sms;
}

static void drop(struct fake_allocations *allocations, const char *id)
{
        for (size_t i = allocations->count; i > 0; i--)
                if (strcmp(allocations->all[i - 1].id, id) == 0)
                        allocations->all[i - 1] = allocations->all[--allocations->count];
}

const struct fake_allocation *fake_allocations_find(const struct fake_allocations *allocations, const char *id)
{
        for (size_t i = 0; i < allocations->count; i++)
                if (strcmp(allocations->all[i].id, id) == 0)
                        return &allocations->all[i];
        return NULL;
}

/* ---- requests ---- */

struct request {
        char id[64];
        struct fake_allocation allocation;
        mps_granted_fn *granted; /* NULL: a release, or a look */
        bool is_look;
        mps_done_fn *done;
        void *data;
};

static struct request requests[FAKE_ALLOCATIONS];
static size_t n_requests;

static void answer_allocation(const struct request *request)
{
        const struct mps_allocation made = {.tier = supervisor.tier,
                .pipe = supervisor.tier == MPS_TIER_NAMESPACE ? request->id : NULL,
                .partition = supervisor.tier == MPS_TIER_PARTITION ? request->id : NULL,
                .sms = request->allocation.sms};
        struct error err;

        drop(&supervisor.made, request->id);
        if (supervisor.allocations != FAKE_ALLOCATIONS_NOT)
                supervisor.made.all[supervisor.made.count++] = request->allocation;
        if (supervisor.allocations == FAKE_ALLOCATIONS_IT || supervisor.allocations == FAKE_ALLOCATIONS_LATE) {
                request->granted(NULL, &made, request->data);
                return;
        }
        if (supervisor.allocations == FAKE_LOSES_IT)
                error_raise(&err, ERROR_UNAVAILABLE, "the link to the MPS supervisor is broken");
        else
                error_raise(&err, supervisor.refusal, "sm_partition add: out of SMs");
        request->granted(&err, NULL, request->data);
}

static void answer_release(const struct request *request)
{
        struct error err;

        if (request->is_look) {
                request->done(NULL, request->data);
                return;
        }
        if (!supervisor.loses_releases) {
                drop(&supervisor.made, request->id);
                request->done(NULL, request->data);
                return;
        }
        error_raise(&err, ERROR_UNAVAILABLE, "sm_partition rm: busy");
        request->done(&err, request->data);
}

void fake_supervisor_answer(void)
{
        while (n_requests && !supervisor.is_frozen) {
                struct request first = requests[0];

                memmove(requests, requests + 1, --n_requests * sizeof(*requests));
                if (first.granted)
                        answer_allocation(&first);
                else
                        answer_release(&first);
        }
}

/* ---- mps/client/link.h ---- */

int mps_link_new(struct mps_link **ret, const struct mps_link_options *options, struct error *err UNUSED)
{
        *ret = the_link = xcalloc(1, sizeof(*the_link));
        the_link->options = *options;
        supervisor.is_reported = false;
        supervisor.reported.count = 0;
        return 0;
}

void mps_link_close(struct mps_link *link, void (*closed)(void *data), void *data)
{
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE, "the link to the MPS supervisor is closing");
        while (n_requests) {
                struct request last = requests[--n_requests];

                if (last.granted)
                        last.granted(&err, NULL, last.data);
                else
                        last.done(&err, last.data);
        }
        arena_done(&link->arena);
        arena_done(&link->status.arena);
        free(link);
        the_link = NULL;
        closed(data);
}

void mps_link_apply(struct mps_link *link, const struct mps_wanted *wanted, uint64_t generation)
{
        struct mps_daemon_wanted *daemons;

        arena_done(&link->arena);
        daemons = ARENA_ARRAY(&link->arena, struct mps_daemon_wanted, wanted->n_daemons);
        for (size_t i = 0; i < wanted->n_daemons; i++)
                mps_daemon_wanted_copy(&daemons[i], &link->arena, &wanted->daemons[i]);
        link->wanted = (struct mps_wanted){daemons, wanted->n_daemons};
        assert_true(generation != supervisor.generation); /* by it the agent knows its own */
        supervisor.generation = generation;
}

void mps_link_hold(struct mps_link *link UNUSED, const struct mps_allocation_request *allocations, size_t n_allocations)
{
        supervisor.is_reported = allocations != NULL;
        supervisor.reported.count = 0;
        for (size_t i = 0; allocations && i < n_allocations; i++)
                put(&supervisor.reported, &allocations[i]);
        if (allocations)
                supervisor.made = supervisor.reported;
}

void mps_link_name_holders(struct mps_link *link UNUSED, const struct mps_holder *holders, size_t n_holders)
{
        size_t length = 0;

        supervisor.holders[0] = '\0';
        for (size_t i = 0; i < n_holders; i++)
                length += (size_t)snprintf(supervisor.holders + length, sizeof(supervisor.holders) - length,
                        "%s%s %s %s", i ? ", " : "", holders[i].unit, holders[i].claim ? "claim" : "pod",
                        holders[i].claim ? holders[i].claim : holders[i].pod);
}

void mps_link_forget(struct mps_link *link)
{
        link->wanted = (struct mps_wanted){0};
        mps_link_hold(link, NULL, 0);
}

void mps_link_allocation(
        struct mps_link *link UNUSED, const struct mps_allocation_request *request, mps_granted_fn *done, void *data)
{
        struct fake_allocations one = {0};

        put(&one, request);
        drop(&supervisor.reported, request->id);
        supervisor.reported.all[supervisor.reported.count++] = one.all[0];
        requests[n_requests] = (struct request){.allocation = one.all[0], .granted = done, .data = data};
        snprintf(requests[n_requests++].id, sizeof(requests->id), "%s", request->id);
        assert_true(n_requests < FAKE_ALLOCATIONS);
}

void mps_link_release(struct mps_link *link UNUSED, const char *id, mps_done_fn *done, void *data)
{
        drop(&supervisor.reported, id);
        requests[n_requests] = (struct request){.done = done, .data = data};
        snprintf(requests[n_requests++].id, sizeof(requests->id), "%s", id);
        assert_true(n_requests < FAKE_ALLOCATIONS);
}

void mps_link_look(struct mps_link *link UNUSED, mps_done_fn *done, void *data)
{
        requests[n_requests++] = (struct request){.is_look = true, .done = done, .data = data};
        assert_true(n_requests < FAKE_ALLOCATIONS);
}

bool mps_link_is_absent(const struct mps_link *link UNUSED)
{
        return supervisor.is_absent;
}

void mps_link_terminate(struct mps_link *link UNUSED, const char *daemon, pid_t client, const char *container_id UNUSED,
        mps_done_fn *done, void *data)
{
        assert_string_equal(daemon, supervisor.clients[0].unit);
        supervisor.terminated = client;
        requests[n_requests++] = (struct request){.done = done, .data = data};
        assert_true(n_requests < FAKE_ALLOCATIONS);
}

/* ---- status ---- */

/* All are of one unit. */
static void add_clients(struct mps_daemon_status *status)
{
        for (size_t i = 0; i < status->n_units && supervisor.n_clients; i++)
                if (strcmp(status->units[i], supervisor.clients[0].unit) == 0) {
                        status->clients = supervisor.clients;
                        status->n_clients = supervisor.n_clients;
                }
}

static struct mps_daemon_status status_of(struct arena *arena, const struct mps_daemon_wanted *wanted)
{
        const char **units = ARENA_ARRAY(arena, const char *, wanted->n_units);
        struct mps_daemon_status status = {.name = arena_strdup(arena, wanted->name),
                .resource = arena_strdup(arena, wanted->resource),
                .units = units,
                .state = MPS_READY,
                .pid = 1,
                .settings = supervisor.hides_settings ? 0 : mps_daemon_digest(wanted),
                .tier = supervisor.tier};

        for (size_t i = 0; i < wanted->n_units; i++) {
                const char *unit = arena_strdup(arena, wanted->units[i].uuid);

                if (supervisor.unit_left_out && strcmp(unit, supervisor.unit_left_out) == 0)
                        continue;
                units[status.n_units++] = unit;
                if (supervisor.unit_at_fault && strcmp(unit, supervisor.unit_at_fault) == 0)
                        status.state = MPS_FAULT;
        }
        add_clients(&status);
        return status;
}

const char *fake_supervisor_wanted(void)
{
        static char names[256];

        names[0] = '\0';
        for (size_t i = 0; i < the_link->wanted.n_daemons; i++) {
                size_t length = strlen(names);

                snprintf(
                        names + length, sizeof(names) - length, "%s%s", i ? " " : "", the_link->wanted.daemons[i].name);
        }
        return names;
}

/* It has a client, and ends when that has left. */
static struct mps_daemon_status draining(struct arena *arena, const char *unit)
{
        const char **units = ARENA_ARRAY(arena, const char *, 1);
        struct mps_daemon_status status = {.name = arena_strdup(arena, unit),
                .resource = "",
                .units = units,
                .n_units = 1,
                .state = MPS_DRAINING,
                .pid = 1,
                .tier = supervisor.tier};

        units[0] = status.name;
        add_clients(&status);
        return status;
}

void fake_supervisor_report(void)
{
        struct mps_status next = {.generation = supervisor.generation - supervisor.is_behind};
        struct mps_daemon_status *daemons =
                ARENA_ARRAY(&next.arena, struct mps_daemon_status, the_link->wanted.n_daemons + 1);

        for (size_t i = 0; i < the_link->wanted.n_daemons; i++)
                daemons[i] = status_of(&next.arena, &the_link->wanted.daemons[i]);
        next.daemons = daemons;
        next.n_daemons = the_link->wanted.n_daemons;
        if (supervisor.unit_that_drains)
                daemons[next.n_daemons++] = draining(&next.arena, supervisor.unit_that_drains);
        arena_done(&the_link->status.arena);
        the_link->status = next;
        the_link->options.on_status(&the_link->status, NULL, the_link->options.data);
}

void fake_supervisor_show(const char *unit, const char *pod_uid, uint64_t mib)
{
        static struct mps_client client;

        client = (struct mps_client){.pid = 7,
                .server = 5,
                .uid = 1000,
                .unit = unit,
                .pod_uid = pod_uid,
                .container_id = "0123456789ab",
                .memory = mib << 20};
        supervisor.clients = &client;
        supervisor.n_clients = 1;
        fake_supervisor_report();
}

void fake_supervisor_vanish(void)
{
        the_link->options.on_status(NULL, "nobody listens", the_link->options.data);
}

void fake_supervisor_restart(void)
{
        supervisor.made.count = 0;
        fake_supervisor_vanish();
        fake_supervisor_report();
        if (supervisor.is_reported)
                supervisor.made = supervisor.reported;
}

void fake_supervisor_begin(enum mps_tier tier)
{
        supervisor = (struct fake_supervisor){.tier = tier, .refusal = ERROR_INVALID};
}

void fake_supervisor_end(void)
{
        assert_null(the_link);
}
