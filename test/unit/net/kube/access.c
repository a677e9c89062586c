// SPDX-License-Identifier: Apache-2.0
/* What needs no API server; what it answers is in e2e/dashboard. */
#include "unit.h"

#include <string.h>

#include "net/kube/access.h"

static uv_loop_t loop;
static struct kube_client *client; /* without credentials: its requests wait */
static struct kube_access *access_;
static unsigned int n_verdicts;
static struct error last;

static int set_up(void **state UNUSED)
{
        uv_loop_init(&loop);
        client = kube_client_new(&loop);
        access_ = kube_access_new(client);
        n_verdicts = 0;
        return 0;
}

static int tear_down(void **state UNUSED)
{
        access_ = kube_access_close(access_);
        client = kube_client_close(client, NULL, NULL);
        uv_run(&loop, UV_RUN_DEFAULT);
        return uv_loop_close(&loop);
}

static void on_verdict(const struct kube_verdict *verdict, void *data UNUSED)
{
        assert_non_null(verdict->error);
        last = *verdict->error;
        n_verdicts++;
}

static const struct kube_wish wish = {.verb = "list", .resource = "nodes"};

static void test_strangers_cannot_have_any_number_of_tokens_reviewed(void **state UNUSED)
{
        for (unsigned int i = 0; i < KUBE_ACCESS_PARALLEL + 2; i++) {
                _free_ char *token = xasprintf("token-%u", i);

                kube_access_ask(access_, &(struct kube_asker){.token = token}, &wish, 1, on_verdict, NULL);
        }
        assert_int_equal(n_verdicts, 0); /* never at once */
        uv_run(&loop, UV_RUN_NOWAIT);
        assert_int_equal(n_verdicts, 2);
        assert_int_equal(last.kind, ERROR_EXHAUSTED);
        assert_string_equal(last.text, "too many tokens are being reviewed; try again");
}

static void test_a_question_that_is_cancelled_makes_room_for_another(void **state UNUSED)
{
        for (unsigned int i = 0; i < 3 * KUBE_ACCESS_PARALLEL; i++) {
                struct kube_question *question =
                        kube_access_ask(access_, &(struct kube_asker){.token = "t"}, &wish, 1, on_verdict, NULL);

                uv_run(&loop, UV_RUN_NOWAIT);
                assert_null(kube_access_cancel(question));
        }
        assert_int_equal(n_verdicts, 0);
}

static const struct {
        const char *header;
        const char *token;
} headers[] = {
        {"Bearer abc.def-_~+/=", "abc.def-_~+/="},
        {"bearer  abc", "abc"},
        {NULL, NULL},
        {"", NULL},
        {"Bearer ", NULL},
        {"Bearer", NULL},
        {"Basic abc", NULL},
        {"Bearer a b", NULL},
        {"Bearer a\tb", NULL},
        {"Bearer \xc3\xa9", NULL},
};

static void test_a_token_is_read_from_a_header(void **state UNUSED)
{
        for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
                const char *token = kube_access_bearer(headers[i].header);

                if (!token || !headers[i].token)
                        assert_ptr_equal(token, headers[i].token);
                else
                        assert_string_equal(token, headers[i].token);
        }
}

static void test_a_token_longer_than_any_is_refused(void **state UNUSED)
{
        char header[sizeof("Bearer ") + KUBE_TOKEN_LIMIT + 1] = "Bearer ";

        memset(header + strlen("Bearer "), 'x', KUBE_TOKEN_LIMIT + 1);
        assert_null(kube_access_bearer(header));
        header[strlen("Bearer ") + KUBE_TOKEN_LIMIT] = '\0';
        assert_non_null(kube_access_bearer(header));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(
                        test_strangers_cannot_have_any_number_of_tokens_reviewed, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_question_that_is_cancelled_makes_room_for_another, set_up, tear_down),
                cmocka_unit_test(test_a_token_is_read_from_a_header),
                cmocka_unit_test(test_a_token_longer_than_any_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
