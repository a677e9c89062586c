/*
 * The simulated control daemon: what is shared by its parts. daemon.c has the loop and who connects, instance.c the server
 * processes, command.c the control interface.
 */
#pragma once

#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/strbuf.h"
#include "sim/mps/channel.h"
#include "sim/mps/journal.h"
#include "sim/mps/limits.h"
#include "sim/mps/scenario.h"

struct daemon;

/* A descriptor that is polled. Found again by its number, as any callback may remove any other. */
struct watch {
        struct list link; /* in daemon->watches */
        int fd;
        bool paused;
        void (*on_ready)(struct daemon *daemon, struct watch *watch);
};

/* Somebody who connected: a front end, a client that waits for a server, or who has not said yet what it is. */
struct peer {
        struct list link; /* in daemon->peers, in order of arrival */
        struct watch watch;
        struct ucred who;
        char *hello;   /* a client's, while it waits */
        char *command; /* a front end's, while the scenario delays it */
        int64_t due_ms;
        bool quits; /* it said quit and is told how that ends */
};

/* One server process. */
struct instance {
        struct list link;   /* in daemon->instances */
        struct watch watch; /* its connection; fd -1 until it has called */
        struct watch end;   /* its pidfd */
        pid_t pid;
        uid_t uid;
        bool ready;
        bool stops;           /* told to, when its last client leaves */
        unsigned int clients; /* handed to it and not said to have left */
        unsigned long asked;
};

struct daemon {
        struct mps_scenario scenario;
        struct journal journal;
        const char *pipe_directory;
        const char *log_directory;
        int server_log;
        bool foreground;
        bool is_static;
        bool multi_user;
        struct list watches;
        struct list peers;
        struct list instances;
        struct watch doors[2];
        struct limits limits;  /* the defaults */
        int64_t wanted_uid;    /* of start_server, -1: none */
        unsigned int failures; /* of servers in a row, while a client waits */
        bool quits;
        int64_t kill_ms; /* when a quit with a timeout loses patience; 0: never */
        int status;
};

int64_t now_ms(void);

/* 0 once it listens and holds the lock, or -1: |err|'s text goes to standard error. */
int daemon_open(struct daemon *daemon, struct error *err) MUST_USE;
int daemon_run(struct daemon *daemon); /* returns the exit status */

void watch_add(struct daemon *daemon, struct watch *watch, int fd, void (*on_ready)(struct daemon *, struct watch *));
void watch_remove(struct watch *watch); /* closes it */

/* ---- servers ---- */

/* Starts what waits: a server for |wanted_uid| or for the first client, if none is in the way. */
void daemon_advance(struct daemon *daemon);
struct instance *daemon_find(const struct daemon *daemon, pid_t pid);
/* The server called; the peer's descriptor is its. */
void instance_adopt(struct daemon *daemon, struct peer *peer);
void instance_stop(struct instance *instance);
/* False, and nothing said: it is busy, or just gone. */
bool instance_ask(struct daemon *daemon, struct instance *instance, struct strbuf *out, const char *format, ...)
        PRINTF_LIKE(4, 5);
/* Tells a client why not and lets it go. */
void peer_refuse(struct peer *peer, int error);
void peer_drop(struct peer *peer);

/* ---- commands ---- */

/* One line of a front end. Returns true for a quit that was accepted. */
bool command_run(struct daemon *daemon, const struct peer *peer, const char *line, struct strbuf *out);

/* ---- the front end ---- */

int frontend_run(const char *pipe_directory);
