// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "gpu/inventory.h"

/* Two GPUs, the second with two MIG devices, joined by four NVLinks. */
static struct inventory *make(void)
{
        struct inventory *inventory = inventory_new();
        struct arena *arena = &inventory->arena;
        struct mig_device *mig = ARENA_ARRAY(arena, struct mig_device, 2);
        const char **profiles = ARENA_ARRAY(arena, const char *, 2);
        struct mig_instance_profile *places;
        struct mig_placed *placed;

        inventory->nodes = NODE_NVIDIACTL | NODE_UVM;
        inventory->driver_version = arena_strdup(arena, "580.105.08");
        inventory->nvml_version = arena_strdup(arena, "13.580");
        inventory->cuda_major = 13;
        inventory->n_gpus = 2;
        inventory->gpus = ARENA_ARRAY(arena, struct gpu, 2);
        for (unsigned int i = 0; i < 2; i++) {
                struct gpu_link *links = ARENA_ARRAY(arena, struct gpu_link, 2);

                links[1 - i] = (struct gpu_link){.level = 50, .nvlinks = 4, .p2p = true};
                inventory->gpus[i] = (struct gpu){
                        .uuid = arena_printf(arena, "GPU-%u", i),
                        .name = arena_strdup(arena, "NVIDIA A100-SXM4-40GB"),
                        .bus = arena_printf(arena, "0000:%02x:00.0", i),
                        .index = i,
                        .minor = (int)i,
                        .compute_major = 8,
                        .architecture = GPU_ARCHITECTURE_AMPERE,
                        .memory = UINT64_C(40) << 30,
                        .memory_reserved = UINT64_C(571) << 20,
                        .multiprocessors = 108,
                        .mig_capable = true,
                        .links = links,
                };
        }
        for (unsigned int i = 0; i < 2; i++) {
                mig[i] = (struct mig_device){
                        .uuid = arena_strdup(arena, i ? "MIG-b" : "MIG-a"),
                        .profile = arena_strdup(arena, "3g.20gb"),
                        .index = i,
                        .gpu_instance = 1 + i,
                        .gpu_instance_cap = 30,
                        .compute_instance_cap = 31,
                        .attributes = {.gpu_slices = 3, .compute_slices = 3, .memory_mib = 20096},
                };
        }
        profiles[0] = arena_strdup(arena, "1g.5gb");
        profiles[1] = arena_strdup(arena, "3g.20gb");
        inventory->gpus[1].mig_enabled = true;
        inventory->gpus[1].mig_max = 7;
        inventory->gpus[1].mig_devices = mig;
        inventory->gpus[1].n_mig_devices = 2;
        inventory->gpus[1].mig_profiles = profiles;
        inventory->gpus[1].n_mig_profiles = 2;
        inventory->gpus[1].mig_instance_profiles = places = ARENA_NEW(arena, struct mig_instance_profile);
        inventory->gpus[1].n_mig_instance_profiles = 1;
        *places = (struct mig_instance_profile){.name = arena_strdup(arena, "3g.20gb"),
                .id = 9,
                .slices = 3,
                .size = 4,
                .count = 2,
                .starts = 0x11,
                .attributes = {.multiprocessors = 42}};
        inventory->gpus[1].mig_placed = placed = ARENA_NEW(arena, struct mig_placed);
        inventory->gpus[1].n_mig_placed = 1;
        *placed = (struct mig_placed){.gpu_instance = 1, .profile_id = 9, .start = 4};
        return inventory;
}

static struct mig_device *mig_of(struct inventory *inventory)
{
        return (struct mig_device *)(uintptr_t)inventory->gpus[1].mig_devices;
}

static void test_a_copy_is_the_same_and_shares_nothing(void **state UNUSED)
{
        struct inventory *a = make();
        struct inventory *b = inventory_copy(a);
        const struct gpu *gpu;

        assert_true(inventory_is_same(a, b));
        inventory_free(a);
        gpu = inventory_find(b, "GPU-1");
        assert_non_null(gpu);
        assert_string_equal(gpu->name, "NVIDIA A100-SXM4-40GB");
        assert_string_equal(gpu->mig_devices[1].uuid, "MIG-b");
        assert_string_equal(gpu->mig_devices[1].profile, "3g.20gb");
        assert_string_equal(gpu->mig_profiles[0], "1g.5gb");
        assert_int_equal(gpu->links[0].nvlinks, 4);
        assert_null(inventory_find(b, "MIG-b"));
        inventory_free(b);
}

