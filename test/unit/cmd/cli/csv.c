// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <math.h>

#include "cmd/cli/columns.h"

static void test_cells_are_quoted_where_they_have_to_be(void **state UNUSED)
{
        struct strbuf text = STRBUF_INIT;

        csv_put(&text, "plain", ',');
        csv_put(&text, NULL, ',');
        csv_put(&text, "a,b", ',');
        csv_put(&text, "say \"x\"", ',');
        csv_put(&text, "two\nlines", '\n');
        csv_put_number(&text, 9663676416, ',');
        csv_put_number(&text, 0.25, ',');
        csv_put_number(&text, NAN, '\n');
        assert_string_equal(text.data, "plain,,\"a,b\",\"say \"\"x\"\"\",\"two\nlines\"\n9663676416,0.25,\n");
        strbuf_done(&text);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_cells_are_quoted_where_they_have_to_be)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
