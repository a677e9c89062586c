/*
 * A change of geometry against the simulated driver: whatever fails, whoever is killed and whatever others do
 * meanwhile, each GPU ends as wanted or as before, and nothing of others is destroyed.
 */
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "../gpu/scenario.h"
#include "base/strbuf.h"
#include "mig/change.h"
#include "mig/profile_text.h"

#define GPUS_MAX 3U
#define WANTED_MAX 4U

/* ---- a node, and changes of it ---- */

struct rig {
        char geometry[128];  /* the simulator's file */
        char directory[128]; /* of the record: in memory, since each step waits for the disk */
        const char *driver;
        const char *gpus; /* the scenario's list of GPUs */
        char faults[256]; /* "errors: {…}" of all GPUs, or "" */
        unsigned int boots;
        unsigned int resets;
        const char *const *models; /* instead of |gpus|, each with its |n_resets|; MIG is enabled on every other one */
        unsigned int n_resets[GPUS_MAX];
        struct mig_change_options options;
        struct arena arena;
        unsigned int n_reported;
        void (*on_report)(struct rig *rig); /* what somebody else does then */
        struct nvml *nvml;                  /* the test's own eyes */
};

static void rig_write_models(struct rig *rig)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, "gpus:\n");
        for (unsigned int i = 0; i < GPUS_MAX; i++)
                strbuf_printf(&text, "- {model: %s, uuid: GPU-%u, resets: %u%s}\n", rig->models[i], i, rig->n_resets[i],
                        i % 2 ? "" : ", mig: {enabled: true}");
        rig->gpus = arena_strdup(&rig->arena, text.data);
}

static void rig_write(struct rig *rig)
{
        if (rig->models)
                rig_write_models(rig);
        _free_ char *text = xasprintf("geometryFile: %s\ndriverVersion: %s\nboots: %u\n%s\n%s\n", rig->geometry,
                rig->driver, rig->boots, rig->faults, rig->gpus);

        scenario_write(text);
}

static void rig_faults(struct rig *rig, const char *faults)
{
        snprintf(rig->faults, sizeof(rig->faults), "%s", faults);
        rig_write(rig);
}

static void on_report(const char *step UNUSED, void *data)
{
        struct rig *rig = data;

        rig->n_reported++;
        if (rig->on_report)
                rig->on_report(rig);
}

static void rig_init_driver(struct rig *rig, const char *driver, const char *gpus)
{
        struct error err;

        *rig = (struct rig){.driver = driver, .gpus = gpus};
        snprintf(rig->geometry, sizeof(rig->geometry), "%s/geometry", scenario_folder);
        snprintf(rig->directory, sizeof(rig->directory), "/dev/shm%s", strrchr(scenario_folder, '/'));
        rig->options = (struct mig_change_options){.directory = rig->directory,
                .library = scenario_library(),
                .driver_root = "",
                .boot_id = "boot-0",
                .report = on_report,
                .data = rig};
        unlink(rig->geometry);
        rig_write(rig);
        assert_ok(nvml_open(&rig->nvml, scenario_library(), "", &err), &err);
}

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

static void rig_init(struct rig *rig, const char *gpus)
{
        rig_init_driver(rig, "550.163.01", gpus);
}

static void rig_done(struct rig *rig)
{
        _free_ char *record = xasprintf("%s/" MIG_RECORD_NAME, rig->directory);

        nvml_close(rig->nvml);
        arena_done(&rig->arena);
        unlink(rig->geometry);
        unlink(record);
        rmdir(rig->directory);
}

static void rig_read(struct rig *rig, struct mig_node *ret)
{
        struct error err;

        assert_ok(mig_node_read(ret, &rig->arena, rig->nvml, &err), &err);
        for (size_t i = 0; i < ret->n_gpus; i++)
                assert_null(ret->gpus[i].problem);
}

static bool rig_has_record(const struct rig *rig)
{
        _free_ char *record = xasprintf("%s/" MIG_RECORD_NAME, rig->directory);

        return access(record, F_OK) == 0;
}

