// SPDX-License-Identifier: Apache-2.0
/* Values as bytes between two processes of the same program. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/pack.h"

struct part {
        const char *name;
        unsigned int number;
};

struct whole {
        const char *title;
        const char *nothing;
        const char *empty;
        struct part *parts;
        size_t n_parts;
        const uint64_t *numbers;
        size_t n_numbers;
        double last;
};

static void pack_whole(struct pack *pack, struct whole *whole)
{
        PACK(pack, *whole);
        pack_text(pack, &whole->title);
        pack_text(pack, &whole->nothing);
        pack_text(pack, &whole->empty);
        PACK_ARRAY(pack, whole->parts, whole->n_parts);
        for (size_t i = 0; i < whole->n_parts; i++)
                pack_text(pack, &whole->parts[i].name);
        PACK_ARRAY(pack, whole->numbers, whole->n_numbers);
        PACK(pack, whole->last);
}

/* Writing leaves what is written as it was. */
static void write_whole(struct strbuf *bytes)
{
        static struct part parts[] = {{"first", 1}, {NULL, 2}, {"", 3}};
        static const uint64_t numbers[] = {7, UINT64_MAX};
        struct whole whole = {.title = "a title",
                .empty = "",
                .parts = parts,
                .n_parts = ARRAY_SIZE(parts),
                .numbers = numbers,
                .n_numbers = ARRAY_SIZE(numbers),
                .last = 0.5};
        struct pack pack = pack_writer(bytes);

        pack_whole(&pack, &whole);
        assert_true(pack_end(&pack));
        assert_ptr_equal(whole.parts, parts);
        assert_string_equal(parts[0].name, "first");
}

/* In memory that ends where the bytes do, so that whoever looks for errors in memory sees what goes beyond. */
static bool read_whole(struct whole *ret, struct arena *arena, const struct strbuf *bytes, size_t size)
{
        char *copy = malloc(size ? size : 1);
        struct pack pack;

        assert_non_null(copy);
        memcpy(copy, bytes->data, size);
        pack = pack_reader(copy, size, arena);
        assert_true(pack_reads(&pack));
        pack_whole(&pack, ret);
        free(copy); /* what was read lives in the arena */
        return pack_end(&pack);
}

static void test_what_is_written_is_read_again(void **state UNUSED)
{
        struct strbuf bytes = STRBUF_INIT;
        struct arena arena = ARENA_INIT;
        struct whole whole;

        write_whole(&bytes);
        assert_true(read_whole(&whole, &arena, &bytes, bytes.size));
        assert_string_equal(whole.title, "a title");
        assert_null(whole.nothing);
        assert_string_equal(whole.empty, "");
        assert_int_equal(whole.n_parts, 3);
        assert_string_equal(whole.parts[0].name, "first");
        assert_null(whole.parts[1].name);
        assert_string_equal(whole.parts[2].name, "");
        assert_int_equal(whole.parts[2].number, 3);
        assert_int_equal(whole.n_numbers, 2);
        assert_true(whole.numbers[1] == UINT64_MAX);
        assert_true(whole.last == 0.5);
        arena_done(&arena);
        strbuf_done(&bytes);
}

static void test_an_array_of_none_has_no_address(void **state UNUSED)
{
        struct strbuf bytes = STRBUF_INIT;
        struct pack writer = pack_writer(&bytes);
        struct whole whole = {.title = ""};
        struct arena arena = ARENA_INIT;

        pack_whole(&writer, &whole);
        assert_true(read_whole(&whole, &arena, &bytes, bytes.size));
        assert_null(whole.parts);
        assert_null(whole.numbers);
        arena_done(&arena);
        strbuf_done(&bytes);
}

static void test_bytes_that_end_too_early_are_noted_wherever_they_end(void **state UNUSED)
{
        struct strbuf bytes = STRBUF_INIT;

        write_whole(&bytes);
        for (size_t size = 0; size < bytes.size; size++) {
                struct arena arena = ARENA_INIT;
                struct whole whole;

                assert_false(read_whole(&whole, &arena, &bytes, size));
                assert_true(whole.last == 0);
                for (size_t i = 0; i < whole.n_parts; i++)
                        assert_true(whole.parts[i].number == i + 1);
                arena_done(&arena);
        }
        strbuf_done(&bytes);
}

static void test_bytes_that_nobody_reads_are_noted(void **state UNUSED)
{
        struct strbuf bytes = STRBUF_INIT;
        struct arena arena = ARENA_INIT;
        struct whole whole;

        write_whole(&bytes);
        strbuf_putc(&bytes, 'x');
        assert_false(read_whole(&whole, &arena, &bytes, bytes.size));
        assert_string_equal(whole.title, "a title");
        arena_done(&arena);
        strbuf_done(&bytes);
}

/* What follows a text or an array that is not whole is not its rest. */
static void test_after_what_is_short_only_zeros_are_read(void **state UNUSED)
{
        static const size_t counts[] = {5, SIZE_MAX / 8, SIZE_MAX / 8 + 2, SIZE_MAX - 1, SIZE_MAX};

        for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
                const uint64_t bytes[] = {counts[i], 1, 2, 3, 4};
                struct arena arena = ARENA_INIT;
                struct pack pack = pack_reader(bytes, sizeof(bytes), &arena);
                const uint64_t *numbers = bytes;
                const char *text = "";
                uint64_t number = 9;
                size_t count;

                PACK(&pack, count);
                PACK_ARRAY(&pack, numbers, count);
                assert_null(numbers);
                assert_int_equal(count, 0);
                PACK(&pack, number);
                assert_true(number == 0);
                pack_text(&pack, &text);
                assert_null(text);
                count = 3;
                PACK_ARRAY(&pack, numbers, count);
                assert_int_equal(count, 0);
                assert_true(pack.is_short);
                assert_false(pack_end(&pack));
                assert_true(arena_footprint(&arena) == 0);
                arena_done(&arena);
        }
}

static void test_a_text_that_is_longer_than_what_is_left_is_none(void **state UNUSED)
{
        static const size_t lengths[] = {25, SIZE_MAX / 2, SIZE_MAX - 1};

        for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
                const uint64_t bytes[] = {lengths[i], 1, 2, 3};
                struct arena arena = ARENA_INIT;
                struct pack pack = pack_reader(bytes, sizeof(bytes), &arena);
                const char *text = "";
                uint64_t number = 9;

                pack_text(&pack, &text);
                PACK(&pack, number);
                assert_null(text);
                assert_true(number == 0);
                assert_true(pack.is_short);
                arena_done(&arena);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_written_is_read_again),
                cmocka_unit_test(test_an_array_of_none_has_no_address),
                cmocka_unit_test(test_bytes_that_end_too_early_are_noted_wherever_they_end),
                cmocka_unit_test(test_bytes_that_nobody_reads_are_noted),
                cmocka_unit_test(test_after_what_is_short_only_zeros_are_read),
                cmocka_unit_test(test_a_text_that_is_longer_than_what_is_left_is_none),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
