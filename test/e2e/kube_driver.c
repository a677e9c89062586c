// SPDX-License-Identifier: Apache-2.0
/*
 * The API client as a program, for tests: commands on standard input, what happened on standard output, JSON objects,
 * one a line.
 *
 *     kube-driver KUBECONFIG
 *     {"do": "send", "id": 1, "method": "GET", "path": "/api/v1/nodes/n1"}
 *     {"id": 1, "event": "done", "status": 200, "object": {…}}
 *
 * Everything is closed at the end of input; then the loop must end by itself, and what it leaks the sanitizer tells.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/strbuf.h"
#include "net/kube/client.h"
#include "net/kube/events.h"
#include "net/kube/list.h"
#include "net/kube/object.h"
#include "net/kube/watch.h"

struct driver {
        uv_loop_t loop;
        uv_pipe_t input;
        struct strbuf text;
        char piece[65536];
        struct kube_client *client;
        struct kube_events *events; /* NULL: none was told yet */
        struct list jobs;
};

/* One command that is not over. */
struct job {
        struct list link;
        struct driver *driver;
        json_int_t id;
        json_t *command;
        struct kube_call *call;
        struct kube_list *list;
        struct kube_watch *watch;
};

static void say(json_t *event)
{
        json_dumpf(event, stdout, JSON_COMPACT);
        json_decref(event);
        putchar('\n');
        fflush(stdout);
}

static json_t *event_of(const struct job *job, const char *what)
{
        return json_pack("{s: I, s: s}", "id", job->id, "event", what);
}

static void job_end(struct job *job)
{
        list_remove(&job->link);
        json_decref(job->command);
        free(job);
}

static void add_error(json_t *event, const struct error *err)
{
        if (!err)
                return;
        json_object_set_new(event, "error", json_string(err->text));
        json_object_set_new(event, "kind", json_string(error_kind_name(err->kind)));
}

static json_t *answer_event(const struct job *job, const struct kube_answer *answer)
{
        json_t *event = event_of(job, "done");

        json_object_set_new(event, "status", json_integer(answer->status));
        json_object_set_new(event, "reason", json_string(answer->reason));
        json_object_set_new(event, "retry_after_ms", json_integer((json_int_t)answer->retry_after_ms));
        if (answer->object)
                json_object_set(event, "object", answer->object);
        add_error(event, answer->error);
        return event;
}

static void on_done(const struct kube_answer *answer, void *data)
{
        struct job *job = data;

        say(answer_event(job, answer));
        job_end(job);
}

static void on_present(json_t *object, void *data)
{
        json_t *event = event_of(data, "present");

        json_object_set(event, "object", object);
        say(event);
}

static void on_left_out_of_list(json_t *object, void *data)
{
        json_t *event = event_of(data, "left out");

        json_object_set(event, "object", object);
        say(event);
}

static void on_listed(const struct kube_answer *answer, const char *version, void *data)
{
        struct job *job = data;
        json_t *event = answer_event(job, answer);

        json_object_del(event, "object");
        if (version)
                json_object_set_new(event, "version", json_string(version));
        say(event);
        job_end(job);
}

static void on_change(enum kube_change change, json_t *object, void *data)
{
        struct job *job = data;
        json_t *event = event_of(job, change == KUBE_PRESENT ? "present" : "gone");

        json_object_set(event, "object", object);
        say(event);
        if (json_is_true(json_object_get(job->command, "once"))) {
                job->watch = kube_watch_close(job->watch);
                job_end(job);
        }
}

static void on_synced(void *data)
{
        say(event_of(data, "synced"));
}

static void on_resumed(void *data)
{
        say(event_of(data, "resumed"));
}

static void on_left_out(const struct error *err, void *data)
{
        json_t *event = event_of(data, "left out");

        add_error(event, err);
        say(event);
}

static void on_trouble(const struct error *err, void *data)
{
        json_t *event = event_of(data, "trouble");

        add_error(event, err);
        say(event);
}

static const char *text_of(const struct job *job, const char *key)
{
        return json_string_value(json_object_get(job->command, key));
}

static uint64_t number_of(const struct job *job, const char *key)
{
        return (uint64_t)json_integer_value(json_object_get(job->command, key));
}

