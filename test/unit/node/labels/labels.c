// SPDX-License-Identifier: Apache-2.0
/* What the tables of test/fixtures/labels do not show: values from outside, times, vGPUs, platforms without NVML. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "gpu/platform.h"
#include "node/labels/labels.h"

struct bench {
        struct arena arena;
        struct config config;
        struct gpu gpus[4];
        struct inventory inventory;
        struct labels_input input;
        struct labels labels;
        struct strbuf warnings;
};

static void bench_init(struct bench *bench, size_t n_gpus)
{
        *bench = (struct bench){.warnings = STRBUF_INIT};
        bench->inventory.driver_version = "580.105.08";
        bench->inventory.gpus = bench->gpus;
        bench->inventory.n_gpus = n_gpus;
        bench->input = (struct labels_input){.config = &bench->config, .inventory = &bench->inventory};
        for (size_t i = 0; i < n_gpus; i++) {
                bench->gpus[i] = inventory_unknown_gpu("GPU-0");
                bench->gpus[i].name = "MOCKMODEL";
                bench->gpus[i].index = (unsigned int)i;
        }
}

static void bench_done(struct bench *bench)
{
        arena_done(&bench->arena);
        strbuf_done(&bench->warnings);
}

static void add_warning(const char *text, void *data)
{
        strbuf_printf(data, "%s\n", text);
}

static const char *get(struct bench *bench, const char *key)
{
        strbuf_clear(&bench->warnings);
        labels_build(&bench->labels, &bench->arena, &bench->input, add_warning, &bench->warnings);
        for (size_t i = 0; i < bench->labels.count; i++)
                if (strcmp(bench->labels.items[i].key, key) == 0)
                        return bench->labels.items[i].value;
        return "(none)";
}

static void test_names_are_cleaned_as_nvidia_does(void **state UNUSED)
{
        static const char *const table[][2] = {
                {"NVIDIA-TITAN-X-(Pascal)", "NVIDIA-TITAN-X-Pascal"},
                {"some ( thing )else", "some-thing-else"},
                {"some [ / thing / ]else", "some-thing-else"},
                {"  two  blanks  ", "two-blanks"},
                {"product-name", "product-name"},
                {"\xc3\xa4\xc3\xb6", ""},
                {"", ""},
        };
        struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++)
                assert_string_equal(label_clean(&arena, table[i][0]), table[i][1]);
        arena_done(&arena);
}

static void test_no_value_is_one_that_the_api_server_refuses(void **state UNUSED)
{
        static const char *const table[][2] = {
                {"-Standard PC-", "Standard-PC"},
                {"...", ""},
                {"1234567890123456789012345678901234567890123456789012345678901234567890",
                        "123456789012345678901234567890123456789012345678901234567890123"},
                {"12345678901234567890123456789012345678901234567890123456789012-4",
                        "12345678901234567890123456789012345678901234567890123456789012"},
                {"a\nb", "a"},
                {"", ""},
        };
        _cleanup_(bench_done) struct bench bench;

        bench_init(&bench, 1);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                bench.input.machine = table[i][0];
                assert_string_equal(get(&bench, "nvidia.com/gpu.machine"), table[i][1]);
        }
        bench.input.machine = NULL;
        assert_string_equal(get(&bench, "nvidia.com/gpu.machine"), "unknown");
}

static void test_the_driver_version_has_two_or_three_parts(void **state UNUSED)
{
        static const struct {
                const char *version;
                const char *full;
                const char *revision;
        } table[] = {
                {"580.105.08", "580.105.08", "08"},
                {"590.48", "590.48", ""},
                {"580", "(none)", "(none)"},
                {"580.1.2.3", "(none)", "(none)"},
                {"", "(none)", "(none)"},
        };
        _cleanup_(bench_done) struct bench bench;

        bench_init(&bench, 1);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                bench.inventory.driver_version = table[i].version;
                assert_string_equal(get(&bench, "nvidia.com/cuda.driver-version.full"), table[i].full);
                assert_string_equal(get(&bench, "nvidia.com/cuda.driver-version.revision"), table[i].revision);
                assert_string_equal(get(&bench, "nvidia.com/cuda.driver.rev"), table[i].revision);
        }
        assert_string_equal(
                bench.warnings.data, "no labels of the driver's version: '' is not of the form X.Y or X.Y.Z\n");
}

static void test_the_mode_is_that_of_all_gpus(void **state UNUSED)
{
        static const struct {
                unsigned int first;
                unsigned int second;
                const char *mode;
        } table[] = {
                {0x030000, 0x030000, "graphics"},
                {0x030200, 0x030200, "compute"},
                {0x030200, 0x030000, "unknown"},
                {0x068000, 0x068000, "unknown"},
                {0, 0, "unknown"},
        };
        _cleanup_(bench_done) struct bench bench;

        bench_init(&bench, 2);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                bench.gpus[0].pci_class = table[i].first;
                bench.gpus[1].pci_class = table[i].second;
                assert_string_equal(get(&bench, "nvidia.com/gpu.mode"), table[i].mode);
        }
}

static void test_the_family_follows_the_compute_capability(void **state UNUSED)
{
        static const struct {
                int major;
                int minor;
                const char *family;
        } table[] = {
                {1, 0, "tesla"},
                {2, 1, "fermi"},
                {3, 5, "kepler"},
                {4, 0, "undefined"},
                {5, 2, "maxwell"},
                {6, 1, "pascal"},
                {7, 0, "volta"},
                {7, 2, "volta"},
                {7, 5, "turing"},
                {8, 0, "ampere"},
                {8, 6, "ampere"},
                {8, 9, "ada-lovelace"},
                {9, 0, "hopper"},
                {10, 3, "blackwell"},
                {11, 0, "undefined"},
                {12, 1, "blackwell"},
                {13, 0, "rubin"},
                {0, 0, "(none)"},
                {-1, -1, "(none)"},
        };
        _cleanup_(bench_done) struct bench bench;

        bench_init(&bench, 1);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                bench.gpus[0].compute_major = table[i].major;
                bench.gpus[0].compute_minor = table[i].minor;
                assert_string_equal(get(&bench, "nvidia.com/gpu.family"), table[i].family);
        }
        assert_string_equal(get(&bench, "nvidia.com/gpu.compute.major"), "(none)");
}

static void test_without_gpus_there_are_only_labels_of_time_and_vgpu(void **state UNUSED)
{
        _cleanup_(bench_done) struct bench bench;

        bench_init(&bench, 0);
        bench.config.mig_strategy = MIG_STRATEGY_MIXED;
        bench.input.vgpu.state = VGPU_ABSENT;
        bench.input.timestamp = 1700000000;
        assert_string_equal(get(&bench, "nvidia.com/gfd.timestamp"), "1700000000");
        assert_string_equal(get(&bench, "nvidia.com/vgpu.present"), "false");
        assert_int_equal(bench.labels.count, 2);
        bench.input.inventory = NULL;
        assert_string_equal(get(&bench, "nvidia.com/vgpu.present"), "false");
        assert_int_equal(bench.labels.count, 2);
        bench.input.timestamp = 0;
        bench.input.vgpu.state = VGPU_UNKNOWN;
        assert_string_equal(get(&bench, "nvidia.com/vgpu.present"), "(none)");
        assert_int_equal(bench.labels.count, 0);
}

static void test_a_vgpu_has_a_label_of_its_host_driver_if_that_is_known(void **state UNUSED)
{
        _cleanup_(bench_done) struct bench bench;

        bench_init(&bench, 1);
        bench.input.vgpu = (struct vgpu){VGPU_PRESENT, "460.16", "r460_00"};
        assert_string_equal(get(&bench, "nvidia.com/vgpu.present"), "true");
        assert_string_equal(get(&bench, "nvidia.com/vgpu.host-driver-version"), "460.16");
        assert_string_equal(get(&bench, "nvidia.com/vgpu.host-driver-branch"), "r460_00");
        bench.input.vgpu = (struct vgpu){.state = VGPU_PRESENT};
        assert_string_equal(get(&bench, "nvidia.com/vgpu.present"), "true");
        assert_string_equal(get(&bench, "nvidia.com/vgpu.host-driver-version"), "(none)");
}

static void test_tegra_and_wsl_have_a_count_and_no_product(void **state UNUSED)
{
        static const enum platform platforms[] = {PLATFORM_TEGRA, PLATFORM_WSL};

        for (size_t i = 0; i < ARRAY_SIZE(platforms); i++) {
                _cleanup_(bench_done) struct bench bench;
                struct inventory *inventory = platform_inventory(platforms[i]);

                bench_init(&bench, 0);
                bench.input.inventory = inventory;
                assert_string_equal(get(&bench, "nvidia.com/gpu.count"), "1");
                assert_string_equal(get(&bench, "nvidia.com/gpu.replicas"), "1");
                assert_string_equal(get(&bench, "nvidia.com/gpu.product"), "(none)");
                assert_string_equal(get(&bench, "nvidia.com/cuda.driver-version.full"), "unknown.unknown.unknown");
                assert_string_equal(get(&bench, "nvidia.com/cuda.runtime.major"), "(none)");
                assert_string_equal(bench.warnings.data, "");
                inventory_free(inventory);
        }
}

static void test_a_gpu_without_a_known_name_has_no_labels(void **state UNUSED)
{
        _cleanup_(bench_done) struct bench bench;

        bench_init(&bench, 2);
        bench.gpus[1].name = "";
        assert_string_equal(get(&bench, "nvidia.com/gpu.count"), "1");
        bench.gpus[0].name = "";
        assert_string_equal(get(&bench, "nvidia.com/gpu.count"), "(none)");
        assert_int_equal(bench.labels.count, 0);
}

static void test_a_key_that_is_too_long_is_left_out(void **state UNUSED)
{
        static char name[65];
        _cleanup_(bench_done) struct bench bench;

        memset(name, 'a', sizeof(name) - 1);
        bench_init(&bench, 1);
        bench.gpus[0].name = name;
        assert_string_equal(get(&bench, "nvidia.com/gpu.count"), "1");
        assert_int_equal(strlen(get(&bench, "nvidia.com/gpu.product")), LABELS_MAX_VALUE);
        assert_true(text_starts_with(bench.warnings.data, "no label 'warpshare.dev/product.aaaa"));
}

/* ---- what real nodes have ---- */

