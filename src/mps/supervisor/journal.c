#include "mps/supervisor/journal.h"

#include <string.h>

#include "base/log.h"
#include "mps/supervisor/process.h"
#include "mps/supervisor/server_log.h"

/* A client, as far as the logs know it. */
struct known {
        pid_t pid;
        uid_t uid;
        bool is_listed;  /* the daemon counts it among its clients at this poll */
        bool is_waiting; /* it has no server yet; the log does not say whose server it waits for */
        bool has_limits;
        struct server_log_limits limits;
};

struct mps_journal {
        char *control_path;
        char *server_path;
        struct server_log control;
        struct server_log server;
        struct known *known;
        size_t n_known;
        size_t capacity;
        pid_t server_pid; /* the server that was started last */
        uid_t server_uid;
        char *problem;  /* why the server does not start, or NULL */
        bool is_broken; /* logged once */
};

/* ---- clients ---- */

static struct known *journal_find(struct mps_journal *journal, pid_t pid)
{
        for (size_t i = 0; i < journal->n_known; i++)
                if (journal->known[i].pid == pid)
                        return &journal->known[i];
        return NULL;
}

static void journal_forget(struct mps_journal *journal, struct known *known)
{
        *known = journal->known[--journal->n_known];
}

/* NULL: it has no PID, so it cannot be identified, or there are too many. */
static struct known *journal_remember(struct mps_journal *journal, pid_t pid)
{
        struct known *known = journal_find(journal, pid);

        if (known || pid <= 0 || journal->n_known == MPS_JOURNAL_CLIENTS_MAX)
                return known;
        if (journal->n_known == journal->capacity) {
                journal->capacity = journal->capacity ? journal->capacity * 2 : 8;
                journal->known = xrealloc(journal->known, journal->capacity * sizeof(*journal->known));
        }
        known = &journal->known[journal->n_known++];
        *known = (struct known){.pid = pid, .uid = (uid_t)-1};
        return known;
}

/* A client that the daemon lists stays, even if the kernel has no such process. */
static void forget_the_dead(struct mps_journal *journal)
{
        for (size_t i = journal->n_known; i > 0; i--) {
                struct known *known = &journal->known[i - 1];

                if (!known->is_listed && !process_start_time("", known->pid))
                        journal_forget(journal, known);
        }
}

/* ---- events ---- */

static void journal_set_problem(struct mps_journal *journal, char *problem)
{
        free(journal->problem);
        journal->problem = problem;
}

static void on_client(struct mps_journal *journal, const struct server_log_event *event)
{
        struct known *known = journal_remember(journal, event->pid);

        if (known) {
                known->uid = event->uid;
                known->is_waiting = true;
        }
}

static void on_journal_connected(struct mps_journal *journal, const struct server_log_event *event)
{
        struct known *known = journal_remember(journal, event->pid);

        if (!known)
                return;
        known->is_waiting = false;
        known->has_limits = event->limits->server == event->source;
        known->limits = *event->limits;
}

/*
 * The first sign of a client where no line says that it connected; where one does, the limits are those of that time.
 */
static void on_journal_active(struct mps_journal *journal, const struct server_log_event *event)
{
        const struct known *known = journal_find(journal, event->pid);

        if (!known || !known->has_limits || known->limits.server != event->source)
                on_journal_connected(journal, event);
}

static void on_journal_event(const struct server_log_event *event, void *data)
{
        struct mps_journal *journal = data;
        struct known *known;

        switch (event->kind) {
        case SERVER_LOG_CLIENT_WAITS:
        case SERVER_LOG_CLIENT_SENT:
                on_client(journal, event);
                break;
        case SERVER_LOG_SERVER_STARTING:
                journal->server_pid = event->pid;
                journal->server_uid = event->uid;
                break;
        case SERVER_LOG_SERVER_READY:
                journal_set_problem(journal, NULL);
                break;
        case SERVER_LOG_SERVER_EXITED:
                if (event->status)
                        journal_set_problem(journal, xasprintf("its server ended with status %d: see '%s'",
                                                             event->status, journal->server_path));
                break;
        case SERVER_LOG_START_FAILED:
                journal_set_problem(journal, xasprintf("its server does not start: %.200s", event->text));
                break;
        case SERVER_LOG_CLIENT_CONNECTED:
                on_journal_connected(journal, event);
                break;
        case SERVER_LOG_CLIENT_ACTIVE:
                on_journal_active(journal, event);
                break;
        case SERVER_LOG_CLIENT_LEFT:
                known = journal_find(journal, event->pid);
                if (known)
                        journal_forget(journal, known);
                break;
        default:
                break;
        }
}

