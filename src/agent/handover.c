#include "agent/handover.h"

#include <string.h>

#include "base/complaint.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"

/* Between two questions to kubelet while anything waits: a minute long, and then, since it may wait for days. */
#define REVIEW_MS UINT64_C(1000)
#define REVIEWS 60U
#define REVIEW_LATER_MS UINT64_C(10000)
/* Between two attempts to write the record: longer each time. */
#define WRITE_RETRY_MS UINT64_C(1000)
#define WRITE_RETRY_MAX_MS UINT64_C(60000)

/* One entry of what was pending, to tell what has changed. */
struct told {
        char *resource;
        char *unit;
        char *to;
};

struct agent_handover {
        struct agent_handover_options options;
        char *record;
        char *recorded; /* what the file has; NULL: not known */
        struct complaint bad_record;
        bool was_unchecked; /* and the log has it */
        uint64_t write_ms;  /* until it is written again that could not be; 0: it is on file */
        uv_timer_t timer;   /* runs while anything waits, and until the record is on file */
        bool is_waiting;
        unsigned int reviews;

        /* What was promised. */
        struct arena arena;
        struct mps_terms_list terms;
        const char *const *names;
        size_t n_names;
        bool is_known;
        bool is_told; /* what is held, once at least */

        struct told *told;
        size_t n_told;
};

/* ---- the record ---- */

static void read_record(struct agent_handover *handover)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        arena_done(&handover->arena);
        handover->terms = (struct mps_terms_list){0};
        handover->names = NULL;
        handover->n_names = 0;
        handover->is_known = false;
        free(TAKE_PTR(handover->recorded));
        if (file_read_private(handover->record, MPS_TERMS_TEXT_MAX, &text, &err) < 0) {
                if (err.kind != ERROR_NOT_FOUND)
                        log_warn("the record of sharing policies cannot be read", LOG_STR("file", handover->record),
                                LOG_ERR(&err));
                return;
        }
        if (mps_terms_read(&handover->terms, &handover->names, &handover->n_names, &handover->arena, text.data,
                    text.size, &err) < 0) {
                log_warn("the record of sharing policies is ignored", LOG_STR("file", handover->record), LOG_ERR(&err));
                return;
        }
        handover->is_known = true;
        handover->recorded = xstrdup(text.data);
}

/* Before anybody is served by it. A node that has no place for it has no MPS either. */
static void write_record(struct agent_handover *handover)
{
        _free_ char *text = mps_terms_write(&handover->terms, handover->names, handover->n_names);
        struct error err;

        handover->write_ms = handover->write_ms ? MIN(handover->write_ms * 2, WRITE_RETRY_MAX_MS) : WRITE_RETRY_MS;
        if (handover->recorded && strcmp(handover->recorded, text) == 0) {
                handover->write_ms = 0;
                return;
        }
        if (file_write_private(handover->record, text, strlen(text), &err) < 0) {
                if (handover->terms.count > 0 || err.kind != ERROR_NOT_FOUND)
                        complain(&handover->bad_record,
                                "the record of sharing policies cannot be written, will try again", &err);
                else
                        handover->write_ms = 0;
                return;
        }
        handover->write_ms = 0;
        complaint_settle(&handover->bad_record);
        free(handover->recorded);
        handover->recorded = TAKE_PTR(text);
}

static void promise(struct agent_handover *handover, const struct plan *plan)
{
        struct arena arena = ARENA_INIT;
        const char **names = ARENA_ARRAY(&arena, const char *, plan->n_resources);

        for (size_t i = 0; i < plan->n_resources; i++)
                names[i] = arena_strdup(&arena, plan->resources[i].name);
        mps_terms_of(&handover->terms, &arena, plan);
        handover->names = names;
        handover->n_names = plan->n_resources;
        handover->is_known = true;
        arena_done(&handover->arena);
        handover->arena = arena;
        write_record(handover);
}

/* ---- what is told ---- */

static struct told *find_told(const struct agent_handover *handover, const struct handover_pending *pending)
{
        for (size_t i = 0; i < handover->n_told; i++) {
                struct told *told = &handover->told[i];

                if (strcmp(told->resource, pending->resource) == 0 && strcmp(told->unit, pending->unit) == 0 &&
                        strcmp(told->to, pending->to) == 0)
                        return told;
        }
        return NULL;
}

static void tell(struct agent_handover *handover, const struct handover_pending *pending, bool is_pending)
{
        if (is_pending)
                log_info("change pending event=ChangePending", LOG_STR("resource", pending->resource),
                        LOG_STR("unit", pending->unit), LOG_STR("from", pending->from), LOG_STR("to", pending->to),
                        LOG_UINT("devices", pending->n_devices), LOG_STR("holders", pending->holders));
        else
                log_info("change carried out event=ChangeCompleted", LOG_STR("resource", pending->resource),
                        LOG_STR("unit", pending->unit), LOG_STR("to", pending->to));
        if (handover->options.on_told)
                handover->options.on_told(pending, is_pending, handover->options.data);
}

static bool is_pending_still(const struct told *told, const struct handover *next)
{
        for (size_t i = 0; i < next->n_pending; i++)
                if (strcmp(told->resource, next->pending[i].resource) == 0 &&
                        strcmp(told->unit, next->pending[i].unit) == 0)
                        return true;
        return false;
}

