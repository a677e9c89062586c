#include "unit.h"

#include <string.h>

#include "cmd/top/top.h"

#define A "unit=\"GPU-A\",index=\"10\""
#define TRAIN "unit=\"GPU-A\",namespace=\"ns\",pod=\"train\",container=\"main\""
#define SERVE "unit=\"GPU-A\",namespace=\"ns\",pod=\"serve\",container=\"a,\\\"b\\\"\""
#define CLAIM "unit=\"MIG-B\",namespace=\"ns\",claim=\"gpu\",pod_uid=\"u1\""

static const char page_text[] = "warpshare_build_info{version=\"1\"} 1\n"
                                "warpshare_unit_memory_capacity_bytes{" A "} 10737418240\n"
                                "warpshare_unit_memory_used_bytes{" A "} 8589934592\n"
                                "warpshare_unit_memory_used_bytes{unit=\"MIG-B\",index=\"2:1\"} 0\n"
                                "warpshare_unit_memory_used_bytes{unit=\"GPU-C\",index=\"2\"} 0\n"
                                "warpshare_gpu_utilization_ratio{gpu=\"GPU-A\",index=\"10\"} 0.71\n"
                                "warpshare_gpu_temperature_celsius{gpu=\"GPU-A\",index=\"10\",sensor=\"gpu\"} 50\n"
                                "warpshare_gpu_temperature_celsius{gpu=\"GPU-A\",index=\"10\",sensor=\"memory\"} 99\n"
                                "warpshare_gpu_power_watts{gpu=\"GPU-A\",index=\"10\"} 123.4\n"
                                "warpshare_gpu_power_limit_watts{gpu=\"GPU-A\",index=\"10\"} 400\n"
                                "warpshare_container_info{share=\"t\"," TRAIN "} 1\n"
                                "warpshare_container_info{share=\"s\"," SERVE "} 1\n"
                                "warpshare_container_info{share=\"c\"," CLAIM "} 1\n"
                                "warpshare_container_memory_limit_bytes{share=\"t\"} 4294967296\n"
                                "warpshare_container_memory_limit_bytes{share=\"c\"} 1073741824\n"
                                "warpshare_container_memory_used_bytes{share=\"t\"} 1073741824\n"
                                "warpshare_container_memory_used_bytes{share=\"s\"} 2147483648\n"
                                "warpshare_container_memory_peak_bytes{share=\"t\"} 3221225472\n"
                                "warpshare_container_sm_ratio{share=\"t\"} 0.4\n"
                                "warpshare_container_gpu_seconds_total{share=\"t\"} 7200\n"
                                "warpshare_container_energy_estimated_joules_total{share=\"t\"} 321.5\n"
                                "warpshare_unit_other_memory_bytes{" A ",by=\"mps-server\"} 5368709120\n"
                                "warpshare_unit_other_memory_bytes{" A ",by=\"unattributed\"} 0\n";

struct fixture {
        struct arena arena;
        struct top top;
};

static void make(struct fixture *fixture, enum top_sort sort, const char *filter)
{
        const struct top_wish wish = {sort, filter};
        struct page page;
        struct error err;

        assert_ok(page_read(&page, &fixture->arena, page_text, strlen(page_text), &err), &err);
        top_make(&fixture->top, &fixture->arena, &page, &wish);
}

static char *print_table(const struct fixture *fixture, unsigned int width)
{
        struct strbuf text = STRBUF_INIT;

        top_print_table(&text, &fixture->top, false, width);
        return strbuf_take(&text);
}

static void test_a_table_has_units_by_index_and_shares_by_memory(void **state)
{
        struct fixture *fixture = *state;
        _free_ char *text = NULL;

        make(fixture, TOP_BY_MEMORY, "");
        text = print_table(fixture, 0);
        assert_string_equal(text,
                "GPU 2  [....................] 0 MiB of -  GPU-C\n"
                "MIG 2:1  [....................] 0 MiB of -  MIG-B\n"
                "  POD             LIMIT\n"
                "  claim ns/gpu  1.0 GiB\n"
                "GPU 10  [################....] 8.0 GiB of 10.0 GiB, busy 71 %, 50 C, 123 of 400 W  GPU-A\n"
                "  POD           CONTAINER   MEMORY    LIMIT  OF LIMIT     PEAK    SM   TIME  ENERGY\n"
                "  ns/serve      a,\"b\"      2.0 GiB        -         -        -     -      -       -\n"
                "  ns/train      main       1.0 GiB  4.0 GiB      25 %  3.0 GiB  40 %  2.0 h  ~322 J\n"
                "  (mps-server)  -          5.0 GiB        -         -        -     -      -       -\n");
}