static void read_recorded(const char *name, struct strbuf *text)
{
        _free_ char *path = xasprintf(RECORDED "/%s", name);
        struct error err;

        assert_ok(file_read(path, 1 << 20, text, &err), &err);
        strbuf_putc(text, '\0');
}

/* A node with one T4, as NVIDIA's gpu-feature-discovery 0.20 labels it. */
static void test_a_t4_has_the_labels_that_were_recorded(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _cleanup_(bench_done) struct bench bench;
        size_t compared = 0;
        char *rest;
        char *line;

        bench_init(&bench, 1);
        bench.inventory.driver_version = "615.71.09";
        bench.inventory.cuda_major = 13;
        bench.inventory.cuda_minor = 4;
        bench.gpus[0].name = "Tesla T4";
        bench.gpus[0].compute_major = 7;
        bench.gpus[0].compute_minor = 5;
        bench.gpus[0].memory = UINT64_C(15360) << 20;
        bench.gpus[0].pci_class = 0x030200;
        bench.gpus[0].architecture = GPU_ARCHITECTURE_TURING;
        bench.input.machine = "Google Compute Engine\n";
        bench.input.vgpu.state = VGPU_ABSENT;
        bench.input.timestamp = 1789112881;
        read_recorded("gpu/labels-t4-615-gfd-0.20.txt", &text);
        rest = text.data;
        while ((line = strsep(&rest, "\n")) && *line) {
                const char *key = strsep(&line, "=");

                assert_non_null(line);
                if (strcmp(get(&bench, key), line) != 0)
                        fail_msg("%s is '%s', recorded '%s'", key, get(&bench, key), line);
                compared++;
        }
        assert_int_equal(compared, 26);
}

