#include "gpu/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/look.h"

#define XIDS_MAX ((size_t)512) /* kinds, on all GPUs; those that come first */

void sampler_count_xid(struct sampler *sampler, const char *gpu, uint64_t xid)
{
        struct gpu_xid *counted = NULL;

        for (size_t i = 0; i < sampler->n_xids && !counted; i++)
                if (sampler->xids[i].xid == xid && strcmp(sampler->xids[i].gpu, gpu) == 0)
                        counted = &sampler->xids[i];
        if (!counted) {
                if (sampler->n_xids == XIDS_MAX)
                        return;
                sampler->xids = xrealloc(sampler->xids, (sampler->n_xids + 1) * sizeof(*sampler->xids));
                counted = &sampler->xids[sampler->n_xids++];
                *counted = (struct gpu_xid){.xid = xid};
                snprintf(counted->gpu, sizeof(counted->gpu), "%s", gpu);
        }
        counted->count++;
        counted->last = (int64_t)time(NULL);
}

static void sampler_put_xids(const struct sampler *sampler, struct gpu_samples *samples)
{
        struct gpu_xid *xids = ARENA_ARRAY(&samples->arena, struct gpu_xid, sampler->n_xids);

        for (size_t i = 0; i < sampler->n_xids; i++)
                xids[i] = sampler->xids[i];
        samples->xids = xids;
        samples->n_xids = sampler->n_xids;
}

static void sample_next(struct sampler *sampler);

static void on_sampled(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct sampler *sampler = container_of(request, struct sampler, request);
        struct gpu_known *known = sampler->known;

        sampler->n_sampled++;
        if (err)
                (void)gpu_known_note_lost(known, &request->lost, err);
        else if (!look_samples_unpack(answer, sampler->samples))
                sampler_cancel(sampler);
        if (sampler->samples)
                sample_next(sampler);
        known->turn(known);
}

static bool may_sample(const struct sampler *sampler, const struct gpu *gpu)
{
        return !gpu->failure && !gpu_known_find_hang(sampler->known, gpu);
}

/* Samples one GPU after the other, and then reports all of them. */
static void sample_next(struct sampler *sampler)
{
        const struct gpu_known *known = sampler->known;
        const struct inventory *inventory = known->inventory;
        const struct gpu_monitor_options *options = known->options;
        const struct gpu *gpu;

        while (sampler->n_sampled < inventory->n_gpus && !may_sample(sampler, &inventory->gpus[sampler->n_sampled]))
                sampler->n_sampled++;
        if (sampler->n_sampled < inventory->n_gpus) {
                gpu = &inventory->gpus[sampler->n_sampled];
                nvml_request_init(&sampler->request, NULL, gpu->uuid, on_sampled);
                look_ask_samples(&sampler->request, gpu, options->paths.system_root, options->sample_ms);
                nvml_pool_ask(known->pool, &sampler->request);
                return;
        }
        sampler_put_xids(sampler, sampler->samples);
        sampler->sample_at_ms = gpu_call_now_ms() + options->sample_ms;
        options->on_samples(TAKE_PTR(sampler->samples), options->data);
}

void sampler_begin_due(struct sampler *sampler, uint64_t now_ms)
{
        if (sampler_due_ms(sampler) > now_ms)
                return;
        sampler->samples = gpu_samples_new();
        sampler->n_sampled = 0;
        sample_next(sampler);
}

uint64_t sampler_due_ms(const struct sampler *sampler)
{
        const struct gpu_known *known = sampler->known;

        return known->options->sample_ms && known->is_open && !sampler->samples ? sampler->sample_at_ms : HEALTH_NEVER;
}

void sampler_cancel(struct sampler *sampler)
{
        if (sampler->samples && sampler->request.pool)
                nvml_pool_cancel(sampler->known->pool, &sampler->request);
        sampler->samples = gpu_samples_free(sampler->samples);
}

void sampler_done(struct sampler *sampler)
{
        gpu_samples_free(sampler->samples);
        free(sampler->xids);
}
