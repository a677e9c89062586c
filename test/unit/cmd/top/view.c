// SPDX-License-Identifier: Apache-2.0
#include "page.h"

#include "cmd/top/view.h"

#define WIDTH 64
#define HEIGHT 8

struct fixture {
        struct arena arena;
        struct node_page page;
        struct top_view view;
        char *screen;
};

static const char *draw_at(struct fixture *fixture, const char *trouble, unsigned int width, unsigned int height)
{
        struct top_lines lines = {.arena = &fixture->arena};
        struct strbuf text = STRBUF_INIT;

        top_view_draw(&fixture->view, &lines, &fixture->page, trouble, width, height, false);
        assert_in_range(lines.n_lines, 0, height);
        top_lines_print(&text, &lines, false);
        free(fixture->screen);
        fixture->screen = strbuf_take(&text);
        return fixture->screen;
}

static const char *draw(struct fixture *fixture)
{
        return draw_at(fixture, NULL, WIDTH, HEIGHT);
}

static void press(struct fixture *fixture, const char *keys)
{
        for (; *keys; keys++)
                top_view_key(&fixture->view, *keys);
}

static void assert_shown(struct fixture *fixture, const char *part)
{
        if (!strstr(draw(fixture), part))
                fail_msg("'%s' is not on the screen:\n%s", part, fixture->screen);
}

static void assert_hidden(struct fixture *fixture, const char *part)
{
        if (strstr(draw(fixture), part))
                fail_msg("'%s' is on the screen:\n%s", part, fixture->screen);
}

static void test_a_screen_has_a_head_units_and_keys(void **state)
{
        assert_string_equal(draw(*state), "node-a  driver 570.86  configuration half  16:48:03 UTC\n"
                                          "GPU 2  1 MIG device, 40 C  GPU-C\n"
                                          "MIG 2:1  [..........] 0 MiB of -, unhealthy: Xid 79  MIG-B\n"
                                          "  POD            MEMORY    LIMIT  OF LIMIT    SM  THREADS\n"
                                          "  claim ns/gpu        -  1.0 GiB         -     -        -\n"
                                          "GPU 10   [########..] 8.0 of 10.0 GiB, 7 of 10 granted\n"
                                          "  POD            MEMORY    LIMIT  OF LIMIT    SM  THREADS\n"
                                          "q quit  h help  s sort: memory  u units: auto  / filter  p proce\n");
}

static void test_lines_beyond_the_screen_are_scrolled_to(void **state)
{
        struct fixture *fixture = *state;

        assert_hidden(fixture, "(mps-server)");
        press(fixture, "jjj");
        assert_shown(fixture, "(mps-server)");
        assert_hidden(fixture, "GPU 2");
        press(fixture, "jjjjjjjj"); /* not beyond the end */
        assert_shown(fixture, "ns/serve");
        press(fixture, "k");
        assert_hidden(fixture, "(mps-server)");
        top_view_key(&fixture->view, TOP_KEY_HOME);
        assert_shown(fixture, "GPU 2");
        top_view_key(&fixture->view, TOP_KEY_PAGE_DOWN);
        assert_hidden(fixture, "GPU 2");
        top_view_key(&fixture->view, TOP_KEY_PAGE_UP);
        assert_shown(fixture, "GPU 2");
        top_view_key(&fixture->view, TOP_KEY_END);
        assert_shown(fixture, "(mps-server)");
}

static void test_keys_change_what_is_wanted(void **state)
{
        struct fixture *fixture = *state;

        press(fixture, "sru");
        assert_int_equal(fixture->view.wish.sort, TOP_BY_SM);
        assert_true(fixture->view.wish.is_reversed);
        assert_int_equal(fixture->view.wish.amounts, TOP_MIB);
        press(fixture, "sssuu");
        assert_int_equal(fixture->view.wish.sort, TOP_BY_MEMORY);
        assert_int_equal(fixture->view.wish.amounts, TOP_AUTO);
        assert_false(fixture->view.wants_page);
        press(fixture, "p");
        assert_true(fixture->view.wish.has_processes && fixture->view.wants_page);
        fixture->view.wants_page = false;
        press(fixture, "l");
        assert_true(fixture->view.wish.has_history && fixture->view.wants_page);
        fixture->view.wants_page = false;
        press(fixture, " ");
        assert_true(fixture->view.wants_page);
        assert_false(fixture->view.is_over);
        press(fixture, "q");
        assert_true(fixture->view.is_over);
}

