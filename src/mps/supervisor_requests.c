/*
 * Grants, and the end of single clients. An answer is delivered from the loop's next turn, never from within the question.
 */
#include "mps/supervisor_parts.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "mps/dialogue.h"
#include "mps/dialogue_v3.h"
#include "mps/namespace.h"

/* What stays: a partition of somebody's. */
struct grant_entry {
        struct list link; /* supervisor->grants */
        struct arena arena;
        struct mps_record_grant value;
        bool is_making; /* it is being made anew */
};

enum request_kind { REQUEST_GRANT, REQUEST_RELEASE, REQUEST_TERMINATE, REQUEST_REMAKE };

struct request {
        struct list link; /* supervisor->requests */
        struct arena arena;
        enum request_kind kind;
        struct mps_supervisor *supervisor;
        struct mps_run *run; /* NULL: nothing is under way */
        bool is_over;
        struct error err; /* kind ERROR_NONE: it went well */
        struct mps_grant grant;

        struct mps_grant_request wanted; /* release: only |id| */
        pid_t client;                    /* terminate */
        const char *container_id;
        struct mps_look *look;
        struct mps_namespace name_space; /* being made */
        mps_granted_fn *granted;
        mps_done_fn *done;
        void *data;
};

/* ---- requests ---- */

static struct request *add_request(struct mps_supervisor *supervisor, enum request_kind kind, void *data)
{
        struct arena arena = ARENA_INIT;
        struct request *request = ARENA_NEW(&arena, struct request);

        request->arena = arena;
        request->kind = kind;
        request->supervisor = supervisor;
        request->data = data;
        list_append(&supervisor->requests, &request->link);
        return request;
}

static void free_request(struct request *request)
{
        struct arena arena = request->arena;

        mps_look_cancel(request->look);
        list_remove(&request->link);
        arena_done(&arena);
}

static void end_request(struct request *request, const struct error *err)
{
        request->is_over = true;
        request->run = NULL;
        if (err)
                request->err = *err;
        supervisor_note(request->supervisor, false);
}

static void fail_request(struct request *request, enum error_kind kind, const char *what, const char *daemon)
{
        struct error err;

        error_raise(&err, kind, "MPS daemon '%s' %s", daemon, what);
        end_request(request, &err);
}

static void deliver(struct request *request)
{
        const struct error *err = request->err.kind == ERROR_NONE ? NULL : &request->err;

        if (request->granted)
                request->granted(err, err ? NULL : &request->grant, request->data);
        else if (request->done)
                request->done(err, request->data);
}

static struct request *first_over(const struct mps_supervisor *supervisor)
{
        LIST_FOR_EACH(link, &supervisor->requests)
                if (container_of(link, struct request, link)->is_over)
                        return container_of(link, struct request, link);
        return NULL;
}

void requests_deliver(struct mps_supervisor *supervisor)
{
        struct request *request;

        while ((request = first_over(supervisor))) {
                list_remove(&request->link);
                deliver(request);
                free_request(request);
        }
}

void requests_fail_run(struct mps_supervisor *supervisor, const struct mps_run *run)
{
        LIST_FOR_EACH(link, &supervisor->requests) {
                struct request *request = container_of(link, struct request, link);

                if (request->run == run)
                        fail_request(request, ERROR_UNAVAILABLE, "has ended", mps_run_name(run));
        }
}

/* Its process can be asked; else the request is over. */
static struct mps_control *control_of(struct request *request, const char *daemon)
{
        struct mps_run *run = supervisor_find(request->supervisor, daemon);
        struct mps_control *control;

        if (!run) {
                fail_request(request, ERROR_NOT_FOUND, "is not known here", daemon);
                return NULL;
        }
        control = mps_run_is_ready(run) ? mps_run_control(run) : NULL;
        if (!control) {
                fail_request(request, ERROR_UNAVAILABLE, "is not ready", daemon);
                return NULL;
        }
        request->run = run;
        return control;
}

/* ---- grants ---- */

static struct grant_entry *find_entry(const struct mps_supervisor *supervisor, const char *id)
{
        LIST_FOR_EACH(link, &supervisor->grants) {
                struct grant_entry *entry = container_of(link, struct grant_entry, link);

                if (strcmp(entry->value.request.id, id) == 0)
                        return entry;
        }
        return NULL;
}

