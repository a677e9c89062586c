// SPDX-License-Identifier: Apache-2.0
#include "gpu/prober.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "gpu/mig_read.h"

#define UNITS_MAX (1 + MIG_READ_MAX)
#define DOUBT_MS UINT64_C(200) /* until a MIG device that cannot be used is looked for again */

/* ---- in the process ---- */

struct probe_wanted {
        const char *units[UNITS_MAX]; /* the GPU, and those MIG devices of it that are to be probed */
        size_t n_units;
        unsigned int index;
        bool counts_remaps; /* as for probe_gpu() */
};

static void pack_probe(struct pack *pack, struct probe_wanted *wanted)
{
        PACK(pack, *wanted);
        wanted->n_units = MIN(wanted->n_units, UNITS_MAX);
        for (size_t i = 0; i < wanted->n_units; i++)
                pack_text(pack, &wanted->units[i]);
}

/* The answer has one result for each unit; those of MIG devices count only if that of the GPU is good. */
static int serve_probe(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err)
{
        struct probe_wanted wanted;
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

static void ask_probe(struct nvml_request *request, const struct probe_wanted *wanted)
{
        struct pack pack = pack_writer(&request->question);
        struct probe_wanted asked = *wanted;

        request->serve = serve_probe;
        pack_probe(&pack, &asked);
}

static bool unpack_probe(struct pack *answer, struct probe_result ret[UNITS_MAX], size_t n_units)
{
        for (size_t i = 0; i < n_units; i++) {
                PACK(answer, ret[i]);
                ret[i].reason[sizeof(ret[i].reason) - 1] = '\0';
        }
        return pack_end(answer);
}

/* ---- on the loop ---- */

struct probing {
        struct nvml_request request;
        struct prober *owner;
        bool is_forced;
        struct look_finding units[UNITS_MAX]; /* of which the names are set before */
        size_t n_units;
        struct list link;
};

static void probing_free(struct probing *probing)
{
        list_remove(&probing->link);
        free(probing);
}

/* False: it is not known yet whether events of the GPU arrive. */
static bool find_whole(struct prober *prober, const struct gpu *gpu, bool is_forced, struct probe_result *whole)
{
        const char *problem = gpu->failure;

        if (!problem && health_is_good(whole->finding) &&
                !hearing_find_problem(prober->hearing, gpu->uuid, is_forced, &problem))
                return false;
        if (problem) {
                whole->finding = whole->finding == HEALTH_GONE ? HEALTH_GONE : HEALTH_BAD;
                snprintf(whole->reason, sizeof(whole->reason), "%s", problem);
        }
        return true;
}

static const struct probe_result *find_finding(const struct look_finding *findings, size_t n, const char *uuid)
{
        for (size_t i = 0; i < n; i++)
                if (strcmp(findings[i].unit, uuid) == 0)
                        return &findings[i].result;
        return NULL;
}

enum probe_cause {
        PROBE_DUE,
        PROBE_FORCED,     /* only failures count, and good probes count at their own times */
        PROBE_OF_READING, /* the same, and the inventory was read just before */
};

/*
 * A MIG device whose GPU is good may have been destroyed since it was listed, by our own DRA driver or by anybody. It
 * fails if two readings, one after the other, list it and cannot use it.
 */
static bool may_be_destroyed(
        struct prober *prober, struct unit_state *unit, enum health_finding found, enum probe_cause cause)
{
        const bool was_doubtful = unit->is_doubtful;

        if (health_is_good(found) || unit->health.unhealthy) {
                unit->is_doubtful = false;
                return false;
        }
        if (cause == PROBE_OF_READING)
                unit->is_doubtful = !was_doubtful;
        if (cause == PROBE_OF_READING && was_doubtful)
                return false;
        prober->hearing->must_sweep = true;
        gpu_known_read_by(prober->known, clock_now_ms() + DOUBT_MS);
        return true;
}

static void apply_probe(struct prober *prober, struct unit_group *group, const struct gpu *gpu,
        const struct look_finding *findings, size_t n_findings, enum probe_cause cause)
{
        const uint64_t now_ms = clock_now_ms();
        struct probe_result whole = findings[0].result;
        bool is_known;

        group->fails = !health_is_good(whole.finding);
        is_known = find_whole(prober, gpu, cause != PROBE_DUE, &whole);
        for (size_t i = 0; i < group->n_units; i++) {
                struct unit_state *unit = &group->units[i];
                const struct probe_result *found = find_finding(findings, n_findings, unit->uuid);
                const bool is_due = cause == PROBE_DUE && unit->health.probe_at_ms <= now_ms;
                struct probe_result own = whole;

                if ((!is_due && unit->health.unhealthy) || (!found && health_is_good(whole.finding)))
                        continue;
                if (!is_known) {
                        unit->health.probe_at_ms =
                                unit->health.unhealthy ? now_ms + unit->health.first_interval_ms : HEALTH_NEVER;
                        continue;
                }
                if (i > 0 && health_is_good(whole.finding)) {
                        own = *found;
                        if (may_be_destroyed(prober, unit, own.finding, cause))
                                continue;
                        /* Its GPU is there, so this does not prove a reset. */
                        own.finding = health_is_good(own.finding) ? whole.finding : HEALTH_BAD;
                }
                if (health_probe(&unit->health, own.finding, own.reason, now_ms))
                        unit->is_news = true;
        }
}

/* Skips a group that is not probed now; its health stays the same. */
static void prober_put_off(struct unit_group *group, uint64_t now_ms)
{
        group->must_poll = false;
        for (size_t i = 0; i < group->n_units; i++) {
                struct health *health = &group->units[i].health;

                if (health->probe_at_ms <= now_ms)
                        health->probe_at_ms = now_ms + health->first_interval_ms;
        }
}

static void prober_on_probed(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct probing *probing = container_of(request, struct probing, request);
        struct prober *prober = probing->owner;
        struct gpu_known *known = prober->known;
        const struct worker_call lost = request->lost;
        struct probe_result results[UNITS_MAX];
        const struct gpu *gpu;
        struct unit_group *group = gpu_known_find_group(known, probing->units[0].unit, &gpu);

        if (group && !err && unpack_probe(answer, results, probing->n_units)) {
                for (size_t i = 0; i < probing->n_units; i++)
                        probing->units[i].result = results[i];
                apply_probe(prober, group, gpu, probing->units, probing->n_units,
                        probing->is_forced ? PROBE_FORCED : PROBE_DUE);
        }
        probing_free(probing);
        if (group && err)
                prober_put_off(group, clock_now_ms());
        if (!gpu_known_note_lost(known, &lost, err) && err)
                gpu_known_reopen(known); /* NVML cannot be opened: the reading says why */
        known->report_news(known, false);
        known->turn(known);
}

static bool is_probed(const struct prober *prober, const struct unit_group *group)
{
        LIST_FOR_EACH(link, &prober->list)
                if (strcmp(container_of(link, struct probing, link)->units[0].unit, group->units[0].uuid) == 0)
                        return true;
        return false;
}

static void prober_add_unit(struct probing *probing, struct probe_wanted *wanted, const char *uuid)
{
        struct look_finding *unit = &probing->units[probing->n_units++];

        snprintf(unit->unit, sizeof(unit->unit), "%s", uuid);
        wanted->units[wanted->n_units++] = unit->unit;
}

static void begin_probe(struct prober *prober, size_t position, bool is_forced, uint64_t now_ms)
{
        struct gpu_known *known = prober->known;
        struct unit_group *group = &known->units.groups[position];
        const struct gpu *gpu = &known->inventory->gpus[position];
        struct probing *probing = xcalloc(1, sizeof(*probing));
        struct probe_wanted wanted = {.index = gpu->index, .counts_remaps = known->policy.counts_remaps};

        *probing = (struct probing){.owner = prober, .is_forced = is_forced};
        list_append(&prober->list, &probing->link);
        prober_add_unit(probing, &wanted, gpu->uuid);
        for (size_t i = 1; i < group->n_units && wanted.n_units < UNITS_MAX; i++)
                if (!group->units[i].health.unhealthy || group->units[i].health.probe_at_ms <= now_ms)
                        prober_add_unit(probing, &wanted, group->units[i].uuid);
        nvml_request_init(&probing->request, NULL, gpu->uuid, prober_on_probed);
        ask_probe(&probing->request, &wanted);
        nvml_pool_ask(known->pool, &probing->request);
}

/* If nothing can become healthy, no probe is needed. */
static uint64_t probe_at(const struct prober *prober, const struct unit_group *group)
{
        if (is_probed(prober, group))
                return HEALTH_NEVER;
        if (group->must_poll)
                return 0;
        return prober->known->policy.recover ? units_probe_at(group) : HEALTH_NEVER;
}

void prober_begin_due(struct prober *prober, uint64_t now_ms)
{
        struct gpu_known *known = prober->known;

        for (size_t i = 0; i < known->units.n_groups; i++) {
                struct unit_group *group = &known->units.groups[i];
                const struct gpu *gpu = &known->inventory->gpus[i];
                const bool is_forced = group->must_poll;

                if (probe_at(prober, group) > now_ms)
                        continue;
                if (gpu_known_find_hang(known, gpu)) {
                        prober_put_off(group, now_ms);
                        continue;
                }
                /* A GPU that could not be read becomes healthy only by a reading. */
                if (gpu->failure && !is_forced)
                        gpu_known_read_by(known, now_ms);
                group->must_poll = false;
                begin_probe(prober, i, is_forced, now_ms);
        }
}

void prober_apply(struct prober *prober, const struct look_finding *findings, size_t n_findings)
{
        const struct gpu_known *known = prober->known;

        for (size_t i = 0; i < n_findings; i++) {
                const struct gpu *gpu;
                struct unit_group *group = gpu_known_find_group(known, findings[i].unit, &gpu);
                size_t n = 1;

                if (!group)
                        continue;
                while (i + n < n_findings && !gpu_known_find_group(known, findings[i + n].unit, NULL))
                        n++;
                apply_probe(prober, group, gpu, &findings[i], n, PROBE_OF_READING);
        }
}

uint64_t prober_due_ms(const struct prober *prober)
{
        const struct gpu_known *known = prober->known;
        uint64_t due_ms = HEALTH_NEVER;

        for (size_t i = 0; i < known->units.n_groups; i++)
                due_ms = MIN(due_ms, probe_at(prober, &known->units.groups[i]));
        return due_ms;
}

void prober_init(struct prober *prober, struct gpu_known *known, struct hearing *hearing)
{
        *prober = (struct prober){.known = known, .hearing = hearing};
        list_init(&prober->list);
}

void prober_cancel(struct prober *prober)
{
        while (!list_is_empty(&prober->list)) {
                struct probing *probing = container_of(prober->list.next, struct probing, link);

                nvml_pool_cancel(prober->known->pool, &probing->request);
                probing_free(probing);
        }
}
