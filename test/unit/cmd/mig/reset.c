// SPDX-License-Identifier: Apache-2.0
/* nvidia-smi as a script in PATH. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cmd/mig/command.h"

static const char *const uuids[] = {"GPU-a", "GPU-b"};

struct rig {
        char folder[64];
        char *program;
        struct error err;
};

static void rig_init(struct rig *rig, const char *body)
{
        _free_ char *text = xasprintf("#!/bin/sh\n%s\n", body);

        *rig = (struct rig){.folder = "/dev/shm/test-mig-reset-XXXXXX"};
        assert_non_null(mkdtemp(rig->folder));
        rig->program = xasprintf("%s/nvidia-smi", rig->folder);
        assert_ok(file_write(rig->program, text, strlen(text), &rig->err), &rig->err);
        assert_int_equal(chmod(rig->program, 0755), 0);
        assert_int_equal(setenv("PATH", rig->folder, 1), 0);
}

static void rig_done(struct rig *rig)
{
        unlink(rig->program);
        rmdir(rig->folder);
        free(rig->program);
}

static int reset(struct rig *rig, int timeout_ms)
{
        return mig_reset(uuids, ARRAY_SIZE(uuids), "", timeout_ms, &rig->err);
}

static void test_all_gpus_are_reset_at_once(void **state UNUSED)
{
        struct rig rig;

        rig_init(&rig, "test \"$*\" = '--gpu-reset --id GPU-a,GPU-b'");
        assert_ok(reset(&rig, MIG_RESET_MS), &rig.err);
        rig_done(&rig);
}

static void test_a_reset_that_is_refused_is_an_error_with_the_way_out(void **state UNUSED)
{
        struct rig rig;

        rig_init(&rig, "exit 19");
        assert_int_equal(reset(&rig, MIG_RESET_MS), -1);
        assert_int_equal(rig.err.kind, ERROR_UNAVAILABLE);
        assert_non_null(strstr(rig.err.text, "nvidia-smi --gpu-reset --id GPU-a,GPU-b failed with status 19: "));
        rig_done(&rig);
}

static void test_one_that_does_not_end_is_killed(void **state UNUSED)
{
        struct rig rig;

        rig_init(&rig, "exec /bin/sleep 3600");
        assert_fails(reset(&rig, 1000), &rig.err, ERROR_TIMEOUT,
                "nvidia-smi --gpu-reset did not end within 1 s and was killed: whether the GPUs were reset is not known; reboot "
                "the node");
        rig_done(&rig);
}

static void test_without_nvidia_smi_the_way_out_is_told(void **state UNUSED)
{
        struct rig rig;

        rig_init(&rig, "");
        unlink(rig.program);
        assert_fails(reset(&rig, MIG_RESET_MS), &rig.err, ERROR_NOT_FOUND,
                "GPUs have to be reset, and nvidia-smi cannot be started: put it into PATH, or reboot the node");
        rig_done(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_gpus_are_reset_at_once),
                cmocka_unit_test(test_a_reset_that_is_refused_is_an_error_with_the_way_out),
                cmocka_unit_test(test_one_that_does_not_end_is_killed),
                cmocka_unit_test(test_without_nvidia_smi_the_way_out_is_told),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
