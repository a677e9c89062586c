// SPDX-License-Identifier: Apache-2.0
/*
 * What net/kube/access.h makes of the API server's answers, and whose questions come first. The client is this file's:
 * it keeps what is asked until the test answers. The clock is the test's, too.
 */
#include "unit.h"

#include <string.h>

#include "net/kube/access.h"
#include "net/kube/object.h"
#include "own_clock.h"

#define CALLS 64U

static uv_loop_t loop;
static struct kube_access *access_;

struct kube_client {
        uv_loop_t *loop;
};
struct kube_call {
        kube_done_fn *done; /* NULL: this place is free */
        void *data;
        bool is_token;
        char name[64]; /* the token's, or the user's */
};

static struct kube_client client = {.loop = &loop};
static struct kube_call calls[CALLS];
static unsigned int n_sent;

uv_loop_t *kube_client_loop(const struct kube_client *of)
{
        return of->loop;
}

struct kube_call *kube_client_send(struct kube_client *of UNUSED, const struct kube_request *request)
{
        struct kube_call *call = calls;
        const bool is_token = strstr(request->path, "tokenreviews");

        while (call->done)
                call++;
        assert_in_range(call - calls, 0, CALLS - 1);
        *call = (struct kube_call){.done = request->done, .data = request->data, .is_token = is_token};
        snprintf(call->name, sizeof(call->name), "%s",
                object_text(request->body, "spec", is_token ? "token" : "user", NULL));
        n_sent++;
        return call;
}

struct kube_call *kube_call_cancel(struct kube_call *call)
{
        if (call)
                call->done = NULL;
        return NULL;
}

/* Tokens that begin with "good" and "idle" are somebody's, who has every right or none. */
static void answer(struct kube_call *place)
{
        struct kube_call call = *place;
        const bool is_good = strncmp(call.name, "good", 4) == 0;
        json_t *object;

        place->done = NULL;
        if (!call.is_token)
                object = json_pack("{s:{s:b}}", "status", "allowed", is_good);
        else if (is_good || strncmp(call.name, "idle", 4) == 0)
                object = json_pack("{s:{s:b, s:{s:s}}}", "status", "authenticated", 1, "user", "username", call.name);
        else
                object = json_pack("{s:{s:{}}}", "status", "user");
        call.done(&(struct kube_answer){.status = 201, .object = object, .reason = ""}, call.data);
        json_decref(object);
}

/* Of all but those whose name begins with |held|, which is NULL for none. */
static void answer_all_but(const char *held)
{
        for (size_t i = 0; i < CALLS; i++)
                if (calls[i].done && !(held && strncmp(calls[i].name, held, strlen(held)) == 0)) {
                        answer(&calls[i]);
                        i = (size_t)-1;
                }
}

/* ---- questions ---- */

struct heard {
        bool is_answered;
        bool is_allowed;
        enum error_kind kind;
};

static void on_verdict(const struct kube_verdict *verdict, void *data)
{
        *(struct heard *)data = (struct heard){.is_answered = true,
                .is_allowed = !verdict->error && verdict->allowed[0],
                .kind = verdict->error ? verdict->error->kind : ERROR_NONE};
}

static struct kube_question *begin_as(const struct kube_asker *asker, struct heard *ret)
{
        static const struct kube_wish wish = {.verb = "get", .path = "/metrics"};
        struct kube_question *question = kube_access_ask(access_, asker, &wish, 1, on_verdict, ret);

        *ret = (struct heard){.is_answered = false};
        own_clock_settle(&loop);
        return question;
}

static struct kube_question *begin(const char *token, struct heard *ret)
{
        return begin_as(&(struct kube_asker){.token = token}, ret);
}

static struct heard ask(const char *token)
{
        struct heard heard;

        begin(token, &heard);
        answer_all_but("stranger");
        return heard;
}

static int set_up(void **state UNUSED)
{
        uv_loop_init(&loop);
        memset(calls, 0, sizeof(calls));
        access_ = kube_access_new(&client);
        n_sent = 0;
        return 0;
}

static int tear_down(void **state UNUSED)
{
        access_ = kube_access_close(access_);
        uv_run(&loop, UV_RUN_DEFAULT);
        return uv_loop_close(&loop);
}

/* So many that no more of their kind are reviewed; none of them is answered. */
static void let_strangers_ask(struct heard heard[KUBE_ACCESS_PARALLEL])
{
        for (unsigned int i = 0; i < KUBE_ACCESS_PARALLEL; i++) {
                _free_ char *token = xasprintf("stranger-%u", i);

                begin(token, &heard[i]);
                assert_false(heard[i].is_answered);
        }
}

/* ---- whose question comes first ---- */

static void test_answers_are_kept_for_a_minute(void **state UNUSED)
{
        assert_true(ask("good").is_allowed);
        assert_int_equal(n_sent, 2);
        own_clock_pass(&loop, KUBE_ACCESS_KEEP_MS - 10); /* it may let a moment more go by */
        assert_true(ask("good").is_allowed);
        assert_int_equal(n_sent, 2);
        own_clock_pass(&loop, 10);
        assert_true(ask("good").is_allowed);
        assert_int_equal(n_sent, 4);
}

