// SPDX-License-Identifier: Apache-2.0
/* The GPU instances of candidates, made and destroyed on a simulated GPU that other programs change, too. */
#include "unit.h"

#include "node/dra/instances.h"
#include "gpu/mig_instances.h"
#include "test/unit/gpu/scenario.h"

#define H100 "GPU-h100"
#define CUT(more) "gpus: [{model: H100-80GB, uuid: " H100 ", mig: {enabled: true}" more "}]"
#define SMALL 19U

struct rig {
        struct arena arena;
        struct nvml *nvml;
        struct dra_instance instance; /* 1g.10gb at 4 */
        struct error err;
};

static void rig_init(struct rig *rig)
{
        *rig = (struct rig){.instance = {.gpu = H100, .profile_id = SMALL, .start = 4}};
        scenario_write(CUT(""));
        assert_ok(nvml_open(&rig->nvml, scenario_library(), "", &rig->err), &rig->err);
}

static void rig_done(struct rig *rig)
{
        nvml_close(rig->nvml);
        arena_done(&rig->arena);
}

static struct mig_geometry geometry_of(struct rig *rig, struct mig_gpu *gpu)
{
        struct mig_geometry geometry;

        assert_ok(mig_gpu_open(gpu, rig->nvml, H100, &rig->err), &rig->err);
        assert_ok(mig_instances_read(&geometry, &rig->arena, gpu, &rig->err), &rig->err);
        return geometry;
}

static size_t count(struct rig *rig)
{
        struct mig_gpu gpu;

        return geometry_of(rig, &gpu).n_instances;
}

static const struct mig_gpu_profile *profile(const struct mig_geometry *geometry, unsigned int id)
{
        size_t i = 0;

        while (geometry->profiles[i].id != id)
                i++;
        return &geometry->profiles[i];
}

/* As another program does it. */
static void others_make(struct rig *rig, unsigned int profile_id, unsigned int start)
{
        struct mig_gpu gpu;
        struct mig_geometry geometry = geometry_of(rig, &gpu);
        const struct mig_gpu_profile *made = profile(&geometry, profile_id);
        unsigned int id;

        assert_ok(mig_instances_create(&gpu, made, start, &made->slices, 1, &id, &rig->err), &rig->err);
}

static void others_destroy(struct rig *rig)
{
        struct mig_gpu gpu;
        struct mig_geometry geometry = geometry_of(rig, &gpu);

        assert_ok(mig_instances_destroy(&gpu, &geometry.instances[0], &rig->err), &rig->err);
}

/* Who made it was killed before it had a compute instance. */
static void leave_half_made(struct rig *rig)
{
        struct mig_gpu gpu;
        struct mig_geometry geometry = geometry_of(rig, &gpu);
        nvmlGpuInstancePlacement_t placement = {4, profile(&geometry, SMALL)->placements[0].size};
        nvmlGpuInstance_t instance;

        assert_int_equal(
                NVML_CALL(rig->nvml, device_create_instance, gpu.device, SMALL, &placement, &instance), NVML_SUCCESS);
}

static void look(struct rig *rig, enum dra_instance_state expected)
{
        assert_ok(dra_instance_look(rig->nvml, &rig->instance, &rig->arena, &rig->err), &rig->err);
        assert_int_equal(rig->instance.state, expected);
        assert_int_equal(rig->instance.uuid != NULL, expected == DRA_INSTANCE_MADE);
}

static void make(struct rig *rig)
{
        rig->instance.state = DRA_INSTANCE_MAKING;
        assert_ok(dra_instance_make(rig->nvml, &rig->instance, &rig->arena, &rig->err), &rig->err);
        assert_int_equal(rig->instance.state, DRA_INSTANCE_MADE);
        assert_int_equal(strncmp(rig->instance.uuid, "MIG-", 4), 0);
}

static void destroy(struct rig *rig)
{
        assert_ok(dra_instance_destroy(rig->nvml, &rig->instance, &rig->arena, &rig->err), &rig->err);
        assert_int_equal(rig->instance.state, DRA_INSTANCE_NONE);
}

static void test_an_instance_is_made_where_the_claim_has_it_and_destroyed(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        struct mig_geometry geometry;
        struct mig_gpu gpu;
        const char *uuid;

        rig_init(&rig);
        look(&rig, DRA_INSTANCE_NONE);
        make(&rig);
        uuid = rig.instance.uuid;
        geometry = geometry_of(&rig, &gpu);
        assert_int_equal(geometry.n_instances, 1);
        assert_int_equal(geometry.instances[0].placement.start, 4);
        assert_int_equal(geometry.instances[0].profile->id, SMALL);
        assert_string_equal(geometry.instances[0].devices[0].uuid, uuid);
        look(&rig, DRA_INSTANCE_MADE);
        assert_string_equal(rig.instance.uuid, uuid);
        destroy(&rig);
        assert_string_equal(rig.instance.uuid, uuid);
        assert_int_equal(count(&rig), 0);
}

