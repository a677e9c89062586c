// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>

#include "base/strbuf.h"
#include "simulated.h"

#define MIB (UINT64_C(1) << 20)

struct fixture {
        struct arena arena;
        struct inventory *inventory;
        struct dra_options options;
        const struct dra_layout *layout;
};

static void fixture_done(struct fixture *fixture)
{
        inventory_free(fixture->inventory);
        arena_done(&fixture->arena);
}

static struct fixture fixture_of(const char *scenario)
{
        struct fixture fixture = {.options = DRA_OPTIONS_DEFAULT};
        const char *path = arena_printf(&fixture.arena, "%s/%s.yaml", getenv("WARPSHARE_SCENARIOS"), scenario);

        fixture.inventory = simulated_inventory(path);
        return fixture;
}

/* What holds of every layout. */
static void check(const struct dra_layout *layout)
{
        for (size_t i = 0; i < layout->n_devices; i++) {
                const struct dra_device *device = &layout->devices[i];
                uint64_t consumed = 0;

                assert_in_range(strlen(device->name), 1, DRA_DEVICE_NAME_SIZE - 1);
                assert_ptr_equal(dra_layout_find(layout, device->name), device);
                for (size_t j = 0; j < device->n_capacities; j++) {
                        const struct dra_capacity *capacity = &device->capacities[j];

                        assert_ptr_equal(dra_device_capacity(device, capacity->name), capacity);
                        assert_int_equal(capacity->has_policy, device->allows_multiple);
                        if (!capacity->has_policy)
                                continue;
                        assert_in_range(capacity->preset, capacity->min, capacity->max);
                        assert_true(capacity->max <= capacity->value && capacity->min >= 1);
                        assert_true(!capacity->step || capacity->min + capacity->step <= capacity->value);
                        assert_true(!capacity->step || (capacity->preset - capacity->min) % capacity->step == 0);
                        assert_true(!capacity->step || (capacity->max - capacity->min) % capacity->step == 0);
                }
                assert_int_equal(device->counter_set != NULL, device->n_consumes > 0);
                for (size_t j = 0; device->counter_set && j < device->n_consumes; j++)
                        for (size_t k = 0; k < device->counter_set->n_counters; k++)
                                if (strcmp(device->consumes[j].name, device->counter_set->counters[k].name) == 0)
                                        consumed += device->consumes[j].value <= device->counter_set->counters[k].value;
                assert_int_equal(consumed, device->n_consumes);
        }
        for (size_t i = 0; i < layout->n_counter_sets; i++)
                assert_in_range(layout->counter_sets[i].n_counters, 1, DRA_MAX_COUNTERS);
}

/* Names of all devices, in order. */
static const char *names_of(struct fixture *fixture)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        fixture->layout = dra_layout_build(&fixture->arena, fixture->inventory, &fixture->options);
        check(fixture->layout);
        for (size_t i = 0; i < fixture->layout->n_devices; i++)
                strbuf_printf(&text, "%s%s", i ? " " : "", fixture->layout->devices[i].name);
        return arena_strdup(&fixture->arena, text.data);
}

static const char *notes_of(struct fixture *fixture)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < fixture->layout->n_notes; i++)
                strbuf_printf(&text, "%s%s", i ? "; " : "", fixture->layout->notes[i]);
        return arena_strdup(&fixture->arena, text.data);
}

static uint64_t value_of(const struct fixture *fixture, const char *device, const char *capacity)
{
        const struct dra_device *found = dra_layout_find(fixture->layout, device);

        assert_non_null(found);
        assert_non_null(dra_device_capacity(found, capacity));
        return dra_device_capacity(found, capacity)->value;
}

static void test_shared_devices_come_first_and_whole_gpus_from_the_other_end(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("h100x8-nvswitch");

        assert_string_equal(names_of(&fixture),
                "gpu-0-shared gpu-1-shared gpu-2-shared gpu-3-shared gpu-4-shared gpu-5-shared gpu-6-shared "
                "gpu-7-shared gpu-7 gpu-6 gpu-5 gpu-4 gpu-3 gpu-2 gpu-1 gpu-0");
        assert_int_equal(fixture.layout->n_counter_sets, 8);
        assert_false(fixture.layout->is_safe);
        assert_string_equal(notes_of(&fixture), "");
}