static void test_a_filter_is_typed(void **state)
{
        struct fixture *fixture = *state;

        press(fixture, "/trq");
        assert_shown(fixture, "no such pod");
        assert_shown(fixture, "/trq");
        top_view_key(&fixture->view, TOP_KEY_BACKSPACE);
        assert_shown(fixture, "ns/train");
        assert_hidden(fixture, "ns/serve");
        top_view_key(&fixture->view, TOP_KEY_ENTER);
        assert_shown(fixture, "q quit");
        assert_false(fixture->view.is_over);
        assert_string_equal(fixture->view.wish.filter, "tr");
        press(fixture, "/");
        top_view_key(&fixture->view, TOP_KEY_ESCAPE);
        assert_string_equal(fixture->view.wish.filter, "");
        press(fixture, "/");
        for (size_t i = 0; i < 2 * TOP_FILTER_MAX; i++)
                press(fixture, "x");
        assert_int_equal(strlen(fixture->view.filter), TOP_FILTER_MAX - 1);
        for (size_t i = 0; i < 2 * TOP_FILTER_MAX; i++)
                top_view_key(&fixture->view, TOP_KEY_DELETE);
        assert_string_equal(fixture->view.filter, "");
}

static void test_events_and_help_are_pages_of_their_own(void **state)
{
        struct fixture *fixture = *state;

        press(fixture, "e");
        assert_string_equal(draw(fixture), "node-a  driver 570.86  configuration half  16:48:03 UTC\n"
                                           "16:38:20 UTC  GPUUnhealthy  GPU 2 is lost\n"
                                           "16:36:40 UTC  ConfigApplied  another\n"
                                           "\n\n\n\n"
                                           "q quit  h help  s sort: memory  u units: auto  / filter  p proce\n");
        press(fixture, "h");
        assert_shown(fixture, "quit");
        assert_hidden(fixture, "GPUUnhealthy");
        top_view_key(&fixture->view, TOP_KEY_ESCAPE);
        assert_shown(fixture, "GPU 10");
}

static void test_trouble_leaves_what_was_known(void **state)
{
        struct fixture *fixture = *state;

        draw_at(fixture, "no agent answers", 100, HEIGHT);
        assert_non_null(strstr(fixture->screen, "16:48:03 UTC  no agent answers\n"));
        assert_non_null(strstr(fixture->screen, "GPU 10"));
}

/* Lines are cut, and their number is that of the terminal, whatever the size. */
static void test_any_size_can_be_drawn(void **state)
{
        struct fixture *fixture = *state;

        fixture->view.wish.has_history = fixture->view.wish.has_processes = true;
        for (unsigned int height = 0; height < 20; height++)
                for (unsigned int width = 1; width < 130; width += 3) {
                        size_t n_lines = 0;

                        for (const char *line = draw_at(fixture, "trouble", width, height); *line;
                                line += strcspn(line, "\n") + 1, n_lines++)
                                assert_in_range(strcspn(line, "\n"), 0, width);
                        assert_int_equal(n_lines, height);
                        top_view_key(&fixture->view, TOP_KEY_DOWN);
                }
}

static int set_up(void **state)
{
        static const struct top_wish wish = {.filter = ""};
        struct fixture *fixture = calloc(1, sizeof(*fixture));

        read_page(&fixture->page, &fixture->arena);
        top_view_init(&fixture->view, &wish);
        *state = fixture;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *fixture = *state;

        arena_done(&fixture->arena);
        free(fixture->screen);
        free(fixture);
        return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_a_screen_has_a_head_units_and_keys),
                TEST(test_lines_beyond_the_screen_are_scrolled_to),
                TEST(test_keys_change_what_is_wanted),
                TEST(test_a_filter_is_typed),
                TEST(test_events_and_help_are_pages_of_their_own),
                TEST(test_trouble_leaves_what_was_known),
                TEST(test_any_size_can_be_drawn),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