static void free_entry(struct grant_entry *entry)
{
        struct arena arena = entry->arena;

        list_remove(&entry->link);
        arena_done(&arena);
}

/* An entry of that id is replaced. */
static struct grant_entry *put_entry(struct mps_supervisor *supervisor, const struct mps_record_grant *value)
{
        struct grant_entry *old = find_entry(supervisor, value->request.id);
        struct arena arena = ARENA_INIT;
        struct grant_entry *entry = ARENA_NEW(&arena, struct grant_entry);

        entry->value = *value;
        mps_grant_request_copy(&entry->value.request, &arena, &value->request);
        mps_grant_copy(&entry->value.grant, &arena, &value->grant);
        entry->arena = arena;
        list_append(&supervisor->grants, &entry->link);
        if (old)
                free_entry(old);
        return entry;
}

static bool is_current(const struct mps_run *run, const struct mps_record_grant *grant)
{
        struct mps_record_daemon process;

        return mps_run_record(run, &process) && process.pid == grant->pid && process.start_time == grant->start_time;
}

static const struct mps_unit *find_unit(const struct mps_run *run, const char *uuid)
{
        const struct mps_daemon_wanted *settings = mps_run_settings(run);

        for (size_t i = 0; i < settings->n_units; i++)
                if (strcmp(settings->units[i].uuid, uuid) == 0)
                        return &settings->units[i];
        return NULL;
}

static unsigned int chunks_of(const struct mps_unit *unit, unsigned int sms)
{
        return unit->chunk_sms && sms > unit->chunk_sms ? sms / unit->chunk_sms : 1;
}

/* What was made is on record from now on, and the request answered. */
static void keep_grant(struct request *request, const struct mps_record_daemon *process, bool is_void)
{
        const struct mps_record_grant value = {
                .request = request->wanted,
                .grant = request->grant,
                .pid = process->pid,
                .start_time = process->start_time,
                .is_void = is_void,
        };

        put_entry(request->supervisor, &value);
        end_request(request, NULL);
        supervisor_note(request->supervisor, true);
}

static void on_partition(const struct error *err, const char *answer, void *data)
{
        struct request *request = data;
        struct mps_run *run = request->run;
        const struct mps_unit *unit;
        const struct grant_entry *old = find_entry(request->supervisor, request->wanted.id);
        struct mps_record_daemon process;
        struct error problem;

        unit = run ? find_unit(run, request->wanted.unit) : NULL;
        if (err) {
                end_request(request, err);
                return;
        }
        if (dialogue_read_partition(answer, &request->arena, &request->grant.partition, &problem) < 0) {
                end_request(request, &problem);
                return;
        }
        if (!unit || !mps_run_record(run, &process)) {
                fail_request(request, ERROR_UNAVAILABLE, "has ended", request->wanted.daemon);
                return;
        }
        request->grant.tier = MPS_TIER_PARTITION;
        request->grant.sms = chunks_of(unit, request->wanted.sms) * unit->chunk_sms;
        keep_grant(request, &process,
                old && (!old->value.grant.partition ||
                               strcmp(old->value.grant.partition, request->grant.partition) != 0));
}

static void make_partition(struct request *request, struct mps_control *control)
{
        const struct mps_unit *unit = find_unit(request->run, request->wanted.unit);
        struct strbuf command = STRBUF_INIT;

        if (!unit) {
                fail_request(request, ERROR_NOT_FOUND, "does not serve that unit", request->wanted.daemon);
                return;
        }
        dialogue_put_partition_add(&command, unit->gpu_uuid, chunks_of(unit, request->wanted.sms));
        mps_control_ask(control, command.data, on_partition, request);
        strbuf_done(&command);
}

/* ---- namespaces ---- */

#define SOCKET "control"

static void on_namespace(const struct error *err, void *data)
{
        struct request *request = data;
        struct mps_record_daemon process;

        if (err) {
                end_request(request, err);
        } else if (!request->run || !mps_run_record(request->run, &process)) {
                fail_request(request, ERROR_UNAVAILABLE, "has ended", request->wanted.daemon);
        } else {
                request->grant.tier = MPS_TIER_NAMESPACE;
                keep_grant(request, &process, false); /* it is in the same place again: containers find it */
        }
}

