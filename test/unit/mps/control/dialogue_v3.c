// SPDX-License-Identifier: Apache-2.0
/* Lines are those of NVIDIA's manual for r615 where it has some. */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/file.h"
#include "mps/control/dialogue.h"

static void is(const char *words, const char *expected)
{
        assert_string_equal(words, expected);
}

static void test_arguments_are_spelled_as_the_manual_has_them(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        is(dialogue_v3_server_create(&arena, "training", 1000, "GPU-1,GPU-2"),
                "server create training --uid=1000 --allowed-devices=GPU-1,GPU-2");
        is(DIALOGUE_V3_SERVER_LIST, "server list --format=csv,noheader");
        is(dialogue_v3_namespace_create(&arena, "training", "g1"), "namespace create g1 --server=training");
        is(dialogue_v3_namespace_set(&arena, "training", "g1", 333, 1630),
                "namespace set g1 --server=training --active-thread-percentage=33 --pinned-memory-limit=1630M");
        is(dialogue_v3_namespace_set(&arena, "training", "g1", 0, 1630),
                "namespace set g1 --server=training --pinned-memory-limit=1630M");
        is(dialogue_v3_namespace_set(&arena, "training", "g1", 1, 0),
                "namespace set g1 --server=training --active-thread-percentage=1");
        is(dialogue_v3_namespace_set(&arena, "training", "g1", 1000, 0),
                "namespace set g1 --server=training --active-thread-percentage=100");
        is(dialogue_v3_namespace_delete(&arena, "training", "g1"), "namespace delete g1 --server=training");
        is(dialogue_v3_namespace_list(&arena, "training"), "namespace list --server=training --format=csv,noheader");
        is(dialogue_v3_namespace_get(&arena, "training", "g1", DIALOGUE_V3_LIMIT),
                "namespace get g1 training pinned-memory-limit");
        is(dialogue_v3_server_set(&arena, "training", 505, 8192),
                "server set training --active-thread-percentage=50 --pinned-memory-limit=8192M");
        is(DIALOGUE_V3_CLIENT_LIST, "client list --all --format=csv,noheader");
        is(dialogue_v3_client_get(&arena, 51023, DIALOGUE_V3_SERVER), "client get 51023 server");
        is(dialogue_v3_client_get(&arena, 51023, DIALOGUE_V3_NAMESPACE), "client get 51023 maws-ns");
        is(DIALOGUE_V3_QUIT, "-q");
        assert_string_equal(dialogue_v3_own_server(&arena, 0), "uid_0");
        is(dialogue_v3_client_terminate(&arena, 51023), "client terminate 51023");
}

static void test_names_are_lower_case_and_short(void **state UNUSED)
{
        static const char *const good[] = {
                "a", "g1a2b", "_", "0", "0123456789012345678901234567890123456789012345678901234567890123"};
        static const char *const bad[] = {"", "A", "a-b", "a.b", "../x", "a b", "ä", "--all",
                "01234567890123456789012345678901234567890123456789012345678901234"};

        for (size_t i = 0; i < ARRAY_SIZE(good); i++)
                assert_true(dialogue_v3_is_name(good[i]));
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_false(dialogue_v3_is_name(bad[i]));
}

static void test_servers_are_read(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dialogue_v3_server *servers = NULL;
        size_t count = 9;
        struct dialogue_unread unread = {0};

        dialogue_v3_read_servers("training,1000,48201,Ready,/run/nvidia-mps/training,GPU-abcd-1234,-\n"
                                 "uid_0,0,-,Stopped,/run/nvidia-mps/uid_0,GPU-1,GPU-2,-",
                &arena, &servers, &count, &unread);
        assert_int_equal(count, 2);
        assert_string_equal(servers[0].name, "training");
        assert_int_equal(servers[0].uid, 1000);
        assert_int_equal(servers[0].pid, 48201);
        assert_string_equal(servers[0].status, "Ready");
        assert_int_equal(servers[1].pid, 0);
        dialogue_v3_read_servers("", &arena, &servers, &count, &unread);
        assert_int_equal(count, 0);
}

