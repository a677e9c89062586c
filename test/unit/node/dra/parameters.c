// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/macro.h"
#include "node/dra/parameters.h"

#define MIB (UINT64_C(1) << 20)
#define OURS "'apiVersion': 'gpu.warpshare.dev/v1alpha1', 'kind': 'ShareConfig'"
#define GPU "'apiVersion': 'resource.nvidia.com/v1beta1', 'kind': 'GpuConfig'"
#define MIG "'apiVersion': 'resource.nvidia.com/v1beta1', 'kind': 'MigDeviceConfig'"
#define MPS(config) "{" GPU ", 'sharing': {'strategy': 'MPS', 'mpsConfig': " config "}}"

enum { SHARED, WHOLE, OF_MIG, N_DEVICES };

static const struct dra_device devices[N_DEVICES] = {
        [SHARED] = {.name = "gpu-0-shared", .kind = DRA_DEVICE_SHARED, .uuid = "GPU-0"},
        [WHOLE] = {.name = "gpu-1", .kind = DRA_DEVICE_WHOLE, .uuid = "GPU-1"},
        [OF_MIG] = {.name = "gpu-2-mig-0", .kind = DRA_DEVICE_MIG, .uuid = "MIG-2"},
};
static const char *const requests[N_DEVICES] = {[SHARED] = "share", [WHOLE] = "whole", [OF_MIG] = "mig"};

static bool is_multi_user; /* the node's daemons are */

struct said {
        bool is_of_class;
        const char *request; /* NULL: for all */
        const char *text;    /* with ' for " */
};

/*
 * What the three devices, of which the share has 1 GiB and 30 %, are with these configurations; stops at the first
 * error.
 */
static int apply(struct dra_result wanted[N_DEVICES], const struct said *configs, size_t count, const char *driver,
        struct error *err)
{
        const struct dra_wanted_rules rules = {
                .driver = driver, .unenforced = DRA_UNENFORCED_REFUSE, .is_multi_user = is_multi_user};
        struct dra_claim_config read[4];
        struct dra_claim claim = {.results = wanted, .n_results = N_DEVICES, .configs = read, .n_configs = count};
        json_t *all[4];
        int result = 0;

        for (size_t i = 0; i < count; i++) {
                _free_ char *text = strdup(configs[i].text);

                for (char *at = text; *at; at++)
                        if (*at == '\'')
                                *at = '"';
                all[i] = json_loads(text, 0, NULL);
                assert_non_null(all[i]);
                read[i] = (struct dra_claim_config){.is_of_class = configs[i].is_of_class,
                        .requests = &configs[i].request,
                        .n_requests = configs[i].request != NULL,
                        .parameters = all[i]};
        }
        for (size_t i = 0; i < N_DEVICES; i++)
                wanted[i] = (struct dra_result){.request = requests[i],
                        .device = devices[i].name,
                        .unit = devices[i].uuid,
                        .offered = &devices[i],
                        .memory_bytes = i == SHARED ? 1024 * MIB : 0,
                        .thread_percentage = i == SHARED ? 30 : 0};
        for (size_t i = 0; i < N_DEVICES && result == 0; i++)
                result = dra_parameters_apply(&claim, i, &rules, err);
        for (size_t i = 0; i < count; i++)
                json_decref(all[i]);
        return result;
}

