// SPDX-License-Identifier: Apache-2.0
/*
 * Collects what the logs of one daemon add to its answers: which user its server belongs to, which client waits because
 * of another user's server, what limits a server allowed a client, and why a server does not start. The facts are kept
 * from poll to poll. It reads files and decides nothing.
 *
 * Every process that reaches the control socket can write such lines into the logs. So these facts only explain, and
 * fill in what no other source has. They are never a reason to end a process.
 */
#pragma once

#include <sys/stat.h>

#include "base/strbuf.h"
#include "mps/supervisor/observe.h"
#include "plan/mps_wanted.h"

#define MPS_JOURNAL_CLIENTS_MAX ((size_t)1024) /* more clients are not remembered */

struct mps_journal;

struct mps_journal *mps_journal_new(const char *log_folder);
struct mps_journal *mps_journal_free(struct mps_journal *journal); /* accepts NULL, returns NULL */

/* A new process starts: skips what earlier processes wrote. */
void mps_journal_skip(struct mps_journal *journal);

/* Reads what is new and adds it to the known facts. |units|: UUIDs, in the order of the daemon's ordinals. */
void mps_journal_explain(
        struct mps_journal *journal, struct mps_observation *seen, const struct mps_unit *units, size_t n_units);

/* Only reads what is new. */
void mps_journal_read(struct mps_journal *journal);

/* The logs say that |pid| is a client. Tenants can forge that. */
bool mps_journal_names(struct mps_journal *journal, pid_t pid);

/* ---- lines ---- */

/*
 * Parses what MPS daemons and servers write into control.log and server.log: bytes in pieces go in, events come out.
 * Pure but for server_log_poll().
 *
 * Lines look like "[2026-11-20 10:06:00.123 Server 4711] Active Threads Percentage set to 33.0", in local time. The
 * texts are those of 460 to 580 (recorded: test/fixtures/recorded/mps) and of newer ones (posts of users); unknown
 * lines are skipped. Before 535 a server calls itself "Other" in all its lines, and none of them names a client.
 *
 * The daemon writes each command that it gets on its control socket into control.log as "Cmd:…", and may not remove line
 * breaks, so a tenant can forge lines.
 *
 * Limits: a server writes "set to" lines when it starts and when its own limits change; they hold for clients that
 * connect afterwards. A client may lower them for itself, which is not logged. So |limits| of an event are what the
 * server allowed, an upper bound of the client's real limits, and only if the log was read from the server's start.
 * As long as they have not changed since then, they are those of each client, also of one that no line names.
 */
#define SERVER_LOG_LINE_MAX ((size_t)4096) /* longer lines are cut */
#define SERVER_LOG_DEVICES 32U
#define SERVER_LOG_POLL_MAX ((size_t)1024 * 1024)

enum server_log_kind {
        /* control.log */
        SERVER_LOG_CLIENT_WAITS,    /* pid, uid: it has no server yet; if this lasts, a server of another user is in the
                                     * way */
        SERVER_LOG_CLIENT_SENT,     /* pid, uid: it goes to the server that runs */
        SERVER_LOG_SERVER_STARTING, /* pid, uid */
        SERVER_LOG_SERVER_READY,    /* pid */
        SERVER_LOG_SERVER_EXITED,   /* pid, status */
        /* server.log: |source| is the server */
        SERVER_LOG_THREADS,          /* permille */
        SERVER_LOG_LIMIT,            /* device, bytes */
        SERVER_LOG_STARTED,          /* it accepts clients */
        SERVER_LOG_START_FAILED,     /* text */
        SERVER_LOG_CLIENT_CONNECTED, /* pid */
        SERVER_LOG_CLIENT_ACTIVE,    /* pid: it has a context; of 535 to 575 the only line that names a client */
        SERVER_LOG_CLIENT_LEFT,      /* pid; from 580 on */
};

/* The limits that the server |server| gives its next client. */
struct server_log_limits {
        pid_t server;
        unsigned int threads_permille;      /* 0: not logged */
        uint64_t bytes[SERVER_LOG_DEVICES]; /* by the daemon's ordinals; 0: none logged */
        bool has_started;                   /* its start was read */
        bool has_changed;                   /* a limit was set to another value after its start */
};

struct server_log_event {
        enum server_log_kind kind;
        const char *text; /* of the line, cut at SERVER_LOG_LINE_MAX */
        pid_t source;     /* the writer's PID, in its own namespace */
        pid_t pid;        /* 0 of a client: it has no number in the daemon's PID namespace */
        uid_t uid;
        int status;
        unsigned int device;
        uint64_t bytes;
        unsigned int permille;
        const struct server_log_limits *limits; /* of the server that logged last */
};

struct server_log {
        const char *path; /* the caller's */
        dev_t device;     /* of the file that is read; if it was replaced or truncated, it is read from its start */
        ino_t inode;
        off_t offset;       /* 0: nothing read yet */
        struct strbuf line; /* begun */
        struct server_log_limits limits;
        void (*on_event)(const struct server_log_event *event, void *data);
        void *data;
};

/* |path| may be NULL for a log that is only fed. */
void server_log_init(struct server_log *log, const char *path,
        void (*on_event)(const struct server_log_event *event, void *data), void *data);
void server_log_done(struct server_log *log);
void server_log_feed(struct server_log *log, const char *bytes, size_t size);

/*
 * Feeds what is new in the file, of more than SERVER_LOG_POLL_MAX bytes only the last: a tenant can make the daemon
 * write faster than anybody reads. A file that is not there has nothing new. Anything but a regular file is an error.
 */
int server_log_poll(struct server_log *log, struct error *err) MUST_USE;