/* Products and machines as they are recorded are what cleaning leaves as it is; driver branches too. */
static void test_recorded_values_of_vgpus_and_machines_are_kept(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _cleanup_(bench_done) struct bench bench;
        static const char *const table[][2] = {
                {"GRID A100-40C", "GRID-A100-40C"},
                {"GRID A100-8C", "GRID-A100-8C"},
                {"NVIDIA A16-4Q", "NVIDIA-A16-4Q"},
        };
        static const char *const machines[][2] = {
                {"AS -4124GS-TNR", "AS--4124GS-TNR"},
                {"SYS-1019GP-TT-02-NC24B", "SYS-1019GP-TT-02-NC24B"},
                {"Google Compute Engine", "Google-Compute-Engine"},
                {"VCG", "VCG"},
        };

        bench_init(&bench, 1);
        read_recorded("gpu/labels-vgpu-and-fabric.txt", &text);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                bench.gpus[0].name = table[i][0];
                assert_string_equal(get(&bench, "nvidia.com/gpu.product"), table[i][1]);
                assert_non_null(strstr(text.data, table[i][1]));
        }
        for (size_t i = 0; i < ARRAY_SIZE(machines); i++) {
                bench.input.machine = machines[i][0];
                assert_string_equal(get(&bench, "nvidia.com/gpu.machine"), machines[i][1]);
                assert_non_null(strstr(text.data, machines[i][1]));
        }
        assert_non_null(strstr(text.data, "; gpu.memory 8192; gpu.mode compute or graphics; mig.capable false; "));
        bench.gpus[0].memory = UINT64_C(8192) << 20;
        assert_string_equal(get(&bench, "nvidia.com/gpu.memory"), "8192");
        bench.gpus[0].pci_class = 0x030200;
        assert_string_equal(get(&bench, "nvidia.com/gpu.mode"), "compute");
        bench.gpus[0].pci_class = 0x030000;
        assert_string_equal(get(&bench, "nvidia.com/gpu.mode"), "graphics");
        assert_string_equal(get(&bench, "nvidia.com/mig.capable"), "false");
}

