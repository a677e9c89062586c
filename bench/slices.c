// SPDX-License-Identifier: Apache-2.0
/*
 * The time that ResourceSlices take to make: 16 GPUs, each in all forms and with all of its places for MIG, from the
 * inventory to JSON text. usage: bench-slices
 */
#include "bench/figure.h"
#include "node/dra/slices.h"
#include "net/kube/body.h"
#include "test/unit/node/dra/simulated.h"

#define ROUNDS 101
#define GPUS 16

static struct inventory *make_inventory(void)
{
        struct inventory *inventory = inventory_new();

        inventory->driver_version = "580.105.08";
        inventory->gpus = ARENA_ARRAY(&inventory->arena, struct gpu, GPUS);
        for (unsigned int i = 0; i < GPUS; i++) {
                struct gpu *gpu = &inventory->gpus[inventory->n_gpus++];

                *gpu = inventory_unknown_gpu(
                        arena_printf(&inventory->arena, "GPU-%08x-0000-0000-0000-000000000000", i));
                gpu->name = "NVIDIA H100 80GB HBM3";
                gpu->index = i;
                gpu->minor = (int)i;
                gpu->memory = UINT64_C(80) << 30;
                gpu->architecture = GPU_ARCHITECTURE_HOPPER;
                gpu->bus = "0000:3b:00.0";
                gpu->pcie_root = "pci0000:3a";
                gpu->numa_node = 0;
                gpu->mig_capable = true;
        }
        return inventory;
}

/* One sample: from the inventory to the text of each slice, as it is sent. */
static size_t measure(struct figure *figure, const struct inventory *inventory)
{
        const struct dra_slices_options slices = {.driver = DRA_DRIVER,
                .node = "n1",
                .pool = "n1/" DRA_DRIVER,
                .counters_apart = true,
                .has_taints = true};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dra_options options = DRA_OPTIONS_DEFAULT;
        const struct dra_layout *layout;
        int64_t started;
        json_t *json;
        size_t i;
        json_t *slice;

        options.config.time_slicing = true;
        simulated_mig(&options, &arena, inventory);
        started = clock_ns();
        layout = dra_layout_build(&arena, inventory, &options);
        json = dra_slices_build(layout, &slices);
        json_array_foreach(json, i, slice) free(body_print(slice));
        figure_add(figure, (double)(clock_ns() - started) / 1000);
        json_decref(json);
        return layout->n_devices;
}

int main(void)
{
        _cleanup_(inventory_freep) struct inventory *inventory = make_inventory();
        struct figure figure = {.name = "slices_16_gpus", .unit = "us"};
        size_t n_devices = 0;

        for (unsigned int round = 0; round < ROUNDS; round++)
                n_devices = measure(&figure, inventory);
        figure_print(&figure);
        figure_print_one("slices_16_gpus_devices", "devices", (double)n_devices);
        return 0;
}
