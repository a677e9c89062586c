/*
 * Requests that wait for an answer are a list in the order of their deadlines; one that failed waits in it too, with a
 * deadline of now, so that every answer comes from the loop.
 */
#include "mps/link.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>

#include "base/list.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "io/lines.h"
#include "mps/control.h"
#include "mps/dialogue.h"
#include "mps/message.h"

#define RETRY_MS UINT64_C(1000)
#define RETRY_FACTOR_MAX UINT64_C(10)
#define PING_MS UINT64_C(10000)
#define SILENCE_MS UINT64_C(30000)
#define ANSWER_MS UINT64_C(30000)
#define FOREIGN_MS UINT64_C(10000) /* between two questions to NVIDIA's daemons */
#define SOCKET_PATH_MAX sizeof(((struct sockaddr_un *)0)->sun_path)
#define APPLY_ID UINT64_C(1) /* the same for all, so that the line can be kept as it is */

/* A wanted daemon, as far as it can be asked for without a supervisor. */
struct target {
        const char *name;
        const char *resource;
        const char **units;
        size_t n_units;
        unsigned int max_clients;
        /* What it said last. */
        bool answered;
        unsigned int threads_permille;
        char reason[sizeof(((struct error *)0)->text)];
        int64_t since;
};

struct request {
        struct list in_link;
        uint64_t id; /* 0: never sent */
        uint64_t due_ms;
        struct error error; /* what the deadline means */
        mps_granted_fn *granted;
        mps_done_fn *done;
        void *data;
};

struct mps_link {
        uv_loop_t *loop;
        struct mps_link_options options;
        char *directory;
        char *program;
        char *socket;
        struct lines *lines; /* NULL: not connected */
        uint64_t heard_ms;
        uint64_t last_id;
        uv_timer_t retry;
        uint64_t retry_ms;
        uv_timer_t ping;
        struct list requests;
        uv_timer_t answers;
        char *apply;  /* the line, NULL: nothing is wanted yet */
        char *reason; /* told last, NULL: none since the last status */

        /* NVIDIA's daemons: asked one after the other, one round at a time. */
        struct arena arena;
        struct target *targets;
        size_t n_targets;
        uint64_t generation;
        struct mps_control *control; /* NULL: no question is open */
        size_t asked;
        uint64_t round_ms; /* when the last round began, 0: never */
        bool is_foreign;   /* the last round found some */

        struct mps_status *told; /* NULL: nobody is there, or nothing was told yet */

        size_t handles;
        bool is_closing;
        void (*closed)(void *data);
        void *closed_data;
};

static uint64_t now_ms(const struct mps_link *link)
{
        return uv_now(link->loop);
}

/* ---- what is told ---- */

/* The one before is borrowed until this one is told. */
static void replace_status(struct mps_link *link, struct mps_status *status, const char *reason)
{
        struct mps_status *before = link->told;

        link->told = status;
        link->options.on_status(status, reason, link->options.data);
        mps_status_free(before);
}

/* Takes |status|. */
static void tell_status(struct mps_link *link, struct mps_status *status)
{
        free(TAKE_PTR(link->reason));
        replace_status(link, status, NULL);
}

static void tell_nobody(struct mps_link *link, const char *reason)
{
        if (link->reason && strcmp(link->reason, reason) == 0)
                return;
        free(link->reason);
        link->reason = xstrdup(reason);
        replace_status(link, NULL, reason);
}

/* ---- requests ---- */

static struct request *first_request(const struct mps_link *link)
{
        return list_is_empty(&link->requests) ? NULL : container_of(link->requests.next, struct request, in_link);
}

static void answer(struct request *request, const struct error *err, const struct mps_grant *grant)
{
        list_remove(&request->in_link);
        if (request->granted)
                request->granted(err, grant, request->data);
        else if (request->done)
                request->done(err, request->data);
        free(request);
}

static void on_answers_due(uv_timer_t *timer);

static void arm_answers(struct mps_link *link)
{
        const struct request *request = first_request(link);

        if (!request)
                uv_timer_stop(&link->answers);
        else
                uv_timer_start(&link->answers, on_answers_due, request->due_ms - MIN(request->due_ms, now_ms(link)), 0);
}