static void change_uuid(struct inventory *inventory)
{
        inventory->gpus[0].uuid = "GPU-x";
}
static void change_name(struct inventory *inventory)
{
        inventory->gpus[0].name = "other";
}
static void change_bus(struct inventory *inventory)
{
        inventory->gpus[0].bus = NULL;
}
static void change_index(struct inventory *inventory)
{
        inventory->gpus[1].index = 5;
}
static void change_minor(struct inventory *inventory)
{
        inventory->gpus[1].minor = 5;
}
static void change_numa(struct inventory *inventory)
{
        inventory->gpus[1].numa_node = 1;
}
static void change_memory(struct inventory *inventory)
{
        inventory->gpus[1].memory++;
}
static void change_memory_reserved(struct inventory *inventory)
{
        inventory->gpus[1].memory_reserved--;
}
static void change_multiprocessors(struct inventory *inventory)
{
        inventory->gpus[1].multiprocessors = 98;
}
static void change_mig_mode(struct inventory *inventory)
{
        inventory->gpus[0].mig_enabled = true;
}
static void change_mig_count(struct inventory *inventory)
{
        inventory->gpus[1].n_mig_devices = 1;
}
static void change_mig_uuid(struct inventory *inventory)
{
        mig_of(inventory)[1].uuid = "MIG-c";
}
static void change_mig_profile(struct inventory *inventory)
{
        mig_of(inventory)[0].profile = "3g.20gb+me";
}
static void change_mig_name(struct inventory *inventory)
{
        mig_of(inventory)[0].profile = NULL;
}
static void change_mig_cap(struct inventory *inventory)
{
        mig_of(inventory)[0].gpu_instance_cap = -1;
}
static void change_compute_cap(struct inventory *inventory)
{
        mig_of(inventory)[1].compute_instance_cap++;
}
static void change_mig_failure(struct inventory *inventory)
{
        mig_of(inventory)[1].failure = "lost";
}
static void change_mig_failures(struct inventory *inventory)
{
        inventory->gpus[1].n_mig_failures++;
}
static void change_profile(struct inventory *inventory)
{
        ((const char **)(uintptr_t)inventory->gpus[1].mig_profiles)[1] = "2g.10gb";
}
static void change_profile_count(struct inventory *inventory)
{
        inventory->gpus[1].n_mig_profiles--;
}
static void change_nodes(struct inventory *inventory)
{
        inventory->nodes |= NODE_MODESET;
}
static void change_platform(struct inventory *inventory)
{
        inventory->platform = PLATFORM_TEGRA;
}
static void change_link(struct inventory *inventory)
{
        ((struct gpu_link *)(uintptr_t)inventory->gpus[0].links)[1].nvlinks = 3;
}
static void change_failure(struct inventory *inventory)
{
        inventory->gpus[0].failure = "lost";
}
static void change_count(struct inventory *inventory)
{
        inventory->n_gpus = 1;
}
static void change_driver(struct inventory *inventory)
{
        inventory->driver_version = "590.10";
}
static void change_unnamed(struct inventory *inventory)
{
        inventory->n_unnamed_failures = 1;
}

