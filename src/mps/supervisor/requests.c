// SPDX-License-Identifier: Apache-2.0
/*
 * Asks a control daemon for one container: to create its SM partition or MPS namespace, to remove it, to terminate one
 * client. allocations.c decides which are needed, and gets the outcome.
 */
#include "mps/supervisor/requests.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"
#include "mps/control/dialogue.h"

#define SOCKET "control"

/* ---- requests ---- */

struct request *request_new(struct mps_allocations *allocations, enum request_kind kind, void *data)
{
        struct arena arena = ARENA_INIT;
        struct request *request = ARENA_NEW(&arena, struct request);

        request->arena = arena;
        request->kind = kind;
        request->allocations = allocations;
        request->data = data;
        list_append(&allocations->requests, &request->link);
        return request;
}

void request_free(struct request *request)
{
        struct arena arena = request->arena;

        mps_poll_cancel(request->poll);
        list_remove(&request->link);
        arena_done(&arena);
}

void request_end(struct request *request, const struct error *err)
{
        request->is_over = true;
        request->daemon = NULL;
        if (err)
                request->err = *err;
        request->allocations->owner.changed(false, request->allocations->owner.data);
}

void request_fail(struct request *request, enum error_kind kind, const char *what, const char *name)
{
        struct error err;

        error_raise(&err, kind, "MPS daemon '%s' %s", name, what);
        request_end(request, &err);
}

bool request_find_daemon(struct request *request, const char *name)
{
        struct mps_daemon *daemon = mps_daemons_find(request->allocations->daemons, name);

        request->control = daemon && mps_daemon_is_ready(daemon) ? mps_daemon_control(daemon) : NULL;
        if (!daemon)
                request_fail(request, ERROR_NOT_FOUND, "is not known here", name);
        else if (!request->control)
                request_fail(request, ERROR_UNAVAILABLE, "is not ready", name);
        else
                request->daemon = daemon;
        return request->daemon != NULL;
}

static bool request_speaks_v3(const struct request *request)
{
        return mps_daemon_options(request->daemon) & MPS_CAN_NAMESPACE;
}

static const struct mps_unit *request_find_unit(const struct request *request)
{
        return mps_daemon_unit(mps_daemon_settings(request->daemon), request->wanted.unit);
}

/* The daemon has created what was asked for, if it is still the same process. */
static void request_made(struct request *request, enum mps_tier tier)
{
        struct mps_record_daemon process;

        request->allocation.tier = tier;
        if (mps_daemon_record(request->daemon, &process))
                allocations_made(request, &process);
        else
                request_fail(request, ERROR_UNAVAILABLE, "has ended", request->wanted.daemon);
}

/* ---- partitions ---- */

static unsigned int chunks_of(const struct mps_unit *unit, unsigned int sms)
{
        return unit->chunk_sms && sms > unit->chunk_sms ? sms / unit->chunk_sms : 1;
}

static void on_partition(const struct error *err, const char *answer, void *data)
{
        struct request *request = data;
        const struct mps_unit *unit = request_find_unit(request);
        struct error problem;

        if (!err && dialogue_read_partition(answer, &request->arena, &request->allocation.partition, &problem) < 0)
                err = &problem;
        if (err) {
                request_end(request, err);
                return;
        }
        request->allocation.sms = unit ? chunks_of(unit, request->wanted.sms) * unit->chunk_sms : 0;
        request_made(request, MPS_TIER_PARTITION);
}

static void make_partition(struct request *request, const struct mps_unit *unit)
{
        mps_control_ask(request->control,
                dialogue_partition_add(&request->arena, unit->gpu_uuid, chunks_of(unit, request->wanted.sms)),
                on_partition, request);
}

/* ---- namespaces ---- */

/*
 * The steps: create the namespace, set its limits, read each limit back. A namespace that exists already, for example
 * after a crash between its creation and its record, gets the limits, too. If a limit is refused or reads back
 * differently, the namespace is deleted.
 */
enum { STEP_CREATE, STEP_SET, STEP_READ_BACK };

static const char *own_server(struct request *request)
{
        return dialogue_v3_own_server(&request->arena, geteuid());
}

static void on_namespace_undone(const struct error *err UNUSED, const char *answer UNUSED, void *data)
{
        request_end(data, NULL); /* with the error that is noted already */
}

/* The namespace is deleted only if it has no clients; if it has some, it existed before and is in use. */
static void namespace_undo(struct request *request)
{
        mps_control_run(request->control,
                dialogue_v3_namespace_delete(&request->arena, own_server(request), request->wanted.id),
                on_namespace_undone, request);
}

static void on_namespace_answer(const struct error *err, const char *answer, void *data);