static void test_a_token_that_was_good_is_reviewed_again_beside_any_number_of_strangers(void **state UNUSED)
{
        struct heard strangers[KUBE_ACCESS_PARALLEL];

        assert_true(ask("good").is_allowed);
        own_clock_pass(&loop, KUBE_ACCESS_KEEP_MS);
        let_strangers_ask(strangers);
        assert_true(ask("good").is_allowed);
        assert_int_equal(ask("good-too").kind, ERROR_EXHAUSTED); /* nobody has seen it */
}

static void test_a_token_without_a_right_has_no_precedence(void **state UNUSED)
{
        struct heard strangers[KUBE_ACCESS_PARALLEL];

        assert_false(ask("idle").is_allowed);
        own_clock_pass(&loop, KUBE_ACCESS_KEEP_MS);
        let_strangers_ask(strangers);
        assert_int_equal(ask("idle").kind, ERROR_EXHAUSTED);
}

static void test_precedence_ends(void **state UNUSED)
{
        struct heard strangers[KUBE_ACCESS_PARALLEL];

        assert_true(ask("good").is_allowed);
        own_clock_pass(&loop, KUBE_ACCESS_REMEMBER_MS);
        let_strangers_ask(strangers);
        assert_int_equal(ask("good").kind, ERROR_EXHAUSTED);
}

static void test_strangers_have_the_room_that_good_tokens_do_not_take(void **state UNUSED)
{
        struct heard strangers[KUBE_ACCESS_PARALLEL];
        struct heard good;

        assert_true(ask("good").is_allowed);
        own_clock_pass(&loop, KUBE_ACCESS_KEEP_MS);
        begin("good", &good);
        let_strangers_ask(strangers);
        answer_all_but(NULL);
        assert_true(good.is_allowed);
        for (size_t i = 0; i < KUBE_ACCESS_PARALLEL; i++)
                assert_int_equal(strangers[i].kind, ERROR_DENIED);
        assert_true(ask("good-too").is_allowed);
}

static void test_what_is_refused_pushes_out_no_answer_of_a_good_token(void **state UNUSED)
{
        static const char *const kinds[] = {"nobody", "idle"};

        assert_true(ask("good").is_allowed);
        for (unsigned int i = 0; i < 2 * KUBE_ACCESS_USERS; i++) {
                _free_ char *token = xasprintf("%s-%u", kinds[i % 2], i);

                assert_false(ask(token).is_allowed);
        }
        n_sent = 0;
        assert_true(ask("good").is_allowed);
        assert_int_equal(n_sent, 0);
}

static void test_good_tokens_push_out_the_oldest_where_there_are_only_good_ones(void **state UNUSED)
{
        for (unsigned int i = 0; i <= KUBE_ACCESS_USERS; i++) {
                _free_ char *token = xasprintf("good-%u", i);

                assert_true(ask(token).is_allowed);
        }
        n_sent = 0;
        assert_true(ask("good-1").is_allowed);
        assert_int_equal(n_sent, 0);
        assert_true(ask("good-0").is_allowed);
        assert_int_equal(n_sent, 2);
}

static void test_suspects_take_no_turn_of_those_who_come_for_the_first_time(void **state UNUSED)
{
        struct heard suspects[KUBE_ACCESS_SUSPECTS + 1];
        struct heard strangers[KUBE_ACCESS_PARALLEL];
        struct heard good;

        assert_true(ask("good").is_allowed);
        own_clock_pass(&loop, KUBE_ACCESS_KEEP_MS);
        for (unsigned int i = 0; i <= KUBE_ACCESS_SUSPECTS; i++) {
                _free_ char *token = xasprintf("stranger-suspect-%u", i);

                begin_as(&(struct kube_asker){.token = token, .is_suspect = true}, &suspects[i]);
                assert_int_equal(suspects[i].kind, i < KUBE_ACCESS_SUSPECTS ? ERROR_NONE : ERROR_EXHAUSTED);
        }
        let_strangers_ask(strangers);
        begin_as(&(struct kube_asker){.token = "good", .is_suspect = true}, &good);
        answer_all_but("stranger");
        assert_true(good.is_allowed); /* who sends it matters no more */
}

static void test_a_question_that_is_cancelled_leaves_its_place(void **state UNUSED)
{
        struct heard heard;

        for (unsigned int i = 0; i < 2 * KUBE_ACCESS_PARALLEL; i++) {
                struct kube_question *question = begin("stranger", &heard);

                assert_false(heard.is_answered);
                kube_access_cancel(question);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_answers_are_kept_for_a_minute, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_token_that_was_good_is_reviewed_again_beside_any_number_of_strangers, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_token_without_a_right_has_no_precedence, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_precedence_ends, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_strangers_have_the_room_that_good_tokens_do_not_take, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_what_is_refused_pushes_out_no_answer_of_a_good_token, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_good_tokens_push_out_the_oldest_where_there_are_only_good_ones, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_suspects_take_no_turn_of_those_who_come_for_the_first_time, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_question_that_is_cancelled_leaves_its_place, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