/* Callbacks may ask again; such a request is due later than now, or has a turn of its own. */
static void on_answers_due(uv_timer_t *timer)
{
        struct mps_link *link = container_of(timer, struct mps_link, answers);
        struct list due = LIST_INIT(due);
        struct request *request;

        while ((request = first_request(link)) && request->due_ms <= now_ms(link)) {
                list_remove(&request->in_link);
                list_append(&due, &request->in_link);
        }
        while (!list_is_empty(&due)) {
                request = container_of(due.next, struct request, in_link);
                answer(request, request->error.kind != ERROR_NONE ? &request->error : NULL, NULL);
        }
        arm_answers(link);
}

static void insert(struct mps_link *link, struct request *request)
{
        struct list *after = link->requests.previous;

        while (after != &link->requests && container_of(after, struct request, in_link)->due_ms > request->due_ms)
                after = after->previous;
        list_append(after->next, &request->in_link);
        arm_answers(link);
}

static void fail_later(struct mps_link *link, struct request *request, const struct error *err)
{
        request->id = 0;
        request->due_ms = 0;
        request->error = *err;
        insert(link, request);
}

static void fail_all(struct mps_link *link, const struct error *err)
{
        struct list requests = LIST_INIT(requests);

        while (!list_is_empty(&link->requests)) {
                struct list *head = link->requests.next;

                list_remove(head);
                list_append(&requests, head);
        }
        while (!list_is_empty(&requests)) {
                struct request *request = container_of(requests.next, struct request, in_link);

                list_remove(&request->in_link);
                if (request->id == 0)
                        insert(link, request);
                else
                        fail_later(link, request, err);
        }
}

static void send_text(struct mps_link *link, const char *text)
{
        lines_send(link->lines, text, strlen(text));
}

static void send_message(struct mps_link *link, const struct mps_request *message)
{
        _free_ char *text = mps_request_write(message);

        send_text(link, text);
}

static struct request *new_request(mps_granted_fn *granted, mps_done_fn *done, void *data)
{
        struct request *request = xcalloc(1, sizeof(*request));

        list_init(&request->in_link);
        request->granted = granted;
        request->done = done;
        request->data = data;
        return request;
}

/* What stands for an answer where there is no supervisor. */
static void answer_alone(struct mps_link *link, struct request *request, enum mps_request_kind kind)
{
        struct error err = {.kind = ERROR_NONE};

        if (!link->is_foreign)
                error_raise(&err, ERROR_UNAVAILABLE, "the MPS supervisor cannot be reached: %s",
                        link->reason ? link->reason : "not connected yet");
        else if (kind == MPS_REQUEST_GRANT)
                error_raise(&err, ERROR_UNSUPPORTED,
                        "the MPS control daemons here are not Warpshare's, and have no partitions or namespaces");
        else if (kind == MPS_REQUEST_TERMINATE)
                error_raise(&err, ERROR_UNSUPPORTED,
                        "the MPS control daemons here are not Warpshare's; it ends no clients of theirs");
        fail_later(link, request, &err);
}

static void ask(struct mps_link *link, struct request *request, struct mps_request *message)
{
        if (!link->lines) {
                answer_alone(link, request, message->kind);
                return;
        }
        message->id = request->id = ++link->last_id;
        request->due_ms = now_ms(link) + ANSWER_MS;
        error_raise(&request->error, ERROR_TIMEOUT, "the MPS supervisor did not answer within %" PRIu64 " s",
                ANSWER_MS / 1000);
        insert(link, request);
        send_message(link, message);
}

void mps_link_grant(struct mps_link *link, const struct mps_grant_request *request, mps_granted_fn *done, void *data)
{
        struct mps_request message = {.kind = MPS_REQUEST_GRANT, .grant = *request};

        ask(link, new_request(done, NULL, data), &message);
}

void mps_link_release(struct mps_link *link, const char *id, mps_done_fn *done, void *data)
{
        struct mps_request message = {.kind = MPS_REQUEST_RELEASE, .grant = {.id = id}};

        ask(link, new_request(NULL, done, data), &message);
}

void mps_link_terminate(struct mps_link *link, const char *daemon, pid_t client, const char *container_id,
        mps_done_fn *done, void *data)
{
        struct mps_request message = {
                .kind = MPS_REQUEST_TERMINATE, .daemon = daemon, .client = client, .container_id = container_id};

        ask(link, new_request(NULL, done, data), &message);
}

