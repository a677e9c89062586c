/*
 * The lock protects the requests, the mail, the flags and |async|. |watch| and everything below it belong to the
 * thread; while the thread is stuck in a call, the loop reads them with the trace's lock (monitor_worker_dismiss()).
 */
#include "gpu/monitor_worker.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define RETRY_MAX_MS 30000U
#define FIXED_MS (UINT64_C(24) * 3600 * 1000) /* between two checks of a machine where nothing is watched */
#define STEADY_MS 30000U /* after a watch that lasted this long, the next search starts with the first back-off */

struct monitor_worker {
        _Atomic unsigned int references; /* references: the loop's and the thread's */
        uv_mutex_t lock;
        uv_cond_t wake;
        struct monitor_worker_requests requests;
        struct monitor_worker_news news;
        bool pause;
        bool may_begin;
        bool may_close;
        uv_async_t *async; /* NULL: the loop has dropped the worker */
        struct call_trace trace;
        _Atomic uint64_t failed_waits;
        uv_thread_t thread;

        struct watch watch;
        struct watch_options options;
        struct health_policy policy; /* the first one */
        char *library;
        char *system_root;
        char *driver_root;
        uint64_t retry_ms;
        bool has_unheard_report;
        char *reported; /* the reason that was reported last; NULL: NVML works */
};

static void unref(struct monitor_worker *worker)
{
        if (atomic_fetch_sub(&worker->references, 1) > 1)
                return;
        mail_done(&worker->news.mail);
        call_trace_done(&worker->trace);
        uv_cond_destroy(&worker->wake);
        uv_mutex_destroy(&worker->lock);
        free(worker->library);
        free(worker->system_root);
        free(worker->driver_root);
        free(worker->reported);
        free(worker);
}

/* Call it with the lock held. */
static void report_loop(struct monitor_worker *worker)
{
        if (worker->async)
                uv_async_send(worker->async);
}

/* ---- the thread ---- */

static void post(struct monitor_worker *worker, struct mail *mail)
{
        if (mail_is_empty(mail))
                return;
        if (call_trace_is_dismissed(&worker->trace)) {
                mail_done(mail);
                return;
        }
        uv_mutex_lock(&worker->lock);
        mail_merge(&worker->news.mail, mail);
        report_loop(worker);
        uv_mutex_unlock(&worker->lock);
}

static void raise_flag(struct monitor_worker *worker, bool *flag)
{
        uv_mutex_lock(&worker->lock);
        if (!*flag)
                report_loop(worker);
        *flag = true;
        uv_mutex_unlock(&worker->lock);
}

static void on_monitor_worker_call_ended(void *data)
{
        struct monitor_worker *worker = data;

        raise_flag(worker, &worker->news.has_returned);
}

static struct monitor_worker_requests take_requests(struct monitor_worker *worker)
{
        struct monitor_worker_requests requests;

        uv_mutex_lock(&worker->lock);
        requests = worker->requests;
        worker->requests = (struct monitor_worker_requests){.stop = requests.stop};
        uv_mutex_unlock(&worker->lock);
        return requests;
}

static bool must_stop(struct monitor_worker *worker)
{
        bool stop;

        uv_mutex_lock(&worker->lock);
        stop = worker->requests.stop;
        uv_mutex_unlock(&worker->lock);
        return stop || call_trace_is_dismissed(&worker->trace);
}

static bool must_pause(struct monitor_worker *worker)
{
        bool pause;

        uv_mutex_lock(&worker->lock);
        pause = worker->pause;
        uv_mutex_unlock(&worker->lock);
        return pause;
}