static void forget_told(struct agent_handover *handover)
{
        for (size_t i = 0; i < handover->n_told; i++) {
                free(handover->told[i].resource);
                free(handover->told[i].unit);
                free(handover->told[i].to);
        }
        free(TAKE_PTR(handover->told));
        handover->n_told = 0;
}

void agent_handover_tell(struct agent_handover *handover, const struct handover *current)
{
        for (size_t i = 0; i < handover->n_told; i++) {
                const struct told *told = &handover->told[i];
                const struct handover_pending over = {
                        .resource = told->resource, .unit = told->unit, .to = told->to, .holders = ""};

                if (!is_pending_still(told, current))
                        tell(handover, &over, false);
        }
        for (size_t i = 0; i < current->n_pending; i++)
                if (!find_told(handover, &current->pending[i]))
                        tell(handover, &current->pending[i], true);
        forget_told(handover);
        handover->told = xcalloc(current->n_pending, sizeof(*handover->told));
        for (size_t i = 0; i < current->n_pending; i++)
                handover->told[handover->n_told++] = (struct told){.resource = xstrdup(current->pending[i].resource),
                        .unit = xstrdup(current->pending[i].unit),
                        .to = xstrdup(current->pending[i].to)};
}

/* ---- judgement ---- */

/*
 * Who waited now could wait for ever: while nothing is advertised kubelet allocates nothing, and while it allocates nothing its record
 * stays as it is. So it goes as with NVIDIA's plugin, which does not look either. Daemons of MPS still let their clients finish.
 */
static struct handover *judge_blindly(
        struct agent_handover *handover, const struct plan *wanted, const struct handover_before *before)
{
        const char *folder = ledger_list_folder(handover->options.ledger);

        if (!handover->was_unchecked)
                log_warn("the change takes effect at once, also on units that pods still hold: without kubelet's "
                         "pod-resources list the agent cannot tell which pods have ended; mount its folder into this "
                         "container event=ChangeUnchecked",
                        LOG_STR("folder", folder ? folder : "(--pod-resources-socket is empty)"));
        handover->was_unchecked = true;
        return handover_new(wanted, before, NULL, 0);
}

struct handover *agent_handover_judge(struct agent_handover *handover, const struct plan *wanted)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct handover_held *held;
        size_t n_held;
        enum ledger_word word = ledger_held(handover->options.ledger, &scratch, &held, &n_held);
        struct handover_before before;
        struct handover *judged;

        handover->is_told |= word != LEDGER_NOT_TOLD;
        before = (struct handover_before){
                .terms = &handover->terms,
                .names = handover->names,
                .n_names = handover->n_names,
                .is_known = handover->is_known,
                .all_is_held = !handover->is_told,
        };
        judged = handover_new(wanted, &before, held, n_held);
        if (word != LEDGER_STALE) {
                handover->was_unchecked = false;
                return judged;
        }
        if (!judged->own)
                return judged;
        handover_free(judged);
        return judge_blindly(handover, wanted, &before);
}

static void on_timer(uv_timer_t *timer)
{
        struct agent_handover *handover = timer->data;

        if (handover->write_ms)
                write_record(handover);
        if (!handover->is_waiting) {
                if (handover->write_ms)
                        uv_timer_start(timer, on_timer, handover->write_ms, 0);
                return;
        }
        if (++handover->reviews == REVIEWS)
                uv_timer_set_repeat(timer, REVIEW_LATER_MS);
        ledger_ask(handover->options.ledger);
}

void agent_handover_follow(struct agent_handover *handover, const struct handover *next)
{
        promise(handover, next->plan);
        if (!next->own) {
                agent_handover_tell(handover, next);
                handover->is_waiting = false;
                uv_timer_stop(&handover->timer);
                if (handover->write_ms)
                        uv_timer_start(&handover->timer, on_timer, handover->write_ms, 0);
        } else {
                handover->is_waiting = true;
                handover->reviews = 0;
                uv_timer_start(&handover->timer, on_timer, 0, REVIEW_MS);
        }
}

void agent_handover_serve(struct agent_handover *handover, bool is_serving)
{
        if (is_serving) {
                read_record(handover);
        } else {
                uv_timer_stop(&handover->timer);
                forget_told(handover);
        }
}

/* ---- life ---- */

struct agent_handover *agent_handover_new(const struct agent_handover_options *options)
{
        struct agent_handover *handover = xcalloc(1, sizeof(*handover));

        handover->options = *options;
        handover->options.mps_directory = NULL;
        handover->record = xasprintf("%s/" MPS_TERMS_FILE, options->mps_directory);
        uv_timer_init(options->loop, &handover->timer);
        handover->timer.data = handover;
        return handover;
}

static void on_closed(uv_handle_t *handle)
{
        struct agent_handover *handover = handle->data;

        forget_told(handover);
        arena_done(&handover->arena);
        free(handover->record);
        free(handover->recorded);
        free(handover);
}

void agent_handover_close(struct agent_handover *handover)
{
        if (handover)
                uv_close((uv_handle_t *)&handover->timer, on_closed);
}
