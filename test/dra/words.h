// SPDX-License-Identifier: Apache-2.0
/*
 * What is to be offered, in words of a command line: time-slicing, dynamic-mig, no-whole, no-mps, safe, shares (safe,
 * in 4 shares), one-form (to a scheduler that forgets shares), one-form-whole, overhead and
 * less-overhead (of shares on the node).
 */
#pragma once

#include "test/unit/node/dra/simulated.h"

static inline bool has_word(char *const *words, const char *word)
{
        for (; *words; words++)
                if (strcmp(*words, word) == 0)
                        return true;
        return false;
}

static inline void set_options(
        struct dra_options *options, struct arena *arena, const struct inventory *inventory, char *const *words)
{
        options->config.whole = !has_word(words, "no-whole");
        options->config.mps = !has_word(words, "no-mps");
        options->config.time_slicing = has_word(words, "time-slicing");
        options->features.partitionable_devices = !has_word(words, "shares") && !has_word(words, "safe");
        options->config.fallback = has_word(words, "shares") ? DRA_FALLBACK_SHARES : DRA_FALLBACK_WHOLE;
        if (has_word(words, "one-form") || has_word(words, "one-form-whole"))
                options->forgetful = "v1.36.1";
        options->config.one_form = has_word(words, "one-form-whole") ? DRA_ONE_FORM_WHOLE : DRA_ONE_FORM_SHARED;
        if (has_word(words, "overhead"))
                options->config.shared_overhead = (struct dra_overhead){.pod_mib = 300, .container_milli = 250};
        if (has_word(words, "less-overhead"))
                options->config.shared_overhead = (struct dra_overhead){.pod_mib = 300, .container_milli = 150};
        if (has_word(words, "dynamic-mig"))
                simulated_mig(options, arena, inventory);
}