/* "on 3g.40gb@4[3 MIG-…] 1g.10gb@0[1 MIG-…]", by profile and place; without UUIDs where they do not matter. */
static const char *describe_gpu(struct arena *arena, const struct mig_node_gpu *gpu, bool has_uuids)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, gpu->geometry.is_enabled ? "on" : "off");
        for (unsigned int start = 0; start < 8; start++) {
                for (size_t i = 0; i < gpu->geometry.n_instances; i++) {
                        const struct mig_gpu_instance *instance = &gpu->geometry.instances[i];

                        if (instance->placement.start != start)
                                continue;
                        strbuf_printf(&text, " %s@%u[", instance->profile->name, start);
                        for (size_t j = 0; j < instance->n_devices; j++)
                                strbuf_printf(&text, "%s%u%s%s", j ? " " : "", instance->devices[j].slices,
                                        has_uuids ? " " : "", has_uuids ? instance->devices[j].uuid : "");
                        strbuf_putc(&text, ']');
                }
        }
        return arena_strdup(arena, text.data);
}

/* What |plan| makes of a GPU, in the same words. */
static const char *describe_wanted(struct arena *arena, const struct mig_plan_gpu *plan)
{
        struct mig_gpu_instance instances[16];
        struct mig_gpu_device devices[16];
        struct mig_node_gpu gpu = {.geometry = {.is_enabled = plan->wanted->is_enabled, .instances = instances}};

        for (size_t i = 0; i < plan->n_stays; i++)
                instances[gpu.geometry.n_instances++] = *plan->stays[i];
        for (size_t i = 0; i < plan->n_made; i++) {
                size_t at = gpu.geometry.n_instances++;

                instances[at] = (struct mig_gpu_instance){
                        .profile = mig_profile_text_find(&plan->gpu->geometry, plan->made[i].profile),
                        .placement = {.start = plan->made[i].start},
                        .devices = &devices[at],
                        .n_devices = 1};
                devices[at] = (struct mig_gpu_device){"", 0, instances[at].profile->slices};
        }
        return describe_gpu(arena, &gpu, false);
}

static int rig_apply(struct rig *rig, const struct mig_plan *plan, enum mig_change_end *end, struct error *err)
{
        struct mig_change change;
        int rc;

        assert_ok(mig_change_open(&change, &rig->options, err), err);
        rc = mig_change_apply(&change, plan, "test", end, err);
        mig_change_close(&change);
        return rc;
}

static int rig_resume(struct rig *rig, enum mig_change_end *end, struct error *err)
{
        struct mig_change change;
        int rc;

        assert_ok(mig_change_open(&change, &rig->options, err), err);
        rc = mig_change_resume(&change, end, err);
        mig_change_close(&change);
        return rc;
}

static void rig_plan(struct rig *rig, struct mig_plan *plan, const struct mig_wanted *wanted)
{
        struct mig_node *node = ARENA_NEW(&rig->arena, struct mig_node);

        rig_read(rig, node);
        mig_plan_build(plan, &rig->arena, node, wanted);
}

/* Makes an instance as another program does. */
static int rig_make(struct rig *rig, const char *uuid, const char *profile, unsigned int start)
{
        struct mig_geometry geometry;
        struct mig_gpu gpu;
        struct error err;
        unsigned int id;

        if (mig_gpu_open(&gpu, rig->nvml, uuid, &err) < 0 || mig_instances_read(&geometry, &rig->arena, &gpu, &err) < 0)
                return -1;
        return mig_instances_create(&gpu, mig_profile_text_find(&geometry, profile), start, &id, &err);
}

static void assert_gpu(struct rig *rig, size_t at, const char *expected)
{
        struct mig_node node;

        rig_read(rig, &node);
        assert_string_equal(describe_gpu(&rig->arena, &node.gpus[at], false), expected);
}

/* ---- sentences ---- */

#define H100_ON "gpus: [{model: H100-80GB, uuid: GPU-1, mig: {enabled: true}}]"
#define WANTS(...)                                                                                                     \
        {                                                                                                              \
                .is_named = true, .is_enabled = true, .counts = (const struct mig_wanted_count[]){__VA_ARGS__},        \
                .n_counts = sizeof((struct mig_wanted_count[]){__VA_ARGS__}) / sizeof(struct mig_wanted_count)         \
        }

