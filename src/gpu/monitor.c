#include "gpu/monitor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "gpu/monitor_worker.h"
#include "gpu/uevent.h"

#define WAIT_MS 1000U
#define REFRESH_MS 30000U
#define EMPTY_MS 60000U
#define UNHEARD_MS 120000U
#define RETRY_MS 1000U

/* All of this belongs to the loop. */
struct gpu_monitor {
        struct monitor_worker *worker; /* the current worker; NULL: it has ended, or was left behind */
        struct gpu_hang hung;          /* the call that it is in, if |is_hung| */
        bool is_hung;
        struct monitor_worker *dismissed[HANGS_MAX];
        struct call_info calls[HANGS_MAX]; /* the calls that the dismissed threads are in */
        size_t n_dismissed;
        struct hang_history history;
        struct call_info held[HANGS_MAX]; /* calls that have returned, but whose GPUs are not asked yet */
        uint64_t held_until_ms[HANGS_MAX];
        size_t n_held;
        uv_timer_t hold;

        struct mail known; /* what was reported last: the inventory, and the unhealthy units of it */
        bool owes_answer;  /* answers owed to rescans */
        bool wants_pause;
        bool is_paused;

        struct gpu_monitor_options options; /* callbacks too; the texts are below */
        struct health_policy policy;        /* the newest */
        char *library;
        char *system_root;
        char *driver_root;

        int timer;
        uv_poll_t poll; /* for |timer|: a call takes too long */
        uv_async_t async;
        unsigned int open_handles;
        struct uevent_watch *uevents; /* NULL: not available */
        bool is_closing;
        void (*closed)(void *data);
        void *closed_data;
};

/* ---- end ---- */

static void free_monitor(struct gpu_monitor *monitor)
{
        if (monitor->timer >= 0)
                close(monitor->timer);
        mail_done(&monitor->known);
        free(monitor->library);
        free(monitor->system_root);
        free(monitor->driver_root);
        free(monitor);
}

static void on_monitor_handle_closed(uv_handle_t *handle)
{
        struct gpu_monitor *monitor = handle->data;
        void (*closed)(void *data) = monitor->closed;
        void *data = monitor->closed_data;

        if (--monitor->open_handles)
                return;
        free_monitor(monitor);
        if (closed)
                closed(data);
}

/* Threads that are still inside a call stay behind. */
static void close_handles(struct gpu_monitor *monitor)
{
        for (size_t i = 0; i < monitor->n_dismissed; i++)
                monitor_worker_leave(monitor->dismissed[i]);
        monitor->n_dismissed = 0;
        uv_close((uv_handle_t *)&monitor->poll, on_monitor_handle_closed);
        uv_close((uv_handle_t *)&monitor->async, on_monitor_handle_closed);
        uv_close((uv_handle_t *)&monitor->hold, on_monitor_handle_closed);
}

static void leave_worker(struct gpu_monitor *monitor)
{
        monitor_worker_leave(TAKE_PTR(monitor->worker));
        close_handles(monitor);
}

/* ---- reporting ---- */

/* A callback may close the monitor; then the rest of the mail is dropped. */
static void deliver_notes(struct gpu_monitor *monitor, const struct mail *mail, bool only_unhealthy)
{
        const struct gpu_monitor_options *to = &monitor->options;

        for (size_t i = 0; i < mail->n_notes && !monitor->is_closing; i++) {
                const struct mail_note *note = &mail->notes[i];

                if (!note->healthy || !only_unhealthy)
                        to->on_health(note->uuid, note->healthy, note->reason, note->xid, to->data);
        }
        for (size_t i = 0; i < mail->n_notes && to->after_health && !monitor->is_closing; i++) {
                const struct mail_note *note = &mail->notes[i];

                if (!note->healthy || !only_unhealthy)
                        to->after_health(note->uuid, note->healthy, note->reason, note->xid, to->data);
        }
}

static void monitor_remember(struct gpu_monitor *monitor, const struct mail *mail)
{
        struct mail *known = &monitor->known;

        if (mail->inventory) {
                mail_done(known);
                mail_put_inventory(known, inventory_copy(mail->inventory));
                monitor->owes_answer = false;
        }
        for (size_t i = 0; i < mail->n_notes; i++)
                mail_put_note(
                        known, mail->notes[i].uuid, mail->notes[i].healthy, mail->notes[i].reason, mail->notes[i].xid);
        if (mail->unavailable)
                mail_put_unavailable(known, mail->unavailable);
}