static struct mig_instance_profile *place_of(struct inventory *inventory)
{
        return (struct mig_instance_profile *)(uintptr_t)inventory->gpus[1].mig_instance_profiles;
}
static void change_place_id(struct inventory *inventory)
{
        place_of(inventory)->id++;
}
static void change_place_slices(struct inventory *inventory)
{
        place_of(inventory)->slices++;
}
static void change_place_size(struct inventory *inventory)
{
        place_of(inventory)->size++;
}
static void change_place_count(struct inventory *inventory)
{
        place_of(inventory)->count++;
}
static void change_place_starts(struct inventory *inventory)
{
        place_of(inventory)->starts++;
}
static void change_place_name(struct inventory *inventory)
{
        place_of(inventory)->name = "3g.24gb";
}
static void change_place_attributes(struct inventory *inventory)
{
        place_of(inventory)->attributes.jpegs++;
}
static void change_places(struct inventory *inventory)
{
        inventory->gpus[1].n_mig_instance_profiles = 0;
}
static struct mig_placed *placed_of(struct inventory *inventory)
{
        return (struct mig_placed *)(uintptr_t)inventory->gpus[1].mig_placed;
}
static void change_placed_instance(struct inventory *inventory)
{
        placed_of(inventory)->gpu_instance++;
}
static void change_placed_profile(struct inventory *inventory)
{
        placed_of(inventory)->profile_id++;
}
static void change_placed_start(struct inventory *inventory)
{
        placed_of(inventory)->start = 0;
}
static void change_placed_count(struct inventory *inventory)
{
        inventory->gpus[1].n_mig_placed = 0;
}
static void change_geometry_failure(struct inventory *inventory)
{
        inventory->gpus[1].mig_geometry_failure = "not allowed";
}

static void test_every_property_counts_when_inventories_are_compared(void **state UNUSED)
{
        static void (*const changes[])(struct inventory *) = {change_uuid, change_name, change_bus, change_index,
                change_minor, change_numa, change_memory, change_memory_reserved, change_multiprocessors,
                change_mig_mode, change_mig_count, change_mig_uuid, change_mig_profile, change_mig_name, change_mig_cap,
                change_compute_cap, change_mig_failure, change_mig_failures, change_profile, change_profile_count,
                change_nodes, change_platform, change_link, change_failure, change_count, change_driver, change_unnamed,
                change_place_id, change_place_slices, change_place_size, change_place_count, change_place_starts,
                change_place_name, change_place_attributes, change_places, change_placed_instance,
                change_placed_profile, change_placed_start, change_placed_count, change_geometry_failure};

        for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
                struct inventory *a = make();
                struct inventory *b = make();

                assert_true(inventory_is_same(a, b));
                changes[i](b);
                if (inventory_is_same(a, b) || inventory_is_same(b, a))
                        fail_msg("change %zu goes unseen", i);
                inventory_free(a);
                inventory_free(b);
        }
}

static void test_every_attribute_counts_when_mig_devices_are_compared(void **state UNUSED)
{
        static const size_t members[] = {
                offsetof(struct mig_attributes, gpu_slices),
                offsetof(struct mig_attributes, compute_slices),
                offsetof(struct mig_attributes, multiprocessors),
                offsetof(struct mig_attributes, copy_engines),
                offsetof(struct mig_attributes, decoders),
                offsetof(struct mig_attributes, encoders),
                offsetof(struct mig_attributes, jpegs),
                offsetof(struct mig_attributes, ofas),
                offsetof(struct mig_attributes, memory_mib),
        };

        for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
                struct inventory *a = make();
                struct inventory *b = make();

                ++*((unsigned char *)&mig_of(b)[1].attributes + members[i]);
                if (inventory_is_same(a, b) || inventory_is_same(b, a))
                        fail_msg("attribute %zu goes unseen", i);
                inventory_free(a);
                inventory_free(b);
        }
}

static void test_another_reason_of_the_same_failure_is_no_change(void **state UNUSED)
{
        struct inventory *a = make();
        struct inventory *b = make();

        a->gpus[0].failure = "lost";
        b->gpus[0].failure = "reset required";
        assert_true(inventory_is_same(a, b));
        inventory_free(a);
        inventory_free(b);
}

static void test_a_gpu_that_fails_now_keeps_what_was_known(void **state UNUSED)
{
        struct inventory *previous = make();
        struct inventory *fresh = make();
        struct gpu *gpu = &fresh->gpus[1];

        *gpu = (struct gpu){.uuid = "GPU-1",
                .name = "",
                .index = 1,
                .minor = -1,
                .brand = -1,
                .numa_node = -1,
                .compute_major = -1,
                .compute_minor = -1,
                .links = gpu->links,
                .failure = "nvmlDeviceGetName: GPU is lost"};
        ((struct gpu_link *)(uintptr_t)gpu->links)[0] = (struct gpu_link){.level = -1};
        inventory_keep(fresh, previous);
        previous->gpus[1].failure = "some";
        assert_true(inventory_is_same(previous, fresh));
        inventory_free(previous);
        assert_string_equal(fresh->gpus[1].failure, "nvmlDeviceGetName: GPU is lost");
        assert_string_equal(fresh->gpus[1].mig_devices[0].uuid, "MIG-a");
        inventory_free(fresh);
}

