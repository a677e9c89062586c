// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "cmd/run/shares.h"

static struct arena arena;
static char root[] = "/tmp/ws-run-XXXXXX";

static struct run_unit gpus[2];
static const struct run_units units = {gpus, ARRAY_SIZE(gpus)};

static int begin(void **state UNUSED)
{
        for (size_t i = 0; i < ARRAY_SIZE(gpus); i++)
                gpus[i] = (struct run_unit){.uuid = i ? "GPU-b" : "GPU-a",
                        .index = i ? "1" : "0",
                        .name = "V100",
                        .daemon = i ? "GPU-b" : "GPU-a",
                        .is_ready = true,
                        .memory_mib = 10000,
                        .most_permille = 1000};
        return 0;
}

static int end(void **state UNUSED)
{
        arena_done(&arena);
        return 0;
}

/* "0" or "1", or the text of the error. */
static const char *choose(const struct run_share *held, size_t n_held, const struct run_share *request)
{
        struct error err;
        const struct run_unit *unit = run_choose(&units, held, n_held, request, &err);

        return unit ? unit->index : arena_strdup(&arena, err.text);
}

static void test_the_fullest_unit_with_room_is_chosen(void **state UNUSED)
{
        const struct run_share held[] = {{.unit = "GPU-b", .threads_permille = 300, .memory_mib = 3000}};

        assert_string_equal(choose(held, 1, &(struct run_share){.threads_permille = 700}), "1");
        assert_string_equal(choose(held, 1, &(struct run_share){.threads_permille = 701}), "0");
        assert_string_equal(choose(NULL, 0, &(struct run_share){.threads_permille = 1000}), "0");
}

static void test_memory_and_threads_count_apart(void **state UNUSED)
{
        const struct run_share held[] = {
                {.unit = "GPU-a", .threads_permille = 100, .memory_mib = 9000},
                {.unit = "GPU-b", .threads_permille = 900, .memory_mib = 1000},
        };

        assert_string_equal(choose(held, 2, &(struct run_share){.threads_permille = 100, .memory_mib = 5000}), "1");
        assert_string_equal(choose(held, 2, &(struct run_share){.threads_permille = 800, .memory_mib = 1000}), "0");
        assert_string_equal(choose(held, 2, &(struct run_share){.threads_permille = 800, .memory_mib = 1001}),
                "no room; GPU 0 has 90.0 % and 1000 MiB left; GPU 1 has 10.0 % and 9000 MiB left");
}

static void test_a_unit_is_named_by_index_or_uuid(void **state UNUSED)
{
        assert_string_equal(
                choose(NULL, 0, &(struct run_share){.unit = "1", .threads_permille = 1, .memory_mib = 256}), "1");
        assert_string_equal(
                choose(NULL, 0, &(struct run_share){.unit = "GPU-b", .threads_permille = 1, .memory_mib = 256}), "1");
        assert_string_equal(choose(NULL, 0, &(struct run_share){.unit = "2", .threads_permille = 1}),
                "GPU '2' is not shared here; 'warpshare run --show' lists those that are");
}

static void test_nobody_gets_a_unit_that_would_not_hold_it_to_its_share(void **state UNUSED)
{
        gpus[0].is_ready = false;
        assert_string_equal(choose(NULL, 0, &(struct run_share){.threads_permille = 100}), "1");
        gpus[1].is_ready = false;
        assert_string_equal(choose(NULL, 0, &(struct run_share){.threads_permille = 100}),
                "no room; the MPS daemon of GPU 0 is not ready; the MPS daemon of GPU 1 is not ready");
}

static void test_no_share_is_above_what_the_daemon_allows_one_client(void **state UNUSED)
{
        gpus[0].most_permille = 500;
        gpus[1].most_mib = 2000;
        assert_string_equal(choose(NULL, 0, &(struct run_share){.threads_permille = 500}), "0");
        assert_string_equal(choose(NULL, 0, &(struct run_share){.threads_permille = 600, .memory_mib = 2000}), "1");
        assert_string_equal(choose(NULL, 0, &(struct run_share){.threads_permille = 600}),
                "no GPU can ever have such a share; GPU 0 has 100.0 % and 10000 MiB left, one program at most 50.0 %; "
                "GPU 1 has 100.0 % and 10000 MiB left, one program at most 2000 MiB");
}

