// SPDX-License-Identifier: Apache-2.0
/*
 * A made-up /proc: "<pid> <argv[0]> <cgroup>" a process.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/macro.h"
#include "cmd/nvidia/process_find.h"

#define POD_A "11111111-1111-1111-1111-111111111111"
#define POD_B "22222222-2222-2222-2222-222222222222"
#define CONTAINER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define IN_POD(pod) "0::/kubepods/pod" pod "/" CONTAINER "\n"
#define HIDDEN "0::/\n"                  /* our own, in a cgroup namespace */
#define SIBLING "0::/../" CONTAINER "\n" /* of the same pod, seen from there */
#define STRANGER "0::/../../pod" POD_B "/" CONTAINER "\n"

struct entry {
        const char *pid;
        const char *cmdline; /* '|' for the NUL */
        const char *cgroup;
};

static char folder[64];

static void put(const char *name, const char *file, const char *text, size_t size)
{
        _free_ char *directory = xasprintf("%s/proc/%s", folder, name);
        _free_ char *path = xasprintf("%s/%s", directory, file);
        struct error err;

        mkdir(directory, 0755);
        assert_ok(file_write(path, text, size, &err), &err);
}

static void make(const char *own_cgroup, const struct entry *entries)
{
        _free_ char *proc = xasprintf("%s/proc", folder);

        mkdir(proc, 0755);
        put("self", "cgroup", own_cgroup, strlen(own_cgroup));
        for (; entries->pid; entries++) {
                _free_ char *cmdline = xstrdup(entries->cmdline);
                size_t size = strlen(cmdline);

                for (char *bar = cmdline; (bar = strchr(bar, '|')); bar++)
                        *bar = '\0';
                put(entries->pid, "cmdline", cmdline, size);
                if (entries->cgroup)
                        put(entries->pid, "cgroup", entries->cgroup, strlen(entries->cgroup));
        }
}

static int make_folder(void **state UNUSED)
{
        strcpy(folder, "/tmp/warpshare-find-XXXXXX");
        return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state UNUSED)
{
        char line[100];

        snprintf(line, sizeof(line), "rm -rf %s", folder);
        return system(line);
}

#define PLUGIN "nvidia-device-plugin"

static void test_the_process_is_found_by_its_first_argument(void **state UNUSED)
{
        static const struct {
                const char *what;
                const char *own_cgroup;
                const char *name;
                struct entry entries[5];
                pid_t expected; /* 0: none */
        } cases[] = {
                {"by its very name", HIDDEN, PLUGIN, {{"7", "sh|-c|" PLUGIN "|", SIBLING}, {"8", PLUGIN "|", SIBLING}},
                        8},
                {"by its base name", HIDDEN, "/usr/bin/mps-control-daemon", {{"7", "mps-control-daemon|", SIBLING}}, 7},
                {"and the other way round", HIDDEN, PLUGIN, {{"7", "/usr/bin/" PLUGIN "|--x|", SIBLING}}, 7},
                {"the very name first", HIDDEN, PLUGIN,
                        {{"7", "/usr/bin/" PLUGIN "|", SIBLING}, {"9", PLUGIN "|", SIBLING}}, 9},
                {"the least PID of equals", HIDDEN, PLUGIN, {{"12", PLUGIN "|", SIBLING}, {"9", PLUGIN "|", SIBLING}},
                        9},
                {"no other name that begins or ends so", HIDDEN, PLUGIN,
                        {{"7", PLUGIN "-x|", SIBLING}, {"8", "my-" PLUGIN "|", SIBLING}, {"9", "|", SIBLING}}, 0},
                {"none at all", HIDDEN, PLUGIN, {{0}}, 0},
                {"no kernel thread", HIDDEN, PLUGIN, {{"2", "", "0::/\n"}}, 0},
                {"one of our own pod before one of another", IN_POD(POD_A), PLUGIN,
                        {{"7", PLUGIN "|", IN_POD(POD_B)}, {"8", "/usr/bin/" PLUGIN "|", IN_POD(POD_A)}}, 8},
                {"also where a namespace hides ours", HIDDEN, PLUGIN,
                        {{"7", PLUGIN "|", STRANGER}, {"8", PLUGIN "|", SIBLING}}, 8},
                {"one of another pod where there is no better", HIDDEN, PLUGIN, {{"7", PLUGIN "|", STRANGER}}, 7},
                {"one that has no cgroup any more", IN_POD(POD_A), PLUGIN, {{"7", PLUGIN "|", NULL}}, 7},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct error err;
                pid_t pid = 0;
                int rc;

                make_folder(NULL);
                make(cases[i].own_cgroup, cases[i].entries);
                rc = process_find(&pid, folder, cases[i].name, &err);
                remove_folder(NULL);
                if (rc != (cases[i].expected ? 0 : PROCESS_FIND_NONE) || pid != cases[i].expected)
                        fail_msg("%s: %d with %d", cases[i].what, (int)pid, rc);
        }
}

static void test_one_that_ends_while_it_is_looked_at_does_not_matter(void **state UNUSED)
{
        static const struct entry entries[] = {{"8", PLUGIN "|", SIBLING}, {NULL, NULL, NULL}};
        _free_ char *gone = NULL;
        struct error err;
        pid_t pid;

        make(HIDDEN, entries);
        gone = xasprintf("%s/proc/7", folder); /* nothing in it */
        mkdir(gone, 0755);
        assert_ok(process_find(&pid, folder, PLUGIN, &err), &err);
        assert_int_equal(pid, 8);
}

/* Whoever opens a pipe without a writer waits, as for a process that holds the lock of its memory map. */
static void test_one_that_lets_its_reader_hang_is_left_out_with_its_pod(void **state UNUSED)
{
        static const struct entry entries[] = {{"6", PLUGIN "|", IN_POD(POD_A)}, {"7", PLUGIN "|", IN_POD(POD_A)},
                {"8", "sleep|", IN_POD(POD_B)}, {"9", PLUGIN "|", IN_POD(POD_B)}, {NULL}};
        static const char *const withheld[] = {"6", "7"};
        struct error err;
        pid_t pid;

        make(HIDDEN, entries);
        for (size_t i = 0; i < ARRAY_SIZE(withheld); i++) {
                _free_ char *path = xasprintf("%s/proc/%s/cmdline", folder, withheld[i]);

                unlink(path);
                assert_int_equal(mkfifo(path, 0600), 0);
        }
        assert_ok(process_find(&pid, folder, PLUGIN, &err), &err);
        assert_int_equal(pid, 9);
}

static void test_without_proc_it_fails(void **state UNUSED)
{
        _free_ char *text = xasprintf("open '%s/proc': No such file or directory", folder);
        struct error err;
        pid_t pid;

        assert_fails(process_find(&pid, folder, PLUGIN, &err), &err, ERROR_NOT_FOUND, text);
}

static void test_we_are_not_found_ourselves(void **state UNUSED)
{
        struct error err;
        pid_t pid;

        assert_int_equal(process_find(&pid, "", program_invocation_name, &err), PROCESS_FIND_NONE);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_process_is_found_by_its_first_argument),
                cmocka_unit_test_setup_teardown(
                        test_one_that_ends_while_it_is_looked_at_does_not_matter, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(
                        test_one_that_lets_its_reader_hang_is_left_out_with_its_pod, make_folder, remove_folder),
                cmocka_unit_test_setup_teardown(test_without_proc_it_fails, make_folder, remove_folder),
                cmocka_unit_test(test_we_are_not_found_ourselves),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
