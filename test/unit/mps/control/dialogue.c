// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "mps/control/dialogue.h"

/* ---- commands ---- */

static void test_commands_are_spelled_as_the_manual_has_them(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        assert_string_equal(dialogue_partition_add(&arena, "GPU-1", 4), "sm_partition add GPU-1 4");
        assert_string_equal(
                dialogue_partition_remove(&arena, "GPU-1", "GPU-1/D/79e/Kp8A"), "sm_partition rm GPU-1 D/79e/Kp8A");
}

static void test_a_percentage_with_one_decimal_is_read_exactly(void **state UNUSED)
{
        struct error err;

        for (unsigned int permille = 0; permille <= 1000; permille++) {
                _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
                unsigned int again = 9999;

                strbuf_printf(&text, "%u.%u", permille / 10, permille % 10);
                assert_ok(dialogue_read_percentage(text.data, &again, &err), &err);
                assert_int_equal(again, permille);
        }
}

/* ---- answers ---- */

static void test_percentages_that_are_none_are_shown(void **state UNUSED)
{
        static const char *const table[] = {"", " 33.3", "33.3 ", "-1.0", "100.1", "1000", "0333.3", "33.", ".5",
                "33.3x", "33,3", "nan", "33.3\n44.4", "Insufficient privileges for UID 1000."};
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *expected = xasprintf("MPS control daemon: '%s' is no percentage", table[i]);
                unsigned int permille = 0;

                text_clean(expected); /* as errors are */
                assert_fails(dialogue_read_percentage(table[i], &permille, &err), &err, ERROR_INVALID, expected);
        }
}

static void test_percentages_have_any_number_of_decimals(void **state UNUSED)
{
        static const struct {
                const char *answer;
                unsigned int permille;
        } table[] = {{"30.00", 300}, {"33.34", 333}, {"33.35", 334}, {"12", 120}, {"100.000000", 1000}, {"0.04", 0}};
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                unsigned int permille = 7;

                assert_ok(dialogue_read_percentage(table[i].answer, &permille, &err), &err);
                assert_int_equal(permille, table[i].permille);
        }
}

static void test_limits_are_read_in_mib(void **state UNUSED)
{
        static const struct {
                const char *answer;
                uint64_t mib;
        } table[] = {{"", 0}, {"unlimited", 0}, {"1M", 1}, {"1023M", 1023}, {"1000M", 1000}, {"1G", 1024},
                {"80G", 81920}, {"999999999G", 1023999998976}};
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                uint64_t mib = 7;

                assert_ok(dialogue_read_limit(table[i].answer, &mib, &err), &err);
                assert_true(mib == table[i].mib);
        }
}

/* 17179869183G is what a negative limit looks like. */
static void test_limits_that_are_none_are_shown(void **state UNUSED)
{
        static const char *const table[] = {
                "M", "5", "5K", "5GB", "-5M", "1.5G", "0x5M", "17179869183G", "99999999999999999999M", "5M\n6M", " 5M"};
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *expected = xasprintf("MPS control daemon: '%s' is no limit of memory", table[i]);
                uint64_t mib = 0;

                text_clean(expected);
                assert_fails(dialogue_read_limit(table[i], &mib, &err), &err, ERROR_INVALID, expected);
        }
}

static void test_a_limit_is_shown_in_whole_gib(void **state UNUSED)
{
        assert_true(dialogue_limit_shown(0) == 0);
        assert_true(dialogue_limit_shown(1023) == 1023);
        assert_true(dialogue_limit_shown(1024) == 1024);
        assert_true(dialogue_limit_shown(1630) == 1024);
        assert_true(dialogue_limit_shown(3071) == 2048);
        assert_true(dialogue_limit_shown(81920) == 81920);
}