static bool fits_address(const struct mps_supervisor *supervisor, const char *pipe)
{
        return strlen(supervisor->root) + 1 + strlen(pipe) + 1 + strlen(SOCKET) <
               sizeof(((struct sockaddr_un *)NULL)->sun_path);
}

static void make_namespace(struct request *request, struct mps_control *control)
{
        struct arena *arena = &request->arena;
        const char *server = dialogue_v3_own_server(arena, geteuid());
        const struct mps_grant_request *wanted = &request->wanted;

        request->grant.pipe = arena_printf(arena, "%s/pipe/%s/%s", wanted->daemon, server, wanted->id);
        if (!find_unit(request->run, wanted->unit)) {
                fail_request(request, ERROR_NOT_FOUND, "does not serve that unit", wanted->daemon);
        } else if (!dialogue_v3_is_name(wanted->id) || !fits_address(request->supervisor, request->grant.pipe)) {
                fail_request(request, ERROR_INVALID, "cannot have a namespace of that name", wanted->daemon);
        } else if (!wanted->threads_permille && !wanted->limit_mib) {
                fail_request(request, ERROR_INVALID, "is asked for a namespace without a limit", wanted->daemon);
        } else {
                request->name_space = (struct mps_namespace){
                        .arena = arena,
                        .control = control,
                        .server = server,
                        .name = wanted->id,
                        .threads_permille = wanted->threads_permille,
                        .limit_mib = wanted->limit_mib,
                        .done = on_namespace,
                        .data = request,
                };
                mps_namespace_make(&request->name_space);
        }
}

/* ---- both ---- */

static bool makes_parts(const struct mps_run *run)
{
        return mps_run_options(run) & (MPS_CAN_PARTITION | MPS_CAN_NAMESPACE);
}

static void make_part(struct request *request, struct mps_control *control)
{
        if (mps_run_options(request->run) & MPS_CAN_NAMESPACE)
                make_namespace(request, control);
        else
                make_partition(request, control);
}

void mps_supervisor_grant(
        struct mps_supervisor *supervisor, const struct mps_grant_request *wanted, mps_granted_fn *done, void *data)
{
        struct request *request = add_request(supervisor, REQUEST_GRANT, data);
        struct mps_control *control;
        const struct grant_entry *entry = find_entry(supervisor, wanted->id);

        request->granted = done;
        mps_grant_request_copy(&request->wanted, &request->arena, wanted);
        control = control_of(request, wanted->daemon);
        if (!control)
                return;
        if (!makes_parts(request->run)) {
                request->grant.tier = mps_run_tier(request->run); /* nothing has to be made */
                end_request(request, NULL);
        } else if (entry && is_current(request->run, &entry->value)) {
                mps_grant_copy(&request->grant, &request->arena, &entry->value.grant);
                end_request(request, NULL);
        } else {
                make_part(request, control);
        }
}

static void on_removed(const struct error *err, const char *answer, void *data)
{
        struct request *request = data;
        struct grant_entry *entry = find_entry(request->supervisor, request->wanted.id);
        struct error problem;

        if (!err && *answer && !dialogue_is_not_found(answer)) {
                error_raise(&problem, ERROR_UNAVAILABLE, "the SM partition stays: %.200s", answer);
                end_request(request, &problem);
                return;
        }
        if (entry && (!err || err->kind == ERROR_NOT_FOUND))
                free_entry(entry);
        end_request(request, err && err->kind != ERROR_NOT_FOUND ? err : NULL);
        supervisor_note(request->supervisor, true);
}

/* What could not be deleted may be gone already; whether it is, its fields tell. */
static void on_still_there(const struct error *err, const char *answer UNUSED, void *data)
{
        struct request *request = data;
        struct grant_entry *entry = find_entry(request->supervisor, request->wanted.id);
        struct error problem;

        if (!err) {
                error_raise(&problem, ERROR_UNAVAILABLE, "the MPS namespace '%s' stays: it has clients",
                        request->wanted.id);
                end_request(request, &problem);
                return;
        }
        if (entry && (err->kind == ERROR_UNAVAILABLE || err->kind == ERROR_NOT_FOUND))
                free_entry(entry);
        end_request(request, err->kind == ERROR_TIMEOUT ? err : NULL);
        supervisor_note(request->supervisor, true);
}

