// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/data/json_fields.h"

static bool is_some(const char *text)
{
        return *text;
}

static const struct json_text name_text = {is_some, 8, "a name of 1 to ", false};
static const struct json_text free_text = {is_some, 5, "some text of 1 to ", true};

enum colour { RED, GREEN };

static const char *colour_name(unsigned int position)
{
        return position == RED ? "red" : "green";
}

struct part {
        uint32_t owner;
};

struct whole {
        const char *name;
        const char *note;
        uint64_t large;
        unsigned int small;
        int32_t process;
        int64_t since;
        bool is_on;
        enum colour colour;
        bool has_part;
        struct part part;
        const char *const *words;
        size_t n_words;
        const struct part *parts;
        size_t n_parts;
        struct part places[2];
        size_t n_places;
        struct part pair[2];
        double ratio;
        const double *ratios;
        size_t n_ratios;
};

static const struct json_field part_fields[] = {JSON_KNOWN("owner", struct part, owner, UINT32_MAX, UINT32_MAX)};
static const struct json_shape part_shape = JSON_SHAPE(struct part, part_fields);

static const struct json_field fields[] = {
        JSON_TEXT("name", struct whole, name, name_text, .is_needed = true),
        JSON_TEXT("note", struct whole, note, free_text),
        JSON_UINT("large", struct whole, large, 0, INT64_MAX),
        JSON_UINT("small", struct whole, small, 1, 1000),
        JSON_INT("process", struct whole, process, 0, INT32_MAX),
        JSON_INT("since", struct whole, since, 0, INT64_MAX),
        JSON_BOOL("on", struct whole, is_on),
        JSON_WORD("colour", struct whole, colour, colour_name, 2),
        JSON_MEMBER("part", struct whole, part, part_shape, .has = offsetof(struct whole, has_part)),
        JSON_TEXTS("words", struct whole, words, n_words, name_text, 0, 3),
        JSON_ITEMS("parts", struct whole, parts, n_parts, part_shape, 0, 3),
        JSON_ROW("places", ARRAY, struct whole, places, .count = offsetof(struct whole, n_places), .shape = &part_shape,
                .most = 2),
        JSON_ROW("pair", ARRAY, struct whole, pair, .shape = &part_shape, .least = 2, .most = 2),
        JSON_REAL("ratio", struct whole, ratio),
        JSON_REALS("ratios", struct whole, ratios, n_ratios, 3),
};
static const struct json_shape shape = JSON_SHAPE(struct whole, fields);

static void assert_written(const struct whole *whole, const char *expected)
{
        _free_ char *text = NULL;
        json_t *object = json_object();

        json_fields_put(object, &shape, whole);
        text = json_fields_print(object, JSON_COMPACT | JSON_REAL_PRECISION(15));
        assert_string_equal(text, expected);
}

static int take(struct whole *ret, struct arena *arena, const char *text, struct error *err)
{
        struct json_in in = {.arena = arena, .err = err};
        json_t *object = json_fields_load(&in, text, strlen(text));

        *ret = (struct whole){0};
        json_fields_take(&in, object, &shape, ret);
        json_decref(object);
        return in.is_bad ? -1 : 0;
}

#define PAIR ",\"pair\":[{\"owner\":7},{}]}"
#define REALS ",\"pair\":[{\"owner\":7},{}],\"ratio\":0.31,\"ratios\":[1,null,0.5]}\n"
#define FULL                                                                                                                 \
        "{\"name\":\"a\",\"note\":\"b\",\"large\":9223372036854775807,\"small\":1000,\"process\":5,\"since\":6,\"on\":true," \
        "\"colour\":\"green\",\"part\":{\"owner\":0},\"words\":[\"x\",\"y\"],\"parts\":[{\"owner\":4294967294},{}],"         \
        "\"places\":[{\"owner\":3}]" REALS

static void test_what_was_written_is_read(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct whole whole;
        struct error err;

        assert_ok(take(&whole, &arena, FULL, &err), &err);
        assert_int_equal(whole.small, 1000);
        assert_int_equal(whole.process, 5);
        assert_int_equal(whole.colour, GREEN);
        assert_true(whole.has_part);
        assert_string_equal(whole.words[1], "y");
        assert_int_equal(whole.parts[1].owner, UINT32_MAX);
        assert_int_equal(whole.n_places, 1);
        assert_int_equal(whole.pair[0].owner, 7);
        assert_true(whole.ratio == 0.31 && isnan(whole.ratios[1]) && whole.ratios[2] == 0.5);
        assert_written(&whole, FULL);
}

static void test_what_is_absent_is_none(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct whole whole;
        struct error err;

        assert_ok(take(&whole, &arena, "{\"name\":\"a\",\"small\":1,\"more\":[]" PAIR, &err), &err);
        assert_true(isnan(whole.ratio));
        assert_int_equal(whole.n_ratios, 0);
        assert_written(&whole,
                "{\"name\":\"a\",\"large\":0,\"small\":1,\"process\":0,\"since\":0,\"on\":false,\"colour\":\"red\",\"words\":[],"
                "\"parts\":[],\"places\":[]" PAIR "\n");
}