static void monitor_deliver(struct gpu_monitor *monitor, struct mail *mail)
{
        const struct gpu_monitor_options *to = &monitor->options;

        monitor_remember(monitor, mail);
        if (mail->inventory && !monitor->is_closing)
                to->on_inventory(TAKE_PTR(mail->inventory), to->data);
        deliver_notes(monitor, mail, false);
        if (mail->unavailable && !monitor->is_closing)
                to->on_unavailable(mail->unavailable, to->data);
        if (mail->unheard && to->on_unheard && !monitor->is_closing)
                to->on_unheard(*mail->unheard ? mail->unheard : NULL, to->data);
        if (mail->samples && !monitor->is_closing)
                to->on_samples(TAKE_PTR(mail->samples), to->data);
        if (mail->is_stale && to->on_stale_library && !monitor->is_closing)
                to->on_stale_library(to->data);
}

/*
 * NVML cannot be used: report the last inventory, with the known health, since a new inventory would make all units
 * healthy.
 */
static void answer_from_memory(struct gpu_monitor *monitor)
{
        const struct gpu_monitor_options *to = &monitor->options;
        struct mail known = MAIL_INIT;

        if (!monitor->owes_answer || !monitor->known.inventory || monitor->is_closing)
                return;
        monitor->owes_answer = false;
        /* A copy, since a callback may change the known state. */
        for (size_t i = 0; i < monitor->known.n_notes; i++) {
                const struct mail_note *note = &monitor->known.notes[i];

                mail_put_note(&known, note->uuid, note->healthy, note->reason, note->xid);
        }
        if (monitor->known.unavailable)
                mail_put_unavailable(&known, monitor->known.unavailable);
        to->on_inventory(inventory_copy(monitor->known.inventory), to->data);
        deliver_notes(monitor, &known, true);
        if (known.unavailable && !monitor->is_closing)
                to->on_unavailable(known.unavailable, to->data);
        mail_done(&known);
}

static void report_hang(struct gpu_monitor *monitor, const struct gpu_hang *hang, bool has_returned)
{
        const struct gpu_monitor_options *to = &monitor->options;

        if (to->on_hang && !monitor->is_closing)
                to->on_hang(hang, has_returned, to->data);
}

/* ---- calls that hang ---- */

static int new_worker(struct gpu_monitor *monitor, struct monitor_worker **ret, struct error *err)
{
        const struct gpu_monitor_options *options = &monitor->options;
        const struct watch_options watch = {
                .library = monitor->library,
                .paths = {.system_root = monitor->system_root, .driver_root = monitor->driver_root},
                .discovery = options->discovery,
                .can_load = options->can_load ? options->can_load : platform_can_load,
                .probe_ms = options->probe_ms,
                .refresh_ms = options->refresh_ms ? options->refresh_ms : REFRESH_MS,
                .wait_ms = options->wait_ms ? options->wait_ms : WAIT_MS,
                .empty_ms = options->empty_ms ? options->empty_ms : EMPTY_MS,
                .unheard_ms = options->unheard_ms ? options->unheard_ms : UNHEARD_MS,
                .sample_ms = options->sample_ms,
                .policy = &monitor->policy,
        };
        const struct monitor_worker_options worker = {
                .watch = &watch,
                .retry_ms = options->retry_ms ? options->retry_ms : RETRY_MS,
                .hang_ms = options->hang_ms,
                .timer = monitor->timer,
                .async = &monitor->async,
        };

        return monitor_worker_new(ret, &worker, err);
}

/*
 * The units are also unhealthy in the loop's memory until the thread reports it: answers from memory must not call them
 * healthy.
 */
static void remember_skipped(struct gpu_monitor *monitor, const struct skips *skips)
{
        const struct inventory *inventory = monitor->known.inventory;

        for (size_t g = 0; inventory && g < inventory->n_gpus; g++) {
                const struct gpu *gpu = &inventory->gpus[g];
                const struct skipped_gpu *skipped = skips_find(skips, gpu->uuid);

                if (!skipped)
                        continue;
                mail_put_note(&monitor->known, gpu->uuid, false, skipped->reason, 0);
                for (size_t m = 0; m < gpu->n_mig_devices; m++)
                        mail_put_note(&monitor->known, gpu->mig_devices[m].uuid, false, skipped->reason, 0);
        }
}