static void test_what_is_said_counts_by_request_class_before_claim_and_later_over_earlier(void **state UNUSED)
{
        static const struct {
                struct said configs[4];
                size_t count;
                uint64_t memory_mib;
                unsigned int thread_percentage;
                enum dra_unenforced unenforced;
        } cases[] = {
                {.count = 0, .memory_mib = 1024, .thread_percentage = 30},
                {{{true, NULL, "{" OURS ", 'unenforced': 'Prepare'}"}}, 1, 1024, 30, DRA_UNENFORCED_CONDITION},
                {{{true, "whole", "{" OURS ", 'unenforced': 'Prepare'}"}}, 1, 1024, 30, DRA_UNENFORCED_REFUSE},
                {{{true, NULL, "{" OURS ", 'unenforced': 'Prepare'}"},
                         {false, NULL, "{" OURS ", 'unenforced': 'Refuse'}"}},
                        2, 1024, 30, DRA_UNENFORCED_REFUSE},
                {{{false, NULL, "{" OURS "}"}}, 1, 1024, 30, DRA_UNENFORCED_REFUSE},
                {{{false, "share",
                         MPS("{'defaultActiveThreadPercentage': 10, 'defaultPinnedDeviceMemoryLimit': '512Mi', 'multiUser': "
                             "false}")}},
                        1, 512, 10},
                {{{false, "share",
                         MPS("{'defaultPinnedDeviceMemoryLimit': '512Mi', 'defaultPerDevicePinnedMemoryLimit': "
                             "{'GPU-0': '1025Ki', '1': '2Gi'}}")}},
                        1, 1, 30},
                {{{false, "share", MPS("{'defaultPerDevicePinnedMemoryLimit': {'0': 2097152}}")}}, 1, 2, 30},
                {{{false, "share", MPS("{'defaultPinnedDeviceMemoryLimit': '0.5Gi'}")}}, 1, 512, 30},
                {{{true, "share", MPS("{'defaultActiveThreadPercentage': 10}")},
                         {false, "share", MPS("{'defaultPinnedDeviceMemoryLimit': '5Mi'}")}},
                        2, 5, 30},
                {{{false, "whole",
                          "{" GPU
                          ", 'sharing': {'strategy': 'TimeSlicing', 'timeSlicingConfig': {'interval': 'Default'}}}"},
                         {false, NULL, "{" MIG ", 'sharing': {'strategy': 'TimeSlicing'}}"},
                         {false, NULL, "{" GPU "}"}},
                        3, 1024, 30},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct dra_result wanted[N_DEVICES];
                struct error err;

                assert_ok(apply(wanted, cases[i].configs, cases[i].count, "gpu.nvidia.com", &err), &err);
                assert_int_equal(wanted[SHARED].memory_bytes, cases[i].memory_mib * MIB);
                assert_int_equal(wanted[SHARED].thread_percentage, cases[i].thread_percentage);
                assert_int_equal(wanted[SHARED].unenforced, cases[i].unenforced);
                assert_int_equal(wanted[WHOLE].memory_bytes, 0);
        }
}

