// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/health.h"

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
                case 144: /* NVLink: fatal or not, the number does not say */
                case 145:
                case 146:
                case 147:
                case 148:
                case 149:
                case 150:
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
        assert_int_equal(found, 117);
        assert_null(xid_find(1));
        assert_null(xid_find(1000));
}

/*
 * The lines of the kernel's log say what the number does not: one number is fatal in one line and nothing in another.
 */
static void test_a_recorded_xid_that_is_fatal_only_at_times_is_left_to_the_driver(void **state UNUSED)
{
        FILE *file = fopen(RECORDED "/gpu/xid-nvlink5.txt", "re");
        unsigned int seen = 0;
        char line[512];

        assert_non_null(file);
        while (fgets(line, sizeof(line), file)) {
                const unsigned long number = strtoul(line, NULL, 10); /* 0: a comment */

                if (number && xid_default_effect(number) != XID_CHECK)
                        fail_msg("%s", line);
                if (number)
                        assert_false(xid_needs_recovery(number));
                seen += number > 0;
        }
        fclose(file);
        assert_true(seen >= 5);
}

static void test_the_recorded_informational_xids_ask_for_nothing(void **state UNUSED)
{
        static const char heading[] = "# informational numbers the table lacks:";
        FILE *file = fopen(RECORDED "/gpu/xid-nvlink5.txt", "re");
        unsigned int seen = 0;
        char line[512];

        assert_non_null(file);
        while (fgets(line, sizeof(line), file)) {
                char *at = line + strlen(heading);
                unsigned long number;

                if (strncmp(line, heading, strlen(heading)) != 0)
                        continue;
                while ((number = strtoul(at, &at, 10))) {
                        assert_non_null(xid_find(number));
                        assert_int_equal(xid_find(number)->class, XID_INFORMATIONAL);
                        seen++;
                }
        }
        fclose(file);
        assert_int_equal(seen, 6);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_text_says_what_is_wrong_and_what_to_do),
                cmocka_unit_test(test_by_default_the_xids_of_nvidias_plugin_do_not_count),
                cmocka_unit_test(test_every_entry_is_found_and_has_a_name_that_fits_a_reason),
                cmocka_unit_test(test_a_recorded_xid_that_is_fatal_only_at_times_is_left_to_the_driver),
                cmocka_unit_test(test_the_recorded_informational_xids_ask_for_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
