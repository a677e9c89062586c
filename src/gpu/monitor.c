#include "gpu/monitor.h"

#include <assert.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/uevent.h"
#include "gpu/watch.h"

#define WAIT_MS 1000U
#define REFRESH_MS 30000U
#define EMPTY_MS 60000U
#define UNHEARD_MS 120000U
#define RETRY_MS 1000U
#define RETRY_MAX_MS 30000U
#define FIXED_MS (UINT64_C(24) * 3600 * 1000) /* between looks at a machine where nothing is watched */
#define STEADY_MS 30000U /* a watch that lasted this long makes the next search start with the first back-off */

/* What the loop wants of the thread. */
struct requests {
        bool stop; /* never taken back */
        bool rescan;
        bool look;
        bool has_policy;
        struct health_policy policy;
};

/*
 * The lock guards what both sides touch: the requests, the mail and |has_ended|. All else belongs to one side: |watch|,
 * |options| and what was told to the thread, the rest to the loop.
 */
struct gpu_monitor {
        uv_mutex_t lock;
        uv_cond_t wake;
        struct requests requests;
        struct mail mail;
        bool has_ended;
        _Atomic uint64_t failed_waits;

        uv_thread_t thread;
        struct watch watch;
        struct watch_options options;
        struct health_policy policy; /* the first one */
        char *library;
        char *system_root;
        char *driver_root;
        uint64_t retry_ms;
        bool has_told_unheard;
        char *told; /* the reason that was told last; NULL: NVML works */

        uv_async_t async;
        struct uevent_watch *uevents; /* NULL: cannot be had */
        struct gpu_monitor_options callbacks;
        bool is_closing;
        void (*closed)(void *data);
        void *closed_data;
};

/* ---- the thread ---- */

static void post(struct gpu_monitor *monitor, struct mail *mail)
{
        if (mail_is_empty(mail))
                return;
        uv_mutex_lock(&monitor->lock);
        mail_merge(&monitor->mail, mail);
        uv_mutex_unlock(&monitor->lock);
        uv_async_send(&monitor->async);
}

static struct requests take_requests(struct gpu_monitor *monitor)
{
        struct requests requests;

        uv_mutex_lock(&monitor->lock);
        requests = monitor->requests;
        monitor->requests.rescan = monitor->requests.look = monitor->requests.has_policy = false;
        uv_mutex_unlock(&monitor->lock);
        return requests;
}

static bool must_stop(struct gpu_monitor *monitor)
{
        bool stop;

        uv_mutex_lock(&monitor->lock);
        stop = monitor->requests.stop;
        uv_mutex_unlock(&monitor->lock);
        return stop;
}

/* Sleeps, but not through a request; true when there is one. */
static bool sleep_ms(struct gpu_monitor *monitor, uint64_t ms)
{
        uint64_t end = uv_hrtime() + ms * 1000000;
        const struct requests *requests = &monitor->requests;
        bool is_asked;

        uv_mutex_lock(&monitor->lock);
        while (!(is_asked = requests->stop || requests->rescan || requests->look || requests->has_policy)) {
                uint64_t now = uv_hrtime();

                if (now >= end)
                        break;
                uv_cond_timedwait(&monitor->wake, &monitor->lock, end - now);
        }
        uv_mutex_unlock(&monitor->lock);
        return is_asked;
}

static void tell_unavailable(struct gpu_monitor *monitor, const char *reason)
{
        struct mail mail = MAIL_INIT;

        watch_put_out(&monitor->watch, reason, &mail);
        if (mail.inventory || !monitor->told || strcmp(monitor->told, reason) != 0) {
                free(monitor->told);
                monitor->told = xstrdup(reason);
                mail_put_unavailable(&mail, reason);
        }
        post(monitor, &mail);
        mail_done(&mail);
}

static void note_unheard(struct gpu_monitor *monitor, struct mail *mail)
{
        const struct watch *watch = &monitor->watch;
        bool is_unheard = watch->unheard[0];

        atomic_store(&monitor->failed_waits, watch->wait_failures);
        if (is_unheard != monitor->has_told_unheard)
                mail_put_unheard(mail, watch->unheard);
        monitor->has_told_unheard = is_unheard;
}

static int step(struct gpu_monitor *monitor, uint64_t *ret_sleep_ms, struct mail *mail, struct error *err)
{
        if (watch_listen(&monitor->watch, ret_sleep_ms, mail, err) < 0)
                return -1;
        note_unheard(monitor, mail);
        post(monitor, mail);
        return watch_do_due(&monitor->watch, mail, err);
}