static void on_deleted(const struct error *err, const char *answer UNUSED, void *data)
{
        struct request *request = data;
        struct mps_control *control = request->run ? mps_run_control(request->run) : NULL;

        if (err && err->kind == ERROR_UNAVAILABLE && control)
                mps_control_run(control,
                        dialogue_v3_namespace_get(&request->arena, dialogue_v3_own_server(&request->arena, geteuid()),
                                request->wanted.id, DIALOGUE_V3_THREADS),
                        on_still_there, request);
        else
                on_removed(err, "", request);
}

void mps_supervisor_release(struct mps_supervisor *supervisor, const char *id, mps_done_fn *done, void *data)
{
        struct request *request = add_request(supervisor, REQUEST_RELEASE, data);
        struct grant_entry *entry = find_entry(supervisor, id);
        struct mps_run *run = entry ? supervisor_find(supervisor, entry->value.request.daemon) : NULL;
        struct mps_control *control = run && is_current(run, &entry->value) ? mps_run_control(run) : NULL;
        struct strbuf command = STRBUF_INIT;

        request->done = done;
        request->wanted.id = arena_strdup(&request->arena, id);
        if (!control) { /* what it was went with its process, or was never made */
                if (entry)
                        free_entry(entry);
                end_request(request, NULL);
                supervisor_note(supervisor, true);
                return;
        }
        request->run = run;
        if (entry->value.grant.tier == MPS_TIER_NAMESPACE) {
                mps_control_run(control,
                        dialogue_v3_namespace_delete(
                                &request->arena, dialogue_v3_own_server(&request->arena, geteuid()), id, false),
                        on_deleted, request);
                return;
        }
        dialogue_put_partition_remove(&command, entry->value.request.unit, entry->value.grant.partition);
        mps_control_ask(control, command.data, on_removed, request);
        strbuf_done(&command);
}

/* Those of its earlier processes, one time each. */
void requests_on_change(struct mps_supervisor *supervisor, struct mps_run *run)
{
        struct mps_control *control;

        if (!mps_run_is_ready(run) || !makes_parts(run))
                return;
        LIST_FOR_EACH(link, &supervisor->grants) {
                struct grant_entry *entry = container_of(link, struct grant_entry, link);
                struct request *request;

                if (entry->is_making || is_current(run, &entry->value) ||
                        strcmp(entry->value.request.daemon, mps_run_name(run)) != 0)
                        continue;
                entry->is_making = true;
                request = add_request(supervisor, REQUEST_REMAKE, NULL);
                mps_grant_request_copy(&request->wanted, &request->arena, &entry->value.request);
                control = control_of(request, request->wanted.daemon);
                if (control)
                        make_part(request, control);
        }
}

void requests_describe(const struct mps_supervisor *supervisor, struct arena *arena, struct mps_daemon_status *daemon)
{
        size_t count = 0;

        LIST_FOR_EACH(link, &supervisor->grants) {
                const struct mps_record_grant *grant = &container_of(link, struct grant_entry, link)->value;

                count += grant->is_void && strcmp(grant->request.daemon, daemon->name) == 0;
        }
        if (count && !daemon->notice)
                daemon->notice = arena_printf(arena,
                        "the SM partitions of %zu containers went with an earlier process of its control daemon: restart "
                        "their pods",
                        count);
}

static bool has_namespace(const struct grant_entry *entry, const struct mps_run *run)
{
        return entry->value.grant.tier == MPS_TIER_NAMESPACE &&
               strcmp(entry->value.request.daemon, mps_run_name(run)) == 0 && is_current(run, &entry->value);
}

size_t requests_list_namespaces(
        const struct mps_run *run, struct arena *arena, struct mps_grant_request **ret, void *data)
{
        const struct mps_supervisor *supervisor = data;
        size_t count = 0;

        LIST_FOR_EACH(link, &supervisor->grants)
                count += has_namespace(container_of(link, struct grant_entry, link), run);
        *ret = ARENA_ARRAY(arena, struct mps_grant_request, count);
        count = 0;
        LIST_FOR_EACH(link, &supervisor->grants) {
                const struct grant_entry *entry = container_of(link, struct grant_entry, link);

                if (has_namespace(entry, run))
                        mps_grant_request_copy(&(*ret)[count++], arena, &entry->value.request);
        }
        return count;
}

/* ---- the end of one client ---- */

static bool run_speaks_v3(const struct request *request)
{
        return request->run && mps_run_options(request->run) & MPS_CAN_NAMESPACE;
}