static void test_what_is_wanted_is_made_and_no_record_is_left(void **state UNUSED)
{
        const struct mig_wanted wanted[] = {WANTS({"3g.40gb", 1}, {"1g.10gb", 2})};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct error err;

        rig_init(&rig, H100_ON);
        rig_plan(&rig, &plan, wanted);
        assert_ok(rig_apply(&rig, &plan, &end, &err), &err);
        assert_int_equal(end, MIG_CHANGE_DONE);
        assert_gpu(&rig, 0, "on 1g.10gb@0[1] 1g.10gb@1[1] 3g.40gb@4[3]");
        assert_false(rig_has_record(&rig));
        rig_plan(&rig, &plan, wanted);
        assert_ok(rig_apply(&rig, &plan, &end, &err), &err);
        assert_int_equal(end, MIG_CHANGE_NONE);
        assert_ok(rig_resume(&rig, &end, &err), &err);
        assert_int_equal(end, MIG_CHANGE_NONE);
}

static void test_a_mode_that_changes_at_once_is_changed_and_taken_back(void **state UNUSED)
{
        const struct mig_wanted wanted[] = {WANTS({"7g.80gb", 1})};
        const struct mig_wanted off[] = {{.is_named = true}};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct error err;

        rig_init(&rig, "gpus: [{model: H100-80GB, uuid: GPU-1}]");
        rig_faults(&rig, "errors: {nvmlDeviceCreateGpuInstanceWithPlacement: UNKNOWN}");
        rig_plan(&rig, &plan, wanted);
        assert_int_equal(rig_apply(&rig, &plan, &end, &err), -1);
        assert_non_null(strstr(err.text, "the geometry is as before: GPU GPU-1: create 7g.80gb at 0: "));
        assert_gpu(&rig, 0, "off");
        rig_faults(&rig, "");
        assert_ok(rig_apply(&rig, &plan, &end, &err), &err);
        assert_gpu(&rig, 0, "on 7g.80gb@0[7]");
        rig_plan(&rig, &plan, off);
        assert_ok(rig_apply(&rig, &plan, &end, &err), &err);
        assert_gpu(&rig, 0, "off");
}

static int reset_by_scenario(const char *const *uuids, size_t n_uuids, void *data, struct error *err UNUSED)
{
        struct rig *rig = data;

        assert_int_equal(n_uuids, 1);
        assert_string_equal(uuids[0], "GPU-1");
        rig->resets++;
        rig->gpus = "gpus: [{model: A100-40GB, uuid: GPU-1, resets: 1}]";
        rig_write(rig);
        return 0;
}

static int reset_in_vain(const char *const *uuids UNUSED, size_t n_uuids UNUSED, void *data UNUSED, struct error *err)
{
        return error_set(err, ERROR_UNAVAILABLE, "nvidia-smi: the GPU is in use");
}

static void test_a_mode_that_needs_a_reset_is_refused_before_anything_is_touched(void **state UNUSED)
{
        const struct mig_wanted wanted[] = {WANTS({"7g.40gb", 1})};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct mig_node node;
        struct error err;

        rig_init(&rig, "gpus: [{model: A100-40GB, uuid: GPU-1}]");
        rig_plan(&rig, &plan, wanted);
        assert_fails(rig_apply(&rig, &plan, &end, &err), &err, ERROR_UNAVAILABLE,
                "GPU 0 (GPU-1): MIG becomes enabled only by a reset or a reboot, and neither is allowed (--mode-change)");
        rig_read(&rig, &node);
        assert_false(node.gpus[0].geometry.is_pending_enabled);
        assert_false(rig_has_record(&rig));
}

static void test_a_reset_that_is_allowed_makes_the_mode_current(void **state UNUSED)
{
        const struct mig_wanted wanted[] = {WANTS({"7g.40gb", 1})};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct error err;

        rig_init(&rig, "gpus: [{model: A100-40GB, uuid: GPU-1}]");
        rig.options.reset = reset_by_scenario;
        rig_plan(&rig, &plan, wanted);
        assert_ok(rig_apply(&rig, &plan, &end, &err), &err);
        assert_int_equal(end, MIG_CHANGE_DONE);
        assert_int_equal(rig.resets, 1);
        assert_gpu(&rig, 0, "on 7g.40gb@0[7]");
}

