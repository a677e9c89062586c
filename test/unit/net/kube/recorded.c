// SPDX-License-Identifier: Apache-2.0
/*
 * Answers of a real API server, in test/fixtures/kube-apiserver-1.36, fed to our reading of them.
 */
#include "recorded.h"

#include <stdio.h>
#include <string.h>

#include "net/kube/body.h"
#include "net/kube/client.h"
#include "net/kube/object.h"
#include "net/kube/watch_lines.h"

/* The body of a recorded answer, and its status. */
static unsigned int read_answer(const char *name, struct strbuf *body)
{
        char path[512];

        snprintf(path, sizeof(path), APISERVER_FIXTURES "/%s.http", name);
        return recorded_read(path, "HTTP/2", body);
}

static void note_events(struct watch_lines *lines, struct strbuf *log)
{
        struct watch_event event;
        struct error err;
        int rc;

        while ((rc = watch_lines_next(lines, &event, &err)) > 0) {
                const char *version = object_text(event.object, "metadata", "resourceVersion", NULL);
                const char *config =
                        object_text(event.object, "metadata", "labels", "nvidia.com/device-plugin.config", NULL);

                strbuf_printf(log, "%d %s %s, ", (int)event.type, version ? version : "-", config ? config : "-");
                json_decref(event.object);
        }
        assert_int_equal(rc, 0);
}

/* The first piece, and then as many of |step| bytes as there are. */
static void read_watch(const char *bytes, size_t size, size_t first, size_t step, struct strbuf *log)
{
        struct watch_lines lines;

        watch_lines_init(&lines, (size_t)1 << 20);
        watch_lines_add(&lines, bytes, first);
        note_events(&lines, log);
        for (size_t at = first; at < size; at += step) {
                watch_lines_add(&lines, bytes + at, MIN(step, size - at));
                note_events(&lines, log);
        }
        watch_lines_done(&lines);
}

/* The last of what was recorded: the second half of an event, and two more. */
#define TAIL ((size_t)1200)

static void test_a_watch_is_read_however_it_is_cut(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf body = STRBUF_INIT;
        _cleanup_(strbuf_done) struct strbuf whole = STRBUF_INIT;
        _cleanup_(strbuf_done) struct strbuf single = STRBUF_INIT;

        assert_int_equal(read_answer("node-watch", &body), 200);
        read_watch(body.data, body.size, body.size, 1, &whole);
        assert_string_equal(whole.data, "1 1101 mps-two, 1 1102 mps-four, 1 1103 -, 3 1103 -, 3 1103 -, ");
        read_watch(body.data, body.size, 0, 1, &single);
        assert_string_equal(single.data, whole.data);
        for (size_t cut = body.size - TAIL; cut <= body.size; cut++) {
                _cleanup_(strbuf_done) struct strbuf log = STRBUF_INIT;

                read_watch(body.data, body.size, cut, body.size, &log);
                assert_string_equal(log.data, whole.data);
        }
}

static void test_a_version_that_is_too_old_is_an_event(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf body = STRBUF_INIT;
        struct watch_lines lines;
        struct watch_event event;
        struct error err;

        assert_int_equal(read_answer("node-watch-too-old", &body), 200);
        watch_lines_init(&lines, body.size);
        watch_lines_add(&lines, body.data, body.size);
        assert_int_equal(watch_lines_next(&lines, &event, &err), 1);
        assert_int_equal(event.type, WATCH_ERROR);
        body_status_error(&err, (unsigned int)json_integer_value(json_object_get(event.object, "code")), event.object);
        assert_string_equal(err.text, "status 410 Expired: too old resource version: 1 (165)");
        json_decref(event.object);
        watch_lines_done(&lines);
}

static void test_failures_are_reported_with_the_servers_text(void **state UNUSED)
{
        static const struct {
                const char *name;
                enum error_kind kind;
                const char *reason;
                const char *text;
        } table[] = {
                {"unauthorized", ERROR_DENIED, "Unauthorized", "GET /x: status 401 Unauthorized: Unauthorized"},
                {"not-found", ERROR_NOT_FOUND, "NotFound", "GET /x: status 404 NotFound: nodes \"none\" not found"},
                {"node-update-conflict", ERROR_UNAVAILABLE, "Conflict",
                        "GET /x: status 409 Conflict: Operation cannot be fulfilled on nodes \"node1\": the object has been "
                        "modified; please apply your changes to the latest version and try again"},
                {"invalid-422", ERROR_INVALID, "Invalid", NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(strbuf_done) struct strbuf body = STRBUF_INIT;
                struct kube_answer answer = {.status = read_answer(table[i].name, &body), .reason = ""};
                struct error err;

                answer.text = body.data;
                answer.size = body.size;
                body_read(&answer, "GET", "/x", false, &err);
                assert_int_equal(answer.error->kind, table[i].kind);
                assert_string_equal(answer.reason, table[i].reason);
                if (table[i].text)
                        assert_string_equal(answer.error->text, table[i].text);
                json_decref(answer.object);
        }
}

static void test_successes_are_objects(void **state UNUSED)
{
        static const char *const names[] = {"node-list", "node-merge-patch", "event-create", "version"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                _cleanup_(strbuf_done) struct strbuf body = STRBUF_INIT;
                struct kube_answer answer = {.status = read_answer(names[i], &body), .reason = ""};
                struct error err;

                answer.text = body.data;
                answer.size = body.size;
                body_read(&answer, "GET", "/x", false, &err);
                assert_null(answer.error);
                assert_true(json_is_object(answer.object));
                json_decref(answer.object);
        }
}

static void test_a_success_that_is_no_object_is_a_failure(void **state UNUSED)
{
        struct kube_answer answer = {.status = 200, .text = "[1]", .size = 3, .reason = ""};
        struct error err;

        body_read(&answer, "GET", "/x", false, &err);
        assert_int_equal(answer.error->kind, ERROR_INVALID);
        assert_string_equal(answer.error->text, "GET /x: status 200 with 3 bytes that are no JSON object");
}

static void test_a_text_that_was_asked_for_may_be_any_and_its_failure_says_why(void **state UNUSED)
{
        struct kube_answer good = {.status = 200, .text = "[1]", .size = 3, .reason = ""};
        struct kube_answer bad = {.status = 503, .text = "no way", .size = 6, .reason = ""};
        struct error err;

        body_read(&good, "GET", "/x", true, &err);
        assert_null(good.error);
        assert_null(good.object);
        body_read(&bad, "GET", "/x", true, &err);
        assert_int_equal(bad.error->kind, ERROR_UNAVAILABLE);
        assert_string_equal(bad.error->text, "GET /x: status 503");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_watch_is_read_however_it_is_cut),
                cmocka_unit_test(test_a_version_that_is_too_old_is_an_event),
                cmocka_unit_test(test_failures_are_reported_with_the_servers_text),
                cmocka_unit_test(test_successes_are_objects),
                cmocka_unit_test(test_a_success_that_is_no_object_is_a_failure),
                cmocka_unit_test(test_a_text_that_was_asked_for_may_be_any_and_its_failure_says_why),
        };

        return cmocka_run_group_tests_name("recorded", tests, NULL, NULL);
}
