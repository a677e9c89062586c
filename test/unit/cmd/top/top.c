// SPDX-License-Identifier: Apache-2.0
#include "page.h"

struct fixture {
        struct arena arena;
        struct node_page page;
        struct top_wish wish;
        struct top top;
};

static void make(struct fixture *fixture, enum top_sort sort, const char *filter)
{
        fixture->wish.sort = sort;
        fixture->wish.filter = filter;
        top_make(&fixture->top, &fixture->arena, &fixture->page, &fixture->wish);
}

static char *print_table(struct fixture *fixture, unsigned int width, bool has_colours, bool is_utf8)
{
        struct top_lines lines = {.arena = &fixture->arena};
        struct strbuf text = STRBUF_INIT;

        top_draw(&lines, &fixture->top, &fixture->wish, width, is_utf8);
        top_lines_print(&text, &lines, has_colours);
        return strbuf_take(&text);
}

static void expect_table(
        struct fixture *fixture, unsigned int width, bool has_colours, bool is_utf8, const char *expected)
{
        _free_ char *text = print_table(fixture, width, has_colours, is_utf8);

        assert_string_equal(text, expected);
}

#define HEAD "  POD           CONTAINER  REPLICAS   MEMORY    LIMIT  OF LIMIT     PEAK    SM  THREADS   TIME  ENERGY\n"

static void test_a_table_has_units_and_shares_by_memory_in_the_same_columns(void **state)
{
        struct fixture *fixture = *state;

        make(fixture, TOP_BY_MEMORY, "");
        expect_table(fixture, 0, false, true,
                "GPU 2  1 MIG device, 40 C  GPU-C\n"
                "MIG 2:1        [....................] 0 MiB of -, unhealthy: Xid 79  MIG-B\n" HEAD
                "  claim ns/gpu  -                 -        -  1.0 GiB         -        -     -        -      -       -\n"
                "GPU 10   H100  [################....] 8.0 of 10.0 GiB, 7 of 10 granted, 2 reserved, busy 71 %, 50 C, 123 of "
                "400 W  GPU-A\n" HEAD
                "  ns/serve      a,\"b\"             -  4.0 GiB        -         -        -     -        -      -       -\n"
                "  ns/train      main              3  3.6 GiB  4.0 GiB      91 %  3.0 GiB  40 %     30 %  2.0 h  ~322 J\n"
                "  (mps-server)  -                 -  5.0 GiB        -         -        -     -        -      -       -\n");
}

static void test_a_model_is_as_short_as_on_the_dashboard(void **state)
{
        static const char *const models[][2] = {{"NVIDIA H100 80GB HBM3", "GPU 10  H100 80GB  ["},
                {"NVIDIA A100-SXM4-80GB", "GPU 10  A100-SXM4-80GB  ["}, {"Tesla T4", "GPU 10  Tesla T4  ["},
                {"NVIDIA HBM9 X", "GPU 10  HBM9 X  ["}, {NULL, "GPU 10  ["}};
        struct fixture *fixture = *state;

        for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
                _free_ char *text = NULL;

                ((struct report_gpu *)(uintptr_t)&fixture->page.gpus[1])->model = models[i][0];
                make(fixture, TOP_BY_MEMORY, "train");
                text = print_table(fixture, 0, false, true);
                assert_memory_equal(text, models[i][1], strlen(models[i][1]));
        }
}

static void test_processes_and_the_last_hour_are_there_where_they_are_wanted(void **state)
{
        struct fixture *fixture = *state;

        fixture->wish.has_processes = fixture->wish.has_history = true;
        fixture->wish.amounts = TOP_MIB;
        make(fixture, TOP_BY_MEMORY, "train");
        expect_table(fixture, 66, false, true,
                "GPU 10  [########..] 8192 of 10240 MiB, 7 of 10 granted, busy 71 %\n"
                "  busy   |                                                 ▁█| now\n"
                "  memory |                                                █▁▅| now\n"
                "  POD       REPLICAS    MEMORY     LIMIT  OF LIMIT    SM  THREADS\n"
                "  ns/train         3  3719 MiB  4096 MiB      91 %  40 %     30 %\n"
                "        4711  python3            1024 MiB   40 %\n");
        expect_table(fixture, 100, false, false,
                "GPU 10  H100  [################....] 8192 of 10240 MiB, 7 of 10 granted, 2 reserved, busy 71 %\n"
                "  busy   |                                                          _#| now\n"
                "  memory |                                                         #_=| now\n"
                "  POD       CONTAINER  REPLICAS    MEMORY     LIMIT  OF LIMIT      PEAK    SM  THREADS  LAST HOUR\n"
                "  ns/train  main              3  3719 MiB  4096 MiB      91 %  3072 MiB  40 %     30 %             =\n"
                "        4711  python3            1024 MiB   40 %\n");
}

