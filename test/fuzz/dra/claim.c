// SPDX-License-Identifier: Apache-2.0
/*
 * A ResourceClaim. What is read has names that are safe in paths and in names of CDI devices, and no more of anything
 * than the API has. Its configuration raises no limit of a share.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "node/dra/claim.h"
#include "node/dra/parameters.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As if each result had 8 MiB and 40 % of a shared GPU. */
static void configure(struct dra_claim *claim)
{
        static const struct dra_device device = {.kind = DRA_DEVICE_SHARED, .name = "gpu-0-shared", .uuid = "GPU-0"};
        static const struct dra_wanted_rules rules = {.driver = "gpu.nvidia.com"};
        const uint64_t memory = UINT64_C(8) << 20;
        struct error err;

        for (size_t i = 0; i < claim->n_results; i++) {
                claim->results[i].offered = &device;
                claim->results[i].unit = device.uuid;
                claim->results[i].memory_bytes = memory;
                claim->results[i].thread_percentage = 40;
        }
        for (size_t i = 0; i < claim->n_results; i++) {
                const struct dra_result *result = &claim->results[i];

                (void)!dra_parameters_apply(claim, i, &rules, &err);
                assert(result->memory_bytes > 0 && result->memory_bytes <= memory);
                assert(result->thread_percentage > 0 && result->thread_percentage <= 40);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        json_t *object = json_loadb((const char *)data, size, 0, NULL);
        struct arena arena = ARENA_INIT;
        struct dra_claim claim = {.namespace = "team", .name = "a", .uid = "u"};
        struct error err;

        if (object && dra_claim_read(&claim, &arena, object, "d", "p", &err) == 0) {
                assert(claim.n_results >= 1 && claim.n_results <= DRA_CLAIM_RESULTS_MAX);
                assert(claim.n_configs <= DRA_CLAIM_CONFIGS_MAX && claim.n_pods <= DRA_CLAIM_PODS_MAX);
                for (size_t i = 0; i < claim.n_results; i++) {
                        const struct dra_result *result = &claim.results[i];

                        assert(!strpbrk(result->device, "./ ") && !strpbrk(result->request, "./ "));
                        assert(!result->share_id || strlen(result->share_id) == 36);
                        for (size_t j = 0; j < claim.n_configs; j++)
                                dra_claim_config_applies(&claim.configs[j], result);
                }
                configure(&claim);
        }
        json_decref(object);
        arena_done(&arena);
        return 0;
}