/* Sleeps until a request arrives or the time is over; true if there is a request. */
static bool sleep_ms(struct monitor_worker *worker, uint64_t ms)
{
        uint64_t end = uv_hrtime() + ms * 1000000;
        const struct monitor_worker_requests *requests = &worker->requests;
        bool is_asked;

        uv_mutex_lock(&worker->lock);
        while (!(is_asked = requests->stop || requests->rescan || requests->poll || requests->has_policy ||
                            requests->has_skips || worker->pause)) {
                uint64_t now = uv_hrtime();

                if (now >= end)
                        break;
                uv_cond_timedwait(&worker->wake, &worker->lock, end - now);
        }
        uv_mutex_unlock(&worker->lock);
        return is_asked;
}

/* The driver is closed. */
static void pause_watch(struct monitor_worker *worker)
{
        raise_flag(worker, &worker->news.is_paused);
        uv_mutex_lock(&worker->lock);
        while (worker->pause && !worker->requests.stop && worker->async)
                uv_cond_wait(&worker->wake, &worker->lock);
        worker->news.is_paused = false;
        uv_mutex_unlock(&worker->lock);
}

static void wait_for(struct monitor_worker *worker, const bool *flag)
{
        uv_mutex_lock(&worker->lock);
        while (!*flag && worker->async)
                uv_cond_wait(&worker->wake, &worker->lock);
        uv_mutex_unlock(&worker->lock);
}

static void report_unavailable(struct monitor_worker *worker, const char *reason)
{
        struct mail mail = MAIL_INIT;

        watch_put_out(&worker->watch, reason, &mail);
        if (mail.inventory || !worker->reported || strcmp(worker->reported, reason) != 0) {
                free(worker->reported);
                worker->reported = xstrdup(reason);
                mail_put_unavailable(&mail, reason);
        }
        post(worker, &mail);
        mail_done(&mail);
}

static void note_unheard(struct monitor_worker *worker, struct mail *mail)
{
        const struct watch *watch = &worker->watch;
        bool is_unheard = watch->unheard[0];

        atomic_store(&worker->failed_waits, watch->wait_failures);
        if (is_unheard != worker->has_unheard_report)
                mail_put_unheard(mail, watch->unheard);
        worker->has_unheard_report = is_unheard;
}

static int monitor_worker_step(
        struct monitor_worker *worker, uint64_t *ret_sleep_ms, struct mail *mail, struct error *err)
{
        if (watch_listen(&worker->watch, ret_sleep_ms, mail, err) < 0)
                return -1;
        note_unheard(worker, mail);
        post(worker, mail); /* the first event waits for no other call */
        watch_hear_rest(&worker->watch, mail);
        post(worker, mail);
        return watch_do_due(&worker->watch, mail, err);
}

/* Handles all requests except a rescan, which the caller answers. */
static void follow_requests(struct monitor_worker *worker, const struct monitor_worker_requests *requests)
{
        struct mail mail = MAIL_INIT;

        if (requests->has_policy)
                watch_set_policy(&worker->watch, &requests->policy);
        if (requests->poll)
                watch_poll(&worker->watch);
        if (requests->has_skips)
                watch_set_skips(&worker->watch, &requests->skips, &mail);
        post(worker, &mail);
        mail_done(&mail);
}

/* Watches until a request to stop, another driver, or no GPU left: 0; -1 with the reason of a failure. */
static int keep_watch(struct monitor_worker *worker, struct error *err)
{
        struct watch *watch = &worker->watch;
        struct mail mail = MAIL_INIT;
        int result = 0;

        while (result == 0 && watch_has_gpus(watch) && !watch_is_fixed(watch) && !watch->is_outdated &&
                !must_stop(worker) && !must_pause(worker)) {
                struct monitor_worker_requests requests = take_requests(worker);
                uint64_t sleep = 0;

                follow_requests(worker, &requests);
                if (requests.rescan)
                        result = watch_refresh(watch, true, &mail, err);
                else
                        result = monitor_worker_step(worker, &sleep, &mail, err);
                post(worker, &mail);
                if (result == 0 && sleep)
                        (void)sleep_ms(worker, sleep);
        }
        mail_done(&mail);
        return result;
}