static void test_what_was_made_by_who_was_killed_then_is_found(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        const char *uuid;

        rig_init(&rig);
        make(&rig);
        uuid = rig.instance.uuid;
        rig.instance.state = DRA_INSTANCE_MAKING;
        rig.instance.uuid = NULL;
        look(&rig, DRA_INSTANCE_MADE);
        assert_string_equal(rig.instance.uuid, uuid);
        rig.instance.state = DRA_INSTANCE_MAKING;
        destroy(&rig);
        assert_int_equal(count(&rig), 0);
}

static void test_what_was_half_made_is_made_anew_or_destroyed(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;

        rig_init(&rig);
        leave_half_made(&rig);
        rig.instance.state = DRA_INSTANCE_MAKING;
        look(&rig, DRA_INSTANCE_NONE);
        assert_int_equal(count(&rig), 0);
        leave_half_made(&rig);
        rig.instance.state = DRA_INSTANCE_MAKING;
        destroy(&rig);
        assert_null(rig.instance.uuid);
        assert_int_equal(count(&rig), 0);
}

static void test_what_others_made_is_never_destroyed(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;

        rig_init(&rig);
        others_make(&rig, SMALL, 4);
        assert_int_equal(dra_instance_look(rig.nvml, &rig.instance, &rig.arena, &rig.err), -1);
        assert_int_equal(rig.err.kind, ERROR_EXHAUSTED);
        assert_string_equal(rig.err.text,
                "GPU " H100
                ": another program (nvidia-mig-parted, NVIDIA's MIG manager or DRA driver, or somebody's nvidia-smi) has made 1g.10gb at 4, which the claim was given: it stays, and its place is "
                "no longer offered");
        assert_int_equal(rig.instance.state, DRA_INSTANCE_NONE);
        destroy(&rig);
        rig.instance.state = DRA_INSTANCE_MADE;
        rig.instance.uuid = "MIG-ours";
        destroy(&rig);
        assert_null(rig.instance.uuid);
        assert_int_equal(count(&rig), 1);
}

static void test_what_another_instance_is_in_the_way_of_is_not_made(void **state UNUSED)
{
        static const struct {
                unsigned int profile, start;
        } table[] = {{SMALL, 4}, {14, 4}, {9, 4}, {0, 0}};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(rig_done) struct rig rig;

                rig_init(&rig);
                rig.instance.state = DRA_INSTANCE_MAKING;
                others_make(&rig, table[i].profile, table[i].start);
                assert_int_equal(dra_instance_make(rig.nvml, &rig.instance, &rig.arena, &rig.err), -1);
                assert_int_equal(rig.err.kind, ERROR_EXHAUSTED);
                assert_int_equal(rig.instance.state, DRA_INSTANCE_NONE);
                destroy(&rig);
                assert_int_equal(count(&rig), 1);
        }
}

static void test_what_is_gone_needs_not_be_destroyed(void **state UNUSED)
{
        static const char *const table[] = {CUT(", resets: 1"), "gpus: [{model: H100-80GB, uuid: " H100 "}]",
                "gpus: [{model: H100-80GB, uuid: GPU-other}]"};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(rig_done) struct rig rig;

                rig_init(&rig);
                make(&rig);
                scenario_write(table[i]);
                destroy(&rig);
                assert_null(rig.instance.uuid);
        }
}

static void test_one_that_others_have_destroyed_is_made_again(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;

        rig_init(&rig);
        make(&rig);
        others_destroy(&rig);
        look(&rig, DRA_INSTANCE_NONE);
        make(&rig);
        assert_int_equal(count(&rig), 1);
}

static void test_one_that_a_process_uses_stays_until_that_has_ended(void **state UNUSED)
{
        _cleanup_(rig_done) struct rig rig;
        _free_ char *busy = NULL;
        struct mig_gpu gpu;

        rig_init(&rig);
        make(&rig);
        busy = xasprintf(
                CUT(", processes: [{pid: 1, memory: 1GiB, gi: %u, ci: 0}]"), geometry_of(&rig, &gpu).instances[0].id);
        scenario_write(busy);
        assert_int_equal(dra_instance_destroy(rig.nvml, &rig.instance, &rig.arena, &rig.err), -1);
        assert_int_equal(rig.err.kind, ERROR_UNAVAILABLE);
        assert_int_equal(rig.instance.state, DRA_INSTANCE_MADE);
        scenario_write(CUT(""));
        destroy(&rig);
        assert_int_equal(count(&rig), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_instance_is_made_where_the_claim_has_it_and_destroyed),
                cmocka_unit_test(test_what_was_made_by_who_was_killed_then_is_found),
                cmocka_unit_test(test_what_was_half_made_is_made_anew_or_destroyed),
                cmocka_unit_test(test_what_others_made_is_never_destroyed),
                cmocka_unit_test(test_what_another_instance_is_in_the_way_of_is_not_made),
                cmocka_unit_test(test_what_is_gone_needs_not_be_destroyed),
                cmocka_unit_test(test_one_that_others_have_destroyed_is_made_again),
                cmocka_unit_test(test_one_that_a_process_uses_stays_until_that_has_ended),
        };

        return cmocka_run_group_tests_name("instances", tests, scenario_setup, scenario_teardown);
}