static void test_all_forms_of_a_gpu_consume_all_of_its_counters(void **state UNUSED)
{
        static const char *const names[] = {"gpu-3", "gpu-3-shared", "gpu-3-timeslice"};
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("h100x8-nvswitch");

        fixture.options.config.time_slicing = true;
        names_of(&fixture);
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                const struct dra_device *device = dra_layout_find(fixture.layout, names[i]);

                assert_non_null(device);
                assert_string_equal(device->uuid, fixture.inventory->gpus[3].uuid);
                assert_string_equal(device->counter_set->name, "gpu-3-counters");
                assert_int_equal(device->counter_set->n_counters, 2);
                assert_int_equal(device->n_consumes, 2);
                assert_string_equal(device->consumes[0].name, "unit");
                assert_int_equal(device->consumes[0].value, 1);
                assert_string_equal(device->consumes[1].name, "memory");
                assert_int_equal(device->consumes[1].value, fixture.inventory->gpus[3].memory / MIB * MIB);
        }
}

static void test_what_is_shared_is_the_usable_memory_all_threads_and_the_drivers_clients(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("h100x8-nvswitch");
        const struct dra_capacity *memory;

        fixture.options.config.has_memory_reserve = true;
        fixture.options.config.memory_reserve_mib = 1024;
        names_of(&fixture);
        assert_int_equal(value_of(&fixture, "gpu-0", "memory"), fixture.inventory->gpus[0].memory / MIB * MIB);
        assert_int_equal(
                value_of(&fixture, "gpu-0-shared", "memory"), (fixture.inventory->gpus[0].memory / MIB - 1024) * MIB);
        assert_int_equal(value_of(&fixture, "gpu-0-shared", "threadPercentage"), 100);
        assert_int_equal(value_of(&fixture, "gpu-0-shared", "clients"), 48);
        memory = dra_device_capacity(dra_layout_find(fixture.layout, "gpu-0-shared"), "memory");
        assert_int_equal(memory->preset, (fixture.inventory->gpus[0].memory / MIB - 1024) / 8 * MIB);
        assert_int_equal(memory->min, 256 * MIB);
        assert_int_equal(memory->step, MIB);
}

static void test_presets_stay_within_what_there_is(void **state UNUSED)
{
        static const struct {
                uint64_t memory_mib;
                unsigned int threads;
                uint64_t expected_mib;
                uint64_t expected_threads;
        } table[] = {{1, 0, 256, 1}, {1000, 30, 1000, 30}, {UINT64_C(1) << 30, 400, 0, 100}};
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("h100x8-nvswitch");

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const struct dra_device *device;
                uint64_t memory;

                fixture.options.config.default_memory_mib = table[i].memory_mib;
                fixture.options.config.default_thread_percentage = table[i].threads;
                names_of(&fixture);
                device = dra_layout_find(fixture.layout, "gpu-0-shared");
                memory = dra_device_capacity(device, "memory")->value;
                assert_int_equal(dra_device_capacity(device, "memory")->preset,
                        table[i].expected_mib ? table[i].expected_mib * MIB : memory);
                assert_int_equal(dra_device_capacity(device, "threadPercentage")->preset, table[i].expected_threads);
        }
}

static void test_what_is_offered_is_what_there_is(void **state UNUSED)
{
        static const struct {
                const char *scenario;
                bool whole, mps, time_slicing;
                const char *names;
                size_t n_counter_sets;
        } table[] = {
                {"v100x4", true, false, false, "gpu-3 gpu-2 gpu-1 gpu-0", 0},
                {"v100x4", false, true, false, "gpu-0-shared gpu-1-shared gpu-2-shared gpu-3-shared", 0},
                {"v100x4", false, false, true, "gpu-0-timeslice gpu-1-timeslice gpu-2-timeslice gpu-3-timeslice", 0},
                {"mixed", true, true, false,
                        "gpu-2-mig-1g-6gb-gi5-ci0-shared gpu-2-mig-1g-6gb-gi6-ci0-shared "
                        "gpu-2-mig-2g-12gb-gi1-ci0-shared gpu-0-shared gpu-1-shared gpu-2-mig-1g-6gb-gi5-ci0 "
                        "gpu-2-mig-1g-6gb-gi6-ci0 gpu-2-mig-2g-12gb-gi1-ci0 gpu-1 gpu-0",
                        3},
                {"a100-mig", true, false, false,
                        "gpu-1-mig-1g-5gb-gi9-ci0 gpu-1-mig-1g-5gb-gi10-ci0 gpu-1-mig-2g-10gb-gi3-ci0 "
                        "gpu-1-mig-1c-3g-20gb-gi2-ci0 gpu-1-mig-2c-3g-20gb-gi2-ci1 gpu-0",
                        0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_of(table[i].scenario);

                fixture.options.config.whole = table[i].whole;
                fixture.options.config.mps = table[i].mps;
                fixture.options.config.time_slicing = table[i].time_slicing;
                assert_string_equal(names_of(&fixture), table[i].names);
                assert_int_equal(fixture.layout->n_counter_sets, table[i].n_counter_sets);
        }
}

static void test_forms_of_one_mig_device_exclude_each_other_and_no_other(void **state UNUSED)
{
        static const char *const names[] = {"gpu-2-mig-2g-12gb-gi1-ci0", "gpu-2-mig-2g-12gb-gi1-ci0-shared"};
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("mixed");

        names_of(&fixture);
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                const struct dra_device *device = dra_layout_find(fixture.layout, names[i]);

                assert_non_null(device);
                assert_string_equal(device->counter_set->name, "gpu-2-counters");
                assert_int_equal(device->counter_set->n_counters, 4);
                assert_int_equal(device->n_consumes, 2);
                assert_string_equal(device->consumes[0].name, "gi1-ci0");
                assert_string_equal(device->consumes[1].name, "memory");
        }
}