/* ---- NVIDIA's daemons ---- */

static void ask_next(struct mps_link *link);

/* Copied, since whoever is told may apply something else in the middle of it. */
static void make_foreign(struct arena *arena, struct mps_daemon_status *daemon, const struct target *target)
{
        const char **units = ARENA_ARRAY(arena, const char *, target->n_units);

        for (size_t i = 0; i < target->n_units; i++)
                units[i] = arena_strdup(arena, target->units[i]);
        *daemon = (struct mps_daemon_status){
                .name = arena_strdup(arena, target->name),
                .resource = arena_strdup(arena, target->resource),
                .units = units,
                .n_units = target->n_units,
                .state = target->answered ? MPS_READY : MPS_FAULT,
                .reason = target->answered ? NULL : arena_strdup(arena, target->reason),
                .since = target->since,
                .tier = MPS_TIER_DEFAULT,
                .threads_permille = target->threads_permille,
                .max_clients = target->max_clients,
        };
}

static void tell_foreign(struct mps_link *link)
{
        struct mps_status *status = mps_status_new();
        struct mps_daemon_status *daemons = ARENA_ARRAY(&status->arena, struct mps_daemon_status, link->n_targets);

        for (size_t i = 0; i < link->n_targets; i++)
                make_foreign(&status->arena, &daemons[i], &link->targets[i]);
        status->generation = link->generation;
        status->daemons = daemons;
        status->n_daemons = link->n_targets;
        tell_status(link, status);
}

static void end_round(struct mps_link *link)
{
        _free_ char *reason = NULL;

        link->is_foreign = false;
        for (size_t i = 0; i < link->n_targets; i++)
                link->is_foreign = link->is_foreign || link->targets[i].answered;
        if (link->is_foreign) {
                tell_foreign(link);
                return;
        }
        reason = xasprintf("nothing listens at '%s', and no other MPS control daemon answers: %s", link->socket,
                link->targets[0].reason);
        tell_nobody(link, reason);
}

static void note_answer(struct target *target, const struct error *err, const char *text)
{
        bool before = target->answered;
        struct error why;

        target->answered = false;
        if (err)
                snprintf(target->reason, sizeof(target->reason), "%s", err->text);
        else if (dialogue_read_percentage(text, &target->threads_permille, &why) < 0)
                snprintf(target->reason, sizeof(target->reason), "%s", why.text);
        else
                target->answered = true;
        if (target->answered != before || target->since == 0)
                target->since = (int64_t)time(NULL);
}

static void on_foreign_answer(const struct error *err, const char *text, void *data)
{
        struct mps_link *link = data;

        mps_control_close(TAKE_PTR(link->control), NULL, NULL);
        note_answer(&link->targets[link->asked++], err, text);
        ask_next(link);
}

static int start_question(struct mps_link *link, const struct target *target, struct error *err)
{
        const char *path = getenv("PATH");
        _free_ char *program = NULL;
        _free_ char *pipe = xasprintf("%s/%s/pipe", link->directory, target->name);
        _free_ char *log = xasprintf("%s/%s/log", link->directory, target->name);
        struct mps_control_options options = {
                .loop = link->loop, .pipe_directory = pipe, .log_directory = log, .path = path};

        if (mps_control_find(&program, link->program, path, "", err) < 0)
                return -1;
        options.program = program;
        if (mps_control_new(&link->control, &options, err) < 0)
                return -1;
        mps_control_ask(link->control, "get_default_active_thread_percentage", on_foreign_answer, link);
        return 0;
}

static void ask_next(struct mps_link *link)
{
        struct error err;

        while (link->asked < link->n_targets && start_question(link, &link->targets[link->asked], &err) < 0)
                note_answer(&link->targets[link->asked++], &err, NULL);
        if (link->asked == link->n_targets)
                end_round(link);
}

static void stop_round(struct mps_link *link)
{
        if (link->control)
                mps_control_close(TAKE_PTR(link->control), NULL, NULL);
}

/* There is a socket of ours, but nobody behind it; or nothing is wanted that others could be asked for. */
static void lose(struct mps_link *link, const char *reason)
{
        stop_round(link);
        link->is_foreign = false;
        link->round_ms = 0;
        tell_nobody(link, reason);
}