static void test_namespaces_are_read_with_their_limits(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dialogue_v3_namespace *namespaces = NULL;
        size_t count = 9;
        struct dialogue_unread unread = {0};

        dialogue_v3_read_namespaces("high_priority,training,Ready,4G,33,0,/run/nvidia-mps/training/high_priority\n"
                                    "default,training,Ready,-,100.0,-,/run/nvidia-mps/training/default\n",
                &arena, &namespaces, &count, &unread);
        assert_int_equal(count, 2);
        assert_string_equal(namespaces[0].name, "high_priority");
        assert_string_equal(namespaces[0].server, "training");
        assert_true(namespaces[0].limit_mib == 4096);
        assert_int_equal(namespaces[0].permille, 330);
        assert_true(namespaces[1].limit_mib == 0);
        assert_int_equal(namespaces[1].permille, 1000);
}

static void test_clients_are_read_and_lines_that_a_tenant_wrote_hide_none(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dialogue_v3_client *clients = NULL;
        size_t count = 9;
        struct dialogue_unread unread = {0};

        dialogue_v3_read_clients("51023,training,0,default,python train.py\n"
                                 "and more, of, the, same, command\n"
                                 "51087,training,0,high_priority,python -c 'a, b'\n",
                &arena, &clients, &count, &unread);
        assert_int_equal(count, 2);
        assert_int_equal(unread.count, 1);
        assert_int_equal(clients[0].pid, 51023);
        assert_string_equal(clients[0].server, "training");
        assert_string_equal(clients[0].name_space, "default");
}

static void test_a_line_that_cannot_be_read_is_counted_and_fails_no_other(void **state UNUSED)
{
        static const char *const servers[] = {"No servers", "training,1000,48201,Ready,/run",
                "training,x,48201,Ready,/run,GPU-1,-", "training,1000,-1,Ready,/run,GPU-1,-",
                "Training,1000,1,Ready,/run,GPU-1,-", "training,1000,2147483648,Ready,/run,GPU-1,-"};
        static const char *const namespaces[] = {"g1,training,Ready,4G,33,0", "g1,training,Ready,4T,33,0,/run",
                "g1,training,Ready,4G,101,0,/run", "g/1,training,Ready,4G,33,0,/run", "g1,,Ready,4G,33,0,/run"};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        size_t count;

        for (size_t i = 0; i < ARRAY_SIZE(servers); i++) {
                _free_ char *answer = xasprintf("%s\nown,0,7,Ready,/run,GPU-1,-\nx\n", servers[i]);
                struct dialogue_unread unread = {0};
                struct dialogue_v3_server *ret;

                dialogue_v3_read_servers(answer, &arena, &ret, &count, &unread);
                assert_int_equal(count, 1);
                assert_int_equal(ret[0].pid, 7);
                assert_int_equal(unread.count, 2);
                assert_string_equal(unread.first, servers[i]);
        }
        for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
                _free_ char *answer = xasprintf("%s\ng2,training,Ready,4G,33.00,0,/run\n", namespaces[i]);
                struct dialogue_unread unread = {0};
                struct dialogue_v3_namespace *ret;

                dialogue_v3_read_namespaces(answer, &arena, &ret, &count, &unread);
                assert_int_equal(count, 1);
                assert_string_equal(ret[0].name, "g2");
                assert_int_equal(unread.count, 1);
                assert_string_equal(unread.first, namespaces[i]);
        }
}

static void test_the_namespace_of_a_client_is_read_in_each_form(void **state UNUSED)
{
        static const struct {
                const char *field;
                const char *name;
        } cases[] = {
                {"default", "default"},
                {"srv/default (0)", "default"},
                {"srv/g1", "g1"},
                {"g1 (12)", "g1"},
                {"other/default (0)", NULL},
                {"sr/default (0)", NULL},
                {"srv/", NULL},
                {"srv/a/b", NULL},
                {"srv/Default (0)", NULL},
                {"srv/default ()", NULL},
                {"srv/default (0", NULL},
                {"srv/default (0) x", NULL},
                {"srv/default (x)", NULL},
                {"srv/default 0)", NULL},
                {"", NULL},
        };
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const char *name = dialogue_v3_read_namespace_name(&arena, cases[i].field, "srv");

                if (cases[i].name)
                        assert_string_equal(name ? name : "(none)", cases[i].name);
                else
                        assert_null(name);
        }
}