static void test_pids_are_read_line_by_line(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        pid_t *pids = NULL;
        size_t count = 9;
        struct dialogue_unread unread = {0};

        dialogue_read_pids("", &arena, &pids, &count, &unread);
        assert_int_equal(count, 0);
        dialogue_read_pids("4711\n0\n4194304\n", &arena, &pids, &count, &unread);
        assert_int_equal(count, 3);
        assert_int_equal(pids[0], 4711);
        assert_int_equal(pids[1], 0);
        assert_int_equal(pids[2], 4194304);
}

static void test_a_line_that_is_no_pid_hides_none(void **state UNUSED)
{
        static const char *const table[] = {
                "Server 1 not found", "47 11", "-1", "2147483648", "x", "99999999999999999999", "4711,4712"};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *answer = xasprintf("4711\n%s\n4712\n-\n", table[i]);
                struct dialogue_unread unread = {0};
                pid_t *pids;
                size_t count;

                dialogue_read_pids(answer, &arena, &pids, &count, &unread);
                assert_int_equal(count, 2);
                assert_int_equal(pids[0], 4711);
                assert_int_equal(pids[1], 4712);
                assert_int_equal(unread.count, 2);
                assert_string_equal(unread.first, table[i]);
        }
}

static void test_the_clients_of_each_device_are_told_apart(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dialogue_device *devices = NULL;
        size_t count = 0;
        struct dialogue_unread unread = {0};

        dialogue_read_device_clients("GPU-1e2f3a4b-5c6d-7e8f-9a0b-1c2d3e4f5a6b\n4711\n4712\n\n"
                                     "Device MIG-2:\nGPU-3\n4711",
                &arena, &devices, &count, &unread);
        assert_int_equal(count, 3);
        assert_string_equal(devices[0].uuid, "GPU-1e2f3a4b-5c6d-7e8f-9a0b-1c2d3e4f5a6b");
        assert_int_equal(devices[0].n_clients, 2);
        assert_int_equal(devices[0].clients[1], 4712);
        assert_string_equal(devices[1].uuid, "MIG-2");
        assert_int_equal(devices[1].n_clients, 0);
        assert_string_equal(devices[2].uuid, "GPU-3");
        assert_int_equal(devices[2].n_clients, 1);
        assert_int_equal(devices[2].clients[0], 4711);
        dialogue_read_device_clients("", &arena, &devices, &count, &unread);
        assert_int_equal(count, 0);
        assert_int_equal(unread.count, 0);
}

static void test_clients_below_a_line_that_may_be_another_device_are_of_none(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dialogue_unread unread = {0};
        struct dialogue_device *devices = NULL;
        size_t count = 0;

        dialogue_read_device_clients(
                "4711\nGPU-1\n4712\ndevice 1:\n4713\nGPU-2\n4714", &arena, &devices, &count, &unread);
        assert_int_equal(count, 2);
        assert_int_equal(devices[0].n_clients, 1);
        assert_int_equal(devices[0].clients[0], 4712);
        assert_int_equal(devices[1].n_clients, 1);
        assert_int_equal(devices[1].clients[0], 4714);
        assert_int_equal(unread.count, 3);
        assert_string_equal(unread.first, "4711");
}

static void test_a_partition_is_found_in_each_spelling(void **state UNUSED)
{
        static const char *const table[][2] = {
                {"Partition 1 created", "1"},
                {"Partition GPU-1/Kp8AAA+/= created", "GPU-1/Kp8AAA+/="},
                {"GPU-74d43ed3-cdf7/Kp8AAAAA", "GPU-74d43ed3-cdf7/Kp8AAAAA"},
                {"some words before\nPartition 1 created\n", "1"},
                {"SM partition 'large' created on device GPU-74 (sm-count=34)\nCUDA_MPS_SM_PARTITION=GPU-74/Kp8A",
                        "GPU-74/Kp8A"},
        };
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const char *id = NULL;

                assert_ok(dialogue_read_partition(table[i][0], &arena, &id, &err), &err);
                assert_string_equal(id, table[i][1]);
        }
}