static void test_the_reason_why_a_daemon_is_not_ready_is_said(void **state UNUSED)
{
        gpus[0].is_ready = gpus[1].is_ready = false;
        gpus[0].problem = "fault: cannot start";
        assert_string_equal(choose(NULL, 0, &(struct run_share){.threads_permille = 100}),
                "no room; the MPS daemon of GPU 0 is not ready (fault: cannot start); the MPS daemon of GPU 1 is not "
                "ready");
}

static enum error_kind kind_of(const struct run_share *held, size_t n_held, const struct run_share *request)
{
        struct error err = {.kind = ERROR_NONE};

        assert_null(run_choose(&units, held, n_held, request, &err));
        return err.kind;
}

static void test_what_can_never_be_is_another_error_than_what_has_no_room_now(void **state UNUSED)
{
        const struct run_share held[] = {
                {.unit = "GPU-a", .threads_permille = 1000, .memory_mib = 10000},
                {.unit = "GPU-b", .threads_permille = 1000, .memory_mib = 10000},
        };

        assert_int_equal(kind_of(held, 2, &(struct run_share){.threads_permille = 100}), ERROR_EXHAUSTED);
        assert_int_equal(
                kind_of(held, 2, &(struct run_share){.threads_permille = 100, .memory_mib = 10000}), ERROR_EXHAUSTED);
        assert_int_equal(
                kind_of(NULL, 0, &(struct run_share){.threads_permille = 100, .memory_mib = 10001}), ERROR_INVALID);
        assert_string_equal(
                choose(NULL, 0, &(struct run_share){.unit = "0", .threads_permille = 100, .memory_mib = 10001}),
                "no GPU can ever have such a share; GPU 0 has 100.0 % and 10000 MiB left, 10000 MiB in all, and 10001 "
                "are asked for");
        gpus[1].memory_mib = 20000;
        assert_int_equal(
                kind_of(held, 2, &(struct run_share){.threads_permille = 100, .memory_mib = 10001}), ERROR_EXHAUSTED);
}

static void test_no_share_is_less_than_a_program_of_cuda_needs(void **state UNUSED)
{
        assert_string_equal(choose(NULL, 0, &(struct run_share){.threads_permille = 26}), "0");
        assert_int_equal(kind_of(NULL, 0, &(struct run_share){.threads_permille = 25}), ERROR_INVALID);
        assert_string_equal(choose(NULL, 0, &(struct run_share){.unit = "0", .threads_permille = 25}),
                "no GPU can ever have such a share; GPU 0 has 100.0 % and 10000 MiB left, and the share would have 250 "
                "MiB, but a CUDA program needs 256: --memory 256Mi gives it these");
        assert_string_equal(choose(NULL, 0, &(struct run_share){.threads_permille = 25, .memory_mib = 256}), "0");
        gpus[1].memory_mib = 20000; /* and a larger GPU is taken instead */
        assert_string_equal(choose(NULL, 0, &(struct run_share){.threads_permille = 25}), "1");
}

static void test_more_than_there_is_leaves_nothing(void **state UNUSED)
{
        const struct run_share held[] = {
                {.unit = "GPU-a", .threads_permille = 1000, .memory_mib = UINT32_MAX},
                {.unit = "GPU-a", .threads_permille = 1000, .memory_mib = UINT32_MAX},
        };

        assert_string_equal(choose(held, 2, &(struct run_share){.unit = "0", .threads_permille = 1, .memory_mib = 256}),
                "no room; GPU 0 has 0.0 % and 0 MiB left");
}

/* ---- files ---- */

static int make_root(void **state UNUSED)
{
        struct error err;

        begin(NULL);
        strcpy(root + sizeof(root) - 7, "XXXXXX");
        assert_non_null(mkdtemp(root));
        assert_ok(run_units_write(&units, root, &err), &err);
        return 0;
}