static void test_what_the_driver_reserves_is_taken_at_its_first_word(void **state UNUSED)
{
        static const struct {
                uint64_t known;
                const char *driver; /* of now */
                int more_memory;
                uint64_t read;
                uint64_t kept;
        } table[] = {{571, "580.105.08", 0, 573, 571}, {571, "580.105.08", 0, 0, 571}, {0, "580.105.08", 0, 573, 573},
                {571, "590.10", 0, 573, 573}, {571, "580.105.08", 1, 573, 573}};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct inventory *previous = make();
                struct inventory *fresh = make();

                previous->gpus[1].memory_reserved = table[i].known;
                fresh->driver_version = table[i].driver;
                fresh->gpus[1].memory += (uint64_t)table[i].more_memory;
                fresh->gpus[1].memory_reserved = table[i].read;
                inventory_keep(fresh, previous);
                assert_int_equal(fresh->gpus[1].memory_reserved, table[i].kept);
                inventory_free(previous);
                inventory_free(fresh);
        }
}

static void test_a_gpu_that_cannot_be_named_any_more_keeps_its_place(void **state UNUSED)
{
        struct inventory *previous = make();
        struct inventory *fresh = make();

        /* GPU 0 is gone from the list; GPU 1 is the only one. */
        fresh->gpus++;
        fresh->n_gpus = 1;
        fresh->gpus[0].links++;
        fresh->unnamed_failures = ARENA_ARRAY(&fresh->arena, const char *, 1);
        fresh->unnamed_failures[0] = "GPU 0: nvmlDeviceGetHandleByIndex: GPU is lost";
        fresh->n_unnamed_failures = 1;
        inventory_keep(fresh, previous);
        assert_int_equal(fresh->n_gpus, 2);
        assert_int_equal(fresh->n_unnamed_failures, 0);
        assert_string_equal(fresh->gpus[0].uuid, "GPU-0");
        assert_string_equal(fresh->gpus[0].failure, "GPU 0: nvmlDeviceGetHandleByIndex: GPU is lost");
        assert_string_equal(fresh->gpus[1].uuid, "GPU-1");
        previous->gpus[0].failure = "some";
        assert_true(inventory_is_same(previous, fresh));
        inventory_free(previous);
        inventory_free(fresh);
}

/* Leaves only the MIG device at |left| of GPU 1, and says that |count| could not be read. */
static void lose_mig(struct inventory *inventory, size_t left, size_t count)
{
        struct gpu *gpu = &inventory->gpus[1];

        gpu->mig_devices += left;
        gpu->n_mig_devices = left < 2;
        gpu->mig_failures = ARENA_ARRAY(&inventory->arena, const char *, count);
        for (size_t i = 0; i < count; i++)
                ((const char **)(uintptr_t)gpu->mig_failures)[i] = "MIG device 0: nvmlDeviceGetUUID: UNKNOWN";
        gpu->n_mig_failures = count;
}

static void test_a_mig_device_that_fails_now_keeps_its_place(void **state UNUSED)
{
        struct inventory *previous = make();
        struct inventory *fresh = make();
        const struct gpu *gpu = &fresh->gpus[1];

        lose_mig(fresh, 1, 1);
        inventory_keep(fresh, previous);
        mig_of(previous)[0].failure = "some";
        assert_true(inventory_is_same(previous, fresh));
        inventory_free(previous);
        assert_null(gpu->failure);
        assert_int_equal(gpu->n_mig_failures, 0);
        assert_string_equal(gpu->mig_devices[0].uuid, "MIG-a");
        assert_string_equal(gpu->mig_devices[0].profile, "3g.20gb");
        assert_string_equal(gpu->mig_devices[0].failure, "MIG device 0: nvmlDeviceGetUUID: UNKNOWN");
        assert_string_equal(gpu->mig_devices[1].uuid, "MIG-b");
        assert_null(gpu->mig_devices[1].failure);
        inventory_free(fresh);
}

