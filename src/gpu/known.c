// SPDX-License-Identifier: Apache-2.0
#include "gpu/known.h"

#include <string.h>

#include "base/clock.h"
#include "gpu/look.h"

struct unit_group *gpu_known_find_group(const struct gpu_known *known, const char *uuid, const struct gpu **ret_gpu)
{
        struct unit_group *group = units_find_group(&known->units, uuid);

        if (group && ret_gpu)
                *ret_gpu = &known->inventory->gpus[group - known->units.groups];
        return group;
}

struct hang *gpu_known_find_hang(struct gpu_known *known, const struct gpu *gpu)
{
        return hangs_find(&known->hangs, CALL_ON_GPU, gpu->index, gpu->uuid);
}

bool gpu_known_keep(struct gpu_known *known, struct inventory *fresh)
{
        const bool is_news = !known->inventory || !inventory_is_same(known->inventory, fresh);

        inventory_free(known->inventory);
        known->inventory = fresh;
        units_update(&known->units, fresh, known->options->probe_ms, clock_now_ms());
        return is_news;
}

void gpu_known_read_by(struct gpu_known *known, uint64_t at_ms)
{
        known->refresh_at_ms = MIN(known->refresh_at_ms, at_ms);
}

void gpu_known_reopen(struct gpu_known *known)
{
        nvml_pool_renew(known->pool);
        known->refresh_at_ms = 0;
}

/* ---- calls that hang ---- */

static void report_hang(struct gpu_known *known, const struct worker_call *call, bool is_over)
{
        const struct gpu_monitor_options *to = known->options;
        const struct gpu_hang hang = {.call = *call, .is_waited_for = hang_is_of_driver(call)};

        if (to->on_hang && !known->is_closing)
                to->on_hang(&hang, is_over, to->data);
}

/* A call did not return: its GPU is left out from now on; if it was about the driver, all that is known stays. */
static void gpu_known_note_call(struct gpu_known *known, const struct worker_call *lost, bool has_crashed)
{
        const uint64_t now_ms = clock_now_ms();
        struct worker_call call = *lost;
        struct unit_group *group;
        struct hang *hang;
        bool is_new;

        hang_name_gpu(&call, known->inventory);
        is_new = hangs_add(&known->hangs, &call, has_crashed, known->options->hang_pause_ms, now_ms);
        hang = hangs_find(&known->hangs, call.subject, call.index, call.name);
        group = call.subject == CALL_ON_GPU ? gpu_known_find_group(known, call.name, NULL) : NULL;
        if (group) {
                const struct skips skips = hangs_skips(&known->hangs);

                units_fail(group, skips_find(&skips, call.name)->reason, now_ms);
        }
        if (call.subject == CALL_ON_GPU || call.subject == CALL_ON_PAIR)
                gpu_known_read_by(known, now_ms);
        else if (hang_is_of_driver(&call))
                known->refresh_at_ms = hang->at_ms;
        if (is_new)
                report_hang(known, &call, false);
        known->report_news(known, false);
}

bool gpu_known_note_lost(struct gpu_known *known, const struct worker_call *lost, const struct error *err)
{
        if (!err || !*lost->call)
                return false;
        gpu_known_note_call(known, lost, err->kind != ERROR_TIMEOUT);
        return true;
}

void gpu_known_end_hang(struct gpu_known *known, struct hang *hang)
{
        const uint64_t now_ms = clock_now_ms();
        struct unit_group *group;

        hangs_end(hang, now_ms);
        group = gpu_known_find_group(known, hang->call.name, NULL);
        for (size_t i = 0; group && i < group->n_units; i++)
                health_poll_soon(&group->units[i].health, now_ms);
        gpu_known_read_by(known, now_ms);
        report_hang(known, &hang->call, true);
}

/* ---- trials ---- */

struct trial {
        struct nvml_request request;
        struct trials *owner;
        struct worker_call call;
        struct list link;
};

static void trial_free(struct trial *trial)
{
        list_remove(&trial->link);
        free(trial);
}

static void on_tried(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct trial *trial = container_of(request, struct trial, request);
        struct gpu_known *known = trial->owner->known;
        const struct worker_call call = trial->call;
        const struct worker_call lost = request->lost;
        struct hang *hang = hangs_find(&known->hangs, call.subject, call.index, call.name);
        struct look_reading reading = {0};

        trial_free(trial);
        if (hang)
                hang->is_tried = false;
        if (!gpu_known_note_lost(known, &lost, err) && hang) {
                if (!err && look_reading_unpack(answer, &reading))
                        gpu_known_end_hang(known, hang);
                else
                        hang->at_ms = clock_now_ms() + known->options->hang_pause_ms;
        }
        inventory_free(reading.inventory);
        known->turn(known);
}

static void begin_trial(struct trials *trials, struct hang *hang)
{
        struct gpu_known *known = trials->known;
        struct trial *trial = xcalloc(1, sizeof(*trial));
        struct look_reading_wanted wanted = {.discovery = PLATFORM_CHOICE_NVML,
                .paths = known->options->paths,
                .counts_remaps = known->policy.counts_remaps,
                .has_probes = true};

        if (hang->call.subject == CALL_ON_GPU) {
                wanted.skips = (struct skips){.pairs = true, .has_only = true, .only = hang->call.index};
        } else {
                wanted.skips = hangs_skips(&known->hangs);
                wanted.skips.pairs = false;
        }
        hang->is_tried = true;
        trial->owner = trials;
        trial->call = hang->call;
        list_append(&trials->list, &trial->link);
        nvml_request_init(&trial->request, NULL, NULL, on_tried);
        hang_print_lane(&hang->call, trial->request.gpu);
        look_ask_reading(&trial->request, &wanted);
        nvml_pool_ask(known->pool, &trial->request);
}

static bool is_tried_alone(const struct hang *hang)
{
        return !hang->is_over && !hang->is_tried &&
               (hang->call.subject == CALL_ON_GPU || hang->call.subject == CALL_ON_PAIR);
}

void trials_begin_due(struct trials *trials, uint64_t now_ms)
{
        struct gpu_known *known = trials->known;

        for (size_t i = 0; i < known->hangs.n; i++)
                if (is_tried_alone(&known->hangs.all[i]) && known->hangs.all[i].at_ms <= now_ms)
                        begin_trial(trials, &known->hangs.all[i]);
}

uint64_t trials_due_ms(const struct trials *trials)
{
        const struct hangs *hangs = &trials->known->hangs;
        uint64_t due_ms = HEALTH_NEVER;

        for (size_t i = 0; i < hangs->n; i++)
                if (is_tried_alone(&hangs->all[i]))
                        due_ms = MIN(due_ms, hangs->all[i].at_ms);
        return due_ms;
}

void trials_init(struct trials *trials, struct gpu_known *known)
{
        trials->known = known;
        list_init(&trials->list);
}

void trials_cancel(struct trials *trials)
{
        struct hangs *hangs = &trials->known->hangs;

        while (!list_is_empty(&trials->list)) {
                struct trial *trial = container_of(trials->list.next, struct trial, link);

                nvml_pool_cancel(trials->known->pool, &trial->request);
                trial_free(trial);
        }
        for (size_t i = 0; i < hangs->n; i++)
                hangs->all[i].is_tried = false;
}
