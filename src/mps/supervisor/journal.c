// SPDX-License-Identifier: Apache-2.0
#include "mps/supervisor/journal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "mps/supervisor/process.h"

/* ---- lines by pattern ---- */

/* The field of the event that a number in a pattern fills. */
enum field { FIELD_NONE, FIELD_PID, FIELD_UID, FIELD_STATUS, FIELD_DEVICE, FIELD_BYTES, FIELD_PERMILLE };

#define MAX_FIELDS 3U

/*
 * In a pattern '%' is a number, '$' a hexadecimal number, '~' a number with one decimal, stored times ten.
 * Misspelt words are NVIDIA's.
 */
static const struct pattern {
        const char *text; /* how the line's text begins */
        enum server_log_kind kind;
        enum field fields[MAX_FIELDS];
} patterns[] = {
        {"NEW CLIENT % from user %: Server is not ready", SERVER_LOG_CLIENT_WAITS, {FIELD_PID, FIELD_UID}},
        {"NEW CLIENT % from user %: Server already exists", SERVER_LOG_CLIENT_SENT, {FIELD_PID, FIELD_UID}},
        {"Starting new server % for user %", SERVER_LOG_SERVER_STARTING, {FIELD_PID, FIELD_UID}},
        {"NEW SERVER %: Ready", SERVER_LOG_SERVER_READY, {FIELD_PID}},
        {"Server % exited with status %", SERVER_LOG_SERVER_EXITED, {FIELD_PID, FIELD_STATUS}},
        {"activeThreadsPercentage set to ~", SERVER_LOG_THREADS, {FIELD_PERMILLE}},
        {"Active Threads Percentage set to ~", SERVER_LOG_THREADS, {FIELD_PERMILLE}},
        {"Device pinned memory limit for device % set to 0x$ bytes", SERVER_LOG_LIMIT, {FIELD_DEVICE, FIELD_BYTES}},
        {"MPS Server is started", SERVER_LOG_STARTED, {FIELD_NONE}},
        {"Server has started", SERVER_LOG_STARTED, {FIELD_NONE}},
        {"MPS server failed to start", SERVER_LOG_START_FAILED, {FIELD_NONE}},
        {"MPS is only supported on ", SERVER_LOG_START_FAILED, {FIELD_NONE}},
        {"Failed to start :", SERVER_LOG_START_FAILED, {FIELD_NONE}},
        {"Client {PID: %, Context ID: %} connected", SERVER_LOG_CLIENT_CONNECTED, {FIELD_PID}},
        {"New client % connected", SERVER_LOG_CLIENT_CONNECTED, {FIELD_PID}},
        {"Volta MPS: status of client {%, %} is ACTIVE", SERVER_LOG_CLIENT_ACTIVE, {FIELD_PID, FIELD_NONE}},
        {"Status of client {%, %} is ACTIVE", SERVER_LOG_CLIENT_ACTIVE, {FIELD_PID, FIELD_NONE}},
        {"Server failed to recevie command with status %, assuming client {PID: %, Context ID: %} exit",
                SERVER_LOG_CLIENT_LEFT, {FIELD_STATUS, FIELD_PID}},
};

static int digit_value(char digit, unsigned int base)
{
        if (digit >= '0' && digit <= '9')
                return digit - '0';
        if (base == 16 && isxdigit((unsigned char)digit))
                return tolower((unsigned char)digit) - 'a' + 10;
        return -1;
}

/* Reads the digits at |*at| and moves it behind them; false if there are none, or too many. */
static bool eat_number(const char **at, unsigned int base, uint64_t *ret)
{
        const char *start = *at;
        uint64_t value = 0;

        for (int digit; (digit = digit_value(**at, base)) >= 0; (*at)++) {
                if (value > (UINT64_MAX - 15) / base)
                        return false;
                value = value * base + (unsigned int)digit;
        }
        *ret = value;
        return *at != start;
}