static void on_terminated(const struct error *err, const char *answer, void *data)
{
        struct request *request = data;
        const char *last = answer ? strrchr(answer, '\n') : NULL;
        struct error problem;

        if (answer && !run_speaks_v3(request) && strcmp(last ? last + 1 : answer, "0") != 0) {
                error_raise(&problem, ERROR_UNAVAILABLE, "MPS client %d was not terminated: %.200s",
                        (int)request->client, answer);
                err = &problem;
        }
        end_request(request, err);
}

static const struct mps_client *find_client(const struct mps_observation *seen, pid_t pid)
{
        for (size_t i = 0; pid > 0 && i < seen->n_clients; i++)
                if (seen->clients[i].pid == pid)
                        return &seen->clients[i];
        return NULL;
}

static bool is_same_container(const char *a, const char *b)
{
        return a && b && strcmp(a, b) == 0;
}

/* Between this look and the command the PID could only be another client's if it had ended and was taken again at once. */
static void on_looked(struct mps_observation *seen, const struct error *err, void *data)
{
        struct request *request = data;
        const struct mps_client *client = seen ? find_client(seen, request->client) : NULL;
        struct mps_control *control = request->run ? mps_run_control(request->run) : NULL;
        struct error problem;
        char command[64];

        request->look = NULL;
        if (err) {
                end_request(request, err);
        } else if (!client) {
                error_raise(&problem, ERROR_NOT_FOUND, "no MPS client has the PID %d now", (int)request->client);
                end_request(request, &problem);
        } else if (!is_same_container(client->container_id, request->container_id)) {
                error_raise(&problem, ERROR_DENIED, "MPS client %d is of the container %s, not of %s: it is left alone",
                        (int)request->client, client->container_id ? client->container_id : "(none)",
                        request->container_id ? request->container_id : "(none)");
                end_request(request, &problem);
        } else if (!control) {
                fail_request(request, ERROR_UNAVAILABLE, "has ended", request->wanted.daemon);
        } else if (run_speaks_v3(request)) { /* its status says whether it worked */
                mps_control_run(
                        control, dialogue_v3_client_terminate(&request->arena, client->pid), on_terminated, request);
        } else {
                snprintf(command, sizeof(command), "terminate_client %d %d", (int)client->server, (int)client->pid);
                mps_control_ask(control, command, on_terminated, request);
        }
        mps_observation_free(seen);
}

void mps_supervisor_terminate(struct mps_supervisor *supervisor, const char *daemon, pid_t client,
        const char *container_id, mps_done_fn *done, void *data)
{
        struct request *request = add_request(supervisor, REQUEST_TERMINATE, data);
        struct mps_control *control;

        request->done = done;
        request->client = client;
        request->wanted.daemon = arena_strdup(&request->arena, daemon);
        request->container_id = arena_strdup(&request->arena, container_id);
        control = control_of(request, daemon);
        if (control)
                request->look = mps_look_start(&(struct mps_look_options){.control = control,
                        .unit = "",
                        .is_v3 = run_speaks_v3(request),
                        .system_root = supervisor->system_root,
                        .done = on_looked,
                        .data = request});
}

/* ---- life ---- */

void supervisor_requests_init(struct mps_supervisor *supervisor)
{
        list_init(&supervisor->grants);
        list_init(&supervisor->requests);
}

void supervisor_requests_done(struct mps_supervisor *supervisor)
{
        while (!list_is_empty(&supervisor->requests))
                free_request(container_of(supervisor->requests.next, struct request, link));
        while (!list_is_empty(&supervisor->grants))
                free_entry(container_of(supervisor->grants.next, struct grant_entry, link));
}

void requests_fill_record(const struct mps_supervisor *supervisor, struct mps_record *record)
{
        size_t count = 0;

        LIST_FOR_EACH(link, &supervisor->grants)
                count++;
        record->grants = ARENA_ARRAY(&record->arena, struct mps_record_grant, count);
        LIST_FOR_EACH(link, &supervisor->grants)
                record->grants[record->n_grants++] = container_of(link, struct grant_entry, link)->value;
}

void requests_read_record(struct mps_supervisor *supervisor, const struct mps_record *record)
{
        for (size_t i = 0; i < record->n_grants; i++)
                put_entry(supervisor, &record->grants[i]);
}
