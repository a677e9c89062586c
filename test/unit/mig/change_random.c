// SPDX-License-Identifier: Apache-2.0
/*
 * Any sequence of changes against the simulated driver: whatever fails, whoever is killed and whatever others do
 * meanwhile, each GPU ends as wanted or as before, and nothing of others is destroyed.
 */
#include "change_rig.h"

#include <signal.h>
#include <sys/wait.h>

#include "mig/profile_text.h"

#define WANTED_MAX 4U

static int reset_models(const char *const *uuids, size_t n_uuids, void *data, struct error *err UNUSED)
{
        struct rig *rig = data;

        for (size_t i = 0; i < n_uuids; i++)
                rig->n_resets[uuids[i][strlen("GPU-")] - '0']++;
        rig_write(rig);
        return 0;
}

static void rig_init_models(struct rig *rig, const char *const models[GPUS_MAX])
{
        rig_init_driver(rig, "550.163.01", "");
        nvml_close(rig->nvml);
        rig->models = models;
        rig->options.reset = reset_models;
        rig_write(rig);
        assert_int_equal(nvml_open(&rig->nvml, scenario_library(), "", &(struct error){0}), 0);
}

/* What |plan| makes of a GPU, in the same words. */
static const char *describe_wanted(struct arena *arena, const struct mig_plan_gpu *plan)
{
        struct mig_gpu_instance instances[16];
        struct mig_gpu_device devices[16][MIG_SHAPE_SLICES];
        struct mig_node_gpu gpu = {.geometry = {.is_enabled = plan->wanted->is_enabled, .instances = instances}};

        for (size_t i = 0; i < plan->n_stays; i++)
                instances[gpu.geometry.n_instances++] = *plan->stays[i];
        for (size_t i = 0; i < plan->n_made; i++) {
                size_t at = gpu.geometry.n_instances++;

                instances[at] = (struct mig_gpu_instance){
                        .profile = mig_profile_text_find(&plan->gpu->geometry, plan->made[i].profile),
                        .placement = {.start = plan->made[i].start},
                        .devices = devices[at],
                        .n_devices = MAX(plan->made[i].shape.n_computes, 1U)};
                devices[at][0] = (struct mig_gpu_device){"", 0, instances[at].profile->slices};
                for (size_t j = 0; j < plan->made[i].shape.n_computes; j++)
                        devices[at][j] = (struct mig_gpu_device){"", 0, plan->made[i].shape.computes[j]};
        }
        return describe_gpu(arena, &gpu, false);
}

static uint32_t pick(uint32_t *seed, size_t below)
{
        *seed = *seed * 1664525 + 1013904223;
        return (uint32_t)((*seed >> 8) % below);
}

/* A whole instance, or a part of one or several. */
static struct mig_wanted_count want_one(const struct mig_gpu_profile *profile, uint32_t *seed)
{
        struct mig_wanted_count count = {profile->name, 1, 0};

        if (profile->slices > 1 && pick(seed, 2) == 0)
                count = (struct mig_wanted_count){
                        profile->name, 1 + pick(seed, 3), 1 + pick(seed, MIN(profile->slices, 4U) - 1)};
        return count;
}

/* What is wanted of each GPU at random, so that it fits; a GPU may be left alone. */
static void want_randomly(struct rig *rig, struct mig_plan *plan, uint32_t *seed)
{
        struct mig_node *node = ARENA_NEW(&rig->arena, struct mig_node);
        struct mig_wanted *wanted = ARENA_ARRAY(&rig->arena, struct mig_wanted, GPUS_MAX);

        rig_read(rig, node);
        do {
                for (size_t i = 0; i < node->n_gpus; i++) {
                        const struct mig_geometry *geometry = &node->gpus[i].geometry;
                        struct mig_wanted_count *counts = ARENA_ARRAY(&rig->arena, struct mig_wanted_count, WANTED_MAX);

                        wanted[i] = (struct mig_wanted){.is_named = pick(seed, 4) != 0, .counts = counts};
                        wanted[i].is_enabled = pick(seed, 8) != 0;
                        for (size_t j = pick(seed, WANTED_MAX + 1); wanted[i].is_enabled && j > 0; j--)
                                counts[wanted[i].n_counts++] =
                                        want_one(&geometry->profiles[pick(seed, geometry->n_profiles)], seed);
                }
                mig_plan_build(plan, &rig->arena, node, wanted);
        } while (!plan->fits);
}