/* There is no socket of ours. */
static void look_for_others(struct mps_link *link)
{
        if (link->is_closing || link->control || (link->round_ms != 0 && now_ms(link) - link->round_ms < FOREIGN_MS))
                return;
        link->round_ms = now_ms(link);
        link->asked = 0;
        ask_next(link);
}

/* ---- the connection ---- */

static void on_retry(uv_timer_t *timer);

static void retry_later(struct mps_link *link)
{
        uint64_t first = link->options.retry_ms ? link->options.retry_ms : RETRY_MS;

        link->retry_ms = link->retry_ms ? MIN(link->retry_ms * 2, first * RETRY_FACTOR_MAX) : first;
        uv_timer_start(&link->retry, on_retry, link->retry_ms, 0);
}

static void disconnect(struct mps_link *link, const struct error *err)
{
        link->lines = lines_close(link->lines);
        uv_timer_stop(&link->ping);
        fail_all(link, err);
        link->retry_ms = 0;
        link->round_ms = 0;
        tell_nobody(link, err->text);
        retry_later(link);
}

static void on_end(const struct error *reason, void *data)
{
        struct error err = *reason;

        error_raise_prefix(&err, "the connection to the MPS supervisor ended");
        disconnect(data, &err);
}

static void on_ping(uv_timer_t *timer)
{
        struct mps_link *link = container_of(timer, struct mps_link, ping);
        struct mps_request ping = {.kind = MPS_REQUEST_PING, .id = ++link->last_id};
        struct error err;

        if (now_ms(link) - link->heard_ms < SILENCE_MS) {
                send_message(link, &ping);
                return;
        }
        error_raise(&err, ERROR_TIMEOUT, "the MPS supervisor was silent for %" PRIu64 " s", SILENCE_MS / 1000);
        disconnect(link, &err);
}

static struct request *find_request(const struct mps_link *link, uint64_t id)
{
        LIST_FOR_EACH(in_link, &link->requests) {
                struct request *request = container_of(in_link, struct request, in_link);

                if (id != 0 && request->id == id)
                        return request;
        }
        return NULL;
}

static void finish(struct request *request, const struct mps_answer *message)
{
        struct error err;

        if (!message->ok) {
                answer(request, &message->error, NULL);
        } else if (request->granted && !message->has_grant) {
                error_raise(&err, ERROR_INTERNAL, "the MPS supervisor answered without what it granted");
                answer(request, &err, NULL);
        } else {
                answer(request, NULL, &message->grant);
        }
}

static void take_answer(struct mps_link *link, const struct mps_answer *message)
{
        struct request *request = find_request(link, message->id);

        if (message->id == APPLY_ID && !message->ok) {
                if (message->error.kind == ERROR_UNSUPPORTED)
                        log_info("the MPS supervisor has a plan of its own", LOG_ERR(&message->error));
                else
                        log_error("the MPS supervisor refuses the wanted daemons", LOG_ERR(&message->error));
        } else if (request) {
                finish(request, message);
                arm_answers(link);
        }
}

static void on_line(const char *line, size_t length, void *data)
{
        struct mps_link *link = data;
        struct arena arena = ARENA_INIT;
        struct mps_answer message;
        struct error err;

        link->heard_ms = now_ms(link);
        if (mps_answer_read(&message, &arena, line, length, &err) < 0) {
                error_raise_prefix(&err, "the MPS supervisor");
                disconnect(link, &err);
        } else if (message.is_status) {
                tell_status(link, message.status);
        } else {
                take_answer(link, &message);
        }
        arena_done(&arena);
}

static void send_apply(struct mps_link *link)
{
        if (link->apply && link->lines)
                send_text(link, link->apply);
}

static void connected(struct mps_link *link)
{
        const struct mps_request watch = {.kind = MPS_REQUEST_WATCH};

        stop_round(link);
        link->is_foreign = false;
        link->retry_ms = 0;
        link->heard_ms = now_ms(link);
        send_apply(link); /* first: the status that follows is of it */
        send_message(link, &watch);
        uv_timer_start(&link->ping, on_ping, PING_MS, PING_MS);
}

