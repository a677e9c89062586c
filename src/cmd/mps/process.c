// SPDX-License-Identifier: Apache-2.0
#include "cmd/mps/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/io/loop.h"
#include "base/io/worker.h"
#include "base/log.h"
#include "base/text.h"
#include "gpu/hangs.h"
#include "mps/wire/message.h"
#include "net/metrics/http.h"

#define READY ".ready"
/*
 * A supervisor whose loop stands still for so long is ended. The next one takes its daemons over, and clients notice
 * nothing.
 */
#define STANDSTILL_S 60U
#define HEARTBEAT_MS UINT64_C(20000)

/* ---- lines of the daemons' control.log in our log, at level debug, as NVIDIA's component does ---- */

#define PERIOD_MS UINT64_C(1000)
#define READ_MAX ((size_t)32 * 1024) /* lines of one log per period; more come in the next one */

struct mps_process_log {
        char *name; /* of the daemon */
        off_t offset;
};

static int log_open(const struct mps_process *process, const char *name)
{
        _free_ char *path = xasprintf("%s/%s/log/control.log", process->root, name);

        return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

static void log_report_lines(const struct mps_process_log *log, char *text)
{
        char *rest = text;
        char *line;

        while ((line = strsep(&rest, "\n")))
                if (*line)
                        log_debug("control.log", LOG_STR("daemon", log->name), LOG_STR("line", line));
}

/* A log that became shorter is a new one. A partial line at the end waits for its rest. */
static void log_report_news(const struct mps_process *process, struct mps_process_log *log)
{
        _close_ int fd = log_open(process, log->name);
        char text[READ_MAX + 1];
        struct stat status;
        const char *end;
        ssize_t size;

        if (fd < 0)
                return;
        if (fstat(fd, &status) == 0 && status.st_size < log->offset)
                log->offset = 0;
        size = pread(fd, text, READ_MAX, log->offset);
        if (size <= 0)
                return;
        end = memrchr(text, '\n', (size_t)size);
        if (!end && (size_t)size < READ_MAX)
                return;
        if (end)
                size = end - text + 1;
        log->offset += size;
        text[size] = '\0';
        log_report_lines(log, text);
}

static void on_logs_timer(uv_timer_t *timer)
{
        struct mps_process *process = container_of(timer, struct mps_process, logs_timer);

        for (size_t i = 0; i < process->n_logs; i++)
                log_report_news(process, &process->logs[i]);
}

/* Lines that a daemon wrote before it is followed are not copied. */
static struct mps_process_log logs_take(struct mps_process *process, const char *name)
{
        _close_ int fd = -1;
        struct stat status;

        for (size_t i = 0; i < process->n_logs; i++)
                if (text_is_same(process->logs[i].name, name))
                        return (struct mps_process_log){TAKE_PTR(process->logs[i].name), process->logs[i].offset};
        fd = log_open(process, name);
        return (struct mps_process_log){xstrdup(name), fd >= 0 && fstat(fd, &status) == 0 ? status.st_size : 0};
}

/* Follows the logs of these daemons, and reports the last lines of the others; |status| NULL: there are none. */
static void logs_follow(struct mps_process *process, const struct mps_status *status)
{
        const size_t count = status ? status->n_daemons : 0;
        struct mps_process_log *logs = xcalloc(count, sizeof(*logs));

        for (size_t i = 0; i < count; i++)
                logs[i] = logs_take(process, status->daemons[i].name);
        for (size_t i = 0; i < process->n_logs; i++)
                if (process->logs[i].name) {
                        log_report_news(process, &process->logs[i]);
                        free(process->logs[i].name);
                }
        free(process->logs);
        process->logs = logs;
        process->n_logs = count;
}

/* ---- .ready ---- */

static void set_ready(struct mps_process *process, bool is_ready)
{
        _free_ char *path = NULL;
        int fd;

        if (process->is_ready == is_ready)
                return;
        path = xasprintf("%s/" READY, process->root);
        if (is_ready) {
                fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
                if (fd < 0) {
                        log_error("cannot create the file that signals that MPS is ready", LOG_STR("path", path),
                                LOG_STR("error", strerror(errno)));
                        return;
                }
                close(fd);
        } else if (unlink(path) < 0 && errno != ENOENT) {
                log_warn("cannot remove the file that signals that MPS is ready", LOG_STR("path", path),
                        LOG_STR("error", strerror(errno)));
        }
        process->is_ready = is_ready;
}

/* A draining daemon is no longer wanted, or will be restarted. */
static bool process_is_good(const struct mps_daemon_status *daemon)
{
        return daemon->state == MPS_READY || daemon->state == MPS_DRAINING;
}

/* True if all daemons are ready, and it is known which are wanted. */
static bool all_are_ready(const struct mps_status *status)
{
        for (size_t i = 0; i < status->n_daemons; i++)
                if (!process_is_good(&status->daemons[i]))
                        return false;
        return status->generation > 0;
}

/* ---- metrics ---- */

static char *process_write_metrics(void *data)
{
        struct mps_process *process = data;

        return mps_status_metrics(mps_supervisor_status(process->supervisor));
}

static char *find_unhealthy_reason(void *data)
{
        struct mps_process *process = data;
        const struct mps_status *status = mps_supervisor_status(process->supervisor);
        struct worker_call call;
        char text[200];

        if (mps_supervisor_hang(process->supervisor, &call)) {
                hang_print(&call, text, sizeof(text));
                return xasprintf("%s has not returned for %" PRIu64 " s: what needs it waits", text,
                        hang_seconds(&call, clock_now_ms()));
        }
        for (size_t i = 0; i < status->n_daemons; i++)
                if (!process_is_good(&status->daemons[i]))
                        return xasprintf("the MPS daemon %s is in state %s: %s", status->daemons[i].name,
                                mps_state_name(status->daemons[i].state),
                                status->daemons[i].reason ? status->daemons[i].reason : "-");
        return NULL;
}

static int serve_metrics(struct mps_process *process, struct error *err)
{
        const char *address = process->options.metrics_address;
        const struct metrics_http_options options = {
                .loop = &process->loop,
                .address = address,
                .metrics = process_write_metrics,
                .unhealthy_reason = find_unhealthy_reason,
                .data = process,
        };

        if (!address || !*address)
                return 0;
        if (metrics_http_new(&process->metrics, &options, err) < 0)
                return -1;
        log_info("metrics", LOG_STR("address", address), LOG_UINT("port", metrics_http_port(process->metrics)));
        return 0;
}

/* ---- the supervisor's changes ---- */

static void on_change(void *data)
{
        struct mps_process *process = data;
        const struct mps_status *status = mps_supervisor_status(process->supervisor);

        if (log_is_on(LOG_DEBUG))
                logs_follow(process, status);
        if (!process->is_stopping)
                set_ready(process, all_are_ready(status));
        if (process->listener)
                mps_listener_changed(process->listener);
        if (process->options.on_change && !process->is_stopping)
                process->options.on_change(process->options.data);
}

/* Logged on request; changes are logged where they are made. */
static void report_daemon(const struct mps_daemon_status *daemon)
{
        log_info("MPS daemon", LOG_STR("name", daemon->name), LOG_STR("state", mps_state_name(daemon->state)),
                LOG_INT("pid", daemon->pid), LOG_STR("tier", mps_daemon_promise(daemon, NULL)),
                LOG_UINT("servers", daemon->n_servers), LOG_UINT("clients", daemon->n_clients),
                LOG_STR("reason", daemon->reason));
}

/* ---- stop ---- */

static void on_supervisor_closed(bool leaves_modes UNUSED, void *data)
{
        struct mps_process *process = data;

        process->supervisor = NULL;
        mps_listener_close(process->listener, NULL, NULL);
        logs_follow(process, NULL);
        uv_close((uv_handle_t *)&process->logs_timer, NULL);
}

static void process_stop(struct mps_process *process)
{
        if (process->is_stopping)
                return;
        process->is_stopping = true;
        process->metrics = metrics_http_close(process->metrics);
        set_ready(process, false);
        signals_close(&process->signals);
        if (process->options.on_stop)
                process->options.on_stop(process->options.data);
        mps_supervisor_close(process->supervisor, process->options.supervisor.grace_ms, on_supervisor_closed, process);
}

static void on_process_signal(uv_signal_t *handle, int number)
{
        struct mps_process *process = handle->data;
        const struct mps_status *status;

        log_info("signal received", LOG_STR("signal", strsignal(number)));
        if (number != SIGHUP) {
                process_stop(process);
                return;
        }
        if (process->options.on_hang_up) {
                process->options.on_hang_up(process->options.data);
                return;
        }
        status = mps_supervisor_status(process->supervisor);
        for (size_t i = 0; i < status->n_daemons; i++)
                report_daemon(&status->daemons[i]);
}

/* ---- start ---- */

/* The daemons get an environment of their own; from ours only the library paths and what the simulation reads. */
static const char **process_pick_environment(struct arena *arena)
{
        static const char *const names[] = {"LD_LIBRARY_PATH", "WARPSHARE_MPS_SIM"};
        const char **picked = ARENA_ARRAY(arena, const char *, ARRAY_SIZE(names) + 1);
        size_t count = 0;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                const char *value = getenv(names[i]);

                if (value)
                        picked[count++] = arena_printf(arena, "%s=%s", names[i], value);
        }
        return picked;
}

