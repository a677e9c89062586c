// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/macro.h"
#include "cluster/dashboard/hosts.h"

static struct arena arena;

static int set_up(void **state UNUSED)
{
        arena = (struct arena)ARENA_INIT;
        return 0;
}

static int tear_down(void **state UNUSED)
{
        arena_done(&arena);
        return 0;
}

#define NAMES "gpus.example.com, Dashboard.team,warpshare-dashboard"

static const struct {
        const char *host;
        bool is_allowed;
} table[] = {
        {"localhost", true},
        {"localhost:8080", true},
        {"LocalHost:8080", true},
        {"127.0.0.1:8080", true},
        {"10.1.2.3", true},
        {"[::1]:8080", true},
        {"[fd00::1]", true},
        {"gpus.example.com", true},
        {"GPUs.example.com:443", true},
        {"gpus.example.com.", true},
        {"gpus.example.com.:443", true},
        {"dashboard.team", true},
        {"warpshare-dashboard", true},
        {NULL, false},
        {"", false},
        {":8080", false},
        {".", false},
        {"evil.example", false},
        {"evil.example:8080", false},
        {"evil.gpus.example.com", false},
        {"gpus.example.com.evil.example", false},
        {"gpus.example.co", false},
        {"localhost.evil.example", false},
        {"evil.localhost", false},
        {"127.0.0.1.evil.example", false},
        {"127.1", false},
        {"0x7f000001", false},
        {"2130706433", false},
        {"[127.0.0.1]", false},
        {"[evil.example]", false},
        {"[::1", false},
        {"[::1]evil.example", false},
        {"::1", false},
        {"localhost:8080:evil.example", false},
        {"localhost:evil.example", false},
        {"localhost@evil.example", false},
        {"evil.example/localhost", false},
        {"localhost,evil.example", false},
        {"localhost evil.example", false},
};

static void test_a_browser_may_know_the_dashboard_by_some_names_only(void **state UNUSED)
{
        char long_name[1000] = "";
        struct dashboard_hosts hosts;
        struct error err;

        assert_ok(dashboard_hosts_read(&hosts, NAMES, &arena, &err), &err);
        assert_int_equal(hosts.n_names, 3);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                if (dashboard_hosts_allow(&hosts, table[i].host) != table[i].is_allowed)
                        fail_msg("'%s'", table[i].host);
        memset(long_name, 'a', sizeof(long_name) - 1);
        assert_false(dashboard_hosts_allow(&hosts, long_name));
}

static void test_without_a_list_addresses_and_localhost_are_left(void **state UNUSED)
{
        struct dashboard_hosts hosts;
        struct error err;

        assert_ok(dashboard_hosts_read(&hosts, "", &arena, &err), &err);
        assert_int_equal(hosts.n_names, 0);
        assert_true(dashboard_hosts_allow(&hosts, "localhost:8080"));
        assert_true(dashboard_hosts_allow(&hosts, "192.0.2.1"));
        assert_false(dashboard_hosts_allow(&hosts, "gpus.example.com"));
}

static const char *const wrong[] = {
        "*", "*.example.com", "gpus.example.com:443", "https://gpus.example.com", "a_b", "-a", "a..b", "[::1]"};

static void test_what_is_no_name_is_refused(void **state UNUSED)
{
        struct dashboard_hosts hosts;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                const char *text = arena_printf(
                        &arena, "'%s' is no name of a host, without scheme and port, as gpus.example.com", wrong[i]);

                assert_fails(dashboard_hosts_read(&hosts, arena_printf(&arena, "good,%s", wrong[i]), &arena, &err),
                        &err, ERROR_INVALID, text);
        }
}

static void test_a_list_has_an_end(void **state UNUSED)
{
        char text[2 * (DASHBOARD_HOSTS_MAX + 1) + 1] = "";
        struct dashboard_hosts hosts;
        struct error err;

        for (size_t i = 0; i < DASHBOARD_HOSTS_MAX; i++)
                memcpy(text + 2 * i, "a,", 3);
        assert_ok(dashboard_hosts_read(&hosts, text, &arena, &err), &err);
        memcpy(text + 2 * DASHBOARD_HOSTS_MAX, "a,", 3);
        assert_fails(dashboard_hosts_read(&hosts, text, &arena, &err), &err, ERROR_INVALID, "more than 64 names");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(
                        test_a_browser_may_know_the_dashboard_by_some_names_only, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_without_a_list_addresses_and_localhost_are_left, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_is_no_name_is_refused, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_list_has_an_end, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
