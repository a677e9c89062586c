// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "net/metrics/exposition.h"

static void test_a_family_is_its_head_and_its_samples(void **state UNUSED)
{
        struct exposition exposition = EXPOSITION_INIT;
        _free_ char *text = NULL;

        exposition_family(&exposition, "warpshare_a_bytes", EXPOSITION_GAUGE, "What it is.");
        exposition_sample(&exposition, EXPOSITION_LABELS({"unit", "GPU-1"}, {"pod", NULL}, {"tier", "default"}), 1.5);
        exposition_sample(&exposition, EXPOSITION_LABELS(), 3);
        exposition_family(&exposition, "warpshare_b_total", EXPOSITION_COUNTER, "And this.");
        exposition_sample(&exposition, EXPOSITION_LABELS({"pod", NULL}), 0);
        text = exposition_take(&exposition);
        assert_string_equal(text, "# HELP warpshare_a_bytes What it is.\n"
                                  "# TYPE warpshare_a_bytes gauge\n"
                                  "warpshare_a_bytes{unit=\"GPU-1\",tier=\"default\"} 1.5\n"
                                  "warpshare_a_bytes 3\n"
                                  "# HELP warpshare_b_total And this.\n"
                                  "# TYPE warpshare_b_total counter\n"
                                  "warpshare_b_total 0\n");
}

static const struct {
        double value;
        const char *text;
} numbers[] = {
        {0, "0"},
        {0.05, "0.05"},
        {-1, "-1"},
        {85899345920, "85899345920"},
        {1763769600, "1763769600"},
        {1e300, "1e+300"},
        {NAN, "NaN"},
        {INFINITY, "+Inf"},
        {-INFINITY, "-Inf"},
};

static void test_numbers_are_written_as_go_reads_them(void **state UNUSED)
{
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
                struct exposition exposition = EXPOSITION_INIT;
                _free_ char *expected = xasprintf("\nx %s\n", numbers[i].text);
                _free_ char *text = NULL;

                exposition_family(&exposition, "x", EXPOSITION_GAUGE, "X.");
                exposition_sample(&exposition, EXPOSITION_LABELS(), numbers[i].value);
                text = exposition_take(&exposition);
                assert_string_equal(strrchr(text, 'x') - 1, expected);
        }
}

/* The one sample of a page with this label. */
static char *write_label(const char *value)
{
        struct exposition exposition = EXPOSITION_INIT;
        _free_ char *text = NULL;

        exposition_family(&exposition, "x", EXPOSITION_GAUGE, "X.");
        exposition_sample(&exposition, EXPOSITION_LABELS({"a", value}), 1);
        text = exposition_take(&exposition);
        return xstrdup(strstr(text, "\nx") + 1);
}

static const struct {
        const char *value;
        const char *text;
} labels[] = {
        {"", "x{a=\"\"} 1\n"},
        {"a\"b\\c\nd", "x{a=\"a\\\"b\\\\c d\"} 1\n"},
        {"\"} 7\nwarpshare_forged 1", "x{a=\"\\\"} 7 warpshare_forged 1\"} 1\n"},
        {"\033[2J\xe2\x80\xaeniart", "x{a=\"?[2J?niart\"} 1\n"},
        {"K\xc3\xb6ln", "x{a=\"K\xc3\xb6ln\"} 1\n"},
        {"\xff\xc3", "x{a=\"\?\?\"} 1\n"},
};

static void test_a_label_stays_a_label_whatever_it_says(void **state UNUSED)
{
        for (size_t i = 0; i < ARRAY_SIZE(labels); i++) {
                _free_ char *text = write_label(labels[i].value);

                assert_string_equal(text, labels[i].text);
        }
}

static void test_a_long_label_is_cut_and_stays_utf8(void **state UNUSED)
{
        char value[2 * EXPOSITION_LABEL_MAX];
        _free_ char *text = NULL;

        memset(value, 'a', sizeof(value));
        memcpy(value + EXPOSITION_LABEL_MAX - 1, "\xc3\xb6", 2); /* its second byte is one too many */
        value[sizeof(value) - 1] = '\0';
        text = write_label(value);
        assert_int_equal(strlen(text), strlen("x{a=\"\"} 1\n") + EXPOSITION_LABEL_MAX);
        assert_string_equal(text + strlen("x{a=\"") + EXPOSITION_LABEL_MAX - 1, "?\"} 1\n");
}

static void test_a_page_is_bounded_and_says_what_is_missing(void **state UNUSED)
{
        struct exposition exposition = EXPOSITION_INIT;
        char value[EXPOSITION_LABEL_MAX + 1];
        _free_ char *text = NULL;
        size_t count = 2 * EXPOSITION_MAX / EXPOSITION_LABEL_MAX;
        unsigned long kept = 0;
        unsigned long dropped;
        const char *end;

        memset(value, 'a', sizeof(value));
        value[sizeof(value) - 1] = '\0';
        exposition_family(&exposition, "x", EXPOSITION_GAUGE, "X.");
        for (size_t i = 0; i < count; i++)
                exposition_sample(&exposition, EXPOSITION_LABELS({"a", value}), 1);
        text = exposition_take(&exposition);
        end = text + strlen(text);
        assert_true(end - text < (ptrdiff_t)(EXPOSITION_MAX + 2 * EXPOSITION_LABEL_MAX));
        /* By memchr(): a checked strstr() looks at all of the rest each time. */
        for (const char *at = text; (at = memchr(at, '\n', (size_t)(end - at))) && ++at < end;)
                kept += strncmp(at, "x{", 2) == 0;
        dropped = strtoul(strrchr(text, ' '), NULL, 10);
        assert_non_null(strstr(text, "\nwarpshare_exposition_dropped_samples "));
        assert_true(dropped > 0);
        assert_int_equal(kept + dropped, count);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_family_is_its_head_and_its_samples),
                cmocka_unit_test(test_numbers_are_written_as_go_reads_them),
                cmocka_unit_test(test_a_label_stays_a_label_whatever_it_says),
                cmocka_unit_test(test_a_long_label_is_cut_and_stays_utf8),
                cmocka_unit_test(test_a_page_is_bounded_and_says_what_is_missing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