static uint64_t counter_of(const struct dra_counter *counters, size_t n_counters, const char *name)
{
        for (size_t i = 0; i < n_counters; i++)
                if (strcmp(counters[i].name, name) == 0)
                        return counters[i].value;
        return 0;
}

static uint64_t memory_of(const struct fixture *fixture, const char *name)
{
        const struct dra_device *device = dra_layout_find(fixture->layout, name);

        assert_non_null(device);
        return counter_of(device->consumes, device->n_consumes, "memory") / MIB;
}

/* All MIG devices of a GPU can be had at the same time, and each MiB counts once. */
static void test_mig_devices_count_their_memory_once(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("a100-mig");
        const struct dra_counter_set *set;
        uint64_t sum = 0;

        names_of(&fixture);
        assert_int_equal(memory_of(&fixture, "gpu-1-mig-1c-3g-20gb-gi2-ci0"), 20096 / 3);
        assert_int_equal(memory_of(&fixture, "gpu-1-mig-2c-3g-20gb-gi2-ci1"), 20096 * 2 / 3);
        assert_int_equal(memory_of(&fixture, "gpu-1-mig-2c-3g-20gb-gi2-ci1-shared"), 20096 * 2 / 3);
        for (size_t i = 0; i < fixture.layout->n_devices; i++) {
                const struct dra_device *device = &fixture.layout->devices[i];

                if (device->kind != DRA_DEVICE_MIG)
                        continue;
                assert_true(memory_of(&fixture, device->name) > 0);
                sum += memory_of(&fixture, device->name);
        }
        set = dra_layout_find(fixture.layout, "gpu-1-mig-2g-10gb-gi3-ci0")->counter_set;
        assert_int_equal(counter_of(set->counters, set->n_counters, "memory") / MIB, sum);
        assert_true(sum <= fixture.inventory->gpus[1].memory / MIB);
}

static void test_compute_instances_of_one_gpu_instance_share_its_memory(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("a100-mig");
        uint64_t usable = 20096 - 64;

        names_of(&fixture);
        assert_int_equal(value_of(&fixture, "gpu-1-mig-1c-3g-20gb-gi2-ci0", "memory"), 20096 * MIB);
        assert_int_equal(value_of(&fixture, "gpu-1-mig-1c-3g-20gb-gi2-ci0-shared", "memory"), usable / 3 * MIB);
        assert_int_equal(value_of(&fixture, "gpu-1-mig-2c-3g-20gb-gi2-ci1-shared", "memory"), usable * 2 / 3 * MIB);
}

static void test_only_gpus_of_dra_are_offered(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("v100x4");
        const char *const devices[] = {fixture.inventory->gpus[2].uuid};

        fixture.options.devices = devices;
        fixture.options.n_devices = 1;
        assert_string_equal(names_of(&fixture), "gpu-2-shared gpu-2");
        fixture.options.n_devices = 0;
        assert_string_equal(names_of(&fixture), "");
}

/* While the MIG geometry changes. */
static void test_what_is_withdrawn_is_not_offered(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("a100-mig");
        struct mig_device devices[8];
        struct gpu *gpus = fixture.inventory->gpus;

        fixture.options.config.whole = true;
        fixture.options.config.mps = false;
        gpus[0].is_withdrawn = gpus[1].is_withdrawn = true;
        for (size_t i = 0; i < gpus[1].n_mig_devices; i++) {
                devices[i] = gpus[1].mig_devices[i];
                devices[i].is_withdrawn = strcmp(devices[i].profile, "2g.10gb") != 0;
        }
        gpus[1].mig_devices = devices;
        assert_string_equal(names_of(&fixture), "gpu-1-mig-2g-10gb-gi3-ci0");
        assert_int_equal(fixture.layout->n_notes, 1);
        assert_non_null(strstr(
                fixture.layout->notes[0], "not offered: its MIG geometry is being changed, or is not decided yet"));
}