/* ---- what daemons of 590 to 595 said: test/fixtures/recorded/mps/590-595-sm-partitions.txt ---- */

#define UUID "GPU-74d43ed3-1111-2222-3333-444444444444"

/* The |number|th quoted text behind |label| in its line, with a UUID for "<uuid>"; fails if there is none. */
static const char *quoted(struct arena *arena, const char *label, unsigned int number)
{
        _free_ char *path = xasprintf("%s/mps/590-595-sm-partitions.txt", getenv("WARPSHARE_RECORDED"));
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char *start, *place, *said;
        struct error err;

        assert_ok(file_read(path, 65536, &text, &err), &err);
        start = strstr(text.data, label);
        assert_non_null(start);
        for (unsigned int i = 0; i < 2 * number - 1; i++) {
                start = strchr(start, '"');
                assert_non_null(start);
                start++;
        }
        said = arena_strndup(arena, start, strcspn(start, "\""));
        place = strstr(said, "GPU-<uuid>");
        if (!place)
                return said;
        return arena_printf(arena, "%.*s" UUID "%s", (int)(place - said), said, place + strlen("GPU-<uuid>"));
}

static void test_a_recorded_partition_with_slashes_is_found_and_removed_as_recorded(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *id = NULL;
        struct error err;

        assert_ok(dialogue_read_partition(quoted(&arena, "#   add: ", 1), &arena, &id, &err), &err);
        assert_string_equal(id, UUID "/D/79e/DgwYMDAAAAAAAAAAAAAAAAAAAAAAAA");
        assert_string_equal(dialogue_partition_remove(&arena, UUID, id), quoted(&arena, "#   rm: ", 1));
}