static void test_a_reset_that_fails_leaves_the_mode_as_it_was(void **state UNUSED)
{
        const struct mig_wanted wanted[] = {WANTS({"7g.40gb", 1})};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct mig_node node;
        struct error err;

        rig_init(&rig, "gpus: [{model: A100-40GB, uuid: GPU-1}]");
        rig.options.reset = reset_in_vain;
        rig_plan(&rig, &plan, wanted);
        assert_fails(rig_apply(&rig, &plan, &end, &err), &err, ERROR_UNAVAILABLE,
                "the geometry is as before: nvidia-smi: the GPU is in use");
        rig_read(&rig, &node);
        assert_false(node.gpus[0].geometry.is_enabled);
        assert_false(node.gpus[0].geometry.is_pending_enabled);
        assert_false(rig_has_record(&rig));
}

static int reset_without_effect(
        const char *const *uuids UNUSED, size_t n_uuids UNUSED, void *data UNUSED, struct error *err UNUSED)
{
        return 0;
}

static void test_a_reset_without_effect_is_noticed(void **state UNUSED)
{
        const struct mig_wanted wanted[] = {WANTS({"7g.40gb", 1})};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct error err;

        rig_init(&rig, "gpus: [{model: A100-40GB, uuid: GPU-1}]");
        rig.options.reset = reset_without_effect;
        rig_plan(&rig, &plan, wanted);
        assert_fails(rig_apply(&rig, &plan, &end, &err), &err, ERROR_UNAVAILABLE,
                "the geometry is as before: GPU GPU-1: MIG is disabled, although the GPU was reset");
        rig.options.may_wait = true;
        assert_ok(rig_apply(&rig, &plan, &end, &err), &err);
        assert_int_equal(end, MIG_CHANGE_WAITS);
        assert_true(rig_has_record(&rig));
}

static void test_a_mode_waits_for_the_reboot_and_the_rest_is_made_after_it(void **state UNUSED)
{
        const struct mig_wanted wanted[] = {WANTS({"7g.40gb", 1}), WANTS({"3g.40gb", 2}), WANTS({"4g.24gb", 1})};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct error err;

        rig_init(&rig,
                "gpus: [{model: A100-40GB, uuid: GPU-1}, {model: H100-80GB, uuid: GPU-2, mig: {devices: [{profile: "
                "1g.10gb}]}}, {model: A30, uuid: GPU-3, mig: {devices: [{profile: 4g.24gb}]}}]");
        rig.options.may_wait = true;
        rig_plan(&rig, &plan, wanted);
        assert_ok(rig_apply(&rig, &plan, &end, &err), &err);
        assert_int_equal(end, MIG_CHANGE_WAITS);
        assert_gpu(&rig, 1, "on 1g.10gb@6[1]"); /* not touched before the reboot */
        assert_ok(rig_resume(&rig, &end, &err), &err);
        assert_int_equal(end, MIG_CHANGE_WAITS);
        rig.boots = 1;
        rig_write(&rig);
        rig.options.boot_id = "boot-1";
        rig.options.may_wait = false;
        assert_ok(rig_resume(&rig, &end, &err), &err);
        assert_int_equal(end, MIG_CHANGE_DONE);
        assert_gpu(&rig, 0, "on 7g.40gb@0[7]");
        assert_gpu(&rig, 1, "on 3g.40gb@0[3] 3g.40gb@4[3]");
        assert_gpu(&rig, 2, "on 4g.24gb@0[4]"); /* it changed nothing, and a reboot ends it as well */
        assert_false(rig_has_record(&rig));
}