/* Each GPU is all as wanted or all as before; |before| with UUIDs, of those that are not to change. */
static void assert_one_or_the_other(
        struct rig *rig, const struct mig_plan *plan, const char *const before[], bool is_wanted, const char *where)
{
        struct mig_node node;

        rig_read(rig, &node);
        for (size_t i = 0; i < node.n_gpus; i++) {
                const struct mig_plan_gpu *was = &plan->gpus[i];
                const char *is = describe_gpu(&rig->arena, &node.gpus[i], !was->changes);
                const char *expected = was->changes && is_wanted ? describe_wanted(&rig->arena, was) : before[i];

                if (strcmp(is, expected) != 0)
                        fail_msg("%s, GPU %zu:\n      is %s\nexpected %s", where, i, is, expected);
                for (size_t j = 0; j < was->n_stays; j++)
                        assert_non_null(
                                strstr(describe_gpu(&rig->arena, &node.gpus[i], true), was->stays[j]->devices[0].uuid));
        }
}

static void remember(struct rig *rig, const struct mig_plan *plan, const char *before[])
{
        for (size_t i = 0; i < plan->n_gpus; i++)
                before[i] = describe_gpu(&rig->arena, plan->gpus[i].gpu, !plan->gpus[i].changes);
}

static const char *const changing_calls[] = {"nvmlDeviceSetMigMode", "nvmlDeviceCreateGpuInstanceWithPlacement",
        "nvmlGpuInstanceCreateComputeInstance", "nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy"};
static const char *const reading_calls[] = {"nvmlDeviceGetHandleByUUID", "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetGpuInstances", "nvmlGpuInstanceGetInfo",
        "nvmlDeviceGetGpuInstanceProfileInfo", "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
        "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetGpuInstanceById",
        "nvmlGpuInstanceGetComputeInstanceProfileInfo", "nvmlGpuInstanceGetComputeInstances",
        "nvmlDeviceGetComputeRunningProcesses"};

static void fault_randomly(struct rig *rig, uint32_t *seed)
{
        bool reads = pick(seed, 3) == 0;
        const char *call = reads ? reading_calls[pick(seed, ARRAY_SIZE(reading_calls))]
                                 : changing_calls[pick(seed, ARRAY_SIZE(changing_calls))];
        _free_ char *text = xasprintf("errors: {%s: {error: UNKNOWN, after: %u, times: %u}}", call,
                pick(seed, reads ? 40 : 4), pick(seed, 3)); /* 0: from then on always */

        rig_faults(rig, text);
}

/* Those of Ampere change their mode by a reset. */
static const char *const nodes[][GPUS_MAX] = {
        {"H100-80GB", "GB200", "RTX-PRO-6000"},
        {"A100-40GB", "A30", "A100-80GB"},
        {"H200", "A30", "RTX-PRO-6000"},
};

static void change_with_faults(const char *const models[GPUS_MAX], uint32_t seed, unsigned int n_ends[3])
{
        _cleanup_(rig_done) struct rig rig;

        rig_init_models(&rig, models);
        for (unsigned int i = 0; i < 60; i++) {
                _free_ char *where = xasprintf("change %u", i);
                const char *before[GPUS_MAX];
                enum mig_change_end end;
                struct mig_plan plan;
                struct error err;
                int rc;

                want_randomly(&rig, &plan, &seed);
                remember(&rig, &plan, before);
                fault_randomly(&rig, &seed);
                rc = rig_apply(&rig, &plan, &end, &err);
                rig_faults(&rig, "");
                n_ends[rc == 0 ? 0 : rig_has_record(&rig) ? 2 : 1]++;
                if (rc < 0 && rig_has_record(&rig)) {
                        assert_ok(rig_resume(&rig, &end, &err), &err);
                        assert_int_equal(end, MIG_CHANGE_UNDONE);
                }
                assert_false(rig_has_record(&rig));
                assert_one_or_the_other(&rig, &plan, before, rc == 0, where);
                arena_done(&rig.arena);
        }
}

