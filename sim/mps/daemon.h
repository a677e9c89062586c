/*
 * The simulated control daemon: what is shared by its parts. daemon.c has the loop and who connects, daemon_open.c its files,
 * instance.c the server processes, partition.c the static partitions, blueprint.c what interface 3 describes, command.c the
 * control interface of lines and command_v3.c that of modules.
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

#define NAME_SIZE 65U

/* Somebody who connected: a front end, a client that waits for a server, or who has not said yet what it is. */
struct peer {
        struct list link; /* in daemon->peers, in order of arrival */
        struct watch watch;
        struct ucred who;
        char server[NAME_SIZE]; /* "": interface 2, which has one */
        char space[NAME_SIZE];  /* namespace, "": none */
        char *hello;            /* a client's, while it waits */
        char *command;          /* a front end's, while the scenario delays it */
        bool is_front_end;
        bool is_module; /* |command| is one of interface 3 */
        int64_t due_ms;
        bool quits; /* it said quit, and gets the outcome */
};

/* One server process. */
struct instance {
        struct list link;   /* in daemon->instances */
        struct watch watch; /* its connection; fd -1 until it has called */
        struct watch end;   /* its pidfd */
        pid_t pid;
        uid_t uid;
        char name[NAME_SIZE]; /* "": interface 2 */
        bool ready;
        bool stops;           /* ordered to, when its last client leaves */
        unsigned int clients; /* handed to it and not said to have left */
        unsigned long asked;
};

/* A server that interface 3 describes, whether or not it runs. */
struct blueprint {
        struct list link; /* in daemon->blueprints */
        struct watch door;
        char name[NAME_SIZE];
        char devices[1024]; /* CUDA_VISIBLE_DEVICES, "": the daemon's */
        int64_t uid;
        struct limits limits;
        struct list spaces;
};

struct space {
        struct list link; /* in blueprint->spaces */
        struct watch door;
        struct blueprint *blueprint;
        char name[NAME_SIZE];
        double percentage; /* 0: none */
        char memory[1024]; /* "0=1G,…", "": none */
};

/* SMs of a GPU that are some clients' alone. */
struct partition {
        struct list link; /* in daemon->partitions */
        char id[160];     /* CUDA_MPS_SM_PARTITION */
        char uuid[80];
        char name[NAME_SIZE];   /* interface 3 */
        char server[NAME_SIZE]; /* interface 3 */
        unsigned int chunks;
        unsigned int sms;
        pid_t clients[64];
        unsigned int n_clients;
};

/* The namespace in which a client was let in. */
struct seat {
        pid_t pid;
        char server[NAME_SIZE];
        char space[NAME_SIZE];
};

#define MAX_SEATS 256U

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
        struct list blueprints;
        struct list partitions;
        unsigned int protocol;        /* 2 or 3 */
        struct seat seats[MAX_SEATS]; /* interface 3: the last ones, the oldest is overwritten */
        unsigned int n_seats;         /* ever */
        unsigned int n_made;          /* partitions, ever */
        struct watch doors[2];
        struct watch log;
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

void on_door(struct daemon *daemon, struct watch *watch); /* of any listening socket: somebody connected */
void on_log(struct daemon *daemon, struct watch *watch);  /* something came through the pipe of the log */
/* |name| in the pipe directory. */
char *daemon_path(const struct daemon *daemon, const char *name);

/* ---- servers ---- */

/* Starts what waits: a server for |wanted_uid| or for the first client, if none is in the way. */
void daemon_advance(struct daemon *daemon);
struct instance *daemon_find(const struct daemon *daemon, pid_t pid);
struct instance *daemon_find_named(const struct daemon *daemon, const char *name);
void daemon_start_server(struct daemon *daemon, const char *name, uid_t uid);
/* The server called; the peer's descriptor is its. */
void instance_adopt(struct daemon *daemon, struct peer *peer);
void instance_stop(struct instance *instance);
/*
 * Tells it the limits of its blueprint, for its next clients. That needs no answer, so it counts for one that is starting, too; one
 * that has not called yet is told them then.
 */
void instance_set_limits(const struct daemon *daemon, const struct instance *instance);
/* False, and nothing said: it is busy, or just gone. */
bool instance_ask(struct daemon *daemon, struct instance *instance, struct strbuf *out, const char *format, ...)
        PRINTF_LIKE(4, 5);
/* Tells a client why not and lets it go. */
void peer_refuse(struct peer *peer, int error);
void peer_drop(struct peer *peer);

/* ---- partitions ---- */

/* NULL: it does not fit, or there is no such GPU; |uuid| may be a unique beginning. */
struct partition *partition_add(struct daemon *daemon, const char *uuid, unsigned int chunks);
/* False while clients use it. */
bool partition_remove(struct partition *partition);
struct partition *partition_find(const struct daemon *daemon, const char *id);
void partition_left(struct daemon *daemon, pid_t pid);
unsigned int partition_chunk_sms(const struct mps_gpu *gpu);
unsigned int partition_free_chunks(const struct daemon *daemon, const struct mps_gpu *gpu);

/* ---- interface 3 ---- */

struct blueprint *blueprint_find(const struct daemon *daemon, const char *name);
struct blueprint *blueprint_add(struct daemon *daemon, const char *name, int64_t uid, struct error *err);
void blueprint_remove(struct daemon *daemon, struct blueprint *blueprint);
struct space *space_find(const struct blueprint *blueprint, const char *name);
struct space *space_add(struct daemon *daemon, struct blueprint *blueprint, const char *name, struct error *err);
void space_remove(struct daemon *daemon, struct space *space);

/* NULL: the client is in none. */
const struct seat *seat_find(const struct daemon *daemon, pid_t pid);

/* ---- commands ---- */

/* What the scenario wants said, or not done, for the command |name|; true: then that is all. */
bool command_befall(const struct daemon *daemon, const char *name, struct strbuf *out);

/* One line of a front end. Returns true for a quit that was accepted. */
bool command_run(struct daemon *daemon, const struct peer *peer, const char *line, struct strbuf *out);

/* Interface 3: words separated by '\n'. False: |out| is an error. */
bool command_run_v3(struct daemon *daemon, char *words, struct strbuf *out);

/* ---- the front end ---- */

int frontend_run(const char *pipe_directory);
int frontend_quit(const char *pipe_directory);
int frontend_run_v3(const char *pipe_directory, int argc, char **argv);
