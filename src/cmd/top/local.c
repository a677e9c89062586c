#include "node/pages/page.h"
#include "cmd/top/top.h"
#include "gpu/apart.h"
#include "gpu/call.h"
#include "gpu/nvml_read.h"

#define WINDOW_MS UINT64_C(2000) /* activity of so long counts */

struct local {
        const char *library;
        const char *driver_root;
        const char *system_root;
        const struct top_wish *wish;
};

static char *write_page(const struct inventory *inventory, const struct usage *usage, const char *system_root,
        const struct top_wish *wish)
{
        const struct gpu_samples *samples = usage_samples(usage);
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct node_usage_view view = {.samples = samples};
        const struct node_facts facts = {.inventory = inventory,
                .usage = &view,
                .has_processes = wish->has_processes,
                .system_root = system_root};
        struct node_page page;

        view.n_shares = usage_shares(usage, &arena, &view.shares);
        view.n_rows = usage_rows(NULL, 0, view.shares, view.n_shares, &arena, &view.rows);
        node_page_make(&page, &arena, &facts);
        return node_page_write(&page, false);
}

static int read_page(const void *data, struct strbuf *answer, struct error *err)
{
        const struct local *local = data;
        const struct gpu_paths paths = {.system_root = local->system_root, .driver_root = local->driver_root};
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        _cleanup_(inventory_freep) struct inventory *inventory = NULL;
        struct gpu_samples *samples;
        struct usage *usage;
        _free_ char *page = NULL;

        if (nvml_open(&nvml, local->library, local->driver_root, err) < 0 ||
                nvml_read(&inventory, nvml, &paths, err) < 0)
                return -1;
        samples = gpu_samples_new();
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                gpu_call_about(CALL_ON_GPU, inventory->gpus[i].index, inventory->gpus[i].uuid);
                gpu_samples_add(samples, nvml, &inventory->gpus[i], local->system_root, WINDOW_MS);
        }
        usage = usage_new();
        usage_add(usage, samples, NULL, 0);
        page = write_page(inventory, usage, local->system_root, local->wish);
        strbuf_puts(answer, page);
        usage_free(usage);
        return 0;
}

int top_read_local(char **ret, const char *library, const char *driver_root, const char *system_root,
        const struct top_wish *wish, struct error *err)
{
        const struct local local = {library, driver_root, system_root, wish};
        struct strbuf page = STRBUF_INIT;

        if (apart_run(read_page, &local, &page, err) != 0)
                return -1;
        *ret = strbuf_take(&page);
        return 0;
}