static bool is_true(const struct job *job, const char *key)
{
        return json_is_true(json_object_get(job->command, key));
}

static enum kube_method method_of(const struct job *job)
{
        static const char *const names[] = {
                [KUBE_GET] = "GET",
                [KUBE_CREATE] = "CREATE",
                [KUBE_REPLACE] = "REPLACE",
                [KUBE_MERGE_PATCH] = "MERGE_PATCH",
                [KUBE_APPLY] = "APPLY",
                [KUBE_DELETE] = "DELETE",
        };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strcmp(names[i], text_of(job, "method")) == 0)
                        return (enum kube_method)i;
        return KUBE_GET;
}

/* Labels of the command, of which a null takes one away. */
static bool change_labels(json_t *object, void *data)
{
        const struct job *job = data;
        json_t *labels = object_make(object, "metadata", "labels", NULL);
        const char *key;
        json_t *value;

        json_object_foreach(json_object_get(job->command, "labels"), key, value)
        {
                if (json_is_null(value))
                        json_object_del(labels, key);
                else
                        json_object_set(labels, key, value);
        }
        return !is_true(job, "refrain");
}

static void do_send(struct job *job)
{
        job->call = kube_client_send(job->driver->client, &(struct kube_request){
                                                                  .method = method_of(job),
                                                                  .path = text_of(job, "path"),
                                                                  .query = text_of(job, "query"),
                                                                  .body = json_object_get(job->command, "body"),
                                                                  .field_manager = text_of(job, "manager"),
                                                                  .force = is_true(job, "force"),
                                                                  .timeout_ms = number_of(job, "timeout_ms"),
                                                                  .done = on_done,
                                                                  .data = job,
                                                          });
}

static void do_edit(struct job *job)
{
        job->call = kube_client_edit(job->driver->client, &(struct kube_edit){
                                                                  .path = text_of(job, "path"),
                                                                  .status_path = text_of(job, "status_path"),
                                                                  .replace = is_true(job, "replace"),
                                                                  .edit = change_labels,
                                                                  .field_manager = text_of(job, "manager"),
                                                                  .timeout_ms = number_of(job, "timeout_ms"),
                                                                  .done = on_done,
                                                                  .data = job,
                                                          });
}

static void do_list(struct job *job)
{
        job->list = kube_list_new(
                job->driver->client, &(struct kube_list_options){
                                             .path = text_of(job, "path"),
                                             .field_selector = text_of(job, "field"),
                                             .label_selector = text_of(job, "label"),
                                             .is_metadata = is_true(job, "metadata"),
                                             .on_object = on_present,
                                             .on_left_out = is_true(job, "leave") ? on_left_out_of_list : NULL,
                                             .on_end = on_listed,
                                             .data = job,
                                     });
}

static void do_watch(struct job *job)
{
        job->watch =
                kube_watch_new(job->driver->client, &(struct kube_watch_options){
                                                            .path = text_of(job, "path"),
                                                            .field_selector = text_of(job, "field"),
                                                            .label_selector = text_of(job, "label"),
                                                            .is_metadata = is_true(job, "metadata"),
                                                            .on_object = on_change,
                                                            .on_left_out = is_true(job, "leave") ? on_left_out : NULL,
                                                            .on_synced = on_synced,
                                                            .on_resumed = on_resumed,
                                                            .on_trouble = on_trouble,
                                                            .data = job,
                                                            .objects = number_of(job, "objects"),
                                                            .seconds = (unsigned int)number_of(job, "seconds"),
                                                            .margin_ms = number_of(job, "margin_ms"),
                                                            .wait_ms = number_of(job, "wait_ms"),
                                                    });
}

static void on_given_up(const struct event *event, const struct error *err, void *data UNUSED)
{
        json_t *reported = json_pack("{s: s, s: s}", "event", "given up", "name", event->about.name);

        add_error(reported, err);
        say(reported);
}