static void test_a_unit_that_drains_shows_what_is_still_granted(void **state)
{
        static const char page[] =
                "{\"version\":1,\"gpus\":[{\"uuid\":\"GPU-A\",\"index\":\"0\",\"units\":[{\"uuid\":\"GPU-A\","
                "\"index\":\"0\",\"by\":\"device-plugin\",\"draining\":true,\"replicas\":10,\"granted\":3,\"memory\":1024,"
                "\"memoryUsed\":0,\"shares\":[{\"namespace\":\"ns\",\"pod\":\"train\",\"replicas\":3}]}]}]}";
        struct fixture *fixture = *state;
        struct error err;

        assert_ok(node_page_read(&fixture->page, &fixture->arena, page, strlen(page), &err), &err);
        make(fixture, TOP_BY_MEMORY, "");
        expect_table(fixture, 0, false, true,
                "GPU 0  [....................] 0 of 0 MiB, 3 of 10 granted, draining  GPU-A\n"
                "  POD       REPLICAS\n"
                "  ns/train         3\n");
}

/* Nothing is cut in the middle of a word as long as the memory has room, and the rest comes as there is more. */
static void test_a_gpus_line_has_what_fits(void **state)
{
        static const struct {
                unsigned int width;
                const char *line;
        } table[] = {{40, "GPU 10  [########..] 8.0 of 10.0 GiB"},
                {53, "GPU 10  [########..] 8.0 of 10.0 GiB, 7 of 10 granted"},
                {64, "GPU 10  [########..] 8.0 of 10.0 GiB, 7 of 10 granted, busy 71 %"},
                {68, "GPU 10  [########..] 8.0 of 10.0 GiB, 7 of 10 granted, busy 71 %"},
                {69, "GPU 10  H100  8.0 of 10.0 GiB, 7 of 10 granted, 2 reserved, busy 71 %"},
                {81, "GPU 10  H100  8.0 of 10.0 GiB, 7 of 10 granted, 2 reserved, busy 71 %"},
                {82, "GPU 10  H100  [########..] 8.0 of 10.0 GiB, 7 of 10 granted, 2 reserved, busy 71 %"},
                {118, "GPU 10  H100  [################....] 8.0 of 10.0 GiB, 7 of 10 granted, 2 reserved, busy 71 %, 50 C, 123 "
                      "of 400 W"},
                {119, "GPU 10  H100  [################....] 8.0 of 10.0 GiB, 7 of 10 granted, 2 reserved, busy 71 %, 50 C, 123 "
                      "of 400 W  GPU-A"}};
        struct fixture *fixture = *state;

        make(fixture, TOP_BY_MEMORY, "train");
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *text = print_table(fixture, table[i].width, false, true);

                *strchr(text, '\n') = '\0';
                assert_string_equal(text, table[i].line);
        }
}

static void test_the_order_is_the_wish(void **state)
{
        static const struct {
                enum top_sort sort;
                bool is_reversed;
                const char *first;
        } table[] = {{TOP_BY_MEMORY, false, "serve"}, {TOP_BY_MEMORY, true, "train"}, {TOP_BY_SM, false, "train"},
                {TOP_BY_PEAK, false, "train"}, {TOP_BY_POD, false, "serve"}, {TOP_BY_POD, true, "train"}};
        struct fixture *fixture = *state;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                fixture->wish.is_reversed = table[i].is_reversed;
                make(fixture, table[i].sort, "");
                assert_int_equal(fixture->top.n_units, 2);
                assert_string_equal(fixture->top.units[1].rows[0].share->pod, table[i].first);
                assert_string_equal(fixture->top.units[1].rows[2].other->by, "mps-server"); /* no pod stands last */
        }
}

