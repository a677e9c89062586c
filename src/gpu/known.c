#include "gpu/known.h"

#include <string.h>

struct unit_group *gpu_known_find_group(const struct gpu_known *known, const char *uuid, const struct gpu **ret_gpu)
{
        for (size_t i = 0; i < known->units.n_groups; i++) {
                if (strcmp(known->units.groups[i].units[0].uuid, uuid) != 0)
                        continue;
                if (ret_gpu)
                        *ret_gpu = &known->inventory->gpus[i];
                return &known->units.groups[i];
        }
        return NULL;
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
        units_update(&known->units, fresh, known->options->probe_ms, gpu_call_now_ms());
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

static void report_hang(struct gpu_known *known, const struct call_info *call, bool is_over)
{
        const struct gpu_monitor_options *to = known->options;
        const struct gpu_hang hang = {.call = *call, .is_waited_for = hang_is_of_driver(call)};

        if (to->on_hang && !known->is_closing)
                to->on_hang(&hang, is_over, to->data);
}

void gpu_known_note_call(struct gpu_known *known, const struct call_info *lost, bool has_crashed)
{
        const uint64_t now_ms = gpu_call_now_ms();
        struct call_info call = *lost;
        struct unit_group *group;
        struct hang *hang;
        bool is_new;

        hang_name_gpu(&call, known->inventory);
        is_new = hangs_add(&known->hangs, &call, has_crashed, known->options->hang_pause_ms, now_ms);
        hang = hangs_find(&known->hangs, call.subject, call.index, call.gpu);
        group = call.subject == CALL_ON_GPU ? gpu_known_find_group(known, call.gpu, NULL) : NULL;
        if (group) {
                const struct skips skips = hangs_skips(&known->hangs);

                units_fail(group, skips_find(&skips, call.gpu)->reason, now_ms);
        }
        if (call.subject == CALL_ON_GPU || call.subject == CALL_ON_PAIR)
                gpu_known_read_by(known, now_ms);
        else if (hang_is_of_driver(&call))
                known->refresh_at_ms = hang->at_ms;
        if (is_new)
                report_hang(known, &call, false);
        known->report_news(known, false);
}

bool gpu_known_note_lost(struct gpu_known *known, const struct call_info *lost, const struct error *err)
{
        if (!err || !*lost->call)
                return false;
        gpu_known_note_call(known, lost, err->kind != ERROR_TIMEOUT);
        return true;
}

void gpu_known_end_hang(struct gpu_known *known, struct hang *hang)
{
        const uint64_t now_ms = gpu_call_now_ms();
        struct unit_group *group;

        hangs_end(hang, now_ms);
        group = gpu_known_find_group(known, hang->call.gpu, NULL);
        for (size_t i = 0; group && i < group->n_units; i++)
                health_poll_soon(&group->units[i].health, now_ms);
        gpu_known_read_by(known, now_ms);
        report_hang(known, &hang->call, true);
}