static void test_without_a_feature_it_is_whole_units_or_static_shares_and_never_both(void **state UNUSED)
{
        static const struct dra_features features[] = {
                {.partitionable_devices = true}, {.consumable_capacity = true}, {.device_taints = true}};

        for (size_t i = 0; i < ARRAY_SIZE(features); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_of("v100x4");

                fixture.options.features = features[i];
                assert_string_equal(names_of(&fixture), "gpu-0 gpu-1 gpu-2 gpu-3");
                assert_true(fixture.layout->is_safe);
                fixture.options.config.fallback = DRA_FALLBACK_SHARES;
                fixture.options.config.shares = 2;
                assert_string_equal(names_of(&fixture), "gpu-0-share-0 gpu-0-share-1 gpu-1-share-0 gpu-1-share-1 "
                                                        "gpu-2-share-0 gpu-2-share-1 gpu-3-share-0 gpu-3-share-1");
                assert_int_equal(fixture.layout->n_counter_sets, 0);
                assert_int_equal(value_of(&fixture, "gpu-0-share-1", "threadPercentage"), 50);
                assert_int_equal(value_of(&fixture, "gpu-0-share-1", "clients"), 24);
        }
}

static void test_for_a_scheduler_that_forgets_shares_each_unit_has_one_form_and_no_counters(void **state UNUSED)
{
        static const struct {
                bool whole, mps, time_slicing;
                enum dra_one_form one_form;
                const char *names;
        } table[] = {
                {true, true, true, DRA_ONE_FORM_SHARED, "gpu-0-shared gpu-1-shared gpu-2-shared gpu-3-shared"},
                {true, false, true, DRA_ONE_FORM_SHARED,
                        "gpu-0-timeslice gpu-1-timeslice gpu-2-timeslice gpu-3-timeslice"},
                {true, true, true, DRA_ONE_FORM_WHOLE, "gpu-3 gpu-2 gpu-1 gpu-0"},
                {false, true, true, DRA_ONE_FORM_WHOLE, "gpu-0-shared gpu-1-shared gpu-2-shared gpu-3-shared"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = fixture_of("v100x4");

                fixture.options.forgetful = "v1.36.1";
                fixture.options.config.whole = table[i].whole;
                fixture.options.config.mps = table[i].mps;
                fixture.options.config.time_slicing = table[i].time_slicing;
                fixture.options.config.one_form = table[i].one_form;
                assert_string_equal(names_of(&fixture), table[i].names);
                assert_int_equal(fixture.layout->n_counter_sets, 0);
                assert_false(fixture.layout->is_safe);
                assert_non_null(strstr(fixture.layout->one_form, "the scheduler of Kubernetes v1.36.1 forgets shares"));
                assert_non_null(strstr(fixture.layout->notes[0], fixture.layout->one_form));
        }
}

static void test_a_unit_that_claims_have_keeps_its_form_where_it_has_one_form(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("v100x4");
        const struct gpu *gpus = fixture.inventory->gpus;
        const struct dra_held held[] = {
                {gpus[0].uuid, "gpu-0-shared"}, {gpus[1].uuid, "gpu-1-timeslice"}, {gpus[2].uuid, "gpu-2"}};

        fixture.options.forgetful = "v1.36.1";
        fixture.options.held = held;
        fixture.options.n_held = ARRAY_SIZE(held);
        assert_string_equal(names_of(&fixture), "gpu-0-shared gpu-3-shared gpu-1-timeslice gpu-2");
        fixture.options.config.one_form = DRA_ONE_FORM_WHOLE;
        assert_string_equal(names_of(&fixture), "gpu-0-shared gpu-1-timeslice gpu-3 gpu-2");
        fixture.options.forgetful = NULL;
        assert_string_equal(
                names_of(&fixture), "gpu-0-shared gpu-1-shared gpu-2-shared gpu-3-shared gpu-3 gpu-2 gpu-1 gpu-0");
}

static void test_a_unit_that_cannot_be_shared_is_whole_where_it_has_one_form(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("v100x4");

        fixture.options.forgetful = "v1.36.1";
        fixture.inventory->gpus[2].memory = 300 << 20;
        assert_string_equal(names_of(&fixture), "gpu-0-shared gpu-1-shared gpu-3-shared gpu-2");
}

static void test_where_one_form_is_asked_for_a_scheduler_may_forget(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("v100x4");

        fixture.options.forgetful = "v1.36.1";
        fixture.options.config.whole = false;
        assert_string_equal(names_of(&fixture), "gpu-0-shared gpu-1-shared gpu-2-shared gpu-3-shared");
        assert_null(fixture.layout->one_form);
        assert_int_equal(fixture.layout->n_notes, 0);
}

static void test_a_feature_that_nothing_needs_may_be_off(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("v100x4");

        fixture.options.features = (struct dra_features){0};
        fixture.options.config.mps = false;
        names_of(&fixture);
        assert_false(fixture.layout->is_safe);
        fixture.options.features.consumable_capacity = true;
        fixture.options.config.mps = true;
        fixture.options.config.whole = false;
        names_of(&fixture);
        assert_false(fixture.layout->is_safe);
}

static void test_more_shares_than_a_unit_holds_make_it_whole(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("v100x4");

        fixture.options.features.partitionable_devices = false;
        fixture.options.config.fallback = DRA_FALLBACK_SHARES;
        fixture.options.config.shares = 49;
        assert_string_equal(names_of(&fixture), "gpu-0 gpu-1 gpu-2 gpu-3");
        assert_int_equal(fixture.layout->n_notes, 4);
        assert_string_equal(fixture.layout->notes[0],
                arena_printf(&fixture.arena, "%s: not offered by MPS: it takes fewer clients than shares",
                        fixture.inventory->gpus[0].uuid));
}

static void test_gpus_that_hold_no_limits_are_not_shared_by_mps(void **state UNUSED)
{
        static const struct {
                uint64_t memory_mib;
                enum gpu_architecture architecture;
                const char *why;
        } table[] = {
                {0, GPU_ARCHITECTURE_AMPERE, "NVML does not report its memory; set memory of the section dra"},
                {900, GPU_ARCHITECTURE_AMPERE, "too little memory"},
                {16384, GPU_ARCHITECTURE_PASCAL, "GPUs before Volta hold no limits"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = {.options = DRA_OPTIONS_DEFAULT};

                fixture.inventory = inventory_new();
                fixture.inventory->gpus = ARENA_NEW(&fixture.inventory->arena, struct gpu);
                fixture.inventory->n_gpus = 1;
                fixture.inventory->gpus[0] = inventory_unknown_gpu("GPU-a");
                fixture.inventory->gpus[0].index = 5;
                fixture.inventory->gpus[0].memory = table[i].memory_mib * MIB;
                fixture.inventory->gpus[0].architecture = table[i].architecture;
                assert_string_equal(names_of(&fixture), "gpu-5");
                assert_string_equal(notes_of(&fixture),
                        arena_printf(&fixture.arena, "GPU-a: not offered by MPS: %s", table[i].why));
        }
}

static void test_memory_that_the_configuration_says_is_offered_where_nvml_reports_none(void **state UNUSED)
{
        static const struct {
                uint64_t reported_mib;
                const char *failure;
                const char *names;
                uint64_t expected_mib; /* of the first device */
        } table[] = {
                {0, NULL, "gpu-5-shared gpu-5", 65536 - 1024},
                {16384, NULL, "gpu-5-shared gpu-5", 16384 - 1024},
                {0, "lost", "", 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(fixture_done) struct fixture fixture = {.options = DRA_OPTIONS_DEFAULT};
                struct gpu *gpu;

                fixture.options.config.memory_mib = 65536;
                fixture.options.config.has_memory_reserve = true;
                fixture.options.config.memory_reserve_mib = 1024;
                fixture.inventory = inventory_new();
                fixture.inventory->gpus = ARENA_NEW(&fixture.inventory->arena, struct gpu);
                fixture.inventory->n_gpus = 1;
                gpu = &fixture.inventory->gpus[0];
                *gpu = inventory_unknown_gpu("GPU-a");
                gpu->index = 5;
                gpu->memory = table[i].reported_mib * MIB;
                gpu->failure = table[i].failure;
                gpu->architecture = GPU_ARCHITECTURE_BLACKWELL;
                assert_string_equal(names_of(&fixture), table[i].names);
                if (!table[i].expected_mib)
                        continue;
                assert_string_equal(notes_of(&fixture), "");
                assert_string_equal(fixture.layout->devices[0].capacities[0].name, DRA_CAPACITY_MEMORY);
                assert_int_equal(fixture.layout->devices[0].capacities[0].value, table[i].expected_mib * MIB);
                assert_int_equal(fixture.layout->devices[1].capacities[0].value,
                        (table[i].expected_mib + 1024) * MIB); /* of the whole GPU */
        }
}

static void test_a_gpu_that_failed_keeps_its_devices_once_it_was_known(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("v100x4");

        fixture.inventory->gpus[1].failure = "lost";
        fixture.inventory->gpus[2] = inventory_unknown_gpu("GPU-b");
        fixture.inventory->gpus[2].index = 2;
        fixture.inventory->gpus[2].failure = "lost";
        assert_string_equal(names_of(&fixture), "gpu-0-shared gpu-1-shared gpu-3-shared gpu-3 gpu-1 gpu-0");
        assert_string_equal(notes_of(&fixture), "GPU-b: not offered: nothing is known of it");
}

/* 0: none of it. */
static uint64_t consumed_of(const struct dra_device *device, const char *name)
{
        for (size_t i = 0; i < device->n_consumes; i++)
                if (strcmp(device->consumes[i].name, name) == 0)
                        return device->consumes[i].value;
        return 0;
}

static void test_candidates_go_from_small_to_large_and_first_where_they_are_in_the_way_of_least(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("a100-mig");
        const struct dra_device *device;

        fixture.inventory->n_gpus = 1;
        fixture.options.config.mps = false;
        simulated_mig(&fixture.options, &fixture.arena, fixture.inventory);
        assert_string_equal(names_of(&fixture),
                "gpu-0-mig-1g-5gb-at-6 gpu-0-mig-1g-5gb-at-4 gpu-0-mig-1g-5gb-at-5 gpu-0-mig-1g-5gb-at-0 "
                "gpu-0-mig-1g-5gb-at-1 gpu-0-mig-1g-5gb-at-2 gpu-0-mig-1g-5gb-at-3 gpu-0-mig-1g-5gb-me-at-6 "
                "gpu-0-mig-1g-5gb-me-at-4 gpu-0-mig-1g-5gb-me-at-5 gpu-0-mig-1g-5gb-me-at-0 "
                "gpu-0-mig-1g-5gb-me-at-1 gpu-0-mig-1g-5gb-me-at-2 gpu-0-mig-1g-5gb-me-at-3 "
                "gpu-0-mig-1g-10gb-at-6 gpu-0-mig-1g-10gb-at-4 gpu-0-mig-1g-10gb-at-0 gpu-0-mig-1g-10gb-at-2 "
                "gpu-0-mig-2g-10gb-at-4 gpu-0-mig-2g-10gb-at-0 gpu-0-mig-2g-10gb-at-2 gpu-0-mig-3g-20gb-at-4 "
                "gpu-0-mig-3g-20gb-at-0 gpu-0-mig-4g-20gb-at-0 gpu-0-mig-7g-40gb-at-0 gpu-0");
        assert_int_equal(fixture.layout->n_counter_sets, 1);
        device = dra_layout_find(fixture.layout, "gpu-0-mig-3g-20gb-at-4");
        assert_int_equal(device->kind, DRA_DEVICE_MIG_CANDIDATE);
        assert_int_equal(device->start, 4);
        assert_int_equal(device->profile->id, 9);
        assert_int_equal(consumed_of(device, "compute-slices"), 3);
        assert_int_equal(consumed_of(device, "multiprocessors"), 42);
        assert_int_equal(consumed_of(device, "memory-slice-3"), 0);
        assert_int_equal(consumed_of(device, "memory-slice-4"), 1);
        assert_int_equal(consumed_of(device, "memory-slice-7"), 1);
        assert_int_equal(value_of(&fixture, device->name, "multiprocessors"), 42);
        device = dra_layout_find(fixture.layout, "gpu-0");
        assert_int_equal(device->n_consumes, device->counter_set->n_counters);
        assert_int_equal(consumed_of(device, "memory-slice-0"), 1);
        assert_int_equal(consumed_of(device, "compute-slices"), 7);
        assert_int_equal(consumed_of(device, "ofa-engines"), 1);
}

/* Of A100: what |profile_id| makes, at memory slice |start|, is there, as if it had one MIG device of 3g. */
static void add_instance_of(struct fixture *fixture, unsigned int profile_id, unsigned int start, bool is_ours)
{
        struct dra_instance *instance = ARENA_NEW(&fixture->arena, struct dra_instance);
        struct mig_placed *placed = ARENA_NEW(&fixture->arena, struct mig_placed);
        struct gpu *gpu = &fixture->inventory->gpus[0];
        struct mig_device *mig = ARENA_NEW(&fixture->inventory->arena, struct mig_device);

        *mig = (struct mig_device){.uuid = "MIG-a",
                .profile = "3g.20gb",
                .gpu_instance = 1,
                .memory = 20096 * MIB,
                .attributes = {.gpu_slices = 3, .compute_slices = 3, .multiprocessors = 42, .memory_mib = 20096}};
        *placed = (struct mig_placed){.gpu_instance = 1, .profile_id = profile_id, .start = start};
        *instance = (struct dra_instance){.gpu = gpu->uuid,
                .profile_id = profile_id,
                .start = start,
                .state = DRA_INSTANCE_MADE,
                .uuid = "MIG-a"};
        gpu->mig_enabled = true;
        gpu->mig_devices = mig;
        gpu->n_mig_devices = 1;
        gpu->mig_placed = placed;
        gpu->n_mig_placed = 1;
        fixture->options.instances = instance;
        fixture->options.n_instances = is_ours;
}

static void add_instance(struct fixture *fixture, bool is_ours)
{
        add_instance_of(fixture, 9, 4, is_ours);
}

static void test_what_prepare_made_stays_a_candidate(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("a100-mig");
        const char *before;

        fixture.inventory->n_gpus = 1;
        fixture.inventory->gpus[0].mig_enabled = true;
        simulated_mig(&fixture.options, &fixture.arena, fixture.inventory);
        before = names_of(&fixture);
        assert_null(dra_layout_find(fixture.layout, "gpu-0-mig-3g-20gb-at-4")->made);
        add_instance(&fixture, true);
        assert_string_equal(names_of(&fixture), before);
        assert_string_equal(dra_layout_find(fixture.layout, "gpu-0-mig-3g-20gb-at-4")->made, "MIG-a");
        assert_null(dra_layout_find(fixture.layout, "gpu-0-mig-3g-20gb-at-0")->made);
}

static void test_what_prepare_made_is_no_device_of_its_own_where_no_more_is_made(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("a100-mig");

        fixture.inventory->n_gpus = 1;
        simulated_mig(&fixture.options, &fixture.arena, fixture.inventory);
        fixture.options.config.dynamic_mig = false;
        add_instance(&fixture, true);
        assert_string_equal(names_of(&fixture), "");
        add_instance(&fixture, false);
        assert_string_equal(names_of(&fixture), "gpu-0-mig-3g-20gb-gi1-ci0-shared gpu-0-mig-3g-20gb-gi1-ci0");
}

static void test_a_gpu_in_mig_mode_is_no_whole_gpu_whatever_can_be_made_on_it(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("a100-mig");

        fixture.inventory->n_gpus = 1;
        simulated_mig(&fixture.options, &fixture.arena, fixture.inventory);
        names_of(&fixture);
        assert_non_null(dra_layout_find(fixture.layout, "gpu-0"));
        fixture.inventory->gpus[0].mig_enabled = true;
        names_of(&fixture);
        assert_null(dra_layout_find(fixture.layout, "gpu-0"));
        assert_null(dra_layout_find(fixture.layout, "gpu-0-shared"));
        assert_non_null(dra_layout_find(fixture.layout, "gpu-0-mig-7g-40gb-at-0"));
}

static void test_what_others_made_is_a_device_and_its_place_is_nobodys(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("a100-mig");
        const struct dra_device *device;

        fixture.inventory->n_gpus = 1;
        simulated_mig(&fixture.options, &fixture.arena, fixture.inventory);
        add_instance(&fixture, false);
        assert_string_equal(names_of(&fixture),
                "gpu-0-mig-3g-20gb-gi1-ci0-shared gpu-0-mig-1g-5gb-at-0 gpu-0-mig-1g-5gb-at-1 "
                "gpu-0-mig-1g-5gb-at-2 gpu-0-mig-1g-5gb-at-3 gpu-0-mig-1g-5gb-me-at-0 gpu-0-mig-1g-5gb-me-at-1 "
                "gpu-0-mig-1g-5gb-me-at-2 gpu-0-mig-1g-5gb-me-at-3 gpu-0-mig-1g-10gb-at-0 gpu-0-mig-1g-10gb-at-2 "
                "gpu-0-mig-2g-10gb-at-0 gpu-0-mig-2g-10gb-at-2 gpu-0-mig-3g-20gb-gi1-ci0 gpu-0-mig-3g-20gb-at-0 "
                "gpu-0-mig-4g-20gb-at-0");
        device = dra_layout_find(fixture.layout, "gpu-0-mig-4g-20gb-at-0");
        for (size_t i = 0; i < device->counter_set->n_counters; i++)
                if (strcmp(device->counter_set->counters[i].name, "compute-slices") == 0)
                        assert_int_equal(device->counter_set->counters[i].value, 4);
        assert_int_equal(consumed_of(device, "memory-slice-4"), 0);
}

static void test_what_others_made_takes_its_engines_from_all_places(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("a100-mig");
        const char *names;

        fixture.inventory->n_gpus = 1;
        simulated_mig(&fixture.options, &fixture.arena, fixture.inventory);
        add_instance_of(&fixture, 20, 6, false); /* 1g.5gb+me: it has the only OFA */
        names = names_of(&fixture);
        assert_null(strstr(names, "-me-at-"));
        assert_non_null(strstr(names, "-mig-3g-20gb-at-0"));
        assert_null(strstr(names, "-mig-3g-20gb-at-4"));
}

static void test_an_instance_of_an_unknown_profile_has_all_of_its_gpu(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("a100-mig");

        fixture.inventory->n_gpus = 1;
        simulated_mig(&fixture.options, &fixture.arena, fixture.inventory);
        add_instance_of(&fixture, 4711, 6, false);
        assert_string_equal(names_of(&fixture), "gpu-0-mig-3g-20gb-gi1-ci0-shared gpu-0-mig-3g-20gb-gi1-ci0");
}

static void test_profiles_with_and_without_media_engines_have_names_of_their_own(void **state UNUSED)
{
        _cleanup_(fixture_done) struct fixture fixture = fixture_of("rtx-pro-mig");

        simulated_mig(&fixture.options, &fixture.arena, fixture.inventory);
        names_of(&fixture);
        assert_non_null(dra_layout_find(fixture.layout, "gpu-0-mig-1g-24gb-me-at-0"));
        assert_non_null(dra_layout_find(fixture.layout, "gpu-0-mig-1g-24gb-no-me-at-0"));
        assert_non_null(dra_layout_find(fixture.layout, "gpu-0-mig-1g-24gb-me-all-at-0"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_shared_devices_come_first_and_whole_gpus_from_the_other_end),
                cmocka_unit_test(test_all_forms_of_a_gpu_consume_all_of_its_counters),
                cmocka_unit_test(test_what_is_shared_is_the_usable_memory_all_threads_and_the_drivers_clients),
                cmocka_unit_test(test_presets_stay_within_what_there_is),
                cmocka_unit_test(test_what_is_offered_is_what_there_is),
                cmocka_unit_test(test_forms_of_one_mig_device_exclude_each_other_and_no_other),
                cmocka_unit_test(test_mig_devices_count_their_memory_once),
                cmocka_unit_test(test_compute_instances_of_one_gpu_instance_share_its_memory),
                cmocka_unit_test(test_only_gpus_of_dra_are_offered),
                cmocka_unit_test(test_what_is_withdrawn_is_not_offered),
                cmocka_unit_test(test_without_a_feature_it_is_whole_units_or_static_shares_and_never_both),
                cmocka_unit_test(test_for_a_scheduler_that_forgets_shares_each_unit_has_one_form_and_no_counters),
                cmocka_unit_test(test_a_unit_that_claims_have_keeps_its_form_where_it_has_one_form),
                cmocka_unit_test(test_a_unit_that_cannot_be_shared_is_whole_where_it_has_one_form),
                cmocka_unit_test(test_where_one_form_is_asked_for_a_scheduler_may_forget),
                cmocka_unit_test(test_a_feature_that_nothing_needs_may_be_off),
                cmocka_unit_test(test_more_shares_than_a_unit_holds_make_it_whole),
                cmocka_unit_test(test_gpus_that_hold_no_limits_are_not_shared_by_mps),
                cmocka_unit_test(test_memory_that_the_configuration_says_is_offered_where_nvml_reports_none),
                cmocka_unit_test(test_a_gpu_that_failed_keeps_its_devices_once_it_was_known),
                cmocka_unit_test(test_candidates_go_from_small_to_large_and_first_where_they_are_in_the_way_of_least),
                cmocka_unit_test(test_what_prepare_made_stays_a_candidate),
                cmocka_unit_test(test_what_prepare_made_is_no_device_of_its_own_where_no_more_is_made),
                cmocka_unit_test(test_a_gpu_in_mig_mode_is_no_whole_gpu_whatever_can_be_made_on_it),
                cmocka_unit_test(test_what_others_made_is_a_device_and_its_place_is_nobodys),
                cmocka_unit_test(test_what_others_made_takes_its_engines_from_all_places),
                cmocka_unit_test(test_an_instance_of_an_unknown_profile_has_all_of_its_gpu),
                cmocka_unit_test(test_profiles_with_and_without_media_engines_have_names_of_their_own),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