/* Of a pod, which is over at once; the first one says how long to wait after failures. */
static void do_report(struct job *job)
{
        struct driver *driver = job->driver;
        const struct kube_events_options options = {
                .loop = &driver->loop,
                .client = driver->client,
                .component = "driver",
                .host = "n1",
                .on_given_up = on_given_up,
                .retry_ms = number_of(job, "retry_ms"),
        };

        if (!driver->events)
                driver->events = kube_events_new(&options);
        kube_events_report(driver->events, &(struct event){
                                                   .about = {.api_version = "v1",
                                                           .kind = "Pod",
                                                           .namespace = text_of(job, "namespace"),
                                                           .name = text_of(job, "name")},
                                                   .reason = "Told",
                                                   .message = "",
                                           });
        job_end(job);
}

static void job_cancel(struct job *job)
{
        kube_call_cancel(job->call);
        kube_list_cancel(job->list);
        kube_watch_close(job->watch);
        job_end(job);
}

static void do_cancel(struct driver *driver, json_int_t id)
{
        LIST_FOR_EACH(link, &driver->jobs) {
                struct job *job = container_of(link, struct job, link);

                if (job->id == id) {
                        job_cancel(job);
                        break;
                }
        }
        say(json_pack("{s: I, s: s}", "id", id, "event", "cancelled"));
}

static void carry_out(struct driver *driver, const char *line, size_t length)
{
        static void (*const actions[])(struct job *) = {do_send, do_edit, do_list, do_watch, do_report};
        static const char *const names[] = {"send", "edit", "list", "watch", "tell"};
        json_t *command = json_loadb(line, length, 0, NULL);
        const char *what = json_string_value(json_object_get(command, "do"));
        json_int_t id = json_integer_value(json_object_get(command, "id"));

        if (what && strcmp(what, "cancel") == 0)
                do_cancel(driver, id);
        for (size_t i = 0; what && i < ARRAY_SIZE(names); i++)
                if (strcmp(what, names[i]) == 0) {
                        struct job *job = xcalloc(1, sizeof(*job));

                        job->driver = driver;
                        job->id = id;
                        job->command = json_incref(command);
                        list_append(&driver->jobs, &job->link);
                        actions[i](job);
                        break;
                }
        json_decref(command);
}

static void on_closed(void *data UNUSED)
{
        say(json_pack("{s: s}", "event", "closed"));
}

static void close_all(struct driver *driver)
{
        while (!list_is_empty(&driver->jobs)) {
                struct job *job = container_of(driver->jobs.next, struct job, link);

                /* Calls end with the client, and never call back. */
                job->call = NULL;
                job_cancel(job);
        }
        if (driver->events)
                kube_events_close(driver->events, NULL, NULL);
        driver->client = kube_client_close(driver->client, on_closed, driver);
        uv_close((uv_handle_t *)&driver->input, NULL);
}

static void on_alloc(uv_handle_t *handle, size_t size UNUSED, uv_buf_t *ret)
{
        struct driver *driver = container_of(handle, struct driver, input);

        *ret = uv_buf_init(driver->piece, sizeof(driver->piece));
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
        struct driver *driver = container_of(stream, struct driver, input);
        const char *newline;

        if (count < 0) {
                close_all(driver);
                return;
        }
        strbuf_append(&driver->text, buf->base, (size_t)count);
        while ((newline = strchr(driver->text.data, '\n'))) {
                carry_out(driver, driver->text.data, (size_t)(newline - driver->text.data));
                strbuf_consume(&driver->text, (size_t)(newline - driver->text.data) + 1);
        }
}

int main(int argc, char **argv)
{
        struct driver driver = {.text = STRBUF_INIT};
        struct error err;

        signal(SIGPIPE, SIG_IGN);
        uv_loop_init(&driver.loop);
        list_init(&driver.jobs);
        if (kube_client_open(&driver.client, &driver.loop, argc > 1 ? argv[1] : NULL, &err) != 0) {
                fprintf(stderr, "kube-driver: %s\n", err.text);
                return 1;
        }
        uv_pipe_init(&driver.loop, &driver.input, 0);
        uv_pipe_open(&driver.input, 0);
        uv_read_start((uv_stream_t *)&driver.input, on_alloc, on_read);
        uv_run(&driver.loop, UV_RUN_DEFAULT);
        strbuf_done(&driver.text);
        return uv_loop_close(&driver.loop) == 0 ? 0 : 2;
}
