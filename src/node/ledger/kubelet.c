/*
 * What kubelet says about holders, and how far to trust it: its list answers a question and is exact; its record is a
 * file and may be old.
 */
#include <errno.h>
#include <malloc.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "node/ledger/parts.h"

/* Between two questions as long as anything is held, and after kubelet was made to write its record. */
#define LIST_INTERVAL_MS UINT64_C(5000)
#define LIST_SOON_MS UINT64_C(1000)
/* Between two questions that have no answer, and between two lists of devices that are repeated: longer each time. */
#define RETRY_MIN_MS 1000
#define RETRY_MAX_MS 60000
#define REPEAT_MAX_MS 10000 /* each makes kubelet write a file */
/* For this long, a kubelet that does not answer counts as one that will. */
#define LIST_PATIENCE_MS INT64_C(60000)

/* A question. */
struct asking {
        struct list link;
        struct ledger *ledger;
        int64_t at;
        ledger_listed_fn *done;
        void *data;
};

/*
 * kubelet creates its socket when it starts, and its first lists may lack pods. Clocks may be set, so the socket's date
 * does not show its age: what counts is how long we have seen this socket.
 */
static bool is_young(struct ledger *ledger)
{
        struct file_identity now = file_identity_of(ledger->pod_resources);

        if (!file_identity_is_same(&now, &ledger->kubelet))
                ledger->kubelet_since = ledger_clock(ledger);
        ledger->kubelet = now;
        return !file_identity_exists(&now) || ledger_clock(ledger) - ledger->kubelet_since < LIST_GRACE_MS;
}

/* The record has all containers, also those that the list of a kubelet that has just started lacks. */
bool ledger_list_is_whole(struct ledger *ledger)
{
        return ledger->has_record || !is_young(ledger);
}

/* kubelet's record beside its list. Without it, UIDs and init containers are unknown, and that is all. */
bool ledger_read_checkpoint(const struct ledger *ledger, struct arena *arena, struct checkpoint *ret)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        if (file_read(ledger->checkpoint, CHECKPOINT_MAX, &text, &err) == 0 &&
                checkpoint_read(ret, arena, "", text.data, text.size, &err) == 0)
                return true;
        log_debug("kubelet's record of devices is ignored", LOG_ERR(&err));
        return false;
}

/*
 * Who shares nothing by MPS has nothing to ask until something changes, and would learn only then that nobody answers.
 * A kubelet that is not there at all makes both of its sockets when it comes.
 */
void ledger_check_socket(struct ledger *ledger)
{
        struct error err;

        if (!ledger->pods || access(ledger->pod_resources, F_OK) == 0 || access(ledger->kubelet_socket, F_OK) < 0) {
                complaint_settle(&ledger->bad_socket);
                return;
        }
        error_raise(&err, ERROR_NOT_FOUND,
                "there is no '%s'; its folder is below kubelet's --root-dir: is that another one (--kubelet-root, "
                "kubeletRootDir of the chart), or is the folder not mounted into this container?",
                ledger->pod_resources);
        complain(&ledger->bad_socket,
                "kubelet does not say which pods have ended, and a change may wait for them: its pod-resources socket is "
                "missing",
                &err);
}

const char *ledger_list_folder(const struct ledger *ledger)
{
        return ledger->pods ? ledger->pod_resources_folder : NULL;
}

static bool is_mounted(const struct ledger *ledger)
{
        return access(ledger->pod_resources_folder, F_OK) == 0 || errno != ENOENT;
}

bool ledger_can_ask(const struct ledger *ledger)
{
        if (!ledger->pods || !is_mounted(ledger))
                return false;
        return !ledger->is_refused || ledger_clock(ledger) - ledger->refused_since < LIST_PATIENCE_MS;
}

/* ---- kubelet's answers ---- */

/* |list| is empty where there is none. */
static void kubelet_take(struct ledger *ledger, const struct pod_list *list, const struct holders *previous)
{
        struct arena scratch = ARENA_INIT;
        struct checkpoint checkpoint;
        struct holders *holders;

        ledger->has_record = ledger_read_checkpoint(ledger, &scratch, &checkpoint);
        if (ledger->has_record)
                ledger_note_recorded(ledger, &checkpoint);
        ledger_forget_old_requests(ledger);
        holders = holders_new(list, ledger->has_record ? &checkpoint : NULL, previous, !is_young(ledger));
        holders_free(ledger->holders);
        ledger->holders = holders;
        arena_done(&scratch);
}

static void sync_all(struct ledger *ledger)
{
        if (!ledger_list_is_whole(ledger))
                return;
        ledger_renew_awaited(ledger);
        for (size_t i = 0; i < ledger->n_shared; i++)
                ledger_sync_allocations(ledger, &ledger->shared[i], ledger_clock(ledger) - LIST_GRACE_MS);
        ledger_report_all(ledger);
}

/* Something outside of the agent has gone wrong: another program of this resource's name, or kubelet's own record. */
static void report_twice(struct ledger *ledger)
{
        struct arena scratch = ARENA_INIT;
        const struct holders_twice *twice;
        struct error err;

        ledger->n_twice = holders_twice(ledger->holders, &scratch, &twice);
        if (ledger->n_twice > 0) {
                error_raise(&err, ERROR_INVALID, "'%s' of %s is held by %s/%s and by %s/%s; devices with two pods: %zu",
                        twice[0].device, twice[0].resource, twice[0].first->pod_namespace, twice[0].first->pod,
                        twice[0].second->pod_namespace, twice[0].second->pod, ledger->n_twice);
                complain(&ledger->bad_twice, "kubelet has given one device to two pods", &err);
        } else {
                complaint_settle(&ledger->bad_twice);
        }
        arena_done(&scratch);
}

