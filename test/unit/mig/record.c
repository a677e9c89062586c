// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "mig/plan.h"
#include "mig/record.h"

static char folder[32];
static char path[64];

static int make_folder(void **state UNUSED)
{
        snprintf(folder, sizeof(folder), "/tmp/ws-record-XXXXXX");
        if (!mkdtemp(folder))
                return -1;
        snprintf(path, sizeof(path), "%s/" MIG_RECORD_NAME, folder);
        return 0;
}

static int remove_folder(void **state UNUSED)
{
        unlink(path);
        return rmdir(folder);
}

static struct mig_record_item items[] = {
        {.profile = "3g.40gb",
                .start = 4,
                .is_before = true,
                .state = MIG_RECORD_REMOVING,
                .devices = {{"MIG-a", 1}, {"MIG-b", 2}},
                .n_devices = 2},
        {.profile = "2g.20gb", .start = 0, .is_before = true, .is_after = true, .state = MIG_RECORD_PRESENT},
        {.profile = "1g.10gb+me", .start = MIG_START_UNKNOWN, .is_after = true, .state = MIG_RECORD_MAKING},
};
static struct mig_record_gpu gpus[] = {
        {.uuid = "GPU-1", .changes = true, .is_enabled_before = true, .items = items, .n_items = ARRAY_SIZE(items)},
        {.uuid = "GPU-2", .is_enabled_after = true},
};
static const struct mig_record record = {.boot_id = "boot",
        .config = "all-balanced",
        .goal = MIG_RECORD_BEFORE,
        .may_wait = true,
        .gpus = gpus,
        .n_gpus = ARRAY_SIZE(gpus)};

static void test_a_record_is_read_as_it_was_written(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _free_ char *written = mig_record_print(&record);
        struct mig_record read;
        struct stat status;
        struct error err;

        assert_ok(mig_record_write(&record, path, &err), &err);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
        assert_ok(mig_record_read(&read, path, &arena, &err), &err);
        _free_ char *again = mig_record_print(&read);

        assert_string_equal(again, written);
        assert_string_equal(read.boot_id, "boot");
        assert_string_equal(read.config, "all-balanced");
        assert_int_equal(read.goal, MIG_RECORD_BEFORE);
        assert_true(read.may_wait);
        assert_int_equal(read.n_gpus, 2);
        assert_true(read.gpus[0].changes);
        assert_true(read.gpus[0].is_enabled_before);
        assert_false(read.gpus[0].is_enabled_after);
        assert_true(read.gpus[1].is_enabled_after);
        assert_int_equal(read.gpus[0].n_items, 3);
        for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
                assert_string_equal(read.gpus[0].items[i].profile, items[i].profile);
                assert_int_equal(read.gpus[0].items[i].start, items[i].start);
                assert_int_equal(read.gpus[0].items[i].is_before, items[i].is_before);
                assert_int_equal(read.gpus[0].items[i].is_after, items[i].is_after);
                assert_int_equal(read.gpus[0].items[i].state, items[i].state);
                assert_int_equal(read.gpus[0].items[i].n_devices, items[i].n_devices);
        }
        assert_string_equal(read.gpus[0].items[0].devices[1].uuid, "MIG-b");
        assert_int_equal(read.gpus[0].items[0].devices[1].slices, 2);
}

static void test_a_change_that_is_over_leaves_no_record(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mig_record read;
        struct error err;

        assert_ok(mig_record_write(&record, path, &err), &err);
        assert_ok(mig_record_remove(path, &err), &err);
        assert_int_equal(mig_record_read(&read, path, &arena, &err), MIG_RECORD_NONE);
        assert_ok(mig_record_remove(path, &err), &err);
}

static void test_what_is_no_record_is_refused_with_its_place(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *expected;
        } cases[] = {
                {"", "'[' or '{' expected near end of file"},
                {"[]", "no JSON object"},
                {"{\"version\": 2, \"bootID\": \"b\", \"config\": \"c\", \"goal\": \"after\", \"gpus\": []}",
                        "version: 2, must be a number from 1 to 1"},
                {"{\"version\": 1, \"bootID\": \"b\", \"config\": \"c\", \"goal\": \"back\", \"gpus\": []}",
                        "goal: is none of the known words, of which 'after' is one"},
                {"{\"version\": 1, \"bootID\": \"b\", \"config\": \"c\", \"goal\": \"after\", \"gpus\": [{\"uuid\": \"g\", "
                 "\"instances\": [{\"profile\": \"1g.5gb\", \"start\": 40, \"state\": \"absent\"}]}]}",
                        "gpus[0]: instances[0]: start: 40, must be a number from 0 to 31"},
                {"{\"version\": 1, \"bootID\": \"b\", \"config\": \"c\", \"goal\": \"after\", \"gpus\": [{\"uuid\": \"\"}]}",
                        "gpus[0]: uuid: must be a text of 1 to 512 bytes"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                struct mig_record read;
                struct error err;

                assert_int_equal(mig_record_parse(&read, cases[i].text, strlen(cases[i].text), &arena, &err), -1);
                if (!strstr(err.text, cases[i].expected))
                        fail_msg("%s: %s", cases[i].text, err.text);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_record_is_read_as_it_was_written),
                cmocka_unit_test(test_a_change_that_is_over_leaves_no_record),
                cmocka_unit_test(test_what_is_no_record_is_refused_with_its_place),
        };

        return cmocka_run_group_tests_name("mig/record", tests, make_folder, remove_folder);
}
