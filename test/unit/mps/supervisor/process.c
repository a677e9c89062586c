// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "mps/supervisor/process.h"

#define POD "1e2f3a4b-5c6d-7e8f-9a0b-1c2d3e4f5a6b"
#define ID "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* ---- /proc ---- */

struct fixture {
        char root[64];
        struct arena arena;
};

static void make_file(const struct fixture *f, const char *name, const char *content, size_t size)
{
        _free_ char *path = xasprintf("%s/proc/4711/%s", f->root, name);
        int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, content, size), (ssize_t)size);
        close(fd);
}

static void make_text(const struct fixture *f, const char *name, const char *content)
{
        make_file(f, name, content, strlen(content));
}

#define STAT_END " S 1 4711 4711 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456789 1000 50\n"

static void make_process(const struct fixture *f)
{
        make_text(f, "stat", "4711 (train)" STAT_END);
        make_text(f, "status", "Name:\ttrain\nUmask:\t0022\nUid:\t1000\t1001\t1002\t1003\nGid:\t5\t5\t5\t5\n");
        make_text(f, "cgroup", "0::/kubepods/burstable/pod" POD "/" ID "\n");
        make_file(f, "environ", "PATH=/bin\0WARPSHARE_GRANT=g1a2b\0HOME=/\0", 39);
}

static void test_a_process_is_read_from_its_files(void **state)
{
        struct fixture *f = *state;
        struct process process;
        struct stat status;
        _free_ char *ns = xasprintf("%s/proc/4711/ns/pid", f->root);
        struct error err;

        make_process(f);
        assert_ok(process_read(&process, &f->arena, f->root, 4711, &err), &err);
        assert_int_equal(process.pid, 4711);
        assert_true(process.start_time == 123456789);
        assert_int_equal(process.uid, 1001);
        assert_string_equal(process.pod_uid, POD);
        assert_string_equal(process.container_id, ID);
        assert_int_equal(stat(ns, &status), 0);
        assert_true(process.pid_namespace == status.st_ino);
}

/* The name stands in parentheses and is the tenant's. */
static void test_the_name_of_a_process_cannot_fake_its_start(void **state)
{
        struct fixture *f = *state;
        struct process process;
        struct error err;

        make_process(f);
        make_text(f, "stat", "4711 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20)" STAT_END);
        make_text(f, "status", "Name:\tx\\nUid:\\t0\\t0\nUid:\t1000\t1001\t1002\t1003\n");
        assert_ok(process_read(&process, &f->arena, f->root, 4711, &err), &err);
        assert_true(process.start_time == 123456789);
        assert_int_equal(process.uid, 1001);
}

static void test_what_cannot_be_read_is_unknown(void **state)
{
        struct fixture *f = *state;
        struct process process;
        struct error err;

        make_text(f, "stat", "4711 (train)" STAT_END);
        assert_ok(process_read(&process, &f->arena, f->root, 4711, &err), &err);
        assert_int_equal(process.uid, (uid_t)-1);
        assert_null(process.pod_uid);
        assert_null(process.container_id);
}

static void test_a_process_that_is_not_there_is_not_found(void **state)
{
        struct fixture *f = *state;
        struct process process;
        struct error err;

        assert_fails(process_read(&process, &f->arena, f->root, 4712, &err), &err, ERROR_NOT_FOUND,
                "there is no process 4712");
        /* It ended while it was looked at: the folder is open, its files are gone. */
        assert_fails(process_read(&process, &f->arena, f->root, 4711, &err), &err, ERROR_NOT_FOUND,
                "process 4711 has ended");
        make_text(f, "stat", "4711 (train) S 1 2");
        assert_fails(process_read(&process, &f->arena, f->root, 4711, &err), &err, ERROR_NOT_FOUND,
                "process 4711 has ended");
}

/* One is enough for its folder, and none is left for what is in it. */
static void test_a_process_that_cannot_be_read_for_want_of_descriptors_has_not_ended(void **state)
{
        struct fixture *f = *state;
        struct process process;
        struct rlimit before;
        struct rlimit limit;
        int first_free = dup(STDOUT_FILENO);
        struct error err;

        close(first_free);
        make_process(f);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        limit = before;
        for (rlim_t spare = 0; spare < 2; spare++) {
                limit.rlim_cur = (rlim_t)first_free + spare;
                assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
                assert_int_equal(process_read(&process, &f->arena, f->root, 4711, &err), -1);
                assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
                assert_int_not_equal(err.kind, ERROR_NOT_FOUND);
        }
}

static void environment_is(const struct fixture *f, uint64_t start_time, const char *expected, size_t size)
{
        struct strbuf text = STRBUF_INIT;

        process_read_environment(&text, f->root, 4711, start_time);
        assert_int_equal(text.size, size);
        assert_memory_equal(text.data, expected, size);
        strbuf_done(&text);
}

static void test_an_environment_is_that_of_the_process_which_was_meant(void **state)
{
        struct fixture *f = *state;
        char *large = xcalloc(1, PROCESS_ENVIRONMENT_MAX + 64);

        environment_is(f, 123456789, "", 0);
        make_process(f);
        environment_is(f, 123456789, "PATH=/bin\0WARPSHARE_GRANT=g1a2b\0HOME=/\0", 39);
        environment_is(f, 123456788, "", 0);
        memset(large, 'x', PROCESS_ENVIRONMENT_MAX + 64);
        make_file(f, "environ", large, PROCESS_ENVIRONMENT_MAX + 64);
        environment_is(f, 123456789, large, PROCESS_ENVIRONMENT_MAX);
        free(large);
}

/* The real thing: this very process. */
static void test_this_process_is_found_as_it_is(void **state)
{
        struct fixture *f = *state;
        struct process process;
        struct process again;
        struct stat status;
        struct error err;

        assert_ok(process_read(&process, &f->arena, "", getpid(), &err), &err);
        assert_int_equal(process.uid, geteuid());
        assert_true(process.start_time > 0);
        assert_int_equal(stat("/proc/self/ns/pid", &status), 0);
        assert_true(process.pid_namespace == status.st_ino);
        assert_ok(process_read(&again, &f->arena, "", getpid(), &err), &err);
        assert_true(again.start_time == process.start_time);
}

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));
        char command[160];

        strcpy(f->root, "/tmp/warpshare-process-XXXXXX");
        if (!mkdtemp(f->root))
                return -1;
        snprintf(command, sizeof(command), "mkdir -p %s/proc/4711/ns && touch %s/proc/4711/ns/pid", f->root, f->root);
        *state = f;
        return system(command);
}

static int tear_down(void **state)
{
        struct fixture *f = *state;
        char command[96];

        snprintf(command, sizeof(command), "rm -r %s", f->root);
        assert_int_equal(system(command), 0);
        arena_done(&f->arena);
        free(f);
        return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_a_process_is_read_from_its_files),
                TEST(test_the_name_of_a_process_cannot_fake_its_start),
                TEST(test_what_cannot_be_read_is_unknown),
                TEST(test_a_process_that_is_not_there_is_not_found),
                TEST(test_a_process_that_cannot_be_read_for_want_of_descriptors_has_not_ended),
                TEST(test_an_environment_is_that_of_the_process_which_was_meant),
                TEST(test_this_process_is_found_as_it_is),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
