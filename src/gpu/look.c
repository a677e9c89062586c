#include "gpu/look.h"

#include <stdio.h>
#include <string.h>

#include "gpu/nvml_read.h"

/* ---- the inventory, in the process ---- */

static void pack_wanted(struct pack *pack, struct look_reading_wanted *wanted)
{
        PACK(pack, *wanted);
        pack_text(pack, &wanted->paths.system_root);
        pack_text(pack, &wanted->paths.driver_root);
}

static void pack_reading(struct pack *pack, struct look_reading *reading)
{
        PACK(pack, *reading);
        if (reading->platform == PLATFORM_NVML && (!pack_reads(pack) || !pack->is_short))
                inventory_pack(pack, &reading->inventory);
        PACK_ARRAY(pack, reading->findings, reading->n_findings);
}

/* All calls on GPUs would fail in the same way; this call says why. */
static int check_library(const struct nvml *nvml, struct error *err)
{
        char text[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "";
        nvmlReturn_t code = NVML_CALL(nvml, system_get_driver_version, text, sizeof(text));

        return look_is_fatal(code) ? nvml_fail(nvml, code, "nvmlSystemGetDriverVersion", err) : 0;
}

static void add_finding(struct look_reading *reading, const char *unit, const struct probe_result *result)
{
        struct look_finding *finding = &reading->findings[reading->n_findings++];

        snprintf(finding->unit, sizeof(finding->unit), "%s", unit);
        finding->result = *result;
}

static void look_at_gpu(
        struct look_reading *reading, const struct nvml *nvml, const struct gpu *gpu, bool counts_remaps)
{
        struct probe_result result;

        gpu_call_about(CALL_ON_GPU, gpu->index, gpu->uuid);
        result = probe_gpu(nvml, gpu->uuid, counts_remaps);
        add_finding(reading, gpu->uuid, &result);
        for (size_t i = 0; health_is_good(result.finding) && i < gpu->n_mig_devices; i++) {
                const struct probe_result own = probe_mig_device(nvml, gpu->mig_devices[i].uuid);

                add_finding(reading, gpu->mig_devices[i].uuid, &own);
        }
        gpu_call_about(CALL_ON_DRIVER, 0, NULL);
}

static void look_at_gpus(struct look_reading *reading, struct arena *arena, const struct nvml *nvml,
        const struct look_reading_wanted *wanted)
{
        const struct inventory *inventory = reading->inventory;
        size_t n_units = inventory->n_gpus;

        for (size_t i = 0; i < inventory->n_gpus; i++)
                n_units += inventory->gpus[i].n_mig_devices;
        reading->findings = ARENA_ARRAY(arena, struct look_finding, n_units);
        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (!skips_find(&wanted->skips, inventory->gpus[i].uuid))
                        look_at_gpu(reading, nvml, &inventory->gpus[i], wanted->counts_remaps);
}

static int look_read_all(struct look_reading *reading, struct nvml_serving *serving,
        const struct look_reading_wanted *wanted, struct error *err)
{
        const struct nvml *nvml;
        nvmlReturn_t code;

        if (nvml_serving_open(serving, &nvml, err) < 0 || check_library(nvml, err) < 0)
                return -1;
        code = NVML_CALL(nvml, device_get_count, &reading->nvml_count);
        if (code != NVML_SUCCESS)
                return nvml_fail(nvml, code, "nvmlDeviceGetCount", err);
        reading->mark = serving->mark;
        reading->gpus = serving->gpus;
        reading->now = nvml_serving_mark(serving);
        reading->seen = nvml_serving_gpus(serving);
        if (nvml_read_but(&reading->inventory, nvml, &wanted->paths, &wanted->skips, err) < 0)
                return -1;
        if (wanted->has_probes)
                look_at_gpus(reading, &serving->arena, nvml, wanted);
        return 0;
}

static int serve_reading(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err)
{
        struct look_reading reading = {.platform = PLATFORM_NVML};
        struct look_reading_wanted wanted;

        pack_wanted(question, &wanted);
        if (!serving->nvml)
                reading.platform = platform_detect(wanted.discovery, &wanted.paths, serving->library, wanted.can_load);
        if (reading.platform == PLATFORM_NVML && look_read_all(&reading, serving, &wanted, err) < 0)
                return -1;
        pack_reading(answer, &reading);
        inventory_free(reading.inventory);
        return 0;
}

void look_ask_reading(struct nvml_request *request, const struct look_reading_wanted *wanted)
{
        struct pack pack = pack_writer(&request->question);
        struct look_reading_wanted asked = *wanted;

        request->serve = serve_reading;
        pack_wanted(&pack, &asked);
}

bool look_reading_unpack(struct pack *answer, struct look_reading *ret)
{
        *ret = (struct look_reading){0};
        pack_reading(answer, ret);
        if (ret->platform != PLATFORM_NVML)
                ret->inventory = NULL;
        return pack_end(answer);
}

/* ---- one GPU ---- */

static void pack_probe(struct pack *pack, struct look_probe_wanted *wanted)
{
        PACK(pack, *wanted);
        wanted->n_units = MIN(wanted->n_units, LOOK_UNITS_MAX);
        for (size_t i = 0; i < wanted->n_units; i++)
                pack_text(pack, &wanted->units[i]);
}

static int serve_probe(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err)
{
        struct look_probe_wanted wanted;
        struct probe_result result;
        const struct nvml *nvml;

        pack_probe(question, &wanted);
        if (nvml_serving_open(serving, &nvml, err) < 0)
                return -1;
        gpu_call_about(CALL_ON_GPU, wanted.index, wanted.units[0]);
        result = probe_gpu(nvml, wanted.units[0], wanted.counts_remaps);
        PACK(answer, result);
        for (size_t i = 1; i < wanted.n_units; i++) {
                struct probe_result own = {.finding = HEALTH_BAD};

                if (health_is_good(result.finding))
                        own = probe_mig_device(nvml, wanted.units[i]);
                PACK(answer, own);
        }
        return 0;
}

void look_ask_probe(struct nvml_request *request, const struct look_probe_wanted *wanted)
{
        struct pack pack = pack_writer(&request->question);
        struct look_probe_wanted asked = *wanted;

        request->serve = serve_probe;
        pack_probe(&pack, &asked);
}

bool look_probe_unpack(struct pack *answer, struct probe_result ret[LOOK_UNITS_MAX], size_t n_units)
{
        for (size_t i = 0; i < n_units; i++) {
                PACK(answer, ret[i]);
                ret[i].reason[sizeof(ret[i].reason) - 1] = '\0';
        }
        return pack_end(answer);
}

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

void look_ask_samples(struct nvml_request *request, const struct gpu *gpu, const char *system_root, uint64_t since_ms)
{
        struct pack pack = pack_writer(&request->question);
        struct samples_wanted asked = {.gpu = *gpu, .root = system_root, .since_ms = since_ms};

        request->serve = serve_samples;
        pack_samples_wanted(&pack, &asked);
}

bool look_samples_unpack(struct pack *answer, struct gpu_samples *samples)
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