static bool eat_decimal(const char **at, uint64_t *ret)
{
        uint64_t whole;
        uint64_t tenth = 0;

        if (!eat_number(at, 10, &whole) || whole > 1000)
                return false;
        if (**at == '.' && isdigit((unsigned char)(*at)[1])) {
                tenth = (uint64_t)((*at)[1] - '0');
                (*at) += 2;
        }
        *ret = whole * 10 + tenth;
        return true;
}

/* True if |text| begins like |pattern|; its numbers go into |values|. */
static bool server_log_matches(const char *pattern, const char *text, uint64_t values[MAX_FIELDS])
{
        size_t count = 0;

        for (; *pattern; pattern++) {
                bool fits;

                switch (*pattern) {
                case '%':
                        fits = eat_number(&text, 10, &values[count++]);
                        break;
                case '$':
                        fits = eat_number(&text, 16, &values[count++]);
                        break;
                case '~':
                        fits = eat_decimal(&text, &values[count++]);
                        break;
                default:
                        fits = *text == *pattern;
                        text += fits;
                        break;
                }
                if (!fits)
                        return false;
        }
        return true;
}

#define ROW(member, max)                                                                                               \
        {                                                                                                              \
                offsetof(struct server_log_event, member), sizeof(((struct server_log_event *)0)->member), (max)       \
        }

static const struct {
        size_t offset;
        size_t size; /* 4 or 8; 0: the number is in no field */
        uint64_t max;
} fields[] = {
        [FIELD_NONE] = {0, 0, UINT_MAX},
        [FIELD_PID] = ROW(pid, INT_MAX),
        [FIELD_UID] = ROW(uid, UINT32_MAX),
        [FIELD_STATUS] = ROW(status, INT_MAX),
        [FIELD_DEVICE] = ROW(device, SERVER_LOG_DEVICES - 1),
        [FIELD_BYTES] = ROW(bytes, UINT64_MAX),
        [FIELD_PERMILLE] = ROW(permille, 1000),
};

/* False if the number is out of its range. */
static bool set_field(struct server_log_event *event, enum field field, uint64_t value)
{
        char *at = (char *)event + fields[field].offset;
        const uint32_t small = (uint32_t)value;

        if (fields[field].size == sizeof(value))
                memcpy(at, &value, sizeof(value));
        else
                memcpy(at, &small, fields[field].size);
        return value <= fields[field].max;
}

static bool read_pattern(struct server_log_event *event, const struct pattern *pattern)
{
        struct server_log_event read = *event;
        uint64_t values[MAX_FIELDS] = {0};
        bool fits = server_log_matches(pattern->text, event->text, values);

        for (size_t i = 0; i < MAX_FIELDS && fits; i++)
                fits = set_field(&read, pattern->fields[i], values[i]);
        read.kind = pattern->kind;
        if (fits)
                *event = read;
        return fits;
}

static bool server_log_read_text(struct server_log_event *event)
{
        for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
                if (read_pattern(event, &patterns[i]))
                        return true;
        return false;
}

/* ---- lines ---- */

#define TIME_LENGTH 23U

static bool is_time(const char *text)
{
        static const char form[] = "0000-00-00 00:00:00.000";

        for (size_t i = 0; i < TIME_LENGTH; i++)
                if (form[i] == '0' ? !isdigit((unsigned char)text[i]) : text[i] != form[i])
                        return false;
        return true;
}

/* Splits |line| in place: "[<time> <kind of process> <pid>] <text>". */
static bool read_head(char *line, struct server_log_event *event, bool *ret_is_server)
{
        char *end = strstr(line, "] ");
        char *number;
        uint64_t pid;

        if (line[0] != '[' || !end || end < line + 1 + TIME_LENGTH || !is_time(line + 1))
                return false;
        *end = '\0';
        number = strrchr(line, ' ');
        if (!number || !text_to_uint(number + 1, INT_MAX, &pid))
                return false;
        *ret_is_server = !strstr(line + 1 + TIME_LENGTH, "Control");
        event->source = (pid_t)pid;
        event->text = end + 2;
        return true;
}