static void test_a_mode_that_waits_is_given_up(void **state UNUSED)
{
        const struct mig_wanted wanted[] = {WANTS({"7g.40gb", 1})};
        _cleanup_(rig_done) struct rig rig;
        struct mig_change change;
        enum mig_change_end end;
        struct mig_plan plan;
        struct mig_node node;
        struct error err;

        rig_init(&rig, "gpus: [{model: A100-40GB, uuid: GPU-1}]");
        rig.options.may_wait = true;
        rig_plan(&rig, &plan, wanted);
        assert_ok(rig_apply(&rig, &plan, &end, &err), &err);
        assert_ok(mig_change_open(&change, &rig.options, &err), &err);
        assert_ok(mig_change_undo(&change, &end, &err), &err);
        mig_change_close(&change);
        assert_int_equal(end, MIG_CHANGE_UNDONE);
        rig_read(&rig, &node);
        assert_false(node.gpus[0].geometry.is_pending_enabled);
        assert_false(rig_has_record(&rig));
}

static void test_an_old_driver_says_its_profiles_when_mig_is_enabled_and_what_does_not_fit_is_taken_back(
        void **state UNUSED)
{
        const struct mig_wanted good[] = {WANTS({"3g.40gb", 1}, {"1g.10gb", 2})};
        const struct mig_wanted bad[] = {WANTS({"3g.40gb", 3})};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct error err;

        rig_init_driver(&rig, "535.261.03", "gpus: [{model: H100-80GB, uuid: GPU-1}]");
        rig_plan(&rig, &plan, bad);
        assert_int_equal(plan.gpus[0].made[0].start, MIG_START_UNKNOWN);
        assert_int_equal(rig_apply(&rig, &plan, &end, &err), -1);
        assert_string_equal(err.text,
                "the geometry is as before: GPU GPU-1: 3 of 3g.40gb do not fit: at most 2 of 3g.40gb fit on this GPU; "
                "this would fit: 2 of 3g.40gb");
        assert_gpu(&rig, 0, "off");
        rig_plan(&rig, &plan, good);
        assert_ok(rig_apply(&rig, &plan, &end, &err), &err);
        assert_gpu(&rig, 0, "on 1g.10gb@0[1] 1g.10gb@1[1] 3g.40gb@4[3]");
}

static void test_what_a_process_holds_is_named_before_anything_is_touched(void **state UNUSED)
{
        const struct mig_wanted wanted[] = {WANTS({"7g.80gb", 1}), WANTS({"7g.80gb", 1})};
        const struct mig_wanted off[] = {{.is_named = true}, {.is_named = true}};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct mig_node node;
        struct error err;
        const char *before[2];

        rig_init(&rig,
                "gpus:\n- {model: H100-80GB, uuid: GPU-1, mig: {devices: [{profile: 1g.10gb}]}}\n"
                "- {model: H100-80GB, uuid: GPU-2, mig: {devices: [{profile: 1g.10gb, start: 0, uuid: MIG-a}, {profile: "
                "3g.40gb, gi: 2, uuid: MIG-b}]}, processes: [{pid: 4711, memory: 1GiB, gi: 2, ci: 0}, {pid: 4712, "
                "memory: 1GiB, gi: 2, ci: 0, type: G}]}\n");
        rig_read(&rig, &node);
        for (size_t i = 0; i < 2; i++)
                before[i] = describe_gpu(&rig.arena, &node.gpus[i], true);
        rig_plan(&rig, &plan, wanted);
        assert_fails(rig_apply(&rig, &plan, &end, &err), &err, ERROR_UNAVAILABLE,
                "GPU 1 (GPU-2): MIG-b (3g.40gb at 4): used by processes 4711, 4712");
        rig_plan(&rig, &plan, off);
        assert_int_equal(rig_apply(&rig, &plan, &end, &err), -1);
        rig_read(&rig, &node);
        for (size_t i = 0; i < 2; i++)
                assert_string_equal(describe_gpu(&rig.arena, &node.gpus[i], true), before[i]);
        assert_int_equal(rig.n_reported, 0);
        assert_false(rig_has_record(&rig));
}