/* Returns when the watch is over: 0 because of a request to stop, another driver, or no GPU left; -1 with the reason. */
static int keep_watch(struct gpu_monitor *monitor, struct error *err)
{
        struct watch *watch = &monitor->watch;
        struct mail mail = MAIL_INIT;
        int result = 0;

        while (result == 0 && watch_has_gpus(watch) && !watch_is_fixed(watch) && !watch->is_outdated) {
                struct requests requests = take_requests(monitor);
                uint64_t sleep = 0;

                if (requests.stop)
                        break;
                if (requests.has_policy)
                        watch_set_policy(watch, &requests.policy);
                if (requests.look)
                        watch_look(watch);
                if (requests.rescan)
                        result = watch_refresh(watch, true, &mail, err);
                else
                        result = step(monitor, &sleep, &mail, err);
                post(monitor, &mail);
                if (result == 0 && sleep)
                        (void)sleep_ms(monitor, sleep);
        }
        mail_done(&mail);
        return result;
}

static void tell_if_stale(struct gpu_monitor *monitor)
{
        struct mail mail = {.is_stale = true};

        if (watch_is_stale(&monitor->watch))
                post(monitor, &mail);
}

/* From one opening of the library to its closing. True when it is to be opened again at once. */
static bool search_and_watch(struct gpu_monitor *monitor)
{
        struct requests requests = take_requests(monitor);
        struct watch *watch = &monitor->watch;
        struct mail mail = MAIL_INIT;
        struct error err;
        int result;

        if (requests.has_policy)
                watch_set_policy(watch, &requests.policy);
        result = watch_open(watch, requests.rescan, &mail, &err);
        if (result == 0) {
                free(monitor->told);
                monitor->told = NULL;
        }
        post(monitor, &mail);
        mail_done(&mail);
        if (result == 0)
                result = keep_watch(monitor, &err);
        watch_close(watch);
        if (result < 0)
                tell_unavailable(monitor, err.text);
        tell_if_stale(monitor);
        return result == 0 && watch->is_outdated;
}

static void run(void *argument)
{
        struct gpu_monitor *monitor = argument;
        uint64_t retry_ms = monitor->retry_ms;

        while (!must_stop(monitor)) {
                uint64_t start = uv_hrtime();

                if (search_and_watch(monitor))
                        continue;
                if (uv_hrtime() - start > (uint64_t)STEADY_MS * 1000000)
                        retry_ms = monitor->retry_ms;
                if (sleep_ms(monitor, watch_is_fixed(&monitor->watch) ? FIXED_MS : retry_ms))
                        retry_ms = monitor->retry_ms;
                else
                        retry_ms = MIN(retry_ms * 2, MAX((uint64_t)RETRY_MAX_MS, monitor->retry_ms));
        }
        watch_done(&monitor->watch);
        uv_mutex_lock(&monitor->lock);
        monitor->has_ended = true;
        uv_mutex_unlock(&monitor->lock);
        /* The last touch: the loop joins this thread before it frees anything. */
        uv_async_send(&monitor->async);
}

/* ---- the loop ---- */

static void free_monitor(struct gpu_monitor *monitor)
{
        mail_done(&monitor->mail);
        uv_cond_destroy(&monitor->wake);
        uv_mutex_destroy(&monitor->lock);
        free(monitor->library);
        free(monitor->system_root);
        free(monitor->driver_root);
        free(monitor->told);
        free(monitor);
}

static void on_async_closed(uv_handle_t *handle)
{
        struct gpu_monitor *monitor = container_of((uv_async_t *)handle, struct gpu_monitor, async);
        void (*closed)(void *data) = monitor->closed;
        void *data = monitor->closed_data;

        free_monitor(monitor);
        if (closed)
                closed(data);
}

/* A callback may close the monitor: the rest of the mail is then nobody's. */
static void deliver(struct gpu_monitor *monitor, struct mail *mail)
{
        const struct gpu_monitor_options *to = &monitor->callbacks;

        if (mail->inventory && !monitor->is_closing)
                to->on_inventory(TAKE_PTR(mail->inventory), to->data);
        for (size_t i = 0; i < mail->n_notes && !monitor->is_closing; i++) {
                const struct mail_note *note = &mail->notes[i];

                to->on_health(note->uuid, note->healthy, note->reason, note->xid, to->data);
        }
        if (mail->unavailable && !monitor->is_closing)
                to->on_unavailable(mail->unavailable, to->data);
        if (mail->unheard && to->on_unheard && !monitor->is_closing)
                to->on_unheard(*mail->unheard ? mail->unheard : NULL, to->data);
        if (mail->is_stale && to->on_stale_library && !monitor->is_closing)
                to->on_stale_library(to->data);
}