/* A server's limits are those that it has logged since its start. */
static void keep_limits(struct server_log_limits *limits, const struct server_log_event *event)
{
        if (limits->server != event->source)
                *limits = (struct server_log_limits){.server = event->source};
        if (event->kind == SERVER_LOG_STARTED)
                limits->has_started = true;
        if (event->kind == SERVER_LOG_THREADS) {
                limits->has_changed |= limits->has_started && limits->threads_permille != event->permille;
                limits->threads_permille = event->permille;
        }
        if (event->kind == SERVER_LOG_LIMIT) {
                limits->has_changed |= limits->has_started && limits->bytes[event->device] != event->bytes;
                limits->bytes[event->device] = event->bytes;
        }
}

static void take_line(struct server_log *log, char *line)
{
        struct server_log_event event = {.limits = &log->limits};
        bool is_server;

        if (!read_head(line, &event, &is_server) || !server_log_read_text(&event))
                return;
        if (is_server)
                keep_limits(&log->limits, &event);
        log->on_event(&event, log->data);
}

void server_log_feed(struct server_log *log, const char *bytes, size_t size)
{
        while (size) {
                const char *newline = memchr(bytes, '\n', size);
                size_t length = newline ? (size_t)(newline - bytes) : size;
                size_t room = SERVER_LOG_LINE_MAX - log->line.size;

                strbuf_append(&log->line, bytes, MIN(length, room));
                if (newline) {
                        take_line(log, log->line.data);
                        strbuf_clear(&log->line);
                        length++;
                }
                bytes += length;
                size -= length;
        }
}

void server_log_init(struct server_log *log, const char *path,
        void (*on_event)(const struct server_log_event *event, void *data), void *data)
{
        *log = (struct server_log){.path = path, .line = STRBUF_INIT, .on_event = on_event, .data = data};
}

void server_log_done(struct server_log *log)
{
        strbuf_done(&log->line);
}

/* ---- files ---- */

/* The offset at which to continue in the file that |status| describes. */
static off_t find_place(const struct server_log *log, const struct stat *status)
{
        const bool is_same = log->device == status->st_dev && log->inode == status->st_ino;
        const off_t from = is_same && log->offset <= status->st_size ? log->offset : 0;

        return MAX(from, status->st_size - (off_t)SERVER_LOG_POLL_MAX);
}

static int read_on(struct server_log *log, int fd)
{
        size_t left = SERVER_LOG_POLL_MAX;
        char bytes[16384];

        while (left) {
                ssize_t got = pread(fd, bytes, MIN(sizeof(bytes), left), log->offset);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        return (int)got;
                server_log_feed(log, bytes, (size_t)got);
                log->offset += got;
                left -= (size_t)got;
        }
        return 0;
}

int server_log_poll(struct server_log *log, struct error *err)
{
        /* Must not block if a tenant has put a pipe in the file's place. */
        _close_ int fd = open(log->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        struct stat status;
        off_t offset;

        if (fd < 0 && errno == ENOENT)
                return 0;
        if (fd < 0 || fstat(fd, &status) < 0)
                return error_errno(err, errno, "open '%s'", log->path);
        if (!S_ISREG(status.st_mode))
                return error_set(err, ERROR_INVALID, "'%s' is no file", log->path);
        offset = find_place(log, &status);
        if (offset != log->offset || log->inode != status.st_ino) {
                strbuf_clear(&log->line); /* what was begun belongs to something else */
                if (offset)               /* and limits may have been logged in what is passed over */
                        log->limits = (struct server_log_limits){0};
        }
        log->device = status.st_dev;
        log->inode = status.st_ino;
        log->offset = offset;
        if (read_on(log, fd) < 0)
                return error_errno(err, errno, "read '%s'", log->path);
        return 0;
}

/* ---- the journal ---- */

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