static void take_list(struct ledger *ledger, const struct pod_list *list, int64_t asked_at)
{
        kubelet_take(ledger, list, ledger->holders);
        if (ledger->has_record)
                ledger->listed_at = MAX(ledger->listed_at, asked_at);
        complaint_settle(&ledger->bad_list);
        ledger->is_refused = false;
        ledger->retry_ms = 0;
        log_debug(
                "kubelet has reported which container holds which devices", LOG_UINT("containers", list->n_containers));
        report_twice(ledger);
        sync_all(ledger);
        ledger_renew_record(ledger, false);
        ledger_read_declared(ledger);
        ledger_look_for_own_shm(ledger);
}

/* If kubelet does not answer, only the record is left: a container that is no longer in it has ended. */
static void take_record(struct ledger *ledger)
{
        static const struct pod_list nothing;

        kubelet_take(ledger, &nothing, NULL);
        if (ledger->has_record)
                sync_all(ledger);
}

static void take_refusal(struct ledger *ledger, const struct error *err)
{
        complain(&ledger->bad_list, "kubelet does not report which container holds which devices, will ask again", err);
        if (!ledger->is_refused)
                ledger->refused_since = ledger_clock(ledger);
        ledger->is_refused = true;
        ledger->retry_ms = ledger->retry_ms ? MIN(ledger->retry_ms * 2, RETRY_MAX_MS) : RETRY_MIN_MS;
        if (!ledger_can_ask(ledger))
                take_record(ledger);
}

bool ledger_renew_record(struct ledger *ledger, bool at_once)
{
        struct arena scratch = ARENA_INIT;
        uint64_t doubt = holders_doubt(ledger->holders);
        int64_t now = ledger_clock(ledger);
        const char *const *resources;
        size_t count = holders_doubtful(ledger->holders, &scratch, &resources);

        if (doubt != ledger->doubt) {
                ledger->repeat_at = now;
                ledger->repeat_ms = RETRY_MIN_MS;
        }
        ledger->doubt = doubt;
        if (count > 0 && (at_once || now >= ledger->repeat_at)) {
                for (size_t i = 0; i < count; i++)
                        if (ledger->options.repeat(resources[i], ledger->options.data))
                                break;
                ledger->repeat_at = now + ledger->repeat_ms;
                ledger->repeat_ms = MIN(ledger->repeat_ms * 2, REPEAT_MAX_MS);
                ledger_list_within(ledger, LIST_SOON_MS);
        }
        arena_done(&scratch);
        return count > 0;
}

/* ---- questions ---- */

static bool is_anything_held(const struct ledger *ledger)
{
        for (size_t i = 0; i < ledger->n_shared; i++)
                if (allocations_count(ledger->shared[i].allocations) > 0)
                        return true;
        return false;
}

void ledger_list_within(struct ledger *ledger, uint64_t ms)
{
        uv_timer_t *timer = &ledger->list_timer;

        if (ledger->closing || ledger->n_shared == 0)
                return;
        if (!uv_is_active((uv_handle_t *)timer) || uv_timer_get_due_in(timer) > ms)
                uv_timer_start(timer, ledger_on_list_timer, ms, 0);
}

static void go_on(struct ledger *ledger)
{
        if (ledger->is_refused)
                ledger_list_within(ledger, ledger->retry_ms);
        else if (is_anything_held(ledger) || (ledger->pods && !ledger_list_is_whole(ledger)))
                ledger_list_within(ledger, LIST_INTERVAL_MS);
}

/* What the record took for a moment, as JSON, goes back to the kernel; free() keeps pages that lie between others. */
static void tidy(void)
{
        malloc_trim(0);
}

static void on_kubelet_listed(const struct error *err, const struct pod_list *list, void *data)
{
        struct asking asking = *(struct asking *)data;
        struct ledger *ledger = asking.ledger;
        bool was_silent = !ledger_can_ask(ledger);

        list_remove(&((struct asking *)data)->link);
        free(data);
        if (err)
                take_refusal(ledger, err);
        else
                take_list(ledger, list, asking.at);
        go_on(ledger);
        ledger->list_is_new = !err;
        if (was_silent && !err)
                ledger->options.on_held(ledger->options.data);
        asking.done(err, asking.data);
        ledger->list_is_new = false;
        tidy();
}

void ledger_list(struct ledger *ledger, ledger_listed_fn *done, void *data)
{
        struct asking *asking = xcalloc(1, sizeof(*asking));

        *asking = (struct asking){.ledger = ledger, .at = ledger_clock(ledger), .done = done, .data = data};
        list_append(&ledger->askings, &asking->link);
        pod_resources_list(ledger->pods, on_kubelet_listed, asking);
}

void ledger_forget_askings(struct ledger *ledger)
{
        while (!list_is_empty(&ledger->askings)) {
                struct asking *asking = container_of(ledger->askings.next, struct asking, link);

                list_remove(&asking->link);
                free(asking);
        }
}

static void on_nothing(const struct error *err UNUSED, void *data UNUSED)
{
}

void ledger_on_list_timer(uv_timer_t *timer)
{
        struct ledger *ledger = timer->data;

        if (ledger->pods) {
                ledger_list(ledger, on_nothing, NULL);
                return;
        }
        take_record(ledger);
        go_on(ledger);
        tidy();
}

void ledger_begin_asking(struct ledger *ledger)
{
        ledger_list_within(ledger, ledger->holders ? LIST_INTERVAL_MS : 0);
}

void ledger_list_soon(struct ledger *ledger)
{
        ledger_list_within(ledger, LIST_SOON_MS);
}
