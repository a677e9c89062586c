#include "unit.h"

#include <math.h>
#include <string.h>

#include "metrics/exposition.h"
#include "metrics/page.h"

static void test_what_is_written_is_read(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct exposition exposition = EXPOSITION_INIT;
        _free_ char *text = NULL;
        struct page page;
        struct error err;

        exposition_family(&exposition, "warpshare_a_bytes", EXPOSITION_GAUGE, "What it is.");
        exposition_sample(&exposition, EXPOSITION_LABELS({"unit", "GPU-1"}, {"pod", "a\"b\\c\nd}"}), 1.5);
        exposition_sample(&exposition, EXPOSITION_LABELS(), -3);
        exposition_family(&exposition, "warpshare_b_total", EXPOSITION_COUNTER, "And this.");
        exposition_sample(&exposition, EXPOSITION_LABELS({"pod", ""}), NAN);
        text = exposition_take(&exposition);
        assert_ok(page_read(&page, &arena, text, strlen(text), &err), &err);
        assert_int_equal(page.n_samples, 3);
        assert_string_equal(page.samples[0].name, "warpshare_a_bytes");
        assert_string_equal(page_label(&page.samples[0], "unit"), "GPU-1");
        assert_string_equal(page_label(&page.samples[0], "pod"), "a\"b\\c\nd}");
        assert_null(page_label(&page.samples[0], "tier"));
        assert_true(page.samples[0].value == 1.5 && page.samples[1].value == -3);
        assert_int_equal(page.samples[1].n_labels, 0);
        assert_string_equal(page_label(&page.samples[2], "pod"), "");
        assert_true(isnan(page.samples[2].value));
}

static void test_other_writers_have_blanks_timestamps_and_no_last_line_break(void **state UNUSED)
{
        static const char text[] = "\n  # a comment\na{ x = \"1\" , } 2 1763769600\nb 3";
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct page page;
        struct error err;

        assert_ok(page_read(&page, &arena, text, strlen(text), &err), &err);
        assert_int_equal(page.n_samples, 2);
        assert_string_equal(page_label(&page.samples[0], "x"), "1");
        assert_true(page.samples[0].value == 2 && page.samples[1].value == 3);
}

static void test_what_is_no_page_is_refused_with_its_line(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *error;
        } table[] = {
                {"a 1\n{} 1\n", "line 2 of the metrics: it begins with no name"},
                {"a\n", "line 1 of the metrics: it has no number"},
                {"a 1x\n", "line 1 of the metrics: it has no number"},
                {"a{b=1} 1\n", "line 1 of the metrics: the value of a label does not stand between quotes"},
                {"a{b=\"1} 1\n", "line 1 of the metrics: the value of a label does not stand between quotes"},
                {"a{b=\"1\\\n", "line 1 of the metrics: the value of a label does not stand between quotes"},
                {"a{b} 1\n", "line 1 of the metrics: a label has no name, or no value"},
                {"a{b=\"1\" c=\"2\"} 1\n", "line 1 of the metrics: a label has no end"},
                {"<html>\n", "line 1 of the metrics: it begins with no name"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                struct page page;
                struct error err;

                assert_fails(page_read(&page, &arena, table[i].text, strlen(table[i].text), &err), &err, ERROR_INVALID,
                        table[i].error);
        }
}

static void test_text_with_a_zero_in_it_is_refused(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct page page;
        struct error err;

        assert_fails(page_read(&page, &arena, "a 1\0b 2", 7, &err), &err, ERROR_INVALID,
                "the metrics are no text of at most 16 MiB");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_written_is_read),
                cmocka_unit_test(test_other_writers_have_blanks_timestamps_and_no_last_line_break),
                cmocka_unit_test(test_what_is_no_page_is_refused_with_its_line),
                cmocka_unit_test(test_text_with_a_zero_in_it_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