static void test_more_processes_than_are_listed_hold_a_gpu_as_well(void **state UNUSED)
{
        const struct mig_wanted wanted[] = {WANTS({"7g.80gb", 1})};
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct error err;

        strbuf_puts(&text, "gpus:\n- model: H100-80GB\n  uuid: GPU-1\n  processes:\n");
        for (unsigned int i = 0; i < 10; i++)
                strbuf_printf(&text, "  - {pid: %u, memory: 1MiB}\n", 100 + i);
        rig_init(&rig, text.data);
        rig_plan(&rig, &plan, wanted);
        assert_fails(rig_apply(&rig, &plan, &end, &err), &err, ERROR_UNAVAILABLE,
                "GPU 0 (GPU-1): its MIG mode changes: used by processes 100, 101, 102, 103, 104, 105, 106, 107, …");
        for (unsigned int i = 10; i < 65; i++)
                strbuf_printf(&text, "  - {pid: %u, memory: 1MiB}\n", 100 + i);
        rig.gpus = text.data;
        rig_write(&rig);
        assert_fails(rig_apply(&rig, &plan, &end, &err), &err, ERROR_UNAVAILABLE,
                "GPU 0 (GPU-1): its MIG mode changes: more than 64 processes use it");
}

static void test_a_process_holds_the_mode_of_its_gpu(void **state UNUSED)
{
        const struct mig_wanted wanted[] = {WANTS({"7g.80gb", 1})};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct error err;

        rig_init(&rig, "gpus: [{model: H100-80GB, uuid: GPU-1, processes: [{pid: 4711, memory: 1GiB, type: M+C}]}]");
        rig_plan(&rig, &plan, wanted);
        assert_fails(rig_apply(&rig, &plan, &end, &err), &err, ERROR_UNAVAILABLE,
                "GPU 0 (GPU-1): its MIG mode changes: used by process 4711");
}

static void test_an_instance_that_appeared_since_the_plan_is_left_and_ends_the_change(void **state UNUSED)
{
        const struct mig_wanted wanted[] = {WANTS({"3g.40gb", 1})};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct error err;

        rig_init(&rig, H100_ON);
        rig_plan(&rig, &plan, wanted);
        assert_int_equal(rig_make(&rig, "GPU-1", "1g.10gb", 6), 0);
        assert_fails(rig_apply(&rig, &plan, &end, &err), &err, ERROR_UNAVAILABLE,
                "GPU GPU-1: somebody else made 1g.10gb at 6 since this change was planned: it is left; destroy it "
                "('nvidia-smi mig -dci', then '-dgi -gi 13') or plan again");
        assert_gpu(&rig, 0, "on 1g.10gb@6[1]");
        assert_false(rig_has_record(&rig));
}

static void make_in_the_way(struct rig *rig)
{
        (void)!rig_make(rig, "GPU-1", "1g.10gb", 5);
}

/* It stands where an instance of before was: that cannot be made again until somebody destroys it. */
static void test_what_others_make_meanwhile_is_never_destroyed_even_to_undo(void **state UNUSED)
{
        const struct mig_wanted wanted[] = {WANTS({"4g.40gb", 1}, {"1g.10gb", 1}, {"2g.20gb", 1})};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct mig_node node;
        struct mig_gpu gpu;
        struct error err;

        rig_init(&rig, "gpus: [{model: H100-80GB, uuid: GPU-1, mig: {devices: [{profile: 3g.40gb, start: 4}]}}]");
        rig.on_report = make_in_the_way;
        rig_plan(&rig, &plan, wanted);
        assert_int_equal(rig_apply(&rig, &plan, &end, &err), -1);
        assert_non_null(strstr(err.text, "not undone yet ('warpshare mig apply --resume' tries again): "));
        assert_gpu(&rig, 0, "on 1g.10gb@5[1]");
        assert_true(rig_has_record(&rig));
        rig.on_report = NULL;
        rig_read(&rig, &node);
        assert_ok(mig_gpu_open(&gpu, rig.nvml, "GPU-1", &err), &err);
        assert_ok(mig_instances_destroy(&gpu, &node.gpus[0].geometry.instances[0], &err), &err);
        assert_ok(rig_resume(&rig, &end, &err), &err);
        assert_int_equal(end, MIG_CHANGE_UNDONE);
        assert_gpu(&rig, 0, "on 3g.40gb@4[3]");
}

