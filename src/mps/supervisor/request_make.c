/*
 * Asks a daemon to create the SM partition or the MPS namespace of one container, or to remove it. allocations.c
 * decides which are needed, and gets the outcome.
 */
#include "mps/supervisor/requests.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "mps/control/dialogue.h"
#include "mps/control/dialogue_v3.h"
#include "mps/supervisor/setting.h"

/* ---- partitions ---- */

static const struct mps_unit *request_make_find_unit(const struct mps_daemon *daemon, const char *uuid)
{
        return mps_daemon_unit(mps_daemon_settings(daemon), uuid);
}

static unsigned int chunks_of(const struct mps_unit *unit, unsigned int sms)
{
        return unit->chunk_sms && sms > unit->chunk_sms ? sms / unit->chunk_sms : 1;
}

static void on_partition(const struct error *err, const char *answer, void *data)
{
        struct request *request = data;
        struct mps_daemon *daemon = request->daemon;
        const struct mps_unit *unit = daemon ? request_make_find_unit(daemon, request->wanted.unit) : NULL;
        struct mps_record_daemon process;
        struct error problem;

        if (err) {
                request_end(request, err);
                return;
        }
        if (dialogue_read_partition(answer, &request->arena, &request->allocation.partition, &problem) < 0) {
                request_end(request, &problem);
                return;
        }
        if (!unit || !mps_daemon_record(daemon, &process)) {
                request_fail(request, ERROR_UNAVAILABLE, "has ended", request->wanted.daemon);
                return;
        }
        request->allocation.tier = MPS_TIER_PARTITION;
        request->allocation.sms = chunks_of(unit, request->wanted.sms) * unit->chunk_sms;
        allocations_made(request, &process);
}

static void make_partition(struct request *request, struct mps_control *control)
{
        const struct mps_unit *unit = request_make_find_unit(request->daemon, request->wanted.unit);

        if (!unit) {
                request_fail(request, ERROR_NOT_FOUND, "does not serve that unit", request->wanted.daemon);
                return;
        }
        mps_control_ask(control,
                dialogue_partition_add(&request->arena, unit->gpu_uuid, chunks_of(unit, request->wanted.sms)),
                on_partition, request);
}

/* ---- namespaces ---- */

#define SOCKET "control"

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

static void namespace_made(struct request *request)
{
        struct mps_record_daemon process;

        request->err.kind = ERROR_NONE;
        if (!request->daemon || !mps_daemon_record(request->daemon, &process)) {
                request_fail(request, ERROR_UNAVAILABLE, "has ended", request->wanted.daemon);
                return;
        }
        request->allocation.tier = MPS_TIER_NAMESPACE;
        allocations_made(request, &process);
}

static void on_namespace_answer(const struct error *err, const char *answer, void *data);

static void namespace_ask(struct request *request)
{
        const char *server = own_server(request);
        const char *command = dialogue_v3_namespace_create(&request->arena, server, request->wanted.id);
        struct mps_setting limits[2];
        const size_t n_limits = mps_setting_v3_new_namespace(limits, &request->arena, server, &request->wanted);

        if (request->step == STEP_READ_BACK + n_limits) {
                namespace_made(request);
                return;
        }
        if (request->step == STEP_SET)
                command = limits[0].set;
        if (request->step >= STEP_READ_BACK)
                command = limits[request->step - STEP_READ_BACK].get;
        mps_control_run(request->control, command, on_namespace_answer, request);
}

/* False: |answer| shows another limit than was set; |err| says which. */
static bool is_limit_set(struct request *request, const char *answer, struct error *err)
{
        struct mps_setting limits[2];

        mps_setting_v3_new_namespace(limits, &request->arena, own_server(request), &request->wanted);
        if (mps_setting_check(&limits[request->step - STEP_READ_BACK], answer, true, err) == MPS_SETTING_SAME)
                return true;
        error_raise_prefix(err, "MPS namespace '%s'", request->wanted.id);
        return false;
}

