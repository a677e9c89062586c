// SPDX-License-Identifier: Apache-2.0
/*
 * What a container gets with a device of a claim.
 */
#include "unit.h"

#include "base/strbuf.h"
#include "node/dra/claim_cdi.h"

static const struct config config = {.mps.root = "/run/nvidia/mps/"};
static const struct gpu gpu = {.memory = UINT64_C(80) << 30};
static const struct mig_device mig = {.memory = UINT64_C(20) << 30};
static const struct unit units[] = {{.uuid = "GPU-0", .gpu = &gpu}, {.uuid = "GPU-3", .gpu = &gpu, .mig = &mig}};
static const struct resource claimable = {.units = units, .n_units = ARRAY_SIZE(units)};
static const struct ledger_claimed claimed = {
        .tier = MPS_TIER_VERIFIED, .daemon = "GPU-0", .pipe = "GPU-0/pipe", .shm = "shm"};

static struct ledger_claim_device share(uint64_t mib, unsigned int permille)
{
        return (struct ledger_claim_device){
                .id = "c15eb_0", .unit = "GPU-0", .is_shared = true, .limit_mib = mib, .threads_permille = permille};
}

/* "A=1 B=2 /host→/container:ro …" */
static char *text_of(const struct dra_edits *edits)
{
        struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < edits->n_env; i++)
                strbuf_printf(&text, "%s\n", edits->env[i]);
        for (size_t i = 0; i < edits->n_mounts; i++)
                strbuf_printf(&text, "%s at %s%s\n", edits->mounts[i].host_path, edits->mounts[i].path,
                        edits->mounts[i].is_writable ? ", writable" : "");
        return text.data;
}

static void assert_edits_of(const struct config *of, const struct ledger_claim_device *const *devices, size_t n_devices,
        const struct ledger_claimed *given, const char *expected)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct plan plan = {.config = of, .claimable = &claimable};
        struct dra_edits edits = dra_edits_of(&arena, &plan, devices, n_devices, given);
        _free_ char *text = text_of(&edits);

        assert_string_equal(text, expected);
        assert_int_equal(edits.n_nodes, 0);
}

static void assert_edits(const struct config *of, const struct ledger_claim_device *device,
        const struct ledger_claimed *given, const char *expected)
{
        assert_edits_of(of, &device, 1, given, expected);
}

static void test_a_share_has_the_daemons_sockets_and_its_limits(void **state UNUSED)
{
        const struct ledger_claim_device device = share(10240, 300);

        assert_edits(&config, &device, &claimed,
                "NVIDIA_VISIBLE_DEVICES=void\n"
                "CUDA_MPS_PIPE_DIRECTORY=/mps/GPU-0/pipe\n"
                "WARPSHARE_GRANT=c15eb_0\n"
                "WARPSHARE_TIER=verified\n"
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30\n"
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=10240M\n"
                "WARPSHARE_MEMORY_LIMIT_MIB=10240\n"
                "WARPSHARE_THREAD_PERCENTAGE=30.0\n"
                "WARPSHARE_FRACTION=0.125\n"
                "/run/nvidia/mps/GPU-0/pipe at /mps/GPU-0/pipe\n"
                "/run/nvidia/mps/shm at /dev/shm, writable\n");
}

static void test_what_the_supervisor_made_is_mounted_at_the_usual_place(void **state UNUSED)
{
        const struct ledger_claim_device device = share(10240, 1000);
        const struct ledger_claimed made = {
                .tier = MPS_TIER_NAMESPACE, .daemon = "GPU-0", .pipe = "GPU-0/ns/c15eb_0", .shm = "GPU-0/shm"};
        const struct config writable = {.mps.root = "/mps-root", .mps.pipes_writable = true};

        assert_edits(&writable, &device, &made,
                "NVIDIA_VISIBLE_DEVICES=void\n"
                "CUDA_MPS_PIPE_DIRECTORY=/mps/GPU-0/pipe\n"
                "WARPSHARE_GRANT=c15eb_0\n"
                "WARPSHARE_TIER=namespace\n"
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100\n"
                "WARPSHARE_MEMORY_LIMIT_MIB=10240\n"
                "WARPSHARE_THREAD_PERCENTAGE=100.0\n"
                "WARPSHARE_FRACTION=0.125\n"
                "/mps-root/GPU-0/ns/c15eb_0 at /mps/GPU-0/pipe, writable\n"
                "/mps-root/GPU-0/shm at /dev/shm, writable\n");
}

static void test_a_unit_without_mps_has_no_part_in_it(void **state UNUSED)
{
        const struct ledger_claim_device device = {.id = "c15eb_0", .unit = "GPU-0", .is_alone = true};

        assert_edits(&config, &device, &(struct ledger_claimed){0}, "NVIDIA_VISIBLE_DEVICES=void\n");
}

static void test_shares_of_several_gpus_are_limited_each_by_its_position(void **state UNUSED)
{
        const struct ledger_claim_device first = share(10240, 300);
        const struct ledger_claim_device second = {
                .id = "c15eb_1", .unit = "GPU-3", .is_shared = true, .limit_mib = 5120, .threads_permille = 200};
        const struct ledger_claim_device *const devices[] = {&first, &second};
        const struct ledger_claimed common = {.tier = MPS_TIER_VERIFIED,
                .daemon = "gpu.warpshare.dev",
                .pipe = "gpu.warpshare.dev/pipe",
                .shm = "shm"};

        assert_edits_of(&config, devices, 2, &common,
                "NVIDIA_VISIBLE_DEVICES=void\n"
                "CUDA_MPS_PIPE_DIRECTORY=/mps/gpu.warpshare.dev/pipe\n"
                "WARPSHARE_GRANT=c15eb_0\n"
                "WARPSHARE_TIER=verified\n"
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=20\n"
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=10240M,1=5120M\n"
                "CUDA_DEVICE_ORDER=PCI_BUS_ID\n"
                "WARPSHARE_THREAD_PERCENTAGE=20.0\n"
                "WARPSHARE_FRACTION=0.125\n" /* of 10240 MiB of 80 GiB, and 5120 MiB of a MIG device with 20 GiB */
                "/run/nvidia/mps/gpu.warpshare.dev/pipe at /mps/gpu.warpshare.dev/pipe\n"
                "/run/nvidia/mps/shm at /dev/shm, writable\n");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_share_has_the_daemons_sockets_and_its_limits),
                cmocka_unit_test(test_what_the_supervisor_made_is_mounted_at_the_usual_place),
                cmocka_unit_test(test_a_unit_without_mps_has_no_part_in_it),
                cmocka_unit_test(test_shares_of_several_gpus_are_limited_each_by_its_position),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
