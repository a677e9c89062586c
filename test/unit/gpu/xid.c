#include "unit.h"

#include <string.h>

#include "gpu/xid.h"

static void test_a_text_says_what_is_wrong_and_what_to_do(void **state UNUSED)
{
        static const struct {
                uint64_t number;
                const char *text;
        } table[] = {
                {13, "Xid 13 (graphics engine exception): a fault of the program"},
                {94, "Xid 94 (contained ECC error): restart the programs on the GPU"},
                {48, "Xid 48 (double-bit ECC error): the GPU needs a reset"},
                {79, "Xid 79 (GPU has fallen off the bus): reboot the node, or repair it"},
                {63, "Xid 63 (ECC page retirement or row remapping recorded)"},
                {999, "Xid 999 (unknown error)"},
                {7, "Xid 7"},
                {UINT64_C(0x100000000) + 79, "Xid 4294967375"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                char text[100];

                xid_text(table[i].number, text, sizeof(text));
                assert_string_equal(text, table[i].text);
        }
}

static void test_by_default_the_xids_of_nvidias_plugin_do_not_count(void **state UNUSED)
{
        for (unsigned int number = 0; number < XID_MAX; number++) {
                enum xid_effect effect = XID_UNHEALTHY;

                switch (number) {
                case 13: /* as k8s-device-plugin */
                case 31:
                case 43:
                case 45:
                case 68:
                case 14: /* no faults */
                case 106:
                case 107:
                        effect = XID_IGNORED;
                        break;
                case 109: /* as k8s-device-plugin, but the driver is asked */
                case 154:
                        effect = XID_CHECK;
                        break;
                default:
                        break;
                }
                if (xid_default_effect(number) != effect)
                        fail_msg("Xid %u", number);
        }
        assert_int_equal(xid_default_effect(UINT64_MAX), XID_UNHEALTHY);
}

/* The search by halving finds each only in a table that is in order. */
static void test_every_entry_is_found_and_has_a_name_that_fits_a_reason(void **state UNUSED)
{
        size_t found = 0;

        for (unsigned int number = 0; number < XID_MAX; number++) {
                const struct xid *xid = xid_find(number);
                char text[200];

                if (!xid)
                        continue;
                found++;
                assert_int_equal(xid->number, number);
                xid_text(number, text, sizeof(text));
                assert_non_null(strchr(text, ')'));
        }
        assert_int_equal(found, 111);
        assert_null(xid_find(1));
        assert_null(xid_find(1000));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_text_says_what_is_wrong_and_what_to_do),
                cmocka_unit_test(test_by_default_the_xids_of_nvidias_plugin_do_not_count),
                cmocka_unit_test(test_every_entry_is_found_and_has_a_name_that_fits_a_reason),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