static void test_a_gpu_that_left_the_node_holds_nothing_up(void **state UNUSED)
{
        const struct mig_wanted wanted[] = {WANTS({"7g.80gb", 1}), WANTS({"7g.80gb", 1})};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct error err;

        rig_init(&rig,
                "gpus: [{model: H100-80GB, uuid: GPU-1, mig: {enabled: true}}, {model: H100-80GB, uuid: GPU-2, mig: "
                "{enabled: true}}]");
        rig_faults(&rig,
                "errors: {nvmlDeviceCreateGpuInstanceWithPlacement: {error: UNKNOWN, after: 1}, nvmlGpuInstanceDestroy: "
                "UNKNOWN}");
        rig_plan(&rig, &plan, wanted);
        assert_int_equal(rig_apply(&rig, &plan, &end, &err), -1);
        assert_true(rig_has_record(&rig));
        rig.gpus = "gpus: [{model: H100-80GB, uuid: GPU-1, mig: {enabled: true}}]";
        nvml_close(rig.nvml);
        rig_faults(&rig, "");
        assert_ok(nvml_open(&rig.nvml, scenario_library(), "", &err), &err);
        assert_ok(rig_resume(&rig, &end, &err), &err);
        assert_int_equal(end, MIG_CHANGE_UNDONE);
        assert_gpu(&rig, 0, "on");
        assert_false(rig_has_record(&rig));
}

static void test_two_do_not_change_a_node_at_once(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        struct mig_change change;
        struct mig_change other;
        struct error err;

        rig_init(&rig, H100_ON);
        assert_ok(mig_change_open(&change, &rig.options, &err), &err);
        assert_int_equal(mig_change_open(&other, &rig.options, &err), MIG_CHANGE_BUSY);
        mig_change_close(&change);
        assert_int_equal(mig_change_open(&other, &rig.options, &err), 0);
        mig_change_close(&other);
}

/* What somebody split is split again, though nobody here ever makes such an instance. */
static void test_a_split_instance_comes_back_as_it_was(void **state UNUSED)
{
        const struct mig_wanted wanted[] = {WANTS({"7g.40gb", 1})};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct error err;

        rig_init(&rig,
                "gpus: [{model: A100-40GB, uuid: GPU-1, mig: {devices: [{profile: 1c.3g.20gb, gi: 2}, {profile: 2c.3g.20gb, "
                "gi: 2}, {profile: 1g.5gb, start: 0}]}}]");
        rig_faults(&rig, "errors: {nvmlDeviceCreateGpuInstanceWithPlacement: {error: UNKNOWN, times: 1}}");
        rig_plan(&rig, &plan, wanted);
        assert_int_equal(rig_apply(&rig, &plan, &end, &err), -1);
        assert_non_null(strstr(err.text, "the geometry is as before"));
        assert_gpu(&rig, 0, "on 1g.5gb@0[1] 3g.20gb@4[1 2]");
        assert_false(rig_has_record(&rig));
}

/* The driver lists compute instances in an order of its own: one that is complete is not made anew. */
static void test_a_split_instance_is_complete_in_whatever_order_its_parts_are_listed(void **state UNUSED)
{
        struct mig_record_item item = {.profile = "3g.20gb",
                .start = 4,
                .is_before = true,
                .state = MIG_RECORD_MAKING,
                .devices = {{"", 2}, {"", 1}},
                .n_devices = 2};
        struct mig_record_gpu gpu = {.uuid = "GPU-1",
                .changes = true,
                .is_enabled_before = true,
                .is_enabled_after = true,
                .items = &item,
                .n_items = 1};
        const struct mig_record record = {
                .boot_id = "boot-0", .config = "test", .goal = MIG_RECORD_BEFORE, .gpus = &gpu, .n_gpus = 1};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_node node;
        struct error err;

        rig_init(&rig,
                "gpus: [{model: A100-40GB, uuid: GPU-1, mig: {devices: [{profile: 1c.3g.20gb, gi: 2, uuid: MIG-a}, "
                "{profile: 2c.3g.20gb, gi: 2, uuid: MIG-b}]}}]");
        _free_ char *path = xasprintf("%s/" MIG_RECORD_NAME, rig.directory);

        assert_ok(file_make_folder(rig.directory, &err), &err);
        assert_ok(mig_record_write(&record, path, &err), &err);
        assert_ok(rig_resume(&rig, &end, &err), &err);
        assert_int_equal(end, MIG_CHANGE_UNDONE);
        rig_read(&rig, &node);
        assert_string_equal(describe_gpu(&rig.arena, &node.gpus[0], true), "on 3g.20gb@4[1 MIG-a 2 MIG-b]");
}