/* Both the newly skipped GPUs and those that are skipped no longer. */
static struct monitor_worker_requests ask_skips(const struct gpu_monitor *monitor)
{
        struct monitor_worker_requests requests = {.has_policy = true,
                .policy = monitor->policy,
                .has_skips = true,
                .has_pause = true,
                .pause = monitor->wants_pause};

        for (size_t i = 0; i < monitor->n_dismissed; i++)
                skips_add(&requests.skips, &monitor->calls[i], false);
        for (size_t i = 0; i < monitor->n_held; i++)
                skips_add(&requests.skips, &monitor->held[i], true);
        return requests;
}

static bool replace_worker(struct gpu_monitor *monitor, const struct call_info *call)
{
        struct monitor_worker_requests requests;
        struct monitor_worker *heir;
        struct error ignored;

        if (new_worker(monitor, &heir, &ignored) < 0)
                return false;
        if (!monitor_worker_dismiss(monitor->worker, heir, !hang_has_events(call))) {
                monitor_worker_leave(heir);
                return false;
        }
        monitor->dismissed[monitor->n_dismissed] = monitor->worker;
        monitor->calls[monitor->n_dismissed++] = *call;
        monitor->worker = heir;
        requests = ask_skips(monitor);
        remember_skipped(monitor, &requests.skips);
        monitor_worker_ask(heir, &requests);
        monitor_worker_start(heir);
        return true;
}

static void consider_call(struct gpu_monitor *monitor)
{
        struct gpu_hang hang = {0};

        if (!monitor_worker_is_over(monitor->worker, &hang.call))
                return;
        if (monitor->is_closing) {
                leave_worker(monitor);
                return;
        }
        hang_name_gpu(&hang.call, monitor->known.inventory);
        hang.is_waited_for = hang_judge(&hang.call, monitor->calls, monitor->n_dismissed) == HANG_WAIT ||
                             !replace_worker(monitor, &hang.call);
        if (hang.is_waited_for) {
                monitor->is_hung = true;
                monitor->hung = hang;
        }
        report_hang(monitor, &hang, false);
        answer_from_memory(monitor);
}

static void on_monitor_timer(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
        struct gpu_monitor *monitor = poll->data;
        uint64_t count;

        (void)!read(monitor->timer, &count, sizeof(count));
        if (monitor->worker)
                consider_call(monitor);
}

static void end_hang(struct gpu_monitor *monitor)
{
        if (!monitor->is_hung)
                return; /* it returned before it was reported */
        monitor->is_hung = false;
        report_hang(monitor, &monitor->hung, true);
}

static void ask_anew(struct gpu_monitor *monitor)
{
        struct monitor_worker_requests requests = ask_skips(monitor);

        if (monitor->worker)
                monitor_worker_ask(monitor->worker, &requests);
}

static void on_hold(uv_timer_t *timer);