static void on_async(uv_async_t *async)
{
        struct gpu_monitor *monitor = container_of(async, struct gpu_monitor, async);
        struct mail mail;
        bool has_ended;

        uv_mutex_lock(&monitor->lock);
        mail = monitor->mail;
        monitor->mail = (struct mail)MAIL_INIT;
        has_ended = monitor->has_ended;
        uv_mutex_unlock(&monitor->lock);

        deliver(monitor, &mail);
        mail_done(&mail);
        if (has_ended && !uv_is_closing((uv_handle_t *)async)) {
                uv_thread_join(&monitor->thread);
                uv_close((uv_handle_t *)async, on_async_closed);
        }
}

/* Signals are the loop's: a thread inside a driver call must not be the one that is interrupted. */
static int start_thread(struct gpu_monitor *monitor)
{
        sigset_t all;
        sigset_t before;
        int result;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        result = uv_thread_create(&monitor->thread, run, monitor);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return result;
}

static void init_options(struct gpu_monitor *monitor, const struct gpu_monitor_options *options)
{
        monitor->callbacks = *options;
        monitor->retry_ms = options->retry_ms ? options->retry_ms : RETRY_MS;
        monitor->library = xstrdup(options->library ? options->library : "");
        monitor->system_root = xstrdup(options->paths.system_root ? options->paths.system_root : "");
        monitor->driver_root = xstrdup(options->paths.driver_root ? options->paths.driver_root : "");
        if (options->policy)
                monitor->policy = *options->policy;
        else
                health_policy_parse(&monitor->policy, NULL, NULL, NULL);
        monitor->options = (struct watch_options){
                .library = monitor->library,
                .paths = {.system_root = monitor->system_root, .driver_root = monitor->driver_root},
                .discovery = options->discovery,
                .can_load = options->can_load ? options->can_load : platform_can_load,
                .probe_ms = options->probe_ms,
                .refresh_ms = options->refresh_ms ? options->refresh_ms : REFRESH_MS,
                .wait_ms = options->wait_ms ? options->wait_ms : WAIT_MS,
                .empty_ms = options->empty_ms ? options->empty_ms : EMPTY_MS,
                .unheard_ms = options->unheard_ms ? options->unheard_ms : UNHEARD_MS,
                .policy = &monitor->policy,
        };
        watch_init(&monitor->watch, &monitor->options);
}

static void on_uevent(void *data)
{
        gpu_monitor_look(data);
}

int gpu_monitor_new(
        struct gpu_monitor **ret, uv_loop_t *loop, const struct gpu_monitor_options *options, struct error *err)
{
        struct gpu_monitor *monitor = xcalloc(1, sizeof(*monitor));
        int result;

        assert(options->on_inventory && options->on_unavailable && options->on_health);
        if (uv_mutex_init(&monitor->lock) < 0 || uv_cond_init(&monitor->wake) < 0)
                abort(); /* glibc fails here only for lack of memory */
        init_options(monitor, options);
        result = uv_async_init(loop, &monitor->async, on_async);
        if (result < 0) {
                free_monitor(monitor);
                return error_errno(err, -result, "prepare the GPU monitor");
        }
        result = start_thread(monitor);
        if (result < 0) {
                uv_close((uv_handle_t *)&monitor->async, on_async_closed);
                return error_errno(err, -result, "start the GPU monitor's thread");
        }
        if (uevent_watch_new(&monitor->uevents, loop, on_uevent, monitor, err) < 0)
                monitor->uevents = NULL; /* not allowed here: the comparison of every refresh finds the same, later */
        *ret = monitor;
        return 0;
}

void gpu_monitor_rescan(struct gpu_monitor *monitor)
{
        uv_mutex_lock(&monitor->lock);
        monitor->requests.rescan = true;
        uv_cond_signal(&monitor->wake);
        uv_mutex_unlock(&monitor->lock);
}

uint64_t gpu_monitor_failed_waits(const struct gpu_monitor *monitor)
{
        return atomic_load(&monitor->failed_waits);
}

void gpu_monitor_look(struct gpu_monitor *monitor)
{
        uv_mutex_lock(&monitor->lock);
        monitor->requests.look = true;
        uv_cond_signal(&monitor->wake);
        uv_mutex_unlock(&monitor->lock);
}

void gpu_monitor_set_policy(struct gpu_monitor *monitor, const struct health_policy *policy)
{
        uv_mutex_lock(&monitor->lock);
        monitor->requests.policy = *policy;
        monitor->requests.has_policy = true;
        uv_cond_signal(&monitor->wake);
        uv_mutex_unlock(&monitor->lock);
}

void gpu_monitor_close(struct gpu_monitor *monitor, void (*closed)(void *data), void *data)
{
        assert(!monitor->is_closing);
        monitor->is_closing = true;
        monitor->closed = closed;
        monitor->closed_data = data;
        monitor->uevents = uevent_watch_close(monitor->uevents);
        uv_mutex_lock(&monitor->lock);
        monitor->requests.stop = true;
        uv_cond_signal(&monitor->wake);
        uv_mutex_unlock(&monitor->lock);
}
