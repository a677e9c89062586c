/*
 * A ResourceClaim. What is read has names that are safe in paths and in names of CDI devices, and no more of anything than the API has.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "dra/claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct dra_claim_asked asked = {
                .namespace = "team", .name = "a", .uid = "u", .driver = "d", .pool = "p"};
        json_t *object = json_loadb((const char *)data, size, 0, NULL);
        struct arena arena = ARENA_INIT;
        struct dra_claim claim;
        struct error err;

        if (object && dra_claim_read(&claim, &arena, object, &asked, &err) == 0) {
                assert(claim.n_results >= 1 && claim.n_results <= DRA_CLAIM_RESULTS_MAX);
                assert(claim.n_configs <= DRA_CLAIM_CONFIGS_MAX && claim.n_pods <= DRA_CLAIM_PODS_MAX);
                for (size_t i = 0; i < claim.n_results; i++) {
                        const struct dra_claim_result *result = &claim.results[i];

                        assert(!strpbrk(result->device, "./ ") && !strpbrk(result->request, "./ "));
                        assert(!result->share_id || strlen(result->share_id) == 36);
                        for (size_t j = 0; j < claim.n_configs; j++)
                                dra_claim_config_applies(&claim.configs[j], result);
                }
        }
        json_decref(object);
        arena_done(&arena);
        return 0;
}