/* ---- reading the logs ---- */

static void journal_read_one(struct mps_journal *journal, struct server_log *log)
{
        struct error err;
        const int rc = server_log_poll(log, &err);

        if (rc < 0 && !journal->is_broken)
                log_warn("the log of an MPS daemon cannot be read", LOG_ERR(&err));
        journal->is_broken = rc < 0;
}

void mps_journal_read(struct mps_journal *journal)
{
        journal_read_one(journal, &journal->control);
        journal_read_one(journal, &journal->server);
}

void mps_journal_skip(struct mps_journal *journal)
{
        mps_journal_read(journal);
        journal->n_known = 0;
        journal->server_pid = 0;
        journal_set_problem(journal, NULL);
}

/* NULL: unknown. Limits that never changed are those of each client of the server. */
static const struct server_log_limits *limits_of(
        const struct mps_journal *journal, const struct mps_client *client, const struct known *known)
{
        const struct server_log_limits *last = &journal->server.limits;

        if (known && known->has_limits && known->limits.server == client->server)
                return &known->limits;
        return last->server == client->server && last->has_started && !last->has_changed ? last : NULL;
}

static void journal_add_limits(
        struct mps_client *client, const struct server_log_limits *limits, const struct mps_unit *units, size_t n_units)
{
        client->threads_permille = limits->threads_permille;
        for (size_t i = 0; client->unit && i < n_units && i < SERVER_LOG_DEVICES; i++)
                if (strcmp(units[i].uuid, client->unit) == 0)
                        client->limit_mib = limits->bytes[i] >> 20;
}

/* A server for its user starts when the present server has lost its last client. */
static const char *journal_explain_waiting(const struct mps_journal *journal, struct mps_observation *seen)
{
        for (size_t i = 0; i < journal->n_known && seen->n_servers; i++) {
                const struct known *known = &journal->known[i];

                if (known->is_waiting && known->uid != (uid_t)-1 && known->uid != seen->servers[0].uid)
                        return arena_printf(&seen->arena,
                                "the client with PID %d of user %u waits: the server belongs to user %u, and this "
                                "driver has one user at a time; give the pods of one GPU the same runAsUser, or a "
                                "driver that knows -multiuser-server",
                                (int)known->pid, (unsigned int)known->uid, (unsigned int)seen->servers[0].uid);
        }
        return NULL;
}

void mps_journal_explain(
        struct mps_journal *journal, struct mps_observation *seen, const struct mps_unit *units, size_t n_units)
{
        mps_journal_read(journal);
        for (size_t i = 0; i < journal->n_known; i++)
                journal->known[i].is_listed = false;
        for (size_t i = 0; i < seen->n_clients; i++) {
                struct known *known = journal_find(journal, seen->clients[i].pid);
                const struct server_log_limits *limits = limits_of(journal, &seen->clients[i], known);

                if (known) {
                        known->is_listed = true;
                        known->is_waiting = false;
                }
                if (limits)
                        journal_add_limits(&seen->clients[i], limits, units, n_units);
        }
        for (size_t i = 0; i < seen->n_servers; i++)
                if (seen->servers[i].uid == (uid_t)-1 && seen->servers[i].pid == journal->server_pid)
                        seen->servers[i].uid = journal->server_uid;
        forget_the_dead(journal);
        seen->waiting = journal_explain_waiting(journal, seen);
        if (!seen->waiting && seen->n_servers == 0 && journal->problem)
                seen->waiting = arena_strdup(&seen->arena, journal->problem);
}

bool mps_journal_names(struct mps_journal *journal, pid_t pid)
{
        return journal_find(journal, pid) != NULL;
}

/* ---- start and end ---- */

struct mps_journal *mps_journal_new(const char *log_folder)
{
        struct mps_journal *journal = xcalloc(1, sizeof(*journal));

        journal->control_path = xasprintf("%s/control.log", log_folder);
        journal->server_path = xasprintf("%s/server.log", log_folder);
        server_log_init(&journal->control, journal->control_path, on_journal_event, journal);
        server_log_init(&journal->server, journal->server_path, on_journal_event, journal);
        return journal;
}

struct mps_journal *mps_journal_free(struct mps_journal *journal)
{
        if (!journal)
                return NULL;
        server_log_done(&journal->control);
        server_log_done(&journal->server);
        free(journal->control_path);
        free(journal->server_path);
        free(journal->known);
        free(journal->problem);
        free(journal);
        return NULL;
}
