// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "cmd/cli/columns.h"

static const struct column list[] = {{"NAME", false}, {"SIZE", true}, {"IDLE", true}, {"", false}};

static void add_row(struct columns *columns, const char *name, unsigned int size, const char *note)
{
        columns_add(columns, "%s", name);
        columns_add(columns, "%u MiB", size);
        columns_add(columns, "-");
        columns_add(columns, "%s", note);
}

static void check(struct columns *columns, bool has_colours, const char *wanted)
{
        struct strbuf text = STRBUF_INIT;

        columns_print(&text, columns, " ", has_colours);
        assert_string_equal(text.data, wanted);
        strbuf_done(&text);
        columns_done(columns);
}

static void test_numbers_stand_at_the_right_and_what_says_nothing_is_left_out(void **state UNUSED)
{
        struct columns columns;

        columns_init(&columns, list, ARRAY_SIZE(list));
        add_row(&columns, "a", 1, "");
        add_row(&columns, "long name", 4096, "note");
        check(&columns, false, " NAME           SIZE\n a             1 MiB\n long name  4096 MiB  note\n");
}

static void test_only_the_heads_are_dim(void **state UNUSED)
{
        struct columns columns;

        columns_init(&columns, list, ARRAY_SIZE(list));
        add_row(&columns, "a", 1, "");
        check(&columns, true, " \033[2mNAME   SIZE\033[0m\n a     1 MiB\n");
}

static void test_many_rows_are_all_there(void **state UNUSED)
{
        struct strbuf text = STRBUF_INIT;
        struct columns columns;
        size_t lines = 0;

        columns_init(&columns, list, ARRAY_SIZE(list));
        for (unsigned int i = 0; i < 500; i++)
                add_row(&columns, "x", i, "");
        columns_print(&text, &columns, "", false);
        for (const char *at = text.data; *at; at++)
                lines += *at == '\n';
        assert_int_equal(lines, 501);
        strbuf_done(&text);
        columns_done(&columns);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_numbers_stand_at_the_right_and_what_says_nothing_is_left_out),
                cmocka_unit_test(test_only_the_heads_are_dim),
                cmocka_unit_test(test_many_rows_are_all_there),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