static void test_a_filter_leaves_only_pods_that_match(void **state)
{
        struct fixture *fixture = *state;

        make(fixture, TOP_BY_MEMORY, "ns/train");
        assert_int_equal(fixture->top.n_units, 1);
        assert_int_equal(fixture->top.units[0].n_rows, 1);
        assert_string_equal(fixture->top.units[0].rows[0].share->pod, "train");
        make(fixture, TOP_BY_MEMORY, "nobody");
        assert_int_equal(fixture->top.n_units, 0);
}

static void test_a_narrow_terminal_has_fewer_columns_and_no_longer_lines(void **state)
{
        struct fixture *fixture = *state;

        make(fixture, TOP_BY_MEMORY, "train");
        for (unsigned int width = 1; width < 120; width++) {
                _free_ char *text = print_table(fixture, width, false, true);

                for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
                        assert_in_range(strcspn(line, "\n"), 0, width);
        }
        expect_table(fixture, 40, false, true,
                "GPU 10  [########..] 8.0 of 10.0 GiB\n"
                "  POD        MEMORY    LIMIT    SM\n"
                "  ns/train  3.6 GiB  4.0 GiB  40 %\n");
}

/* Yellow from three quarters of the limit on, red from nine tenths. */
static void test_colours_say_how_much_is_left(void **state)
{
        struct fixture *fixture = *state;

        make(fixture, TOP_BY_MEMORY, "train");
        expect_table(fixture, 40, true, true,
                "\033[1mGPU 10  \033[0m[\033[33m########\033[0m..] 8.0 of 10.0 GiB\n"
                "\033[2m  POD        MEMORY    LIMIT    SM\033[0m\n"
                "\033[31m  ns/train  3.6 GiB  4.0 GiB  40 %\033[0m\n");
}

static void test_json_is_a_page_of_what_is_wanted(void **state)
{
        struct fixture *fixture = *state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _free_ char *text = NULL;
        struct node_page page;
        struct error err;

        make(fixture, TOP_BY_MEMORY, "");
        text = top_print_json(&fixture->top, &fixture->wish);
        assert_ok(node_page_read(&page, &arena, text, strlen(text), &err), &err);
        assert_int_equal(page.n_gpus, 2);
        assert_string_equal(page.node, "node-a");
        assert_int_equal(page.n_events, 2);
        assert_string_equal(page.gpus[1].units[0].shares[0].pod, "serve");
        assert_string_equal(page.gpus[1].units[0].shares[1].processes[0].name, "python3");
        assert_int_equal(page.gpus[1].units[0].n_others, 2);
        free(TAKE_PTR(text));
        make(fixture, TOP_BY_MEMORY, "train");
        text = top_print_json(&fixture->top, &fixture->wish);
        assert_ok(node_page_read(&page, &arena, text, strlen(text), &err), &err);
        assert_int_equal(page.n_gpus, 1);
        assert_string_equal(page.gpus[0].uuid, "GPU-A");
        assert_int_equal(page.gpus[0].n_units, 1);
        assert_int_equal(page.gpus[0].units[0].n_shares, 1);
        assert_int_equal(page.gpus[0].units[0].n_others, 0);
}

static void test_csv_is_quoted_where_it_must_be(void **state)
{
        struct fixture *fixture = *state;
        _free_ char *text = NULL;

        make(fixture, TOP_BY_POD, "serve");
        text = top_print_csv(&fixture->top);
        assert_string_equal(strchr(text, '\n') + 1, "10,GPU-A,,ns,serve,\"a,\"\"b\"\"\",,,,4294967296,,,,,,,,\n");
}

static int set_up(void **state)
{
        struct fixture *fixture = calloc(1, sizeof(*fixture));

        read_page(&fixture->page, &fixture->arena);
        *state = fixture;
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
                TEST(test_a_table_has_units_and_shares_by_memory_in_the_same_columns),
                TEST(test_a_model_is_as_short_as_on_the_dashboard),
                TEST(test_a_gpus_line_has_what_fits),
                TEST(test_processes_and_the_last_hour_are_there_where_they_are_wanted),
                TEST(test_a_unit_that_drains_shows_what_is_still_granted),
                TEST(test_the_order_is_the_wish),
                TEST(test_a_filter_leaves_only_pods_that_match),
                TEST(test_a_narrow_terminal_has_fewer_columns_and_no_longer_lines),
                TEST(test_colours_say_how_much_is_left),
                TEST(test_json_is_a_page_of_what_is_wanted),
                TEST(test_csv_is_quoted_where_it_must_be),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