/* Between the kill and the resumption the node got another driver, in whose words a GB200's seventh is 1g.23gb. */
static void test_a_profile_that_has_another_name_by_now_is_made(void **state UNUSED)
{
        struct mig_record_item item = {
                .profile = "1g.24gb", .start = 3, .is_after = true, .devices = {{"", 1}}, .n_devices = 1};
        struct mig_record_gpu gpu = {
                .uuid = "GPU-1", .changes = true, .is_enabled_after = true, .items = &item, .n_items = 1};
        const struct mig_record record = {.boot_id = "boot-before", .config = "test", .gpus = &gpu, .n_gpus = 1};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct error err;

        rig_init(&rig, "gpus: [{model: GB200, uuid: GPU-1}]");
        _free_ char *path = xasprintf("%s/" MIG_RECORD_NAME, rig.directory);

        assert_ok(file_make_folder(rig.directory, &err), &err);
        assert_ok(mig_record_write(&record, path, &err), &err);
        assert_ok(rig_resume(&rig, &end, &err), &err);
        assert_int_equal(end, MIG_CHANGE_DONE);
        assert_gpu(&rig, 0, "on 1g.23gb@3[1]");
}

/* ---- any sequence ---- */

static uint32_t pick(uint32_t *seed, size_t below)
{
        *seed = *seed * 1664525 + 1013904223;
        return (uint32_t)((*seed >> 8) % below);
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
                                counts[wanted[i].n_counts++] = (struct mig_wanted_count){
                                        geometry->profiles[pick(seed, geometry->n_profiles)].name, 1};
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
                mig_instances_create(&gpu, profile, start, &id, &err) < 0 ||
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
                cmocka_unit_test(test_what_is_wanted_is_made_and_no_record_is_left),
                cmocka_unit_test(test_a_mode_that_changes_at_once_is_changed_and_taken_back),
                cmocka_unit_test(test_a_mode_that_needs_a_reset_is_refused_before_anything_is_touched),
                cmocka_unit_test(test_a_reset_that_is_allowed_makes_the_mode_current),
                cmocka_unit_test(test_a_reset_that_fails_leaves_the_mode_as_it_was),
                cmocka_unit_test(test_a_reset_without_effect_is_noticed),
                cmocka_unit_test(test_a_mode_waits_for_the_reboot_and_the_rest_is_made_after_it),
                cmocka_unit_test(test_a_mode_that_waits_is_given_up),
                cmocka_unit_test(
                        test_an_old_driver_says_its_profiles_when_mig_is_enabled_and_what_does_not_fit_is_taken_back),
                cmocka_unit_test(test_what_a_process_holds_is_named_before_anything_is_touched),
                cmocka_unit_test(test_more_processes_than_are_listed_hold_a_gpu_as_well),
                cmocka_unit_test(test_a_process_holds_the_mode_of_its_gpu),
                cmocka_unit_test(test_an_instance_that_appeared_since_the_plan_is_left_and_ends_the_change),
                cmocka_unit_test(test_what_others_make_meanwhile_is_never_destroyed_even_to_undo),
                cmocka_unit_test(test_a_gpu_that_left_the_node_holds_nothing_up),
                cmocka_unit_test(test_two_do_not_change_a_node_at_once),
                cmocka_unit_test(test_a_split_instance_comes_back_as_it_was),
                cmocka_unit_test(test_a_split_instance_is_complete_in_whatever_order_its_parts_are_listed),
                cmocka_unit_test(test_a_profile_that_has_another_name_by_now_is_made),
                cmocka_unit_test(test_any_sequence_ends_as_wanted_or_as_before_whatever_call_fails),
                cmocka_unit_test(test_who_is_killed_at_any_step_is_resumed_after_a_reboot_as_well),
                cmocka_unit_test(test_nothing_that_another_program_makes_meanwhile_is_destroyed),
        };

        return cmocka_run_group_tests_name("mig/change", tests, scenario_setup, scenario_teardown);
}