static void test_the_order_is_the_wish(void **state)
{
        static const struct {
                enum top_sort sort;
                const char *first;
        } table[] = {{TOP_BY_MEMORY, "serve"}, {TOP_BY_SM, "train"}, {TOP_BY_PEAK, "train"}, {TOP_BY_POD, "serve"}};
        struct fixture *fixture = *state;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                make(fixture, table[i].sort, "");
                assert_int_equal(fixture->top.n_units, 3);
                assert_string_equal(fixture->top.units[2].shares[0]->pod, table[i].first);
                assert_string_equal(fixture->top.units[2].shares[2]->by, "mps-server"); /* no pod stands last */
        }
}

static void test_a_filter_leaves_only_pods_that_match(void **state)
{
        struct fixture *fixture = *state;

        make(fixture, TOP_BY_MEMORY, "ns/train");
        assert_int_equal(fixture->top.n_units, 1);
        assert_int_equal(fixture->top.units[0].n_shares, 1);
        assert_string_equal(fixture->top.units[0].shares[0]->pod, "train");
        make(fixture, TOP_BY_MEMORY, "nobody");
        assert_int_equal(fixture->top.n_units, 0);
}

static void test_a_narrow_terminal_cuts_lines(void **state)
{
        struct fixture *fixture = *state;
        struct strbuf coloured = STRBUF_INIT;
        _free_ char *text = NULL;

        make(fixture, TOP_BY_MEMORY, "");
        text = print_table(fixture, 20);
        for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
                assert_true(strcspn(line, "\n") <= 20);
        /* Colours take no room. */
        top_print_table(&coloured, &fixture->top, true, 30);
        assert_non_null(strstr(coloured.data, "\nGPU 10  [\033[33m################\033[0m....]\033[0m\n"));
        strbuf_done(&coloured);
}

static void test_json_has_what_is_known(void **state)
{
        struct fixture *fixture = *state;
        _free_ char *text = NULL;

        make(fixture, TOP_BY_MEMORY, "train");
        text = top_print_json(&fixture->top);
        assert_string_equal(text, "{\n"
                                  "  \"units\": [\n"
                                  "    {\n"
                                  "      \"index\": \"10\",\n"
                                  "      \"uuid\": \"GPU-A\",\n"
                                  "      \"memoryCapacityBytes\": 10737418240,\n"
                                  "      \"memoryUsedBytes\": 8589934592,\n"
                                  "      \"utilizationRatio\": 0.71,\n"
                                  "      \"temperatureCelsius\": 50,\n"
                                  "      \"powerWatts\": 123.4,\n"
                                  "      \"powerLimitWatts\": 400,\n"
                                  "      \"shares\": [\n"
                                  "        {\n"
                                  "          \"namespace\": \"ns\",\n"
                                  "          \"pod\": \"train\",\n"
                                  "          \"container\": \"main\",\n"
                                  "          \"memoryLimitBytes\": 4294967296,\n"
                                  "          \"memoryUsedBytes\": 1073741824,\n"
                                  "          \"memoryPeakBytes\": 3221225472,\n"
                                  "          \"smRatio\": 0.4,\n"
                                  "          \"gpuSeconds\": 7200,\n"
                                  "          \"energyEstimatedJoules\": 321.5\n"
                                  "        }\n"
                                  "      ]\n"
                                  "    }\n"
                                  "  ]\n"
                                  "}");
}

static void test_csv_is_quoted_where_it_must_be(void **state)
{
        struct fixture *fixture = *state;
        _free_ char *text = NULL;

        make(fixture, TOP_BY_POD, "serve");
        text = top_print_csv(&fixture->top);
        assert_string_equal(strchr(text, '\n') + 1, "10,GPU-A,,ns,serve,\"a,\"\"b\"\"\",,,,2147483648,,,,,,\n");
}

static int set_up(void **state)
{
        *state = calloc(1, sizeof(struct fixture));
        return 0;
}

static int tear_down(void **state)
{
        arena_done(&((struct fixture *)*state)->arena);
        free(*state);
        return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_a_table_has_units_by_index_and_shares_by_memory),
                TEST(test_the_order_is_the_wish),
                TEST(test_a_filter_leaves_only_pods_that_match),
                TEST(test_a_narrow_terminal_cuts_lines),
                TEST(test_json_has_what_is_known),
                TEST(test_csv_is_quoted_where_it_must_be),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