/* What is no UTF-8 is repaired, or becomes what cannot be read; a number has no sign and 63 bits. */
static void test_what_json_has_no_room_for_is_changed(void **state UNUSED)
{
        static const char *const words[] = {"\xff"};
        const struct whole whole = {.name = "\xff",
                .note = "\x1b\xc2\x9bz\xc3\xa4",
                .large = UINT64_MAX,
                .process = -1,
                .since = -1,
                .words = words,
                .n_words = 1,
                .ratio = -0.5};

        assert_written(&whole,
                "{\"name\":null,\"note\":\"??z?\",\"large\":9223372036854775807,\"small\":0,\"process\":0,\"since\":0,"
                "\"on\":false,\"colour\":\"red\",\"words\":[null],\"parts\":[],\"places\":[],"
                "\"pair\":[{\"owner\":0},{\"owner\":0}],\"ratio\":0}\n");
}

static void test_what_is_wrong_is_named(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *error;
        } wrong[] = {
                {"{", "no JSON: string or '}' expected near end of file"},
                {"[]", "no JSON object"},
                {"{\"on\":true,\"on\":true}", "no JSON: duplicate object key near '\"on\"'"},
                {"{}", "name: missing"},
                {"{\"name\":5}", "name: must be a name of 1 to 8 bytes"},
                {"{\"name\":\"\"}", "name: must be a name of 1 to 8 bytes"},
                {"{\"name\":\"123456789\"}", "name: must be a name of 1 to 8 bytes"},
                {"{\"name\":\"a\",\"large\":-1}", "large: -1, must be a number from 0 to 9223372036854775807"},
                {"{\"name\":\"a\"}", "small: must be a number from 1 to 1000"},
                {"{\"name\":\"a\",\"small\":0}", "small: 0, must be a number from 1 to 1000"},
                {"{\"name\":\"a\",\"small\":1001}", "small: 1001, must be a number from 1 to 1000"},
                {"{\"name\":\"a\",\"small\":1.0}", "small: must be a number from 1 to 1000"},
                {"{\"name\":\"a\",\"small\":1,\"on\":null}", "on: must be true or false"},
                {"{\"name\":\"a\",\"small\":1,\"colour\":\"blue\"}",
                        "colour: is none of the known words, of which 'red' is one"},
                {"{\"name\":\"a\",\"small\":1,\"part\":[]}", "part: must be an object"},
                {"{\"name\":\"a\",\"small\":1,\"part\":{\"owner\":4294967296}}",
                        "part: owner: 4294967296, must be a number from 0 to 4294967295"},
                {"{\"name\":\"a\",\"small\":1,\"words\":{}}", "words: must be a list of 0 to 3"},
                {"{\"name\":\"a\",\"small\":1,\"words\":[1,2,3,4]}", "words: must be a list of 0 to 3"},
                {"{\"name\":\"a\",\"small\":1,\"words\":[\"a\",5]}", "words[1]: must be a name of 1 to 8 bytes"},
                {"{\"name\":\"a\",\"small\":1,\"parts\":[{},{\"owner\":-1}]}",
                        "parts[1]: owner: -1, must be a number from 0 to 4294967295"},
                {"{\"name\":\"a\",\"small\":1,\"places\":[{},{},{}]}", "places: must be a list of 0 to 2"},
                {"{\"name\":\"a\",\"small\":1,\"pair\":[{}]}", "pair: must be a list of 2 to 2"},
                {"{\"name\":\"a\",\"small\":1}", "pair: must be a list of 2 to 2"},
                {"{\"name\":\"a\",\"small\":1,\"ratio\":\"1\"" PAIR,
                        "ratio: must be a number from 0 to 9007199254740992"},
                {"{\"name\":\"a\",\"small\":1,\"ratio\":-1" PAIR, "ratio: must be a number from 0 to 9007199254740992"},
                {"{\"name\":\"a\",\"small\":1,\"ratio\":1e16" PAIR,
                        "ratio: must be a number from 0 to 9007199254740992"},
                {"{\"name\":\"a\",\"small\":1,\"ratios\":[1,2,3,4]" PAIR, "ratios: must be a list of 0 to 3"},
                {"{\"name\":\"a\",\"small\":1,\"ratios\":[1,{}]" PAIR,
                        "ratios[1]: must be a number from 0 to 9007199254740992"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                struct whole whole;
                struct error err;

                assert_fails(take(&whole, &arena, wrong[i].text, &err), &err, ERROR_INVALID, wrong[i].error);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_was_written_is_read),
                cmocka_unit_test(test_what_is_absent_is_none),
                cmocka_unit_test(test_what_json_has_no_room_for_is_changed),
                cmocka_unit_test(test_what_is_wrong_is_named),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