static void test_profiles_are_kept_while_the_uuid_lasts(void **state UNUSED)
{
        struct inventory *previous = make();
        struct inventory *fresh = make();

        mig_of(fresh)[0].profile = NULL;
        mig_of(fresh)[1].profile = NULL;
        mig_of(fresh)[1].uuid = "MIG-new";
        fresh->gpus[1].n_mig_profiles = 0;
        inventory_keep(fresh, previous);
        inventory_free(previous);
        assert_string_equal(fresh->gpus[1].mig_devices[0].profile, "3g.20gb");
        assert_null(fresh->gpus[1].mig_devices[1].profile);
        assert_int_equal(fresh->gpus[1].n_mig_profiles, 2);
        assert_string_equal(fresh->gpus[1].mig_profiles[0], "1g.5gb");
        inventory_free(fresh);
}

static void test_no_more_mig_devices_come_back_than_failed(void **state UNUSED)
{
        static const struct {
                size_t failures;
                size_t expected;
                size_t left_over;
        } table[] = {{0, 0, 0}, {1, 1, 0}, {2, 2, 0}, {3, 2, 1}};

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct inventory *previous = make();
                struct inventory *fresh = make();

                lose_mig(fresh, 2, table[i].failures);
                inventory_keep(fresh, previous);
                assert_int_equal(fresh->gpus[1].n_mig_devices, table[i].expected);
                assert_int_equal(fresh->gpus[1].n_mig_failures, table[i].left_over);
                inventory_free(previous);
                inventory_free(fresh);
        }
}

static void test_a_gpu_that_nvml_counts_no_more_is_gone(void **state UNUSED)
{
        struct inventory *previous = make();
        struct inventory *fresh = make();

        fresh->n_gpus = 1;
        inventory_keep(fresh, previous);
        assert_int_equal(fresh->n_gpus, 1);
        inventory_free(previous);
        inventory_free(fresh);
}

struct expected_withdrawal {
        const char *gpu;
        const char *unit;
};

static bool is_expected(const struct gpu *gpu, const char *unit, void *data)
{
        const struct expected_withdrawal *expected = data;

        return strcmp(gpu->uuid, expected->gpu) == 0 && strcmp(unit, expected->unit) == 0;
}

static void test_gpus_and_mig_devices_are_withdrawn_and_given_back(void **state UNUSED)
{
        struct inventory *inventory = make();
        const struct mig_device *before = inventory->gpus[1].mig_devices;

        inventory_withdraw(inventory, is_expected,
                &(struct expected_withdrawal){inventory->gpus[0].uuid, inventory->gpus[0].uuid});
        assert_true(inventory->gpus[0].is_withdrawn);
        assert_false(inventory->gpus[1].is_withdrawn);
        inventory_withdraw(
                inventory, is_expected, &(struct expected_withdrawal){inventory->gpus[1].uuid, before[1].uuid});
        assert_false(inventory->gpus[0].is_withdrawn);
        assert_false(inventory->gpus[1].is_withdrawn);
        assert_false(inventory->gpus[1].mig_devices[0].is_withdrawn);
        assert_true(inventory->gpus[1].mig_devices[1].is_withdrawn);
        assert_false(before[1].is_withdrawn); /* a copy: another inventory may have the same */
        inventory_free(inventory);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_gpus_and_mig_devices_are_withdrawn_and_given_back),
                cmocka_unit_test(test_a_copy_is_the_same_and_shares_nothing),
                cmocka_unit_test(test_every_property_counts_when_inventories_are_compared),
                cmocka_unit_test(test_every_attribute_counts_when_mig_devices_are_compared),
                cmocka_unit_test(test_another_reason_of_the_same_failure_is_no_change),
                cmocka_unit_test(test_a_gpu_that_fails_now_keeps_what_was_known),
                cmocka_unit_test(test_what_the_driver_reserves_is_taken_at_its_first_word),
                cmocka_unit_test(test_a_gpu_that_cannot_be_named_any_more_keeps_its_place),
                cmocka_unit_test(test_a_mig_device_that_fails_now_keeps_its_place),
                cmocka_unit_test(test_profiles_are_kept_while_the_uuid_lasts),
                cmocka_unit_test(test_no_more_mig_devices_come_back_than_failed),
                cmocka_unit_test(test_a_gpu_that_nvml_counts_no_more_is_gone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