static void report_if_stale(struct monitor_worker *worker)
{
        struct mail mail = {.is_stale = true};

        if (watch_is_stale(&worker->watch))
                post(worker, &mail);
}

static int open_watch(struct monitor_worker *worker, bool report, struct error *err)
{
        struct watch *watch = &worker->watch;
        struct mail mail = MAIL_INIT;
        int result = watch_open(watch, report, &mail, err);

        post(worker, &mail);
        raise_flag(worker, &worker->news.has_opened);
        if (result == 0)
                result = watch_begin(watch, &mail, err);
        if (result == 0) {
                free(worker->reported);
                worker->reported = NULL;
        }
        post(worker, &mail);
        mail_done(&mail);
        return result;
}

/* Opens the library, watches and closes it. True if it must be opened again at once. */
static bool search_and_watch(struct monitor_worker *worker)
{
        struct monitor_worker_requests requests = take_requests(worker);
        struct watch *watch = &worker->watch;
        struct error err;
        int result;

        follow_requests(worker, &requests);
        result = open_watch(worker, requests.rescan, &err);
        if (result == 0)
                result = keep_watch(worker, &err);
        if (call_trace_is_dismissed(&worker->trace))
                return false;
        watch_close(watch);
        if (result < 0)
                report_unavailable(worker, err.text);
        report_if_stale(worker);
        return result == 0 && watch->is_outdated;
}

static void search(struct monitor_worker *worker)
{
        uint64_t retry_ms = worker->retry_ms;

        while (!must_stop(worker)) {
                uint64_t start = uv_hrtime();

                if (must_pause(worker)) {
                        pause_watch(worker);
                        continue;
                }
                if (search_and_watch(worker) || must_stop(worker))
                        continue;
                if (uv_hrtime() - start > (uint64_t)STEADY_MS * 1000000)
                        retry_ms = worker->retry_ms;
                if (sleep_ms(worker, watch_is_fixed(&worker->watch) ? FIXED_MS : retry_ms))
                        retry_ms = worker->retry_ms;
                else
                        retry_ms = MIN(retry_ms * 2, MAX((uint64_t)RETRY_MAX_MS, worker->retry_ms));
        }
}

static void monitor_worker_run(void *argument)
{
        struct monitor_worker *worker = argument;

        wait_for(worker, &worker->may_begin);
        search(worker);
        /* The driver frees what it keeps for this process, such as event sets, when its last user closes it. */
        if (call_trace_is_dismissed(&worker->trace))
                wait_for(worker, &worker->may_close);
        watch_done(&worker->watch);
        raise_flag(worker, &worker->news.has_ended);
        unref(worker);
}

/* ---- the loop ---- */

/* Signals are handled by the loop: they must not interrupt a thread inside a driver call. */
static int start_thread(struct monitor_worker *worker)
{
        sigset_t all;
        sigset_t before;
        int result;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        result = uv_thread_create(&worker->thread, monitor_worker_run, worker);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return result;
}

static void init_watch(struct monitor_worker *worker, const struct watch_options *options)
{
        worker->library = xstrdup(options->library ? options->library : "");
        worker->system_root = xstrdup(options->paths.system_root ? options->paths.system_root : "");
        worker->driver_root = xstrdup(options->paths.driver_root ? options->paths.driver_root : "");
        worker->policy = *options->policy;
        worker->options = *options;
        worker->options.library = worker->library;
        worker->options.paths = (struct gpu_paths){worker->system_root, worker->driver_root};
        worker->options.policy = &worker->policy;
        worker->options.trace = &worker->trace;
        watch_init(&worker->watch, &worker->options);
}