static void test_what_makes_no_sense_or_cannot_be_honoured_is_refused_with_what_is_known(void **state UNUSED)
{
        static const struct {
                struct said config;
                enum error_kind kind;
                const char *text; /* after "configuration of the claim: " */
        } cases[] = {
                {{false, NULL, "{}"}, ERROR_INVALID,
                        "apiVersion: missing; known are gpu.warpshare.dev/v1alpha1, resource.nvidia.com/v1beta1"},
                {{false, NULL, "{'apiVersion': 'gpu.warpshare.dev/v1', 'kind': 'ShareConfig'}"}, ERROR_INVALID,
                        "apiVersion: 'gpu.warpshare.dev/v1' is not a known value; known are gpu.warpshare.dev/v1alpha1, "
                        "resource.nvidia.com/v1beta1"},
                {{false, NULL, "{'apiVersion': 'resource.nvidia.com/v1beta1', 'kind': 'VfioDeviceConfig'}"},
                        ERROR_INVALID,
                        "kind: 'VfioDeviceConfig' is not a known value; known are GpuConfig, MigDeviceConfig"},
                {{false, NULL, "{'apiVersion': 'gpu.warpshare.dev/v1alpha1'}"}, ERROR_INVALID,
                        "kind: missing; known are ShareConfig"},
                {{false, NULL, "{" OURS ", 'tier': 'verified'}"}, ERROR_INVALID,
                        "ShareConfig: unknown field 'tier'; known are apiVersion, kind, unenforced"},
                {{false, NULL, "{" OURS ", 'apiVersion, kind': 1}"}, ERROR_INVALID,
                        "ShareConfig: unknown field 'apiVersion, kind'; known are apiVersion, kind, unenforced"},
                {{false, NULL, "{" OURS ", 'unenforced': 'refuse'}"}, ERROR_INVALID,
                        "ShareConfig: unenforced: 'refuse' is not a known value; known are Refuse, Prepare"},
                {{false, NULL, "{" OURS ", 'unenforced': true}"}, ERROR_INVALID,
                        "ShareConfig: unenforced: '' is not a known value; known are Refuse, Prepare"},
                {{false, NULL, "{" OURS ", 'unenforced': 'Prepare'}"}, ERROR_UNSUPPORTED,
                        "ShareConfig: unenforced: only a DeviceClass can say Prepare, since a share without limits is at the "
                        "expense of others"},
                {{false, "mig", "{" GPU "}"}, ERROR_INVALID,
                        "GpuConfig: request 'mig' is for device 'gpu-2-mig-0', which is a MIG device"},
                {{false, "share", "{" MIG "}"}, ERROR_INVALID,
                        "MigDeviceConfig: request 'share' is for device 'gpu-0-shared', which is no MIG device"},
                {{false, "whole", "{" MIG "}"}, ERROR_INVALID,
                        "MigDeviceConfig: request 'whole' is for device 'gpu-1', which is no MIG device"},
                {{false, NULL, "{" GPU ", 'sharing': {}}"}, ERROR_INVALID,
                        "GpuConfig: sharing: strategy: missing; known are TimeSlicing, MPS"},
                {{false, NULL, "{" GPU ", 'sharing': {'strategy': 'MPS', 'timeSlicingConfig': {}}}"}, ERROR_INVALID,
                        "GpuConfig: sharing: timeSlicingConfig cannot stand beside strategy: MPS"},
                {{false, NULL, "{" GPU ", 'sharing': {'strategy': 'TimeSlicing', 'mpsConfig': {}}}"}, ERROR_INVALID,
                        "GpuConfig: sharing: mpsConfig cannot stand beside strategy: TimeSlicing"},
                {{false, NULL, "{" MIG ", 'sharing': {'strategy': 'TimeSlicing', 'timeSlicingConfig': {}}}"},
                        ERROR_INVALID,
                        "MigDeviceConfig: sharing: unknown field 'timeSlicingConfig'; known are strategy, mpsConfig"},
                {{false, NULL,
                         "{" GPU
                         ", 'sharing': {'strategy': 'TimeSlicing', 'timeSlicingConfig': {'interval': 'Long'}}}"},
                        ERROR_UNSUPPORTED,
                        "GpuConfig: sharing: timeSlicingConfig: interval: 'Long' cannot be set: this driver does not change the "
                        "time slice of a GPU; use Default"},
                {{false, "share", MPS("{'defaultActiveThreadPercentage': 101}")}, ERROR_INVALID,
                        "GpuConfig: sharing: mpsConfig: defaultActiveThreadPercentage: must be a number of 1 to 100"},
                {{false, "share", MPS("{'defaultActiveThreadPercentage': 0}")}, ERROR_INVALID,
                        "GpuConfig: sharing: mpsConfig: defaultActiveThreadPercentage: must be a number of 1 to 100"},
                {{false, "share", MPS("{'multiUser': true}")}, ERROR_UNSUPPORTED,
                        "GpuConfig: sharing: mpsConfig: multiUser: MPS daemons serve several users at the same time from driver "
                        "580 on, and this node's is older"},
                {{false, "share", MPS("{'multiUser': 1}")}, ERROR_INVALID,
                        "GpuConfig: sharing: mpsConfig: multiUser: must be true or false"},
                {{false, NULL, "{" GPU ", 'sharing': {'strategy': null}}"}, ERROR_INVALID,
                        "GpuConfig: sharing: strategy: missing; known are TimeSlicing, MPS"},
                {{false, NULL, "{" GPU ", 'unknown': null}"}, ERROR_INVALID,
                        "GpuConfig: unknown field 'unknown'; known are apiVersion, kind, sharing"},
                {{false, "share", MPS("{'defaultPinnedDeviceMemoryLimit': '1Ki'}")}, ERROR_INVALID,
                        "GpuConfig: sharing: mpsConfig: defaultPinnedDeviceMemoryLimit: '1Ki' is not a quantity of at least "
                        "1Mi"},
                {{false, "share", MPS("{'defaultPerDevicePinnedMemoryLimit': {'3': '1Gi'}}")}, ERROR_INVALID,
                        "GpuConfig: sharing: mpsConfig: defaultPerDevicePinnedMemoryLimit: '3' is neither the UUID nor the "
                        "position of a device of the claim"},
                {{false, NULL, "[]"}, ERROR_INVALID,
                        "apiVersion: missing; known are gpu.warpshare.dev/v1alpha1, resource.nvidia.com/v1beta1"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _free_ char *text = xasprintf("configuration of the claim: %s", cases[i].text);
                struct dra_result wanted[N_DEVICES];
                struct error err;

                assert_fails(apply(wanted, &cases[i].config, 1, "gpu.nvidia.com", &err), &err, cases[i].kind, text);
        }
}

static void test_a_strategy_that_the_device_does_not_have_is_refused_with_the_way_out(void **state UNUSED)
{
        static const struct {
                struct said config;
                const char *text;
        } cases[] = {
                {{false, "share", "{" GPU ", 'sharing': {'strategy': 'TimeSlicing'}}"},
                        "sharing.strategy: TimeSlicing, but the device is shared by MPS; ask for another device class"},
                {{false, "whole", "{" GPU ", 'sharing': {'strategy': 'MPS'}}"},
                        "sharing.strategy: MPS, but the device has no MPS daemon; ask for the device class of shared GPUs, with memory "
                        "and threadPercentage as the request's capacity"},
                {{false, "share", MPS("{'defaultPinnedDeviceMemoryLimit': '2Gi'}")},
                        "sharing.mpsConfig: memory limit: 2147483648 is more than the 1073741824 of the share; ask for more in the "
                        "capacity of the request"},
                {{false, "share", MPS("{'defaultActiveThreadPercentage': 31}")},
                        "sharing.mpsConfig.defaultActiveThreadPercentage: 31 is more than the 30 of the share; ask for more in the "
                        "capacity of the request"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct dra_result wanted[N_DEVICES];
                struct error err;

                assert_fails(apply(wanted, &cases[i].config, 1, "gpu.nvidia.com", &err), &err, ERROR_UNSUPPORTED,
                        cases[i].text);
        }
}

static void test_only_a_driver_of_nvidias_name_knows_nvidias_configuration(void **state UNUSED)
{
        static const struct said config = {true, NULL, "{" GPU "}"};
        struct dra_result wanted[N_DEVICES];
        struct error err;

        assert_fails(apply(wanted, &config, 1, "gpu.warpshare.dev", &err), &err, ERROR_INVALID,
                "configuration of the device class: apiVersion: 'resource.nvidia.com/v1beta1' is not a known value; known are "
                "gpu.warpshare.dev/v1alpha1");
}

static void test_a_share_without_enforced_limits_is_given_out_only_where_that_is_allowed(void **state UNUSED)
{
        struct error err;

        for (enum mps_tier tier = MPS_TIER_VERIFIED; tier <= MPS_TIER_NAMESPACE; tier++)
                assert_ok(dra_parameters_check_tier(DRA_UNENFORCED_REFUSE, tier, "GPU-0", &err), &err);
        assert_ok(dra_parameters_check_tier(DRA_UNENFORCED_CONDITION, MPS_TIER_DEFAULT, "GPU-0", &err), &err);
        assert_fails(dra_parameters_check_tier(DRA_UNENFORCED_REFUSE, MPS_TIER_DEFAULT, "GPU-0", &err), &err,
                ERROR_UNSUPPORTED,
                "GPU-0: MPS cannot enforce the limits of a share there; ask for a whole device, or allow it (dra.unenforced: "
                "condition)");
}

static void test_a_null_of_nvidias_configuration_means_that_the_field_is_absent(void **state UNUSED)
{
        static const struct said configs[] = {
                {false, "whole", "{" GPU ", 'sharing': null}"},
                {false, "whole", "{" GPU ", 'sharing': {'strategy': 'TimeSlicing', 'mpsConfig': null}}"},
                {false, "whole", "{" GPU ", 'sharing': {'strategy': 'TimeSlicing', 'timeSlicingConfig': null}}"},
                {false, "whole",
                        "{" GPU ", 'sharing': {'strategy': 'TimeSlicing', 'timeSlicingConfig': {'interval': null}}}"},
                {false, "share",
                        "{" GPU ", 'sharing': {'strategy': 'MPS', 'mpsConfig': null, 'timeSlicingConfig': null}}"},
                {false, "share",
                        MPS("{'defaultActiveThreadPercentage': null, 'defaultPinnedDeviceMemoryLimit': null, "
                            "'defaultPerDevicePinnedMemoryLimit': null, 'multiUser': null}")},
                {false, "mig", "{" MIG ", 'sharing': {'strategy': 'TimeSlicing', 'mpsConfig': null}}"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(configs); i++) {
                struct dra_result wanted[N_DEVICES];
                struct error err;

                print_message("# %s\n", configs[i].text);
                assert_ok(apply(wanted, &configs[i], 1, "gpu.nvidia.com", &err), &err);
                assert_int_equal(wanted[SHARED].memory_bytes, 1024 * MIB);
                assert_int_equal(wanted[SHARED].thread_percentage, 30);
        }
}

static void test_several_users_may_be_asked_for_where_daemons_serve_them(void **state UNUSED)
{
        static const struct said config = {
                false, "share", MPS("{'multiUser': true, 'defaultActiveThreadPercentage': 10}")};
        struct dra_result wanted[N_DEVICES];
        struct error err;

        is_multi_user = true;
        assert_ok(apply(wanted, &config, 1, "gpu.nvidia.com", &err), &err);
        assert_int_equal(wanted[SHARED].thread_percentage, 10);
        is_multi_user = false;
        assert_int_equal(apply(wanted, &config, 1, "gpu.nvidia.com", &err), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_null_of_nvidias_configuration_means_that_the_field_is_absent),
                cmocka_unit_test(test_several_users_may_be_asked_for_where_daemons_serve_them),
                cmocka_unit_test(test_what_is_said_counts_by_request_class_before_claim_and_later_over_earlier),
                cmocka_unit_test(test_what_makes_no_sense_or_cannot_be_honoured_is_refused_with_what_is_known),
                cmocka_unit_test(test_a_strategy_that_the_device_does_not_have_is_refused_with_the_way_out),
                cmocka_unit_test(test_only_a_driver_of_nvidias_name_knows_nvidias_configuration),
                cmocka_unit_test(test_a_share_without_enforced_limits_is_given_out_only_where_that_is_allowed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