static int take_root(struct mps_process *process, struct error *err)
{
        const char *root = process->root;
        int rc;

        if (file_make_folder(root, err) < 0)
                return error_prefix(err, "make the MPS root");
        rc = lock_take_within(&process->lock, root, LOCK_PATIENCE_MS, err);
        if (rc == LOCK_BUSY)
                return error_set(err, ERROR_UNAVAILABLE,
                        "another MPS supervisor runs with '%s'; one is enough for a node", root);
        return rc;
}

static int process_start(struct mps_process *process, struct error *err)
{
        struct mps_supervisor_options supervisor = process->options.supervisor;
        struct mps_listener_options listener = {
                .loop = &process->loop, .root = process->root, .own_plan = process->options.own_plan};

        if (signals_listen(&process->signals, &process->loop, on_process_signal, process, err) < 0 ||
                take_root(process, err) < 0 || serve_metrics(process, err) < 0)
                return -1;
        supervisor.loop = &process->loop;
        supervisor.root = process->root;
        supervisor.environment = process_pick_environment(&process->arena);
        supervisor.on_change = on_change;
        supervisor.data = process;
        process->supervisor = mps_supervisor_new(&supervisor);
        listener.supervisor = process->supervisor;
        return mps_listener_new(&process->listener, &listener, err);
}