static void namespace_ask(struct request *request)
{
        const char *command = request->making.limits[0].set;

        if (request->making.step == STEP_CREATE)
                command = dialogue_v3_namespace_create(&request->arena, own_server(request), request->wanted.id);
        if (request->making.step >= STEP_READ_BACK)
                command = request->making.limits[request->making.step - STEP_READ_BACK].get;
        mps_control_run(request->control, command, on_namespace_answer, request);
}

/* The error of the step, if there is one. Where the namespace cannot be created, it may exist already. */
static bool namespace_has_failed(
        const struct request *request, const struct error *err, const char *answer, struct error *ret)
{
        if (err) {
                *ret = request->err.kind == ERROR_NONE ? *err : request->err;
                return request->making.step != STEP_CREATE || err->kind != ERROR_UNAVAILABLE;
        }
        if (request->making.step < STEP_READ_BACK)
                return false;
        if (mps_setting_check(&request->making.limits[request->making.step - STEP_READ_BACK], answer, true, ret) ==
                MPS_SETTING_SAME)
                return false;
        error_raise_prefix(ret, "MPS namespace '%s'", request->wanted.id);
        return true;
}

static void on_namespace_answer(const struct error *err, const char *answer, void *data)
{
        struct request *request = data;
        struct error problem = request->err;

        if (namespace_has_failed(request, err, answer, &problem)) {
                request->err = problem;
                namespace_undo(request);
                return;
        }
        if (err)
                request->err = problem;
        if (++request->making.step < STEP_READ_BACK + request->making.n_limits) {
                namespace_ask(request);
                return;
        }
        request->err.kind = ERROR_NONE;
        request_made(request, MPS_TIER_NAMESPACE);
}

static bool fits_address(const struct request *request)
{
        return strlen(request->allocations->daemons->context.options->root) + 1 + strlen(request->allocation.pipe) + 1 +
                       strlen(SOCKET) <
               sizeof(((struct sockaddr_un *)NULL)->sun_path);
}

static void make_namespace(struct request *request)
{
        const struct mps_allocation_request *wanted = &request->wanted;
        const char *server = own_server(request);

        request->allocation.pipe = arena_printf(&request->arena, "%s/pipe/%s/%s", wanted->daemon, server, wanted->id);
        if (!dialogue_v3_is_name(wanted->id) || !fits_address(request)) {
                request_fail(request, ERROR_INVALID, "cannot have a namespace of that name", wanted->daemon);
        } else if (!wanted->threads_permille && !wanted->limit_mib) {
                request_fail(request, ERROR_INVALID, "is asked for a namespace without a limit", wanted->daemon);
        } else {
                request->making.n_limits =
                        mps_setting_v3_new_namespace(request->making.limits, &request->arena, server, &request->wanted);
                namespace_ask(request);
        }
}

void request_make(struct request *request)
{
        const struct mps_unit *unit = request_find_unit(request);

        if (!unit)
                request_fail(request, ERROR_NOT_FOUND, "does not serve that unit", request->wanted.daemon);
        else if (request_speaks_v3(request))
                make_namespace(request);
        else
                make_partition(request, unit);
}

/* ---- removing ---- */

static void removal_ends(struct request *request, const struct error *err)
{
        allocations_removed(request, err && err->kind == ERROR_NOT_FOUND ? NULL : err);
}

static bool request_is_listed(const struct request *request, const struct dialogue_partition *listed, size_t n_listed)
{
        for (size_t i = 0; i < n_listed; i++)
                if (dialogue_is_partition(&listed[i], request->wanted.unit, request->allocation.partition))
                        return true;
        return false;
}

/* Only this list shows whether it is gone: programs answer the removal in several ways, always with status 0. */
static void on_partitions(const struct error *err, const char *answer, void *data)
{
        struct request *request = data;
        struct dialogue_unread unread = {0};
        struct dialogue_partition *listed;
        struct error problem;
        size_t n_listed;

        if (err) {
                removal_ends(request, err);
                return;
        }
        dialogue_read_partitions(answer, &request->arena, &listed, &n_listed, &unread);
        problem.kind = ERROR_NONE;
        if (request_is_listed(request, listed, n_listed))
                error_raise(&problem, ERROR_UNAVAILABLE, "the SM partition stays: %.200s", request->said);
        else if (unread.count)
                error_raise(&problem, ERROR_UNAVAILABLE,
                        "the SM partition may be there still: %zu lines of lspart cannot be read, the first: '%s'",
                        unread.count, unread.first);
        removal_ends(request, problem.kind == ERROR_NONE ? NULL : &problem);
}

static void on_partition_removed(const struct error *err, const char *answer, void *data)
{
        struct request *request = data;

        if (err) {
                removal_ends(request, err);
                return;
        }
        request->said = *answer ? arena_strndup(&request->arena, answer, strnlen(answer, 200)) : "no reason is given";
        mps_control_ask(request->control, "lspart", on_partitions, request);
}

