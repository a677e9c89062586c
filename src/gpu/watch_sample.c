#include "gpu/watch_sample.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gpu/watch_events.h"

#define XIDS_MAX ((size_t)512) /* kinds, on all GPUs; those that come first */

void watch_count_xid(struct watch *watch, size_t group, uint64_t xid)
{
        const char *gpu = watch->units.groups[group].units[0].uuid;
        struct gpu_xid *counted = NULL;

        for (size_t i = 0; i < watch->n_xids && !counted; i++)
                if (watch->xids[i].xid == xid && strcmp(watch->xids[i].gpu, gpu) == 0)
                        counted = &watch->xids[i];
        if (!counted) {
                if (watch->n_xids == XIDS_MAX)
                        return;
                watch->xids = xrealloc(watch->xids, (watch->n_xids + 1) * sizeof(*watch->xids));
                counted = &watch->xids[watch->n_xids++];
                *counted = (struct gpu_xid){.xid = xid};
                snprintf(counted->gpu, sizeof(counted->gpu), "%s", gpu);
        }
        counted->count++;
        counted->last = (int64_t)time(NULL);
}

uint64_t watch_sample_at(const struct watch *watch)
{
        return watch->options->sample_ms ? watch->sample_at_ms : HEALTH_NEVER;
}

static bool may_sample(const struct watch *watch, const struct gpu *gpu)
{
        return !gpu->failure && !skips_find(&watch->skips, gpu->uuid);
}

static void sample_gpu(struct watch *watch, const struct gpu *gpu)
{
        const struct watch_options *options = watch->options;

        call_trace_ask(options->trace, CALL_ON_GPU, gpu->index, gpu->uuid);
        gpu_samples_add(watch->samples, watch->nvml, gpu, options->paths.system_root, options->sample_ms);
        call_trace_ask(options->trace, CALL_ON_DRIVER, 0, NULL);
}

static void put_xids(const struct watch *watch, struct gpu_samples *samples)
{
        struct gpu_xid *xids = ARENA_ARRAY(&samples->arena, struct gpu_xid, watch->n_xids);

        for (size_t i = 0; i < watch->n_xids; i++)
                xids[i] = watch->xids[i];
        samples->xids = xids;
        samples->n_xids = watch->n_xids;
}

void watch_sample(struct watch *watch, struct mail *mail)
{
        const struct inventory *inventory = watch->inventory;

        if (!watch->nvml || !inventory || watch_sample_at(watch) > watch_now_ms())
                return;
        if (!watch->samples) {
                watch->samples = gpu_samples_new();
                watch->n_sampled = 0;
        }
        while (watch->n_sampled < inventory->n_gpus && !may_sample(watch, &inventory->gpus[watch->n_sampled]))
                watch->n_sampled++;
        if (watch->n_sampled < inventory->n_gpus)
                sample_gpu(watch, &inventory->gpus[watch->n_sampled++]);
        if (watch->n_sampled < inventory->n_gpus)
                return;
        put_xids(watch, watch->samples);
        mail_put_samples(mail, TAKE_PTR(watch->samples));
        watch->sample_at_ms = watch_now_ms() + watch->options->sample_ms;
}
