// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/nodes.h"

struct item {
        char *key;
        unsigned int number;
};

static void test_items_are_found_in_whatever_order_they_came_and_went(void **state UNUSED)
{
        struct sorted sorted = {0};
        struct item items[100];
        char keys[100][8];

        for (unsigned int i = 0; i < 100; i++) {
                const unsigned int number = i * 37 % 100;
                size_t at;

                snprintf(keys[number], sizeof(keys[number]), "n%u", number);
                items[number] = (struct item){.key = keys[number], .number = number};
                assert_null(sorted_find(&sorted, keys[number], &at));
                sorted_insert(&sorted, at, &items[number]);
        }
        assert_int_equal(sorted.count, 100);
        for (size_t i = 1; i < sorted.count; i++)
                assert_true(
                        strcmp(((struct item *)sorted.items[i - 1])->key, ((struct item *)sorted.items[i])->key) < 0);
        for (unsigned int i = 0; i < 100; i += 2)
                assert_ptr_equal(sorted_remove(&sorted, keys[i]), &items[i]);
        for (unsigned int i = 0; i < 100; i++)
                assert_ptr_equal(sorted_find(&sorted, keys[i], NULL), i % 2 ? &items[i] : NULL);
        assert_null(sorted_remove(&sorted, "n0"));
        sorted_done(&sorted);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_items_are_found_in_whatever_order_they_came_and_went),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
