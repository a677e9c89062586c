// SPDX-License-Identifier: Apache-2.0
/*
 * Services of the host that are stopped and started, by a systemctl that keeps a file for each service that runs.
 */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cmd/nvidia/mig_clients.h"
#include "base/io/loop.h"

static const char systemctl[] = "#!/bin/sh\n"
                                "cd \"$WARPSHARE_TEST_SERVICES\" || exit 1\n"
                                "verb=$1; shift; echo \"$verb $*\" >>calls\n"
                                "[ -e fail-$verb ] && { echo 'no such unit'; exit 5; }\n"
                                "for name; do case $verb in\n"
                                "is-active) if [ -e on-$name ]; then echo active; else echo inactive; fi;;\n"
                                "start) : >on-$name;;\n"
                                "stop) rm on-$name;;\n"
                                "esac; done\n"
                                "[ $verb = is-active ] && exit 3\n"
                                "exit 0\n";

struct fixture {
        uv_loop_t loop;
        char folder[64];
        char record[128];
        struct mig_services *services;
        bool is_done;
        char answer[512]; /* "": it is as asked for */
};

static const char *const names[] = {"nvsm", "nvidia-dcgm", "other.service"};

static void put(const struct fixture *f, const char *name, const char *text, mode_t mode)
{
        _free_ char *path = xasprintf("%s/%s", f->folder, name);
        struct error err;

        assert_int_equal(file_write(path, text, strlen(text), &err), 0);
        assert_int_equal(chmod(path, mode), 0);
}

static bool has(const struct fixture *f, const char *name)
{
        _free_ char *path = xasprintf("%s/%s", f->folder, name);

        return access(path, F_OK) == 0;
}

static void on_services_done(const struct error *err, void *data)
{
        struct fixture *f = data;

        f->is_done = true;
        snprintf(f->answer, sizeof(f->answer), "%s", err ? err->text : "");
}

static struct mig_services *open_services(struct fixture *f)
{
        return mig_services_new(&(struct mig_services_options){.loop = &f->loop,
                .host_root = "/",
                .record = f->record,
                .names = names,
                .n_names = 3,
                .done = on_services_done,
                .data = f});
}

static int setup(void **state)
{
        struct fixture *f = xcalloc(1, sizeof(*f));
        _free_ char *path = NULL;

        snprintf(f->folder, sizeof(f->folder), "/tmp/warpshare-mig-services-XXXXXX");
        assert_non_null(mkdtemp(f->folder));
        snprintf(f->record, sizeof(f->record), "%s/state/stopped", f->folder);
        put(f, "systemctl", systemctl, 0755);
        put(f, "on-nvsm", "", 0644);
        put(f, "on-other.service", "", 0644);
        path = xasprintf("%s:/usr/bin:/bin", f->folder);
        setenv("PATH", path, 1);
        setenv("WARPSHARE_TEST_SERVICES", f->folder, 1);
        uv_loop_init(&f->loop);
        f->services = open_services(f);
        *state = f;
        return 0;
}

static int teardown(void **state)
{
        struct fixture *f = *state;
        _free_ char *command = xasprintf("rm -rf '%s'", f->folder);

        mig_services_close(f->services);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        assert_int_equal(system(command), 0);
        free(f);
        return 0;
}

static bool is_answered(void *data)
{
        return ((struct fixture *)data)->is_done;
}

static void await(struct fixture *f)
{
        assert_true(loop_run_until(&f->loop, is_answered, f, 60000));
        f->is_done = false;
}

static void test_what_runs_is_stopped_and_started_again_and_nothing_else(void **state)
{
        struct fixture *f = *state;

        mig_services_stop(f->services);
        await(f);
        assert_string_equal(f->answer, "");
        assert_false(has(f, "on-nvsm") || has(f, "on-other.service"));
        mig_services_start(f->services);
        await(f);
        assert_string_equal(f->answer, "");
        assert_true(has(f, "on-nvsm") && has(f, "on-other.service") && !has(f, "on-nvidia-dcgm"));
        assert_false(has(f, "state/stopped"));
}

static void test_the_next_process_starts_what_this_one_has_stopped(void **state)
{
        struct fixture *f = *state;

        mig_services_stop(f->services);
        await(f);
        mig_services_close(f->services);
        f->services = open_services(f);
        mig_services_start(f->services);
        await(f);
        assert_true(has(f, "on-nvsm") && has(f, "on-other.service") && !has(f, "on-nvidia-dcgm"));
}

static void test_a_record_starts_nothing_that_is_not_in_the_list(void **state)
{
        struct fixture *f = *state;
        struct error err;

        assert_int_equal(file_make_folder(f->folder, &err), 0);
        mig_services_stop(f->services);
        await(f);
        put(f, "state/stopped", "evil\nnvsm\n", 0600);
        mig_services_close(f->services);
        f->services = open_services(f);
        mig_services_start(f->services);
        await(f);
        assert_true(has(f, "on-nvsm") && !has(f, "on-evil"));
}

static void test_a_service_that_does_not_stop_is_an_error_and_starts_again(void **state)
{
        struct fixture *f = *state;

        put(f, "fail-stop", "", 0644);
        mig_services_stop(f->services);
        await(f);
        assert_string_equal(f->answer, "'stop' on the host failed: no such unit ");
        mig_services_start(f->services); /* one of the two may have stopped */
        await(f);
        assert_string_equal(f->answer, "");
        assert_true(has(f, "on-nvsm") && has(f, "on-other.service"));
}

static void test_nothing_runs_if_nothing_was_stopped(void **state)
{
        struct fixture *f = *state;

        mig_services_start(f->services);
        await(f);
        assert_false(has(f, "calls"));
}

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(
                        test_what_runs_is_stopped_and_started_again_and_nothing_else, setup, teardown),
                cmocka_unit_test_setup_teardown(
                        test_the_next_process_starts_what_this_one_has_stopped, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_record_starts_nothing_that_is_not_in_the_list, setup, teardown),
                cmocka_unit_test_setup_teardown(
                        test_a_service_that_does_not_stop_is_an_error_and_starts_again, setup, teardown),
                cmocka_unit_test_setup_teardown(test_nothing_runs_if_nothing_was_stopped, setup, teardown),
        };

        if (argc > 2 && strcmp(argv[1], "nvidia-mig-manager") == 0) /* a child, as the program has it */
                mig_services_enter(argc - 2, argv + 2);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
