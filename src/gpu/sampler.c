// SPDX-License-Identifier: Apache-2.0
#include "gpu/sampler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "gpu/sample.h"

#define SLOW_MS UINT64_C(500) /* of one call: as long as the pool lets others wait for it */
#define LOOK_MS UINT64_C(250)
#define XIDS_MAX ((size_t)512) /* kinds, on all GPUs; those that come first */

/* ---- in the process ---- */

struct samples_wanted {
        struct gpu gpu;
        const char *root;
        uint64_t since_ms;
};

static void pack_samples_wanted(struct pack *pack, struct samples_wanted *wanted)
{
        gpu_pack(pack, &wanted->gpu);
        pack_text(pack, &wanted->root);
        PACK(pack, wanted->since_ms);
}

static void pack_sample(struct pack *pack, struct gpu_sample *sample)
{
        struct gpu_process *processes;

        pack_text(pack, &sample->uuid);
        pack_text(pack, &sample->gpu);
        PACK_ARRAY(pack, sample->processes, sample->n_processes);
        processes = (struct gpu_process *)(uintptr_t)sample->processes;
        for (size_t i = 0; i < sample->n_processes; i++) {
                pack_text(pack, &processes[i].pod_uid);
                pack_text(pack, &processes[i].container_id);
        }
}

static void pack_samples(struct pack *pack, struct gpu_sample **units, size_t *n_units)
{
        PACK(pack, *n_units);
        PACK_ARRAY(pack, *units, *n_units);
        for (size_t i = 0; i < *n_units; i++)
                pack_sample(pack, &(*units)[i]);
}

static int serve_samples(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err)
{
        struct samples_wanted wanted;
        struct gpu_samples *samples;
        const struct nvml *nvml;

        pack_samples_wanted(question, &wanted);
        if (nvml_serving_open(serving, &nvml, err) < 0)
                return -1;
        samples = gpu_samples_new();
        gpu_call_about(CALL_ON_GPU, wanted.gpu.index, wanted.gpu.uuid);
        gpu_samples_add(samples, nvml, &wanted.gpu, wanted.root, wanted.since_ms);
        pack_samples(answer, &samples->units, &samples->n_units);
        gpu_samples_free(samples);
        return 0;
}

static void ask_samples(struct nvml_request *request, const struct gpu *gpu, const char *system_root, uint64_t since_ms)
{
        struct pack pack = pack_writer(&request->question);
        struct samples_wanted asked = {.gpu = *gpu, .root = system_root, .since_ms = since_ms};

        request->serve = serve_samples;
        pack_samples_wanted(&pack, &asked);
}

static bool unpack_samples(struct pack *answer, struct gpu_samples *samples)
{
        struct gpu_sample *units = NULL;
        size_t n_units = 0;

        answer->arena = &samples->arena;
        pack_samples(answer, &units, &n_units);
        if (!pack_end(answer))
                return false;
        samples->units = xrealloc(samples->units, (samples->n_units + n_units + 1) * sizeof(*samples->units));
        for (size_t i = 0; i < n_units; i++)
                samples->units[samples->n_units++] = units[i];
        return true;
}

/* ---- Xids ---- */

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

static bool is_sampled_slowly(const struct sampling *sampling, uint64_t now_ms)
{
        const struct worker_call call = nvml_pool_find_call(&sampling->request);

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
        ask_samples(&sampling->request, gpu, options->paths.system_root, options->sample_ms);
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
                if (!is_sampled_slowly(container_of(link, struct sampling, link), now_ms))
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
        const struct worker_call lost = request->lost;
        const bool is_late = !sampler->samples || sampling->round != sampler->samples;

        sampling_free(sampling);
        if (err)
                (void)gpu_known_note_lost(known, &lost, err);
        else if (!is_late && !unpack_samples(answer, sampler->samples))
                sampler_cancel(sampler);
        end_round_if_over(sampler, clock_now_ms());
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