static void test_recorded_refusals_are_no_partition(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *id = NULL;
        struct error err;

        assert_int_equal(dialogue_read_partition(quoted(&arena, "#   add refused: ", 1), &arena, &id, &err), -1);
        assert_non_null(strstr(err.text, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"));
        assert_int_equal(dialogue_read_partition(quoted(&arena, "#   rm of one in use", 1), &arena, &id, &err), -1);
}

static void test_the_recorded_head_of_lspart_is_no_partition(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *head =
                arena_printf(&arena, "%s\n%s\n", quoted(&arena, "#   lspart: ", 1), quoted(&arena, "#   lspart: ", 2));
        const char *id = UUID "/D/79e/AAA=";
        struct dialogue_unread unread = {0};
        struct dialogue_partition *listed;
        size_t count = 9;

        dialogue_read_partitions(head, &arena, &listed, &count, &unread);
        assert_int_equal(count, 0);
        assert_int_equal(unread.count, 0);
        dialogue_read_partitions(
                arena_printf(&arena,
                        "%sGPU-74d43ed3  -  8  7  76  56  -\nGPU-74d43ed3  D/79e/AAA=  -  7  -  56  Yes\n"
                        "GPU-84d43ed3  D/79e/BBB=  -  7  -  56  -\nno row\nGPU-1\n",
                        head),
                &arena, &listed, &count, &unread);
        assert_int_equal(count, 2);
        assert_int_equal(unread.count, 2);
        assert_string_equal(unread.first, "no row");
        assert_true(dialogue_is_partition(&listed[0], UUID, id));
        assert_false(dialogue_is_partition(&listed[1], UUID, UUID "/D/79e/BBB=")); /* of another GPU */
        assert_false(dialogue_is_partition(&listed[0], UUID, UUID "/AAA="));
        listed[0].id = id; /* a program may show the whole */
        assert_true(dialogue_is_partition(&listed[0], UUID, id));
}

static void test_the_chunks_of_a_gpu_are_those_of_its_own_row(void **state UNUSED)
{
        static const struct {
                const char *rows;
                unsigned int expected; /* 0: not known */
        } table[] = {
                {"GPU-74d43ed3  -  8  7  76  56  -\nGPU-74d43ed3  D/79e/AAA=  -  7  -  56  Yes\n", 15},
                {"GPU-74d43ed3 15 0 132 0\n", 15}, /* as recorded on a Hopper */
                {"GPU-74d43ed3 5 10 52 80\nGPU-74d43ed3 D/79e/AAA= 10 80 Yes\n", 15},
                {"GPU-84d43ed3  -  20  0  132  0  -\nGPU-74d43ed3  -  18  0  72  0  -\n", 18},
                {"GPU-84d43ed3  -  20  0  132  0  -\n", 0},
                {"GPU-74d43ed3\n", 0},
                {"GPU-74d43ed3 -\n", 0},
                {"GPU-74d43ed3 - 8\n", 0},
                {"GPU-74d43ed3 - 8 x 76 56 -\n", 0},
                {"GPU-74d43ed3 - 99999999 1 76 56 -\n", 0},
                {"- 8 7 76 56 -\n", 0},
                {"", 0},
        };
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *head =
                arena_printf(&arena, "%s\n%s\n", quoted(&arena, "#   lspart: ", 1), quoted(&arena, "#   lspart: ", 2));

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                unsigned int chunks = 0;

                assert_int_equal(dialogue_read_chunks(arena_printf(&arena, "%s%s", head, table[i].rows), UUID, &chunks),
                        table[i].expected != 0);
                assert_int_equal(chunks, table[i].expected);
        }
}

/* NVIDIA's manual has "chunk" where 590 was recorded with "chunks". */
static void test_the_head_of_lspart_in_the_manual_is_no_unread_line(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dialogue_unread unread = {0};
        struct dialogue_partition *listed;
        size_t count;

        dialogue_read_partitions(
                "GPU Partition free used free used clients\nchunk chunk SM SM\n", &arena, &listed, &count, &unread);
        assert_int_equal(count, 0);
        assert_int_equal(unread.count, 0);
}

/* It becomes a variable of a container. */
static void test_a_partition_that_is_none_is_shown(void **state UNUSED)
{
        static const char *const table[] = {"", "Failed to fulfill the requested SM partition of 4 chunks",
                "Unknown command \"sm_partition\"", "Partition  created", "Partition 1 2 created", "Partition created",
                "GPU-1", "GPU-1/$(reboot)", "GPU-1/a b", "Partition 1 created."};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _free_ char *expected = xasprintf("MPS control daemon: '%s' is no SM partition", table[i]);
                const char *id = NULL;

                assert_fails(dialogue_read_partition(table[i], &arena, &id, &err), &err, ERROR_INVALID, expected);
        }
}

static void test_refusals_are_recognised_by_their_beginning(void **state UNUSED)
{
        assert_true(dialogue_is_unknown_command("Unknown command \"get_server_status\""));
        assert_false(dialogue_is_unknown_command("A server PID is required"));
        assert_false(dialogue_is_unknown_command("x\nUnknown command \"y\""));
        assert_true(dialogue_is_not_found("Server 4711 not found"));
        assert_true(dialogue_is_not_found("Server not found"));
        assert_true(dialogue_is_not_found("Server 1 not found\nServer 1 not found!\n1"));
        assert_false(dialogue_is_not_found("Server 4711 is not found"));
        assert_false(dialogue_is_not_found("Servers not found"));
        assert_false(dialogue_is_not_found("ACTIVE"));
        assert_false(dialogue_is_not_found("PID ID SERVER DEVICE NAMESPACE COMMAND\n1 1 1 GPU-1 1 Server 1 not found"));
        assert_true(dialogue_is_unknown_option(1, "Cannot find MPS control daemon process"));
        assert_false(dialogue_is_unknown_option(0, "Cannot find MPS control daemon process"));
        assert_false(dialogue_is_unknown_option(1, "An instance of this daemon is already running"));
}

/* ---- what a program can do ---- */

