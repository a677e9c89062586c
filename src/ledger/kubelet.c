/*
 * What kubelet says of who holds what, and how much of it can be believed: its list is an answer to a question, its record a file.
 */
#include <errno.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "ledger/parts.h"

/* Between two questions as long as anything is held, and after kubelet was made to write its record. */
#define LIST_INTERVAL_MS UINT64_C(5000)
#define LIST_SOON_MS UINT64_C(1000)
/* Between two questions that have no answer, and between two lists of devices that are repeated: longer each time. */
#define RETRY_MIN_MS 1000
#define RETRY_MAX_MS 60000
#define REPEAT_MAX_MS 10000 /* each makes kubelet write a file */
/* So long a kubelet that does not answer is taken for one that is about to. */
#define LIST_PATIENCE_MS INT64_C(60000)

/* A question. */
struct asking {
        struct list link;
        struct holdings *holdings;
        int64_t at;
        holdings_listed_fn *done;
        void *data;
};

/*
 * kubelet makes its socket at its start, and so long its list may leave pods out. How old the socket is its date does not tell, since
 * clocks are set: what counts is how long it has been seen.
 */
static bool is_young(struct holdings *holdings)
{
        struct file_identity now = file_identity_of(holdings->pod_resources);

        if (!file_identity_is_same(&now, &holdings->kubelet))
                holdings->kubelet_since = holdings_clock(holdings);
        holdings->kubelet = now;
        return !file_identity_exists(&now) || holdings_clock(holdings) - holdings->kubelet_since < LIST_GRACE_MS;
}

/* The record has everybody, also those whom a young kubelet leaves out of its list. */
bool holdings_list_is_whole(struct holdings *holdings)
{
        return holdings->has_record || !is_young(holdings);
}

/* kubelet's record beside its list. Without it, UIDs and init containers are unknown, and that is all. */
bool holdings_read_checkpoint(const struct holdings *holdings, struct arena *arena, struct checkpoint *ret)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        if (file_read(holdings->checkpoint, CHECKPOINT_MAX, &text, &err) == 0 &&
                checkpoint_read(ret, arena, "", text.data, text.size, &err) == 0)
                return true;
        log_debug("kubelet's record of devices is ignored", LOG_ERR(&err));
        return false;
}

const char *holdings_list_folder(const struct holdings *holdings)
{
        return holdings->pods ? holdings->pod_resources_folder : NULL;
}

static bool is_mounted(const struct holdings *holdings)
{
        return access(holdings->pod_resources_folder, F_OK) == 0 || errno != ENOENT;
}

bool holdings_can_ask(const struct holdings *holdings)
{
        if (!holdings->pods || !is_mounted(holdings))
                return false;
        return !holdings->is_refused || holdings_clock(holdings) - holdings->refused_since < LIST_PATIENCE_MS;
}

/* ---- what was told ---- */

/* |list| is empty where there is none. */
static void take(struct holdings *holdings, const struct pod_list *list, const struct holders *before)
{
        struct arena scratch = ARENA_INIT;
        struct checkpoint checkpoint;
        struct holders *holders;

        holdings->has_record = holdings_read_checkpoint(holdings, &scratch, &checkpoint);
        if (holdings->has_record)
                holdings_note_booked(holdings, &checkpoint);
        holders = holders_new(list, holdings->has_record ? &checkpoint : NULL, before, !is_young(holdings));
        holders_free(holdings->holders);
        holdings->holders = holders;
        arena_done(&scratch);
}

static void sync_all(struct holdings *holdings)
{
        if (!holdings_list_is_whole(holdings))
                return;
        holdings_renew_awaited(holdings);
        for (size_t i = 0; i < holdings->n_books; i++)
                holdings_sync_book(holdings, &holdings->books[i], holdings_clock(holdings) - LIST_GRACE_MS);
        holdings_tell_all(holdings);
}

static void take_list(struct holdings *holdings, const struct pod_list *list, int64_t asked_at)
{
        take(holdings, list, holdings->holders);
        if (holdings->has_record)
                holdings->listed_at = MAX(holdings->listed_at, asked_at);
        complaint_settle(&holdings->bad_list);
        holdings->is_refused = false;
        holdings->retry_ms = 0;
        log_debug(
                "kubelet has reported which container holds which devices", LOG_UINT("containers", list->n_containers));
        sync_all(holdings);
        holdings_renew_record(holdings, false);
        holdings_read_declared(holdings);
}