int monitor_worker_new(struct monitor_worker **ret, const struct monitor_worker_options *options, struct error *err)
{
        struct monitor_worker *worker = xcalloc(1, sizeof(*worker));
        int result;

        if (uv_mutex_init(&worker->lock) < 0 || uv_cond_init(&worker->wake) < 0)
                alloc_fail(); /* of glibc */
        atomic_init(&worker->references, 2);
        worker->async = options->async;
        worker->retry_ms = options->retry_ms;
        call_trace_init(&worker->trace, options->timer, options->hang_ms, on_monitor_worker_call_ended, worker);
        init_watch(worker, options->watch);
        result = start_thread(worker);
        if (result < 0) {
                watch_done(&worker->watch);
                unref(worker);
                unref(worker);
                return error_errno(err, -result, "start the GPU monitor's thread");
        }
        *ret = worker;
        return 0;
}

static void permit(struct monitor_worker *worker, bool *flag)
{
        uv_mutex_lock(&worker->lock);
        *flag = true;
        uv_cond_signal(&worker->wake);
        uv_mutex_unlock(&worker->lock);
}

void monitor_worker_start(struct monitor_worker *worker)
{
        permit(worker, &worker->may_begin);
}

void monitor_worker_let_close(struct monitor_worker *worker)
{
        permit(worker, &worker->may_close);
}

void monitor_worker_ask(struct monitor_worker *worker, const struct monitor_worker_requests *requests)
{
        struct monitor_worker_requests *to = &worker->requests;

        uv_mutex_lock(&worker->lock);
        to->stop = to->stop || requests->stop;
        to->rescan = to->rescan || requests->rescan;
        to->poll = to->poll || requests->poll;
        if (requests->has_pause)
                worker->pause = requests->pause;
        if (requests->has_policy)
                to->policy = requests->policy;
        to->has_policy = to->has_policy || requests->has_policy;
        if (requests->has_skips)
                to->skips = requests->skips;
        to->has_skips = to->has_skips || requests->has_skips;
        uv_cond_signal(&worker->wake);
        uv_mutex_unlock(&worker->lock);
}

struct monitor_worker_news monitor_worker_take(struct monitor_worker *worker)
{
        struct monitor_worker_news news;

        uv_mutex_lock(&worker->lock);
        news = worker->news;
        worker->news.mail = (struct mail)MAIL_INIT;
        worker->news.has_returned = false;
        uv_mutex_unlock(&worker->lock);
        return news;
}

uint64_t monitor_worker_failed_waits(const struct monitor_worker *worker)
{
        return atomic_load(&worker->failed_waits);
}

bool monitor_worker_is_over(struct monitor_worker *worker, struct call_info *ret)
{
        return call_trace_over(&worker->trace, ret);
}

bool monitor_worker_waits(struct monitor_worker *worker)
{
        return call_trace_waits(&worker->trace);
}

struct bequest {
        struct monitor_worker *from;
        struct monitor_worker *heir;
        bool with_ears;
};

static void inherit(void *data)
{
        const struct bequest *bequest = data;

        watch_inherit(&bequest->heir->watch, &bequest->from->watch, bequest->with_ears);
        bequest->heir->has_unheard_report = bequest->from->has_unheard_report;
        atomic_store(&bequest->heir->failed_waits, atomic_load(&bequest->from->failed_waits));
}

bool monitor_worker_dismiss(struct monitor_worker *worker, struct monitor_worker *heir, bool with_ears)
{
        struct bequest bequest = {worker, heir, with_ears};

        return call_trace_dismiss(&worker->trace, inherit, &bequest);
}

void monitor_worker_leave(struct monitor_worker *worker)
{
        const struct monitor_worker_requests stop = {.stop = true};

        call_trace_forget_timer(&worker->trace);
        monitor_worker_ask(worker, &stop);
        uv_mutex_lock(&worker->lock);
        worker->async = NULL;
        uv_cond_signal(&worker->wake);
        uv_mutex_unlock(&worker->lock);
        pthread_detach(worker->thread);
        unref(worker);
}

void monitor_worker_join(struct monitor_worker *worker)
{
        uv_thread_join(&worker->thread);
        unref(worker);
}
