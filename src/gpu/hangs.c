#include "gpu/hangs.h"

#include <stdio.h>
#include <string.h>

/* The same GPU; calls that are about no GPU in particular are about the same thing. */
static bool is_about_the_same(const struct call_info *a, const struct call_info *b)
{
        if (a->subject != b->subject)
                return false;
        return a->subject != CALL_ON_GPU || a->index == b->index;
}

enum hang_answer hang_judge(const struct call_info *call, const struct call_info *dismissed, size_t n_dismissed)
{
        if (call->subject == CALL_TO_OPEN || n_dismissed >= HANGS_MAX)
                return HANG_WAIT;
        for (size_t i = 0; i < n_dismissed; i++)
                if (is_about_the_same(call, &dismissed[i]))
                        return HANG_WAIT;
        return HANG_REPLACE;
}

void hang_name_gpu(struct call_info *call, const struct inventory *inventory)
{
        if (call->subject != CALL_ON_GPU || call->gpu[0] || !inventory)
                return;
        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (inventory->gpus[i].index == call->index)
                        snprintf(call->gpu, sizeof(call->gpu), "%s", inventory->gpus[i].uuid);
}

void hang_print(const struct call_info *call, char *text, size_t size)
{
        if (call->subject != CALL_ON_GPU)
                snprintf(text, size, "%s", call->call);
        else if (call->index == CALL_NO_INDEX)
                snprintf(text, size, "%s of %s", call->call, call->gpu);
        else if (call->gpu[0])
                snprintf(text, size, "%s of GPU %u (%s)", call->call, call->index, call->gpu);
        else
                snprintf(text, size, "%s of GPU %u", call->call, call->index);
}

uint64_t hang_seconds(const struct call_info *call, uint64_t now_ms)
{
        return now_ms > call->since_ms ? (now_ms - call->since_ms) / 1000 : 0;
}

struct skips hang_skips(const struct call_info *dismissed, size_t n_dismissed)
{
        struct skips skips = {0};

        for (size_t i = 0; i < n_dismissed && i < HANGS_MAX; i++) {
                const struct call_info *call = &dismissed[i];
                struct skipped_gpu *gpu = &skips.gpus[skips.n_gpus];

                skips.pairs = skips.pairs || call->subject == CALL_ON_PAIR;
                if (call->subject != CALL_ON_GPU)
                        continue;
                gpu->index = call->index;
                snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", call->gpu);
                snprintf(gpu->reason, sizeof(gpu->reason),
                        "%s does not return; nothing is asked of this GPU until it does", call->call);
                skips.n_gpus++;
        }
        return skips;
}

const struct skipped_gpu *skips_at(const struct skips *skips, unsigned int index)
{
        for (size_t i = 0; skips && i < skips->n_gpus; i++)
                if (skips->gpus[i].index == index)
                        return &skips->gpus[i];
        return NULL;
}

const struct skipped_gpu *skips_find(const struct skips *skips, const char *uuid)
{
        for (size_t i = 0; skips && i < skips->n_gpus; i++)
                if (strcmp(skips->gpus[i].uuid, uuid) == 0)
                        return &skips->gpus[i];
        return NULL;
}