/* Where nobody answers the record is all there is: who is not in it any more has ended. */
static void take_record(struct holdings *holdings)
{
        static const struct pod_list nothing;

        take(holdings, &nothing, NULL);
        if (holdings->has_record)
                sync_all(holdings);
}

static void take_refusal(struct holdings *holdings, const struct error *err)
{
        complain(&holdings->bad_list, "kubelet does not report which container holds which devices, will ask again",
                err);
        if (!holdings->is_refused)
                holdings->refused_since = holdings_clock(holdings);
        holdings->is_refused = true;
        holdings->retry_ms = holdings->retry_ms ? MIN(holdings->retry_ms * 2, RETRY_MAX_MS) : RETRY_MIN_MS;
        if (!holdings_can_ask(holdings))
                take_record(holdings);
}

bool holdings_renew_record(struct holdings *holdings, bool at_once)
{
        struct arena scratch = ARENA_INIT;
        uint64_t doubt = holders_doubt(holdings->holders);
        int64_t now = holdings_clock(holdings);
        const char *const *resources;
        size_t count = holders_doubtful(holdings->holders, &scratch, &resources);

        if (doubt != holdings->doubt) {
                holdings->repeat_at = now;
                holdings->repeat_ms = RETRY_MIN_MS;
        }
        holdings->doubt = doubt;
        if (count > 0 && (at_once || now >= holdings->repeat_at)) {
                for (size_t i = 0; i < count; i++)
                        if (holdings->options.repeat(resources[i], holdings->options.data))
                                break;
                holdings->repeat_at = now + holdings->repeat_ms;
                holdings->repeat_ms = MIN(holdings->repeat_ms * 2, REPEAT_MAX_MS);
                holdings_list_within(holdings, LIST_SOON_MS);
        }
        arena_done(&scratch);
        return count > 0;
}

/* ---- questions ---- */

static bool is_anything_held(const struct holdings *holdings)
{
        for (size_t i = 0; i < holdings->n_books; i++)
                if (grants_count(holdings->books[i].grants) > 0)
                        return true;
        return false;
}

void holdings_list_within(struct holdings *holdings, uint64_t ms)
{
        uv_timer_t *timer = &holdings->list_timer;

        if (holdings->closing || holdings->n_books == 0)
                return;
        if (!uv_is_active((uv_handle_t *)timer) || uv_timer_get_due_in(timer) > ms)
                uv_timer_start(timer, holdings_on_list_timer, ms, 0);
}

static void go_on(struct holdings *holdings)
{
        if (holdings->is_refused)
                holdings_list_within(holdings, holdings->retry_ms);
        else if (is_anything_held(holdings) || (holdings->pods && !holdings_list_is_whole(holdings)))
                holdings_list_within(holdings, LIST_INTERVAL_MS);
}

static void on_listed(const struct error *err, const struct pod_list *list, void *data)
{
        struct asking asking = *(struct asking *)data;
        struct holdings *holdings = asking.holdings;
        bool was_silent = !holdings_can_ask(holdings);

        list_remove(&((struct asking *)data)->link);
        free(data);
        if (err)
                take_refusal(holdings, err);
        else
                take_list(holdings, list, asking.at);
        go_on(holdings);
        holdings->list_is_new = !err;
        if (was_silent && !err)
                holdings->options.on_held(holdings->options.data);
        asking.done(err, asking.data);
        holdings->list_is_new = false;
}

void holdings_list(struct holdings *holdings, holdings_listed_fn *done, void *data)
{
        struct asking *asking = xcalloc(1, sizeof(*asking));

        *asking = (struct asking){.holdings = holdings, .at = holdings_clock(holdings), .done = done, .data = data};
        list_append(&holdings->askings, &asking->link);
        pod_resources_list(holdings->pods, on_listed, asking);
}

void holdings_forget_askings(struct holdings *holdings)
{
        while (!list_is_empty(&holdings->askings)) {
                struct asking *asking = container_of(holdings->askings.next, struct asking, link);

                list_remove(&asking->link);
                free(asking);
        }
}

static void on_nothing(const struct error *err UNUSED, void *data UNUSED)
{
}

void holdings_on_list_timer(uv_timer_t *timer)
{
        struct holdings *holdings = timer->data;

        if (holdings->pods) {
                holdings_list(holdings, on_nothing, NULL);
                return;
        }
        take_record(holdings);
        go_on(holdings);
}

void holdings_begin_asking(struct holdings *holdings)
{
        holdings_list_within(holdings, holdings->holders ? LIST_INTERVAL_MS : 0);
}

void holdings_list_soon(struct holdings *holdings)
{
        holdings_list_within(holdings, LIST_SOON_MS);
}
