#include "gpu/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/look.h"

#define SLOW_MS UINT64_C(500) /* of one call: as long as the pool lets others wait for it */
#define LOOK_MS UINT64_C(250)
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

/* ---- one GPU ---- */

struct sampling {
        struct nvml_request request;
        struct sampler *sampler;
        const struct gpu_samples *round; /* that it is asked for; it may be over */
        struct list link;
};

static void sampling_free(struct sampling *sampling)
{
        list_remove(&sampling->link);
        free(sampling);
}

static bool is_slow(const struct sampling *sampling, uint64_t now_ms)
{
        const struct call_info call = nvml_pool_find_call(&sampling->request);

        return *call.call && call.since_ms + SLOW_MS <= now_ms;
}

static bool is_asked(const struct sampler *sampler, const char *uuid)
{
        LIST_FOR_EACH(link, &sampler->asked)
                if (strcmp(container_of(link, struct sampling, link)->request.gpu, uuid) == 0)
                        return true;
        return false;
}

static void on_sampled(struct nvml_request *request, const struct error *err, struct pack *answer);

static void ask_gpu(struct sampler *sampler, const struct gpu *gpu)
{
        const struct gpu_monitor_options *options = sampler->known->options;
        struct sampling *sampling = xcalloc(1, sizeof(*sampling));

        sampling->sampler = sampler;
        sampling->round = sampler->samples;
        list_append(&sampler->asked, &sampling->link);
        nvml_request_init(&sampling->request, NULL, gpu->uuid, on_sampled);
        look_ask_samples(&sampling->request, gpu, options->paths.system_root, options->sample_ms);
        nvml_pool_ask(sampler->known->pool, &sampling->request);
}

/* ---- a round ---- */

static void end_round_if_over(struct sampler *sampler, uint64_t now_ms)
{
        const struct gpu_monitor_options *options = sampler->known->options;

        if (!sampler->samples)
                return;
        sampler->look_at_ms = now_ms + LOOK_MS;
        LIST_FOR_EACH(link, &sampler->asked)
                if (!is_slow(container_of(link, struct sampling, link), now_ms))
                        return;
        sampler_put_xids(sampler, sampler->samples);
        sampler->sample_at_ms = now_ms + options->sample_ms;
        options->on_samples(TAKE_PTR(sampler->samples), options->data);
}

static void on_sampled(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct sampling *sampling = container_of(request, struct sampling, request);
        struct sampler *sampler = sampling->sampler;
        struct gpu_known *known = sampler->known;
        const struct call_info lost = request->lost;
        const bool is_late = !sampler->samples || sampling->round != sampler->samples;

        sampling_free(sampling);
        if (err)
                (void)gpu_known_note_lost(known, &lost, err);
        else if (!is_late && !look_samples_unpack(answer, sampler->samples))
                sampler_cancel(sampler);
        end_round_if_over(sampler, gpu_call_now_ms());
        known->turn(known);
}

void sampler_begin_due(struct sampler *sampler, uint64_t now_ms)
{
        const struct inventory *inventory = sampler->known->inventory;

        if (sampler_due_ms(sampler) > now_ms)
                return;
        if (!sampler->samples) {
                sampler->samples = gpu_samples_new();
                for (size_t i = 0; i < inventory->n_gpus; i++) {
                        const struct gpu *gpu = &inventory->gpus[i];

                        if (!gpu->failure && !gpu_known_find_hang(sampler->known, gpu) && !is_asked(sampler, gpu->uuid))
                                ask_gpu(sampler, gpu);
                }
        }
        end_round_if_over(sampler, now_ms);
}

uint64_t sampler_due_ms(const struct sampler *sampler)
{
        const struct gpu_known *known = sampler->known;

        if (sampler->samples)
                return sampler->look_at_ms;
        return known->options->sample_ms && known->is_open ? sampler->sample_at_ms : HEALTH_NEVER;
}

void sampler_init(struct sampler *sampler, struct gpu_known *known)
{
        sampler->known = known;
        list_init(&sampler->asked);
}

void sampler_cancel(struct sampler *sampler)
{
        while (!list_is_empty(&sampler->asked)) {
                struct sampling *sampling = container_of(sampler->asked.next, struct sampling, link);

                nvml_pool_cancel(sampler->known->pool, &sampling->request);
                sampling_free(sampling);
        }
        sampler->samples = gpu_samples_free(sampler->samples);
}

void sampler_done(struct sampler *sampler)
{
        free(sampler->xids);
}