static void arm_hold(struct gpu_monitor *monitor)
{
        uint64_t now_ms = call_trace_now_ms();
        uint64_t due_ms = UINT64_MAX;

        for (size_t i = 0; i < monitor->n_held; i++)
                due_ms = MIN(due_ms, monitor->held_until_ms[i]);
        if (monitor->n_held && !monitor->is_closing)
                uv_timer_start(&monitor->hold, on_hold, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

static void on_hold(uv_timer_t *timer)
{
        struct gpu_monitor *monitor = timer->data;
        uint64_t now_ms = call_trace_now_ms();

        for (size_t i = 0; i < monitor->n_held;) {
                if (monitor->held_until_ms[i] > now_ms) {
                        i++;
                        continue;
                }
                monitor->n_held--;
                monitor->held[i] = monitor->held[monitor->n_held];
                monitor->held_until_ms[i] = monitor->held_until_ms[monitor->n_held];
        }
        arm_hold(monitor);
        ask_anew(monitor);
}

/* Each attempt delays the other GPUs, so a GPU that hangs repeatedly gets fewer attempts. */
static void hold(struct gpu_monitor *monitor, const struct call_info *call)
{
        uint64_t first_ms = monitor->options.hang_pause_ms ? monitor->options.hang_pause_ms : HANG_PAUSE_MS;
        uint64_t now_ms = call_trace_now_ms();
        uint64_t pause_ms = hang_history_add(&monitor->history, call, first_ms, now_ms);

        if (pause_ms == 0 || call->subject == CALL_ON_DRIVER || monitor->n_held == HANGS_MAX)
                return;
        monitor->held[monitor->n_held] = *call;
        monitor->held_until_ms[monitor->n_held++] = now_ms + pause_ms;
}

/* Dismissed threads that have ended: their GPUs may be asked again. */
static void monitor_reap(struct gpu_monitor *monitor)
{
        bool any = false;

        for (size_t i = 0; i < monitor->n_dismissed;) {
                struct gpu_hang hang = {.call = monitor->calls[i]};
                struct monitor_worker_news news = monitor_worker_take(monitor->dismissed[i]);

                mail_done(&news.mail);
                if (!news.has_ended) {
                        i++;
                        continue;
                }
                monitor_worker_join(monitor->dismissed[i]);
                monitor->n_dismissed--;
                monitor->dismissed[i] = monitor->dismissed[monitor->n_dismissed];
                monitor->calls[i] = monitor->calls[monitor->n_dismissed];
                any = true;
                hold(monitor, &hang.call);
                report_hang(monitor, &hang, true);
        }
        if (!any)
                return;
        arm_hold(monitor);
        ask_anew(monitor);
}

/* ---- the loop ---- */

static void on_async(uv_async_t *async)
{
        struct gpu_monitor *monitor = async->data;
        struct monitor_worker_news news;

        if (!monitor->worker)
                return;
        news = monitor_worker_take(monitor->worker);
        monitor->is_paused = news.is_paused && monitor->wants_pause;
        monitor_deliver(monitor, &news.mail);
        mail_done(&news.mail);
        if (news.has_returned)
                end_hang(monitor);
        for (size_t i = 0; news.has_opened && i < monitor->n_dismissed; i++)
                monitor_worker_let_close(monitor->dismissed[i]);
        monitor_reap(monitor);
        if (monitor->is_hung)
                answer_from_memory(monitor);
        if (news.has_ended && monitor->worker) {
                monitor_worker_join(TAKE_PTR(monitor->worker));
                close_handles(monitor);
        }
}

static void init_options(struct gpu_monitor *monitor, const struct gpu_monitor_options *options)
{
        monitor->options = *options;
        monitor->library = xstrdup(options->library ? options->library : "");
        monitor->system_root = xstrdup(options->paths.system_root ? options->paths.system_root : "");
        monitor->driver_root = xstrdup(options->paths.driver_root ? options->paths.driver_root : "");
        if (options->policy)
                monitor->policy = *options->policy;
        else
                health_policy_parse(&monitor->policy, NULL, NULL, NULL);
}

static void on_uevent(void *data)
{
        gpu_monitor_poll(data);
}

static int open_timer(struct gpu_monitor *monitor, uv_loop_t *loop, struct error *err)
{
        int result;

        monitor->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        if (monitor->timer < 0)
                return error_errno(err, errno, "make the timer of calls into NVML");
        result = uv_poll_init(loop, &monitor->poll, monitor->timer);
        if (result < 0)
                return error_errno(err, -result, "watch the timer of calls into NVML");
        monitor->poll.data = monitor;
        monitor->open_handles++;
        uv_poll_start(&monitor->poll, UV_READABLE, on_monitor_timer);
        return 0;
}

int gpu_monitor_new(
        struct gpu_monitor **ret, uv_loop_t *loop, const struct gpu_monitor_options *options, struct error *err)
{
        struct gpu_monitor *monitor = xcalloc(1, sizeof(*monitor));
        struct error ignored;
        int result;

        assert(options->on_inventory && options->on_unavailable && options->on_health);
        monitor->timer = -1;
        init_options(monitor, options);
        result = uv_async_init(loop, &monitor->async, on_async);
        if (result < 0) {
                free_monitor(monitor);
                return error_errno(err, -result, "prepare the GPU monitor");
        }
        uv_timer_init(loop, &monitor->hold);
        monitor->async.data = monitor->hold.data = monitor;
        monitor->open_handles += 2;
        if (open_timer(monitor, loop, err) < 0 || new_worker(monitor, &monitor->worker, err) < 0) {
                if (monitor->open_handles > 2)
                        uv_close((uv_handle_t *)&monitor->poll, on_monitor_handle_closed);
                uv_close((uv_handle_t *)&monitor->async, on_monitor_handle_closed);
                uv_close((uv_handle_t *)&monitor->hold, on_monitor_handle_closed);
                return -1;
        }
        monitor_worker_start(monitor->worker);
        if (uevent_watch_new(&monitor->uevents, loop, on_uevent, monitor, &ignored) < 0)
                monitor->uevents = NULL; /* not allowed here: each refresh compares instead */
        *ret = monitor;
        return 0;
}

static void monitor_ask(struct gpu_monitor *monitor, const struct monitor_worker_requests *requests)
{
        if (monitor->worker)
                monitor_worker_ask(monitor->worker, requests);
}

void gpu_monitor_rescan(struct gpu_monitor *monitor)
{
        const struct monitor_worker_requests requests = {.rescan = true};

        monitor->owes_answer = true;
        monitor_ask(monitor, &requests);
        if (monitor->is_hung)
                uv_async_send(&monitor->async); /* answered from memory, but not from inside this call */
}

void gpu_monitor_poll(struct gpu_monitor *monitor)
{
        const struct monitor_worker_requests requests = {.poll = true};

        monitor_ask(monitor, &requests);
}

static void ask_pause(struct gpu_monitor *monitor, bool pause)
{
        const struct monitor_worker_requests requests = {.has_pause = true, .pause = pause};

        monitor->wants_pause = pause;
        monitor->is_paused = false;
        monitor_ask(monitor, &requests);
}

void gpu_monitor_pause(struct gpu_monitor *monitor)
{
        if (!monitor->wants_pause)
                ask_pause(monitor, true);
}

bool gpu_monitor_is_paused(const struct gpu_monitor *monitor)
{
        return monitor->is_paused && monitor->n_dismissed == 0;
}

void gpu_monitor_resume(struct gpu_monitor *monitor)
{
        if (monitor->wants_pause)
                ask_pause(monitor, false);
}

void gpu_monitor_set_policy(struct gpu_monitor *monitor, const struct health_policy *policy)
{
        const struct monitor_worker_requests requests = {.has_policy = true, .policy = *policy};

        monitor->policy = *policy;
        monitor_ask(monitor, &requests);
}

uint64_t gpu_monitor_failed_waits(const struct gpu_monitor *monitor)
{
        return monitor->worker ? monitor_worker_failed_waits(monitor->worker) : 0;
}

size_t gpu_monitor_hangs(const struct gpu_monitor *monitor, struct gpu_hang ret[GPU_MONITOR_MAX_HANGS])
{
        size_t n = 0;

        if (monitor->is_hung)
                ret[n++] = monitor->hung;
        for (size_t i = 0; i < monitor->n_dismissed; i++)
                ret[n++] = (struct gpu_hang){.call = monitor->calls[i]};
        return n;
}

void gpu_monitor_close(struct gpu_monitor *monitor, void (*closed)(void *data), void *data)
{
        const struct monitor_worker_requests stop = {.stop = true};

        assert(!monitor->is_closing);
        monitor->is_closing = true;
        monitor->closed = closed;
        monitor->closed_data = data;
        monitor->uevents = uevent_watch_close(monitor->uevents);
        monitor_ask(monitor, &stop);
        if (monitor->is_hung)
                leave_worker(monitor);
}

bool gpu_monitor_leave(struct gpu_monitor *monitor, void (*closed)(void *data), void *data)
{
        bool waits;

        gpu_monitor_close(monitor, closed, data);
        waits = monitor->worker && monitor_worker_waits(monitor->worker);
        if (waits)
                leave_worker(monitor);
        return waits;
}

void gpu_monitor_exit(int status)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        /* A sanitizer looks for leaks at the end. With that thread still there it takes what others have for some. */
        usleep(WAIT_MS * 1100); /* microseconds */
        exit(status);
#else
        _exit(status);
#endif
}
