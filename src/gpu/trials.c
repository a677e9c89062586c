#include "gpu/trials.h"

#include "gpu/look.h"

struct trial {
        struct nvml_request request;
        struct trials *owner;
        struct call_info call;
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
        const struct call_info call = trial->call;
        const struct call_info lost = request->lost;
        struct hang *hang = hangs_find(&known->hangs, call.subject, call.index, call.gpu);
        struct look_reading reading = {0};

        trial_free(trial);
        if (hang)
                hang->is_tried = false;
        if (!gpu_known_note_lost(known, &lost, err) && hang) {
                if (!err && look_reading_unpack(answer, &reading))
                        gpu_known_end_hang(known, hang);
                else
                        hang->at_ms = gpu_call_now_ms() + known->options->hang_pause_ms;
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