int mps_process_start(struct mps_process *process, const struct mps_process_options *options, struct error *err)
{
        *process = (struct mps_process){.options = *options, .lock = LOCK_INIT, .is_ready = true};
        process->root = xstrdup(options->supervisor.root);
        loop_init(&process->loop);
        uv_timer_init(&process->loop, &process->heartbeat);
        uv_timer_init(&process->loop, &process->logs_timer);
        if (process_start(process, err) < 0)
                return -1;
        set_ready(process, false); /* a supervisor that was killed may have left it */
        if (log_is_on(LOG_DEBUG))
                uv_timer_start(&process->logs_timer, on_logs_timer, PERIOD_MS, PERIOD_MS);
        on_change(process);
        return 0;
}

static void on_heartbeat(uv_timer_t *timer UNUSED)
{
        alarm(STANDSTILL_S);
}

int mps_process_run(struct mps_process *process)
{
        if (process->options.is_kept)
                uv_timer_start(&process->heartbeat, on_heartbeat, 0, HEARTBEAT_MS);
        uv_unref((uv_handle_t *)&process->heartbeat);
        uv_run(&process->loop, UV_RUN_DEFAULT);
        uv_close((uv_handle_t *)&process->heartbeat, NULL);
        worker_close_loop(&process->loop);
        lock_release(&process->lock);
        free(process->root);
        free(process->logs);
        arena_done(&process->arena);
        log_info("stopped");
        return 0;
}
