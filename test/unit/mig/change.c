// SPDX-License-Identifier: Apache-2.0
/*
 * A change of geometry against the simulated driver, step by step: what is made, taken back, waited for and left.
 */
#include "change_rig.h"

#include "mig/profile_text.h"

static void rig_init(struct rig *rig, const char *gpus)
{
        rig_init_driver(rig, "550.163.01", gpus);
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
        const struct mig_gpu_profile *of;
        struct mig_geometry geometry;
        struct mig_gpu gpu;
        struct error err;
        unsigned int id;

        if (mig_gpu_open(&gpu, rig->nvml, uuid, &err) < 0 || mig_instances_read(&geometry, &rig->arena, &gpu, &err) < 0)
                return -1;
        of = mig_profile_text_find(&geometry, profile);
        return mig_instances_create(&gpu, of, start, &of->slices, 1, &id, &err);
}

static void assert_gpu(struct rig *rig, size_t at, const char *expected)
{
        struct mig_node node;

        rig_read(rig, &node);
        assert_string_equal(describe_gpu(&rig->arena, &node.gpus[at], false), expected);
}

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
        assert_ok(mig_change_resume(&change, true, &end, &err), &err);
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

static void test_parts_of_an_instance_are_made_and_those_that_are_wanted_stay(void **state UNUSED)
{
        const struct mig_wanted parts[] = {WANTS({"3g.40gb", 1, 1}, {"3g.40gb", 1, 2}, {"1g.10gb", 1})};
        const struct mig_wanted more[] = {WANTS({"3g.40gb", 1, 1}, {"3g.40gb", 2, 2})};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct mig_node node;
        struct error err;
        const char *kept;

        rig_init(&rig, H100_ON);
        rig_plan(&rig, &plan, parts);
        assert_ok(rig_apply(&rig, &plan, &end, &err), &err);
        assert_gpu(&rig, 0, "on 1g.10gb@0[1] 3g.40gb@4[2 1]");
        rig_read(&rig, &node);
        kept = node.gpus[0].geometry.instances[1].devices[0].uuid;
        rig_plan(&rig, &plan, more);
        assert_ok(rig_apply(&rig, &plan, &end, &err), &err);
        assert_gpu(&rig, 0, "on 3g.40gb@0[2] 3g.40gb@4[2 1]");
        rig_read(&rig, &node);
        assert_non_null(strstr(describe_gpu(&rig.arena, &node.gpus[0], true), kept));
}

/* The first is made before the second fails: nothing of both is left. */
static void test_a_part_that_cannot_be_made_takes_the_others_back(void **state UNUSED)
{
        const struct mig_wanted parts[] = {WANTS({"3g.40gb", 3, 1})};
        _cleanup_(rig_done) struct rig rig;
        enum mig_change_end end;
        struct mig_plan plan;
        struct error err;

        rig_init(&rig, H100_ON);
        rig_faults(&rig, "errors: {nvmlGpuInstanceCreateComputeInstance: {error: UNKNOWN, after: 1, times: 1}}");
        rig_plan(&rig, &plan, parts);
        assert_int_equal(rig_apply(&rig, &plan, &end, &err), -1);
        assert_non_null(strstr(err.text, "the geometry is as before"));
        assert_gpu(&rig, 0, "on");
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
                cmocka_unit_test(test_parts_of_an_instance_are_made_and_those_that_are_wanted_stay),
                cmocka_unit_test(test_a_part_that_cannot_be_made_takes_the_others_back),
                cmocka_unit_test(test_a_split_instance_is_complete_in_whatever_order_its_parts_are_listed),
                cmocka_unit_test(test_a_profile_that_has_another_name_by_now_is_made),
        };

        return cmocka_run_group_tests_name("mig/change", tests, scenario_setup, scenario_teardown);
}
