// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "net/metrics/exposition.h"

static void test_heads_of_counters_lose_their_end_and_the_page_has_one(void **state UNUSED)
{
        struct exposition exposition = EXPOSITION_INIT;
        _free_ char *text = NULL;

        exposition_family(&exposition, "warpshare_a_bytes", EXPOSITION_GAUGE, "What \"it\" is.");
        exposition_sample(&exposition, EXPOSITION_LABELS({"unit", "# HELP x\n# TYPE x counter"}), 1.5);
        exposition_family(&exposition, "warpshare_b_total", EXPOSITION_COUNTER, "And this.");
        exposition_sample(&exposition, EXPOSITION_LABELS({"pod", "a"}), 0);
        exposition_sample(&exposition, EXPOSITION_LABELS({"pod", "b"}), 7);
        exposition_family(&exposition, "DCGM_FI_ENERGY", EXPOSITION_COUNTER, "No end.");
        exposition_sample(&exposition, EXPOSITION_LABELS(), 3);
        exposition_family(&exposition, "warpshare_empty", EXPOSITION_GAUGE, "Nothing.");
        text = openmetrics_of(exposition_take(&exposition));
        assert_string_equal(text, "# HELP warpshare_a_bytes What \\\"it\\\" is.\n"
                                  "# TYPE warpshare_a_bytes gauge\n"
                                  "warpshare_a_bytes{unit=\"# HELP x # TYPE x counter\"} 1.5\n"
                                  "# HELP warpshare_b And this.\n"
                                  "# TYPE warpshare_b counter\n"
                                  "warpshare_b_total{pod=\"a\"} 0\n"
                                  "warpshare_b_total{pod=\"b\"} 7\n"
                                  "# HELP DCGM_FI_ENERGY No end.\n"
                                  "# TYPE DCGM_FI_ENERGY unknown\n"
                                  "DCGM_FI_ENERGY 3\n"
                                  "# HELP warpshare_empty Nothing.\n"
                                  "# TYPE warpshare_empty gauge\n"
                                  "# EOF\n");
}

/* Two families of one name would cost the reader the page. */
static void test_a_counter_beside_a_gauge_of_its_name_is_none(void **state UNUSED)
{
        struct exposition exposition = EXPOSITION_INIT;
        _free_ char *text = NULL;

        exposition_family(&exposition, "warpshare_faults", EXPOSITION_GAUGE, "Now.");
        exposition_family(&exposition, "warpshare_faults_total", EXPOSITION_COUNTER, "So far.");
        exposition_sample(&exposition, EXPOSITION_LABELS(), 1);
        exposition_family(&exposition, "warpshare_fault_total", EXPOSITION_COUNTER, "Another.");
        text = openmetrics_of(exposition_take(&exposition));
        assert_non_null(strstr(text, "# TYPE warpshare_faults gauge\n"));
        assert_non_null(strstr(text, "# HELP warpshare_faults_total So far.\n# TYPE warpshare_faults_total unknown\n"));
        assert_non_null(strstr(text, "# TYPE warpshare_fault counter\n"));
}

static void test_an_empty_page_has_an_end(void **state UNUSED)
{
        _free_ char *text = openmetrics_of(xstrdup(""));

        assert_string_equal(text, "# EOF\n");
}

static void test_who_asks_for_it_at_least_as_much_as_for_text_gets_it(void **state UNUSED)
{
        static const struct {
                const char *accept;
                bool is_wanted;
        } cases[] = {
                {NULL, false},
                {"", false},
                {"*/*", false},
                {"text/plain", false},
                {"application/openmetrics-text", true},
                {"Application/OpenMetrics-Text; version=1.0.0", true},
                {"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;"
                 "version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                        true}, /* Prometheus 3 */
                {"application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", true},
                {"text/plain;version=0.0.4;q=1,application/openmetrics-text;q=0.5", false},
                {"text/plain, application/openmetrics-text", true},
                {"application/openmetrics-text;q=0", false},
                {"application/openmetrics-text-2", false},
                {"application/openmetrics-text;q=x", false},
                {", ,;q=1", false},
                {"   ", false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_int_equal(openmetrics_is_wanted(cases[i].accept), cases[i].is_wanted);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_heads_of_counters_lose_their_end_and_the_page_has_one),
                cmocka_unit_test(test_a_counter_beside_a_gauge_of_its_name_is_none),
                cmocka_unit_test(test_an_empty_page_has_an_end),
                cmocka_unit_test(test_who_asks_for_it_at_least_as_much_as_for_text_gets_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
