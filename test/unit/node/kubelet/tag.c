// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <regex.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "node/kubelet/requests.h"

static void test_a_tag_is_a_uuid_of_version_4(void **state UNUSED)
{
        struct error err;
        regex_t uuid;

        assert_int_equal(regcomp(&uuid, "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
                                 REG_EXTENDED | REG_NOSUB),
                0);
        for (int i = 0; i < 1000; i++) {
                char tag[REQUESTS_TAG_SIZE];

                assert_ok(requests_draw_tag(tag, &err), &err);
                assert_int_equal(regexec(&uuid, tag, 0, NULL, 0), 0);
        }
        regfree(&uuid);
}

static void test_no_tag_comes_twice(void **state UNUSED)
{
        struct arena arena = ARENA_INIT;
        struct map seen = MAP_INIT;
        struct error err;

        for (int i = 0; i < 10000; i++) {
                char *tag = ARENA_ARRAY(&arena, char, REQUESTS_TAG_SIZE);

                assert_ok(requests_draw_tag(tag, &err), &err);
                assert_true(map_add(&seen, tag, tag));
        }
        map_done(&seen);
        arena_done(&arena);
}

/* 122 bits are free; each of them is seen as 0 and as 1. */
static void test_every_digit_of_a_tag_is_random(void **state UNUSED)
{
        unsigned int digits[REQUESTS_TAG_SIZE] = {0};
        struct error err;

        for (int i = 0; i < 1000; i++) {
                char tag[REQUESTS_TAG_SIZE];

                assert_ok(requests_draw_tag(tag, &err), &err);
                for (size_t j = 0; j < REQUESTS_TAG_SIZE - 1; j++)
                        if (tag[j] != '-')
                                digits[j] |= 1U << (tag[j] <= '9' ? tag[j] - '0' : tag[j] - 'a' + 10);
        }
        for (size_t j = 0; j < REQUESTS_TAG_SIZE - 1; j++) {
                if (j == 8 || j == 13 || j == 18 || j == 23)
                        continue;
                assert_int_equal(digits[j], j == 14 ? 1U << 4 : j == 19 ? 0x0f00 : 0xffff);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_tag_is_a_uuid_of_version_4),
                cmocka_unit_test(test_no_tag_comes_twice),
                cmocka_unit_test(test_every_digit_of_a_tag_is_random),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