static int remove_root(void **state UNUSED)
{
        assert_int_equal(system(arena_printf(&arena, "rm -r '%s'", root)), 0);
        return end(NULL);
}

static void test_units_are_read_as_they_were_written(void **state UNUSED)
{
        struct run_units read;
        struct error err;

        assert_ok(run_units_read(&read, &arena, root, &err), &err);
        assert_int_equal(read.n_units, 2);
        assert_string_equal(read.units[1].uuid, "GPU-b");
        assert_int_equal(read.units[1].memory_mib, 10000);
        assert_int_equal(read.units[1].most_permille, 1000);
        assert_false(read.units[1].is_ready); /* no daemon has said so */
}

static void test_a_daemon_outside_of_the_root_is_refused(void **state UNUSED)
{
        struct run_units read;
        struct error err;

        gpus[0].daemon = "../elsewhere";
        assert_ok(run_units_write(&units, root, &err), &err);
        assert_int_equal(run_units_read(&read, &arena, root, &err), -1);
        assert_non_null(strstr(err.text, "a path below the MPS root"));
}

static void test_a_share_is_held_until_its_descriptor_is_closed(void **state UNUSED)
{
        const struct run_share mine = {
                .unit = "GPU-a", .threads_permille = 300, .memory_mib = 77, .pid = getpid(), .program = "train"};
        const struct run_share *held;
        struct error err;
        size_t n;
        int fd;

        assert_ok(run_shares_hold(&fd, root, &mine, &err), &err);
        assert_ok(run_shares_read(&held, &n, &arena, root, &err), &err);
        assert_int_equal(n, 1);
        assert_string_equal(held[0].unit, "GPU-a");
        assert_string_equal(held[0].program, "train");
        assert_int_equal(held[0].threads_permille, 300);
        assert_int_equal(held[0].memory_mib, 77);
        assert_int_equal(held[0].uid, getuid());
        assert_false(fcntl(fd, F_GETFD) & FD_CLOEXEC); /* the program has it, too */
        close(fd);
        assert_ok(run_shares_read(&held, &n, &arena, root, &err), &err);
        assert_int_equal(n, 0);
}

static void test_what_is_no_share_means_nothing(void **state UNUSED)
{
        const char *command = arena_printf(&arena,
                "cd '%s/shares' && mkfifo pipe && mkdir folder && ln -s /etc/passwd link && echo '{\"unit\": 3}' >wrong && : >empty",
                root);
        const struct run_share *held;
        struct error err;
        size_t n;

        assert_int_equal(system(command), 0);
        assert_ok(run_shares_read(&held, &n, &arena, root, &err), &err);
        assert_int_equal(n, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_the_fullest_unit_with_room_is_chosen, begin, end),
                cmocka_unit_test_setup_teardown(test_memory_and_threads_count_apart, begin, end),
                cmocka_unit_test_setup_teardown(test_a_unit_is_named_by_index_or_uuid, begin, end),
                cmocka_unit_test_setup_teardown(
                        test_nobody_gets_a_unit_that_would_not_hold_it_to_its_share, begin, end),
                cmocka_unit_test_setup_teardown(test_no_share_is_above_what_the_daemon_allows_one_client, begin, end),
                cmocka_unit_test_setup_teardown(test_the_reason_why_a_daemon_is_not_ready_is_said, begin, end),
                cmocka_unit_test_setup_teardown(
                        test_what_can_never_be_is_another_error_than_what_has_no_room_now, begin, end),
                cmocka_unit_test_setup_teardown(test_no_share_is_less_than_a_program_of_cuda_needs, begin, end),
                cmocka_unit_test_setup_teardown(test_more_than_there_is_leaves_nothing, begin, end),
                cmocka_unit_test_setup_teardown(test_units_are_read_as_they_were_written, make_root, remove_root),
                cmocka_unit_test_setup_teardown(test_a_daemon_outside_of_the_root_is_refused, make_root, remove_root),
                cmocka_unit_test_setup_teardown(
                        test_a_share_is_held_until_its_descriptor_is_closed, make_root, remove_root),
                cmocka_unit_test_setup_teardown(test_what_is_no_share_means_nothing, make_root, remove_root),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
