// SPDX-License-Identifier: Apache-2.0
/*
 * The ResourceSlices of a simulated node, as JSON on standard output, for tests.
 *
 *     print-slices SCENARIO [WORD...]     words: those of words.h, v1beta2, v1beta1, together (counters and
 *                                         devices in one slice), tainted (all GPUs)
 */
#include <stdio.h>

#include "node/dra/slices.h"
#include "test/dra/words.h"

static void add_taints(struct dra_slices_options *slices, struct arena *arena, const struct inventory *inventory)
{
        struct dra_taint *taints = ARENA_ARRAY(arena, struct dra_taint, inventory->n_gpus);

        for (size_t i = 0; i < inventory->n_gpus; i++)
                taints[i] = (struct dra_taint){.uuid = inventory->gpus[i].uuid,
                        .key = DRA_DRIVER "/xid",
                        .value = "79",
                        .effect = DRA_EFFECT_NO_SCHEDULE};
        slices->taints = taints;
        slices->n_taints = inventory->n_gpus;
}

int main(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(inventory_freep) struct inventory *inventory = NULL;
        struct dra_options options = DRA_OPTIONS_DEFAULT;
        struct dra_slices_options slices = {
                .driver = DRA_DRIVER, .node = "n1", .pool = "n1/" DRA_DRIVER, .has_taints = true};
        char **words;
        json_t *json;

        if (argc < 2)
                return 2;
        inventory = simulated_inventory(argv[1]);
        words = &argv[2];
        set_options(&options, &arena, inventory, words);
        slices.counters_apart = !has_word(words, "together");
        if (has_word(words, "v1beta2"))
                slices.api = DRA_API_V1BETA2;
        if (has_word(words, "v1beta1"))
                slices.api = DRA_API_V1BETA1;
        if (has_word(words, "tainted"))
                add_taints(&slices, &arena, inventory);
        json = dra_slices_build(dra_layout_build(&arena, inventory, &options), &slices);
        json_dumpf(json, stdout, JSON_COMPACT);
        json_decref(json);
        return 0;
}