static void on_namespace_answer(const struct error *err, const char *answer, void *data)
{
        struct request *request = data;
        struct error problem;

        if (err && request->step == STEP_CREATE && err->kind == ERROR_UNAVAILABLE) {
                request->err = *err; /* it may exist already; the next step finds out */
        } else if (err) {
                if (request->err.kind == ERROR_NONE)
                        request->err = *err;
                namespace_undo(request);
                return;
        } else if (request->step >= STEP_READ_BACK && !is_limit_set(request, answer, &problem)) {
                request->err = problem;
                namespace_undo(request);
                return;
        }
        request->step++;
        namespace_ask(request);
}

static bool fits_address(const struct mps_allocations *allocations, const char *pipe)
{
        return strlen(allocations->root) + 1 + strlen(pipe) + 1 + strlen(SOCKET) <
               sizeof(((struct sockaddr_un *)NULL)->sun_path);
}

static void make_namespace(struct request *request, struct mps_control *control)
{
        struct arena *arena = &request->arena;
        const struct mps_allocation_request *wanted = &request->wanted;

        request->allocation.pipe =
                arena_printf(arena, "%s/pipe/%s/%s", wanted->daemon, own_server(request), wanted->id);
        if (!request_make_find_unit(request->daemon, wanted->unit)) {
                request_fail(request, ERROR_NOT_FOUND, "does not serve that unit", wanted->daemon);
        } else if (!dialogue_v3_is_name(wanted->id) || !fits_address(request->allocations, request->allocation.pipe)) {
                request_fail(request, ERROR_INVALID, "cannot have a namespace of that name", wanted->daemon);
        } else if (!wanted->threads_permille && !wanted->limit_mib) {
                request_fail(request, ERROR_INVALID, "is asked for a namespace without a limit", wanted->daemon);
        } else {
                request->control = control;
                namespace_ask(request);
        }
}

void request_make(struct request *request, struct mps_control *control)
{
        if (mps_daemon_options(request->daemon) & MPS_CAN_NAMESPACE)
                make_namespace(request, control);
        else
                make_partition(request, control);
}

/* ---- removing ---- */

static void removal_ends(struct request *request, const struct error *err)
{
        allocations_removed(request, err && err->kind == ERROR_NOT_FOUND ? NULL : err);
}

static bool request_make_is_listed(
        const struct request *request, const struct dialogue_partition *listed, size_t n_listed)
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
        if (request_make_is_listed(request, listed, n_listed)) {
                error_raise(&problem, ERROR_UNAVAILABLE, "the SM partition stays: %.200s", request->said);
                removal_ends(request, &problem);
        } else if (unread.count) {
                error_raise(&problem, ERROR_UNAVAILABLE,
                        "the SM partition may be there still: %zu lines of lspart cannot be read, the first: '%s'",
                        unread.count, unread.first);
                removal_ends(request, &problem);
        } else {
                removal_ends(request, NULL);
        }
}

static void on_partition_removed(const struct error *err, const char *answer, void *data)
{
        struct request *request = data;
        struct mps_control *control = request->daemon ? mps_daemon_control(request->daemon) : NULL;

        if (err || !control) {
                removal_ends(request, err);
                return;
        }
        request->said = *answer ? arena_strndup(&request->arena, answer, strnlen(answer, 200)) : "no reason is given";
        mps_control_ask(control, "lspart", on_partitions, request);
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
        struct mps_control *control = request->daemon ? mps_daemon_control(request->daemon) : NULL;

        if (err && err->kind == ERROR_UNAVAILABLE && control)
                mps_control_run(control,
                        dialogue_v3_namespace_get(
                                &request->arena, own_server(request), request->wanted.id, DIALOGUE_V3_THREADS),
                        on_still_there, request);
        else
                removal_ends(request, err);
}

void request_remove(struct request *request, const struct mps_record_allocation *value, struct mps_control *control)
{
        if (value->allocation.tier == MPS_TIER_NAMESPACE) {
                mps_control_run(control,
                        dialogue_v3_namespace_delete(&request->arena, own_server(request), request->wanted.id),
                        on_namespace_deleted, request);
                return;
        }
        request->allocation.partition = arena_strdup(&request->arena, value->allocation.partition);
        mps_control_ask(control,
                dialogue_partition_remove(&request->arena, value->request.unit, value->allocation.partition),
                on_partition_removed, request);
}
