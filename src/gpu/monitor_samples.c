#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gpu/monitor_parts.h"

#define XIDS_MAX ((size_t)512) /* kinds, on all GPUs; those that come first */

void monitor_count_xid(struct gpu_monitor *monitor, const char *gpu, uint64_t xid)
{
        struct gpu_xid *counted = NULL;

        for (size_t i = 0; i < monitor->n_xids && !counted; i++)
                if (monitor->xids[i].xid == xid && strcmp(monitor->xids[i].gpu, gpu) == 0)
                        counted = &monitor->xids[i];
        if (!counted) {
                if (monitor->n_xids == XIDS_MAX)
                        return;
                monitor->xids = xrealloc(monitor->xids, (monitor->n_xids + 1) * sizeof(*monitor->xids));
                counted = &monitor->xids[monitor->n_xids++];
                *counted = (struct gpu_xid){.xid = xid};
                snprintf(counted->gpu, sizeof(counted->gpu), "%s", gpu);
        }
        counted->count++;
        counted->last = (int64_t)time(NULL);
}

static void put_xids(const struct gpu_monitor *monitor, struct gpu_samples *samples)
{
        struct gpu_xid *xids = ARENA_ARRAY(&samples->arena, struct gpu_xid, monitor->n_xids);

        for (size_t i = 0; i < monitor->n_xids; i++)
                xids[i] = monitor->xids[i];
        samples->xids = xids;
        samples->n_xids = monitor->n_xids;
}

static void sample_next(struct gpu_monitor *monitor);

static void on_sampled(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct gpu_monitor *monitor = container_of(request, struct gpu_monitor, sampling);

        monitor->n_sampled++;
        if (err)
                (void)monitor_note_lost(monitor, &request->lost, err);
        else if (!look_samples_unpack(answer, monitor->samples))
                monitor_cancel_samples(monitor);
        if (monitor->samples && monitor_works(monitor))
                sample_next(monitor);
        monitor_turn(monitor);
}

static bool may_sample(struct gpu_monitor *monitor, const struct gpu *gpu)
{
        return !gpu->failure && !hangs_find(&monitor->hangs, CALL_ON_GPU, gpu->index, gpu->uuid);
}

/* One GPU after the other, and then all of them to who wants them. */
static void sample_next(struct gpu_monitor *monitor)
{
        const struct inventory *inventory = monitor->inventory;
        const struct gpu_monitor_options *options = &monitor->options;
        const struct gpu *gpu;

        while (monitor->n_sampled < inventory->n_gpus && !may_sample(monitor, &inventory->gpus[monitor->n_sampled]))
                monitor->n_sampled++;
        if (monitor->n_sampled < inventory->n_gpus) {
                gpu = &inventory->gpus[monitor->n_sampled];
                nvml_request_init(&monitor->sampling, NULL, gpu->uuid, on_sampled);
                look_ask_samples(&monitor->sampling, gpu, options->paths.system_root, options->sample_ms);
                nvml_pool_ask(monitor->pool, &monitor->sampling);
                return;
        }
        put_xids(monitor, monitor->samples);
        monitor->sample_at_ms = gpu_call_now_ms() + options->sample_ms;
        options->on_samples(TAKE_PTR(monitor->samples), options->data);
}

void monitor_sample_due(struct gpu_monitor *monitor, uint64_t now_ms)
{
        if (monitor_samples_due_ms(monitor) > now_ms)
                return;
        monitor->samples = gpu_samples_new();
        monitor->n_sampled = 0;
        sample_next(monitor);
}

uint64_t monitor_samples_due_ms(const struct gpu_monitor *monitor)
{
        return monitor->options.sample_ms && monitor->is_open && !monitor->samples ? monitor->sample_at_ms
                                                                                   : HEALTH_NEVER;
}

void monitor_cancel_samples(struct gpu_monitor *monitor)
{
        if (monitor->samples && monitor->sampling.pool)
                nvml_pool_cancel(monitor->pool, &monitor->sampling);
        monitor->samples = gpu_samples_free(monitor->samples);
}