/* ---- what a daemon of 615.71.09 said: test/fixtures/recorded/mps/615-v3.txt ---- */

/* The text behind |label| in its line of the recording; fails if there is none. */
static const char *recorded(struct arena *arena, const char *label)
{
        _free_ char *path = xasprintf("%s/mps/615-v3.txt", getenv("WARPSHARE_RECORDED"));
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char *start;
        struct error err;

        assert_ok(file_read(path, 65536, &text, &err), &err);
        start = strstr(text.data, label);
        assert_non_null(start);
        start += strlen(label);
        start += strspn(start, " ");
        return arena_strndup(arena, start, strcspn(start, "\n"));
}

static void test_a_recorded_list_of_clients_names_server_device_and_namespace(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *line = recorded(&arena, "R client list --format=csv,noheader:");
        struct dialogue_unread unread = {0};
        struct dialogue_v3_client *clients = NULL;
        size_t count = 0;

        dialogue_v3_read_clients(line, &arena, &clients, &count, &unread);
        assert_int_equal(unread.count, 0);
        assert_int_equal(count, 1);
        assert_int_equal(clients[0].pid, 3167082);
        assert_string_equal(clients[0].server, "srv");
        assert_string_equal(clients[0].name_space, "default");
}

/* The recording is of the table, without two columns; as csv,noheader its cells are joined by commas. */
static void test_recorded_limits_of_namespaces_are_read_with_all_decimals(void **state UNUSED)
{
        static const struct {
                const char *name;
                uint64_t limit_mib;
                unsigned int permille;
        } cases[] = {{"small", 20480, 300}, {"large", 57344, 700}, {"default", 10240, 500}};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const char *row = recorded(&arena, arena_printf(&arena, "R   %s ", cases[i].name));
                struct dialogue_unread unread = {0};
                struct dialogue_v3_namespace *ret;
                char server[32], status[32], limit[32], percentage[32];
                size_t count = 0;

                assert_int_equal(sscanf(row, "%31s %31s %31s %31s", server, status, limit, percentage), 4);
                dialogue_v3_read_namespaces(
                        arena_printf(&arena, "%s,%s,%s,%s,%s,0,/run", cases[i].name, server, status, limit, percentage),
                        &arena, &ret, &count, &unread);
                assert_int_equal(count, 1);
                assert_string_equal(ret[0].server, "shared");
                assert_true(ret[0].limit_mib == cases[i].limit_mib);
                assert_int_equal(ret[0].permille, cases[i].permille);
        }
}

static void test_a_namespace_without_a_limit_is_recorded_as_unlimited(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *text = recorded(&arena, "R namespace without a memory limit: column shows");
        const char *word = arena_strndup(&arena, text + 1, strcspn(text + 1, "\""));
        struct dialogue_unread unread = {0};
        struct dialogue_v3_namespace *ret;
        size_t count = 0;

        dialogue_v3_read_namespaces(
                arena_printf(&arena, "g1,shared,Ready,%s,50.00,0,/run", word), &arena, &ret, &count, &unread);
        assert_int_equal(count, 1);
        assert_true(ret[0].limit_mib == 0);
        assert_int_equal(ret[0].permille, 500);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_arguments_are_spelled_as_the_manual_has_them),
                cmocka_unit_test(test_names_are_lower_case_and_short),
                cmocka_unit_test(test_servers_are_read),
                cmocka_unit_test(test_namespaces_are_read_with_their_limits),
                cmocka_unit_test(test_clients_are_read_and_lines_that_a_tenant_wrote_hide_none),
                cmocka_unit_test(test_a_line_that_cannot_be_read_is_counted_and_fails_no_other),
                cmocka_unit_test(test_the_namespace_of_a_client_is_read_in_each_form),
                cmocka_unit_test(test_a_recorded_list_of_clients_names_server_device_and_namespace),
                cmocka_unit_test(test_recorded_limits_of_namespaces_are_read_with_all_decimals),
                cmocka_unit_test(test_a_namespace_without_a_limit_is_recorded_as_unlimited),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
