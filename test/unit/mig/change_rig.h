// SPDX-License-Identifier: Apache-2.0
/*
 * A node with the simulated driver, and changes of its geometry. For tests.
 */
#pragma once

#include "unit.h"

#include <stdio.h>
#include <unistd.h>

#include "../gpu/scenario.h"
#include "base/strbuf.h"
#include "mig/change.h"

#define GPUS_MAX 3U /* of a node of models */

struct rig {
        char geometry[128];  /* the simulator's file */
        char directory[128]; /* of the record: in memory, since each step waits for the disk */
        const char *driver;
        const char *gpus; /* the scenario's list of GPUs */
        char faults[256]; /* "errors: {…}" of all GPUs, or "" */
        unsigned int boots;
        unsigned int resets;
        const char *const *models; /* instead of |gpus|, each with its |n_resets|; MIG is enabled on every other one */
        unsigned int n_resets[GPUS_MAX];
        struct mig_change_options options;
        struct arena arena;
        unsigned int n_reported;
        void (*on_report)(struct rig *rig); /* what somebody else does then */
        struct nvml *nvml;                  /* the test's own eyes */
};

static inline void rig_write_models(struct rig *rig)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, "gpus:\n");
        for (unsigned int i = 0; i < GPUS_MAX; i++)
                strbuf_printf(&text, "- {model: %s, uuid: GPU-%u, resets: %u%s}\n", rig->models[i], i, rig->n_resets[i],
                        i % 2 ? "" : ", mig: {enabled: true}");
        rig->gpus = arena_strdup(&rig->arena, text.data);
}

static inline void rig_write(struct rig *rig)
{
        if (rig->models)
                rig_write_models(rig);
        _free_ char *text = xasprintf("geometryFile: %s\ndriverVersion: %s\nboots: %u\n%s\n%s\n", rig->geometry,
                rig->driver, rig->boots, rig->faults, rig->gpus);

        scenario_write(text);
}

static inline void rig_faults(struct rig *rig, const char *faults)
{
        snprintf(rig->faults, sizeof(rig->faults), "%s", faults);
        rig_write(rig);
}

static inline void on_report(const char *step UNUSED, void *data)
{
        struct rig *rig = data;

        rig->n_reported++;
        if (rig->on_report)
                rig->on_report(rig);
}

static inline void rig_init_driver(struct rig *rig, const char *driver, const char *gpus)
{
        struct error err;

        *rig = (struct rig){.driver = driver, .gpus = gpus};
        snprintf(rig->geometry, sizeof(rig->geometry), "%s/geometry", scenario_folder);
        snprintf(rig->directory, sizeof(rig->directory), "/dev/shm%s", strrchr(scenario_folder, '/'));
        rig->options = (struct mig_change_options){.directory = rig->directory,
                .library = scenario_library(),
                .driver_root = "",
                .boot_id = "boot-0",
                .report = on_report,
                .data = rig};
        unlink(rig->geometry);
        rig_write(rig);
        assert_ok(nvml_open(&rig->nvml, scenario_library(), "", &err), &err);
}

static inline void rig_done(struct rig *rig)
{
        _free_ char *record = xasprintf("%s/" MIG_RECORD_NAME, rig->directory);

        nvml_close(rig->nvml);
        arena_done(&rig->arena);
        unlink(rig->geometry);
        unlink(record);
        rmdir(rig->directory);
}

static inline void rig_read(struct rig *rig, struct mig_node *ret)
{
        struct error err;

        assert_ok(mig_node_read(ret, &rig->arena, rig->nvml, &err), &err);
        for (size_t i = 0; i < ret->n_gpus; i++)
                assert_null(ret->gpus[i].problem);
}

static inline bool rig_has_record(const struct rig *rig)
{
        _free_ char *record = xasprintf("%s/" MIG_RECORD_NAME, rig->directory);

        return access(record, F_OK) == 0;
}

/* "on 3g.40gb@4[3 MIG-…] 1g.10gb@0[1 MIG-…]", by profile and place; without UUIDs where they do not matter. */
static inline const char *describe_gpu(struct arena *arena, const struct mig_node_gpu *gpu, bool has_uuids)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, gpu->geometry.is_enabled ? "on" : "off");
        for (unsigned int start = 0; start < 8; start++) {
                for (size_t i = 0; i < gpu->geometry.n_instances; i++) {
                        const struct mig_gpu_instance *instance = &gpu->geometry.instances[i];

                        if (instance->placement.start != start)
                                continue;
                        strbuf_printf(&text, " %s@%u[", instance->profile->name, start);
                        for (size_t j = 0; j < instance->n_devices; j++)
                                strbuf_printf(&text, "%s%u%s%s", j ? " " : "", instance->devices[j].slices,
                                        has_uuids ? " " : "", has_uuids ? instance->devices[j].uuid : "");
                        strbuf_putc(&text, ']');
                }
        }
        return arena_strdup(arena, text.data);
}

static inline int rig_apply(struct rig *rig, const struct mig_plan *plan, enum mig_change_end *end, struct error *err)
{
        struct mig_change change;
        int rc;

        assert_ok(mig_change_open(&change, &rig->options, err), err);
        rc = mig_change_apply(&change, plan, "test", end, err);
        mig_change_close(&change);
        return rc;
}

static inline int rig_resume(struct rig *rig, enum mig_change_end *end, struct error *err)
{
        struct mig_change change;
        int rc;

        assert_ok(mig_change_open(&change, &rig->options, err), err);
        rc = mig_change_resume(&change, false, end, err);
        mig_change_close(&change);
        return rc;
}