static void test_a_driver_version_says_what_to_expect(void **state UNUSED)
{
        static const struct {
                const char *version;
                unsigned int can;
        } table[] = {
                {NULL, 0},
                {"", 0},
                {"nonsense", 0},
                {"99999999999.1", 0},
                {"470.57", 0},
                {"535.309.01", MPS_CAN_TERMINATE},
                {"550.163.01", MPS_CAN_TERMINATE | MPS_CAN_SERVER_STATUS},
                {"580.105.08", MPS_CAN_TERMINATE | MPS_CAN_SERVER_STATUS | MPS_CAN_MULTI_USER},
                {"590", MPS_CAN_TERMINATE | MPS_CAN_SERVER_STATUS | MPS_CAN_MULTI_USER | MPS_CAN_PARTITION},
                {"615.10", MPS_CAN_TERMINATE | MPS_CAN_SERVER_STATUS | MPS_CAN_MULTI_USER | MPS_CAN_PARTITION |
                                   MPS_CAN_NAMESPACE},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                assert_int_equal(dialogue_capabilities(table[i].version), table[i].can);
}

/* It is asked of daemons that serve: nothing may be set. */
static unsigned int probe(const char *const *unknown, size_t n_unknown)
{
        struct dialogue_probe probe = {0};

        for (const char *command; (command = dialogue_probe_next(&probe));) {
                bool is_unknown = false;

                assert_false(text_starts_with(command, "set_"));
                for (size_t i = 0; i < n_unknown; i++)
                        is_unknown |= strcmp(unknown[i], command) == 0;
                dialogue_probe_answer(&probe, is_unknown ? "Unknown command \"…\"" : "Server 0 not found");
        }
        return probe.can;
}

static void test_a_probe_proves_what_the_daemon_can_and_sets_nothing(void **state UNUSED)
{
        static const char *const unknown[] = {"lspart", "get_server_status", "terminate_client"};

        assert_int_equal(probe(unknown, 0), MPS_CAN_TERMINATE | MPS_CAN_SERVER_STATUS | MPS_CAN_PARTITION);
        assert_int_equal(probe(unknown, 1), MPS_CAN_TERMINATE | MPS_CAN_SERVER_STATUS);
        assert_int_equal(probe(unknown, 2), MPS_CAN_TERMINATE);
        assert_int_equal(probe(unknown, 3), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_commands_are_spelled_as_the_manual_has_them),
                cmocka_unit_test(test_a_percentage_with_one_decimal_is_read_exactly),
                cmocka_unit_test(test_percentages_that_are_none_are_shown),
                cmocka_unit_test(test_percentages_have_any_number_of_decimals),
                cmocka_unit_test(test_limits_are_read_in_mib),
                cmocka_unit_test(test_limits_that_are_none_are_shown),
                cmocka_unit_test(test_a_limit_is_shown_in_whole_gib),
                cmocka_unit_test(test_pids_are_read_line_by_line),
                cmocka_unit_test(test_a_line_that_is_no_pid_hides_none),
                cmocka_unit_test(test_the_clients_of_each_device_are_told_apart),
                cmocka_unit_test(test_clients_below_a_line_that_may_be_another_device_are_of_none),
                cmocka_unit_test(test_a_partition_is_found_in_each_spelling),
                cmocka_unit_test(test_a_recorded_partition_with_slashes_is_found_and_removed_as_recorded),
                cmocka_unit_test(test_recorded_refusals_are_no_partition),
                cmocka_unit_test(test_the_recorded_head_of_lspart_is_no_partition),
                cmocka_unit_test(test_the_chunks_of_a_gpu_are_those_of_its_own_row),
                cmocka_unit_test(test_the_head_of_lspart_in_the_manual_is_no_unread_line),
                cmocka_unit_test(test_a_partition_that_is_none_is_shown),
                cmocka_unit_test(test_refusals_are_recognised_by_their_beginning),
                cmocka_unit_test(test_a_driver_version_says_what_to_expect),
                cmocka_unit_test(test_a_probe_proves_what_the_daemon_can_and_sets_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