/* Begins what stands behind |key| in the recording. */
static char *find_recorded(const struct strbuf *text, const char *key)
{
        char *found = strstr(text->data, key);

        assert_non_null(found);
        return found + strlen(key);
}

static void test_each_recorded_host_driver_of_a_vgpu_is_a_label(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _cleanup_(bench_done) struct bench bench;
        char *branches;
        char *versions;
        size_t compared = 0;

        bench_init(&bench, 1);
        read_recorded("gpu/labels-vgpu-and-fabric.txt", &text);
        branches = find_recorded(&text, "nvidia.com/vgpu.host-driver-branch: ");
        versions = find_recorded(&text, "; vgpu.host-driver-version: ");
        branches[strcspn(branches, ";")] = '\0';
        versions[strcspn(versions, "\n")] = '\0';
        while (branches && versions) {
                bench.input.vgpu = (struct vgpu){.state = VGPU_PRESENT};
                strcpy(bench.input.vgpu.host_driver_branch, strsep(&branches, ","));
                strcpy(bench.input.vgpu.host_driver_version, strsep(&versions, ","));
                if (branches)
                        branches++;
                if (versions)
                        versions++;
                assert_string_equal(get(&bench, "nvidia.com/vgpu.present"), "true");
                assert_string_equal(
                        get(&bench, "nvidia.com/vgpu.host-driver-version"), bench.input.vgpu.host_driver_version);
                assert_string_equal(
                        get(&bench, "nvidia.com/vgpu.host-driver-branch"), bench.input.vgpu.host_driver_branch);
                compared++;
        }
        assert_int_equal(compared, 3);
}

/* "<uuid>.2478, <uuid>.388 (GB300), .2 (GB200), .32766 (GB300)" */
static void test_each_recorded_clique_is_a_label(void **state UNUSED)
{
        static const char cluster[] = "6d0a1f2e-0123-4567-89ab-cdef01234567";
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _cleanup_(bench_done) struct bench bench;
        size_t compared = 0;
        char *at;

        bench_init(&bench, 2);
        read_recorded("gpu/labels-vgpu-and-fabric.txt", &text);
        at = find_recorded(&text, "nvidia.com/gpu.clique: ");
        at[strcspn(at, "\n")] = '\0';
        while ((at = strchr(at, '.'))) {
                const unsigned int clique = (unsigned int)strtoul(++at, &at, 10);
                _free_ char *label = xasprintf("%s.%u", cluster, clique);

                assert_true(clique > 0);
                for (size_t i = 0; i < 2; i++)
                        bench.gpus[i].fabric =
                                (struct gpu_fabric){.state = GPU_FABRIC_ATTACHED, .cluster = cluster, .clique = clique};
                assert_string_equal(get(&bench, "nvidia.com/gpu.clique"), label);
                compared++;
        }
        assert_int_equal(compared, 4);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names_are_cleaned_as_nvidia_does),
                cmocka_unit_test(test_no_value_is_one_that_the_api_server_refuses),
                cmocka_unit_test(test_the_driver_version_has_two_or_three_parts),
                cmocka_unit_test(test_the_mode_is_that_of_all_gpus),
                cmocka_unit_test(test_the_family_follows_the_compute_capability),
                cmocka_unit_test(test_without_gpus_there_are_only_labels_of_time_and_vgpu),
                cmocka_unit_test(test_a_vgpu_has_a_label_of_its_host_driver_if_that_is_known),
                cmocka_unit_test(test_tegra_and_wsl_have_a_count_and_no_product),
                cmocka_unit_test(test_a_gpu_without_a_known_name_has_no_labels),
                cmocka_unit_test(test_a_key_that_is_too_long_is_left_out),
                cmocka_unit_test(test_a_t4_has_the_labels_that_were_recorded),
                cmocka_unit_test(test_recorded_values_of_vgpus_and_machines_are_kept),
                cmocka_unit_test(test_each_recorded_host_driver_of_a_vgpu_is_a_label),
                cmocka_unit_test(test_each_recorded_clique_is_a_label),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
