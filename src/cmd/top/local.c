#include "agent/usage_metrics.h"
#include "cmd/top/top.h"
#include "gpu/nvml_read.h"

#define WINDOW_MS UINT64_C(2000) /* activity of so long counts */

int top_read_local(char **ret, const char *library, const char *driver_root, const char *system_root, struct error *err)
{
        const struct gpu_paths paths = {.system_root = system_root, .driver_root = driver_root};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        _cleanup_(inventory_freep) struct inventory *inventory = NULL;
        struct exposition exposition = EXPOSITION_INIT;
        struct gpu_samples *samples;
        struct agent_usage_view view;
        struct usage *usage;

        if (nvml_open(&nvml, library, driver_root, err) < 0 || nvml_read(&inventory, nvml, &paths, err) < 0)
                return -1;
        samples = gpu_samples_new();
        for (size_t i = 0; i < inventory->n_gpus; i++)
                gpu_samples_add(samples, nvml, &inventory->gpus[i], system_root, WINDOW_MS);
        usage = usage_new();
        usage_add(usage, samples, NULL, 0);
        view = (struct agent_usage_view){.samples = samples, .inventory = inventory};
        view.n_shares = usage_shares(usage, &arena, &view.shares);
        view.n_rows = usage_rows(NULL, 0, view.shares, view.n_shares, &arena, &view.rows);
        usage_metrics_put(&exposition, &view);
        *ret = exposition_take(&exposition);
        usage_free(usage);
        return 0;
}
