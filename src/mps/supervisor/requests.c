/*
 * Requests to a control daemon, and the termination of single clients. An answer is delivered in the loop's next turn,
 * never from inside the call.
 */
#include "mps/supervisor/requests.h"

#include <string.h>
#include <unistd.h>

#include "mps/control/dialogue.h"
#include "mps/control/dialogue_v3.h"

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

static void free_request(struct request *request)
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
        allocations_note(request->allocations, false);
}

void request_fail(struct request *request, enum error_kind kind, const char *what, const char *name)
{
        struct error err;

        error_raise(&err, kind, "MPS daemon '%s' %s", name, what);
        request_end(request, &err);
}

static void request_deliver(struct request *request)
{
        const struct error *err = request->err.kind == ERROR_NONE ? NULL : &request->err;

        if (request->granted)
                request->granted(err, err ? NULL : &request->allocation, request->data);
        else if (request->done)
                request->done(err, request->data);
}

static struct request *first_over(const struct mps_allocations *allocations)
{
        LIST_FOR_EACH(link, &allocations->requests)
                if (container_of(link, struct request, link)->is_over)
                        return container_of(link, struct request, link);
        return NULL;
}

void mps_allocations_deliver(struct mps_allocations *allocations)
{
        struct request *request;

        while ((request = first_over(allocations))) {
                list_remove(&request->link);
                allocations_note_outcome(request);
                request_deliver(request);
                free_request(request);
        }
}

void mps_allocations_fail_daemon(struct mps_allocations *allocations, const struct mps_daemon *daemon)
{
        LIST_FOR_EACH(link, &allocations->requests) {
                struct request *request = container_of(link, struct request, link);

                if (request->daemon == daemon)
                        request_fail(request, ERROR_UNAVAILABLE, "has ended", mps_daemon_get_name(daemon));
        }
}

/* Gets the control of the daemon; ends the request if it has no process that can be asked. */
struct mps_control *request_control(struct request *request, const char *name)
{
        struct mps_daemon *daemon = mps_daemons_find(request->allocations->daemons, name);
        struct mps_control *control;

        if (!daemon) {
                request_fail(request, ERROR_NOT_FOUND, "is not known here", name);
                return NULL;
        }
        control = mps_daemon_is_ready(daemon) ? mps_daemon_control(daemon) : NULL;
        if (!control) {
                request_fail(request, ERROR_UNAVAILABLE, "is not ready", name);
                return NULL;
        }
        request->daemon = daemon;
        return control;
}

/* ---- terminating one client ---- */

static bool request_speaks_v3(const struct request *request)
{
        return request->daemon && mps_daemon_options(request->daemon) & MPS_CAN_NAMESPACE;
}

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

static bool is_same_container(const char *a, const char *b)
{
        return a && b && strcmp(a, b) == 0;
}

/*
 * The PID can belong to another client only if the client ends and the PID is reused between this poll and the command.
 */
static void requests_on_polled(struct mps_observation *seen, const struct error *err, void *data)
{
        struct request *request = data;
        const struct mps_client *client = seen ? find_client(seen, request->client) : NULL;
        struct mps_control *control = request->daemon ? mps_daemon_control(request->daemon) : NULL;
        bool is_unread = seen && seen->unread.count;
        struct error problem;
        char command[64];

        request->poll = NULL;
        if (err) {
                request_end(request, err);
        } else if (!client) {
                error_raise(&problem, is_unread ? ERROR_UNAVAILABLE : ERROR_NOT_FOUND,
                        "no MPS client has the PID %d now%s", (int)request->client,
                        is_unread ? ", but not every line of the daemon's lists could be read" : "");
                request_end(request, &problem);
        } else if (!is_same_container(client->container_id, request->container_id)) {
                error_raise(&problem, ERROR_DENIED,
                        "MPS client %d belongs to the container %s, not to %s: it is not terminated",
                        (int)request->client, client->container_id ? client->container_id : "(none)",
                        request->container_id ? request->container_id : "(none)");
                request_end(request, &problem);
        } else if (!control) {
                request_fail(request, ERROR_UNAVAILABLE, "has ended", request->wanted.daemon);
        } else if (request_speaks_v3(request)) { /* with v3, the exit status says whether it worked */
                mps_control_run(control, dialogue_v3_client_terminate(&request->arena, client->pid),
                        requests_on_terminated, request);
        } else {
                snprintf(command, sizeof(command), "terminate_client %d %d", (int)client->server, (int)client->pid);
                mps_control_ask(control, command, requests_on_terminated, request);
        }
        mps_observation_free(seen);
}

void mps_allocations_terminate(struct mps_allocations *allocations, const char *name, pid_t client,
        const char *container_id, mps_done_fn *done, void *data)
{
        struct request *request = request_new(allocations, REQUEST_TERMINATE, data);
        struct mps_control *control;

        request->done = done;
        request->client = client;
        request->wanted.daemon = arena_strdup(&request->arena, name);
        request->container_id = arena_strdup(&request->arena, container_id);
        control = request_control(request, name);
        if (control)
                request->poll = mps_poll_start(&(struct mps_poll_options){.control = control,
                        .unit = "",
                        .is_v3 = request_speaks_v3(request),
                        .system_root = allocations->system_root,
                        .done = requests_on_polled,
                        .data = request});
}

/* ---- end ---- */

void requests_done(struct mps_allocations *allocations)
{
        while (!list_is_empty(&allocations->requests))
                free_request(container_of(allocations->requests.next, struct request, link));
}