static void on_retry(uv_timer_t *timer)
{
        struct mps_link *link = container_of(timer, struct mps_link, retry);
        const struct lines_options options = {
                .line_limit = MPS_MESSAGE_MAX,
                .unsent_limit = 2 * MPS_MESSAGE_MAX,
                .on_line = on_line,
                .on_end = on_end,
                .data = link,
        };
        struct error err;

        if (lines_connect(&link->lines, link->loop, link->socket, &options, &err) == 0) {
                connected(link);
                return;
        }
        if (err.kind == ERROR_NOT_FOUND && link->n_targets > 0)
                look_for_others(link);
        else
                lose(link, err.text);
        retry_later(link);
}

/* ---- what is wanted ---- */

static void copy_target(struct arena *arena, struct target *target, const struct mps_daemon_wanted *daemon)
{
        *target = (struct target){
                .name = arena_strdup(arena, daemon->name),
                .resource = arena_strdup(arena, daemon->resource),
                .units = ARENA_ARRAY(arena, const char *, daemon->n_units),
                .n_units = daemon->n_units,
        };
        for (size_t i = 0; i < daemon->n_units; i++) {
                target->units[i] = arena_strdup(arena, daemon->units[i].uuid);
                target->max_clients = MAX(target->max_clients, daemon->units[i].clients);
        }
}

void mps_link_apply(struct mps_link *link, const struct mps_wanted *wanted, uint64_t generation)
{
        const struct mps_request request = {
                .kind = MPS_REQUEST_APPLY, .id = APPLY_ID, .generation = generation, .wanted = *wanted};

        stop_round(link);
        arena_done(&link->arena);
        link->targets = ARENA_ARRAY(&link->arena, struct target, wanted->n_daemons);
        link->n_targets = wanted->n_daemons;
        link->generation = generation;
        link->round_ms = 0;
        for (size_t i = 0; i < wanted->n_daemons; i++)
                copy_target(&link->arena, &link->targets[i], &wanted->daemons[i]);
        free(link->apply);
        link->apply = mps_request_write(&request);
        send_apply(link);
        if (!link->lines)
                uv_timer_start(&link->retry, on_retry, 0, 0);
}

/* ---- start and end ---- */

static void on_handle_closed(uv_handle_t *handle)
{
        struct mps_link *link = handle->data;

        if (--link->handles > 0)
                return;
        while (!list_is_empty(&link->requests)) {
                struct request *request = first_request(link);

                if (request->id != 0)
                        error_raise(&request->error, ERROR_UNAVAILABLE, "the link to the MPS supervisor is closing");
                answer(request, request->error.kind != ERROR_NONE ? &request->error : NULL, NULL);
        }
        if (link->closed)
                link->closed(link->closed_data);
        mps_status_free(link->told);
        arena_done(&link->arena);
        free(link->apply);
        free(link->reason);
        free(link->socket);
        free(link->program);
        free(link->directory);
        free(link);
}

static void init_timer(struct mps_link *link, uv_timer_t *timer)
{
        uv_timer_init(link->loop, timer);
        timer->data = link;
        link->handles++;
}

int mps_link_new(struct mps_link **ret, const struct mps_link_options *options, struct error *err)
{
        struct mps_link *link;

        if (strlen(options->directory) + sizeof("/" MPS_SOCKET) > SOCKET_PATH_MAX)
                return error_set(err, ERROR_INVALID,
                        "the MPS directory '%s' is too long: a socket's path has at most %zu bytes", options->directory,
                        SOCKET_PATH_MAX - 1);
        link = xcalloc(1, sizeof(*link));
        link->loop = options->loop;
        link->options = *options;
        link->directory = xstrdup(options->directory);
        link->program = xstrdup(options->control);
        link->socket = xasprintf("%s/" MPS_SOCKET, options->directory);
        link->last_id = APPLY_ID;
        list_init(&link->requests);
        init_timer(link, &link->retry);
        init_timer(link, &link->ping);
        init_timer(link, &link->answers);
        uv_timer_start(&link->retry, on_retry, 0, 0);
        *ret = link;
        return 0;
}

void mps_link_close(struct mps_link *link, void (*closed)(void *data), void *data)
{
        link->is_closing = true;
        link->closed = closed;
        link->closed_data = data;
        stop_round(link);
        link->lines = lines_close(link->lines);
        uv_close((uv_handle_t *)&link->retry, on_handle_closed);
        uv_close((uv_handle_t *)&link->ping, on_handle_closed);
        uv_close((uv_handle_t *)&link->answers, on_handle_closed);
}
