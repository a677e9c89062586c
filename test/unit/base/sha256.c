// SPDX-License-Identifier: Apache-2.0
/*
 * Against what sha256sum of GNU coreutils prints, around every length at which the padding takes another shape.
 */
#include "unit.h"

#include <string.h>

#include "base/macro.h"
#include "base/hash.h"

static void test_it_is_what_sha256sum_prints(void **state UNUSED)
{
        static const struct {
                size_t length; /* of the letter 'a', repeated */
                const char *expected;
        } cases[] = {
                {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                {1, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
                {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
                {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
                {57, "f13b2d724659eb3bf47f2dd6af1accc87b81f09f59f2b75e5c0bed6589dfe8c6"},
                {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
                {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
                {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
                {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
                {120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"},
                {128, "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e"},
                {1000, "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3"},
        };
        char text[1000];
        char hex[SHA256_HEX + 1];

        memset(text, 'a', sizeof(text));
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                sha256_hex(text, cases[i].length, hex);
                assert_string_equal(hex, cases[i].expected);
        }
}

static void test_the_vector_of_the_standard(void **state UNUSED)
{
        char hex[SHA256_HEX + 1];

        sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
        assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_it_is_what_sha256sum_prints),
                cmocka_unit_test(test_the_vector_of_the_standard),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