static void test_any_sequence_ends_as_wanted_or_as_before_whatever_call_fails(void **state UNUSED)
{
        unsigned int n_ends[3] = {0};

        for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
                change_with_faults(nodes[i], (uint32_t)i + 1, n_ends);
        for (size_t i = 0; i < ARRAY_SIZE(n_ends); i++)
                assert_true(n_ends[i] > 5); /* each end was met */
}

/* 0: the child did it all; else it was killed. */
static bool apply_in_a_child_that_dies(struct rig *rig, const struct mig_plan *plan)
{
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                enum mig_change_end end;
                struct error err;

                _exit(rig_apply(rig, plan, &end, &err) == 0 ? 0 : 1);
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        return WIFSIGNALED(status);
}

static void kill_randomly(struct rig *rig, uint32_t *seed)
{
        _free_ char *text = xasprintf("errors: {%s: {kills: %s, after: %u}}",
                changing_calls[pick(seed, ARRAY_SIZE(changing_calls))], pick(seed, 2) ? "before" : "after",
                pick(seed, 2));

        rig_faults(rig, text);
}

static void reboot(struct rig *rig, unsigned int count)
{
        rig->boots++;
        rig->options.boot_id = arena_printf(&rig->arena, "reboot-%u", count);
        rig_write(rig);
}

static void assert_all_as_wanted(struct rig *rig, const struct mig_plan *plan)
{
        struct mig_node node;

        rig_read(rig, &node);
        for (size_t i = 0; i < node.n_gpus; i++) {
                if (!plan->gpus[i].wanted->is_named)
                        continue;
                assert_string_equal(
                        describe_gpu(&rig->arena, &node.gpus[i], false), describe_wanted(&rig->arena, &plan->gpus[i]));
        }
}

static void test_who_is_killed_at_any_step_is_resumed_after_a_reboot_as_well(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        unsigned int n_killed = 0;
        unsigned int n_rebooted = 0;
        uint32_t seed = 2;

        rig_init_models(&rig, nodes[0]);
        for (unsigned int i = 0; i < 90; i++) {
                _free_ char *where = xasprintf("change %u", i);
                const char *before[GPUS_MAX];
                enum mig_change_end end;
                struct mig_plan plan;
                struct error err;
                bool is_killed;

                want_randomly(&rig, &plan, &seed);
                remember(&rig, &plan, before);
                kill_randomly(&rig, &seed);
                is_killed = apply_in_a_child_that_dies(&rig, &plan);
                rig_faults(&rig, "");
                n_killed += is_killed;
                if (is_killed && pick(&seed, 4) == 0) {
                        n_rebooted++;
                        reboot(&rig, i);
                        assert_ok(rig_resume(&rig, &end, &err), &err);
                        assert_all_as_wanted(&rig, &plan);
                        rig.options.boot_id = "boot-0";
                        arena_done(&rig.arena);
                        continue;
                }
                assert_ok(rig_resume(&rig, &end, &err), &err);
                assert_int_equal(end, is_killed ? MIG_CHANGE_DONE : MIG_CHANGE_NONE);
                assert_false(rig_has_record(&rig));
                assert_one_or_the_other(&rig, &plan, before, true, where);
                arena_done(&rig.arena);
        }
        assert_true(n_killed > 30);
        assert_true(n_rebooted > 5);
}