/* If the deletion failed, the namespace may be gone already: reading its fields shows whether it is. */
static void on_still_there(const struct error *err, const char *answer UNUSED, void *data)
{
        struct request *request = data;
        struct error problem;

        if (!err) {
                error_raise(&problem, ERROR_UNAVAILABLE, "the MPS namespace '%s' stays: it has clients",
                        request->wanted.id);
                err = &problem;
        } else if (err->kind == ERROR_UNAVAILABLE || err->kind == ERROR_NOT_FOUND) {
                err = NULL;
        }
        allocations_removed(request, err);
}

static void on_namespace_deleted(const struct error *err, const char *answer UNUSED, void *data)
{
        struct request *request = data;

        if (err && err->kind == ERROR_UNAVAILABLE)
                mps_control_run(request->control,
                        dialogue_v3_namespace_get(
                                &request->arena, own_server(request), request->wanted.id, DIALOGUE_V3_THREADS),
                        on_still_there, request);
        else
                removal_ends(request, err);
}

void request_remove(struct request *request, struct mps_daemon *daemon, const struct mps_record_allocation *value)
{
        request->daemon = daemon;
        request->control = mps_daemon_control(daemon);
        if (value->allocation.tier == MPS_TIER_NAMESPACE) {
                mps_control_run(request->control,
                        dialogue_v3_namespace_delete(&request->arena, own_server(request), request->wanted.id),
                        on_namespace_deleted, request);
                return;
        }
        request->allocation.partition = arena_strdup(&request->arena, value->allocation.partition);
        mps_control_ask(request->control,
                dialogue_partition_remove(&request->arena, value->request.unit, value->allocation.partition),
                on_partition_removed, request);
}

/* ---- terminating one client ---- */

static void requests_on_terminated(const struct error *err, const char *answer, void *data)
{
        struct request *request = data;
        const char *last = answer ? strrchr(answer, '\n') : NULL;
        struct error problem;

        if (answer && !request_speaks_v3(request) && strcmp(last ? last + 1 : answer, "0") != 0) {
                error_raise(&problem, ERROR_UNAVAILABLE, "MPS client %d was not terminated: %.200s",
                        (int)request->client, answer);
                err = &problem;
        }
        request_end(request, err);
}

static const struct mps_client *find_client(const struct mps_observation *seen, pid_t pid)
{
        for (size_t i = 0; pid > 0 && i < seen->n_clients; i++)
                if (seen->clients[i].pid == pid)
                        return &seen->clients[i];
        return NULL;
}

/* Why the client is not to be terminated; false: it is. */
static bool request_must_spare(const struct request *request, const struct mps_observation *seen,
        const struct mps_client *client, struct error *err)
{
        if (!client)
                error_raise(err, seen->unread.count ? ERROR_UNAVAILABLE : ERROR_NOT_FOUND,
                        "no MPS client has the PID %d now%s", (int)request->client,
                        seen->unread.count ? ", but not every line of the daemon's lists could be read" : "");
        else if (!client->container_id || !text_is_same(client->container_id, request->container_id))
                error_raise(err, ERROR_DENIED,
                        "MPS client %d belongs to the container %s, not to %s: it is not terminated",
                        (int)request->client, client->container_id ? client->container_id : "(none)",
                        request->container_id ? request->container_id : "(none)");
        else
                return false;
        return true;
}

/*
 * The PID can belong to another client only if the client ends and the PID is reused between this poll and the command.
 */
static void requests_on_polled(struct mps_observation *seen, const struct error *err, void *data)
{
        struct request *request = data;
        const struct mps_client *client = seen ? find_client(seen, request->client) : NULL;
        struct error problem;

        assert(err || seen);
        request->poll = NULL;
        if (!err && request_must_spare(request, seen, client, &problem))
                err = &problem;
        if (err)
                request_end(request, err);
        else if (request_speaks_v3(request)) /* with v3, the exit status says whether it worked */
                mps_control_run(request->control, dialogue_v3_client_terminate(&request->arena, client->pid),
                        requests_on_terminated, request);
        else
                mps_control_ask(request->control,
                        arena_printf(&request->arena, "terminate_client %d %d", (int)client->server, (int)client->pid),
                        requests_on_terminated, request);
        mps_observation_free(seen);
}

void mps_allocations_terminate(struct mps_allocations *allocations, const char *name, pid_t client,
        const char *container_id, mps_done_fn *done, void *data)
{
        struct request *request = request_new(allocations, REQUEST_TERMINATE, data);

        request->done = done;
        request->client = client;
        request->wanted.daemon = arena_strdup(&request->arena, name);
        request->container_id = arena_strdup(&request->arena, container_id);
        if (request_find_daemon(request, name))
                request->poll = mps_poll_start(&(struct mps_poll_options){.control = request->control,
                        .unit = "",
                        .is_v3 = request_speaks_v3(request),
                        .system_root = allocations->daemons->context.options->system_root,
                        .done = requests_on_polled,
                        .data = request});
}