/* Another program that makes an instance at a random place of a random GPU at a random step. */
static struct {
        uint32_t seed;
        unsigned int at;
        char uuid[48]; /* of what it made */
} other;

/* Notes its UUID, if it can be made and looked at in spite of the faults. */
static void make_there(struct rig *rig, const char *uuid, const struct mig_gpu_profile *profile, unsigned int start)
{
        struct mig_geometry geometry;
        struct mig_gpu gpu;
        struct error err;
        unsigned int id;

        if (mig_gpu_open(&gpu, rig->nvml, uuid, &err) < 0 ||
                mig_instances_create(&gpu, profile, start, &profile->slices, 1, &id, &err) < 0 ||
                mig_instances_read(&geometry, &rig->arena, &gpu, &err) < 0)
                return;
        for (size_t i = 0; i < geometry.n_instances; i++)
                if (geometry.instances[i].id == id && geometry.instances[i].n_devices)
                        snprintf(other.uuid, sizeof(other.uuid), "%s", geometry.instances[i].devices[0].uuid);
}

static void make_randomly(struct rig *rig)
{
        struct mig_node node;
        const struct mig_node_gpu *gpu;
        struct error err;

        if (other.at-- != 0 || mig_node_read(&node, &rig->arena, rig->nvml, &err) < 0)
                return;
        gpu = &node.gpus[pick(&other.seed, node.n_gpus)];
        for (size_t i = 0; i < 20 && !gpu->problem && gpu->geometry.is_enabled && !*other.uuid; i++) {
                const struct mig_gpu_profile *profile =
                        &gpu->geometry.profiles[pick(&other.seed, gpu->geometry.n_profiles)];

                make_there(
                        rig, gpu->uuid, profile, profile->placements[pick(&other.seed, profile->n_placements)].start);
        }
}

static unsigned int change_beside_another(const char *const models[GPUS_MAX], uint32_t seed)
{
        _cleanup_(rig_done) struct rig rig;
        unsigned int n_made = 0;

        rig_init_models(&rig, models);
        other.seed = seed + 1;
        for (unsigned int i = 0; i < 50; i++) {
                enum mig_change_end end;
                struct mig_plan plan;
                struct mig_node node;
                struct error err;
                int rc;

                want_randomly(&rig, &plan, &seed);
                fault_randomly(&rig, &seed);
                rig.on_report = make_randomly;
                other.at = pick(&seed, 6);
                other.uuid[0] = '\0';
                rc = rig_apply(&rig, &plan, &end, &err);
                rig_faults(&rig, "");
                if (rc < 0 && rig_has_record(&rig))
                        (void)!rig_resume(&rig, &end, &err);
                rig.on_report = NULL;
                if (*other.uuid) {
                        bool is_there = false;

                        n_made++;
                        rig_read(&rig, &node);
                        for (size_t j = 0; j < node.n_gpus; j++)
                                is_there =
                                        is_there || strstr(describe_gpu(&rig.arena, &node.gpus[j], true), other.uuid);
                        assert_true(is_there);
                }
                /* What could not be undone waits for whoever ends what is in the way: here the node begins anew. */
                _free_ char *record = xasprintf("%s/" MIG_RECORD_NAME, rig.directory);

                unlink(record);
                arena_done(&rig.arena);
        }
        return n_made;
}

static void test_nothing_that_another_program_makes_meanwhile_is_destroyed(void **state UNUSED)
{
        unsigned int n_made = 0;

        for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
                n_made += change_beside_another(nodes[i], (uint32_t)i + 10);
        assert_true(n_made > 30);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_any_sequence_ends_as_wanted_or_as_before_whatever_call_fails),
                cmocka_unit_test(test_who_is_killed_at_any_step_is_resumed_after_a_reboot_as_well),
                cmocka_unit_test(test_nothing_that_another_program_makes_meanwhile_is_destroyed),
        };

        return cmocka_run_group_tests_name("mig/change_random", tests, scenario_setup, scenario_teardown);
}
