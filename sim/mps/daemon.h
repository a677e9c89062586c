// SPDX-License-Identifier: Apache-2.0
/*
 * The simulated control daemon: what its parts share. daemon.c has the loop and the connections, daemon_open.c the
 * files, instance.c the server processes, partition.c the static partitions, blueprint.c the servers and namespaces of
 * interface 3, command.c the commands of interface 2 (lines) and command_v3.c those of interface 3 (modules).
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

/*
 * A descriptor that is polled. The loop finds a watch again by its descriptor, because each callback may remove other
 * watches.
 */
struct watch {
        struct list link; /* in daemon->watches */
        int fd;
        bool paused;
        void (*on_ready)(struct daemon *daemon, struct watch *watch);
};

#define NAME_SIZE 65U

/*
 * The other side of a connection: a front end, a client that waits for a server, or a program that has not sent its
 * first message.
 */
struct peer {
        struct list link; /* in daemon->peers, in order of arrival */
        struct watch watch;
        struct ucred who;
        char server[NAME_SIZE]; /* "": interface 2, which has only one server */
        char space[NAME_SIZE];  /* namespace, "": none */
        char *hello;            /* the first message of a client that waits for a server */
        char *command;          /* of a front end, while the scenario delays it */
        bool is_front_end;
        bool is_module; /* |command| is one of interface 3 */
        int64_t due_ms;
        bool quits; /* it sent quit, and gets the daemon's exit status */
};

/* One server process. */
struct instance {
        struct list link;   /* in daemon->instances */
        struct watch watch; /* its connection; fd -1 until the server has connected */
        struct watch end;   /* its pidfd */
        pid_t pid;
        uid_t uid;
        char name[NAME_SIZE]; /* "": interface 2 */
        bool ready;
        bool stops;           /* it was ordered to stop when its last client leaves */
        unsigned int clients; /* passed to it, and not yet reported as having left */
        unsigned long asked;
};

/* A server that commands of interface 3 have described, whether or not its process runs. */
struct blueprint {
        struct list link; /* in daemon->blueprints */
        struct watch listener;
        char name[NAME_SIZE];
        char devices[1024]; /* CUDA_VISIBLE_DEVICES, "": the daemon's */
        int64_t uid;
        struct limits limits;
        struct list spaces;
};

struct space {
        struct list link; /* in blueprint->spaces */
        struct watch listener;
        struct blueprint *blueprint;
        char name[NAME_SIZE];
        double percentage; /* 0: none */
        char memory[1024]; /* "0=1G,…", "": none */
};

/* SMs of a GPU that only the clients of this partition use. */
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

/* The server and the namespace to which a client was admitted. */
struct admission {
        pid_t pid;
        char server[NAME_SIZE];
        char space[NAME_SIZE];
};

#define MAX_ADMISSIONS 256U

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
        unsigned int protocol;                       /* 2 or 3 */
        struct admission admissions[MAX_ADMISSIONS]; /* interface 3: the last MAX_ADMISSIONS, a ring */
        unsigned int n_admissions;                   /* ever */
        unsigned int n_made;                         /* partitions, ever */
        struct watch listeners[2];
        struct watch log;
        struct limits limits;  /* the defaults */
        int64_t wanted_uid;    /* the user of start_server; -1: none */
        unsigned int failures; /* starts of a server that failed one after another while a client waits */
        bool quits;
        int64_t kill_ms; /* when the timeout of a quit ends; 0: it has none */
        int status;
};

int64_t now_ms(void);

/* Returns 0 once the daemon listens and holds the lock. After -1 the caller prints |err|'s text to standard error. */
int daemon_open(struct daemon *daemon, struct error *err) MUST_USE;
int daemon_run(struct daemon *daemon); /* returns the exit status */

void watch_add(struct daemon *daemon, struct watch *watch, int fd, void (*on_ready)(struct daemon *, struct watch *));
void watch_remove(struct watch *watch); /* closes it */

void on_connection(struct daemon *daemon, struct watch *watch); /* a program connected to a listening socket */
void on_log(struct daemon *daemon, struct watch *watch);        /* the log pipe can be read */
/* The path of |name| in the pipe directory. */
char *daemon_path(const struct daemon *daemon, const char *name);

/* ---- servers ---- */

/*
 * Starts a server for |wanted_uid| or for the first client that waits, unless another user's server runs; passes on the
 * clients of a server that is ready.
 */
void daemon_advance(struct daemon *daemon);
struct instance *daemon_find(const struct daemon *daemon, pid_t pid);
struct instance *daemon_find_named(const struct daemon *daemon, const char *name);
void daemon_start_server(struct daemon *daemon, const char *name, uid_t uid);
/* The peer is the process of a server: its descriptor becomes the server's. */
void instance_adopt(struct daemon *daemon, struct peer *peer);
void instance_stop(struct instance *instance);
/*
 * Sends the server the limits of its blueprint, for its next clients. There is no answer to wait for, so this is also
 * done while the server starts; a server that has not connected yet gets them when it connects.
 */
void instance_set_limits(const struct daemon *daemon, const struct instance *instance);
/* False, without an answer: the server is busy, or has just ended. */
bool instance_ask(struct daemon *daemon, struct instance *instance, struct strbuf *out, const char *format, ...)
        PRINTF_LIKE(4, 5);
/* Sends a client the CUDA error with which it is refused, and disconnects it. */
void peer_refuse(struct peer *peer, int error);
void peer_drop(struct peer *peer);

/* ---- partitions ---- */

/* NULL: it does not fit, or there is no such GPU. |uuid| may be the beginning of a UUID that only one GPU has. */
struct partition *partition_add(struct daemon *daemon, const char *uuid, unsigned int chunks);
/* False: clients use it, so it stays. */
bool partition_remove(struct partition *partition);
struct partition *partition_find(const struct daemon *daemon, const char *id);
void partition_left(struct daemon *daemon, pid_t pid);
unsigned int partition_chunk_sms(const struct mps_gpu *gpu);
unsigned int partition_chunks(const struct mps_gpu *gpu);
unsigned int partition_free_chunks(const struct daemon *daemon, const struct mps_gpu *gpu);

/* ---- interface 3 ---- */

struct blueprint *blueprint_find(const struct daemon *daemon, const char *name);
struct blueprint *blueprint_add(struct daemon *daemon, const char *name, int64_t uid, struct error *err);
void blueprint_remove(struct daemon *daemon, struct blueprint *blueprint);
struct space *space_find(const struct blueprint *blueprint, const char *name);
struct space *space_add(struct daemon *daemon, struct blueprint *blueprint, const char *name, struct error *err);
void space_remove(struct daemon *daemon, struct space *space);

/* NULL: the client was not admitted. */
const struct admission *admission_find(const struct daemon *daemon, pid_t pid);

/* ---- commands ---- */

/*
 * Applies the scenario's fault for the command |name|: another answer, or none. True: the command is not carried out.
 */
bool command_apply_fault(const struct daemon *daemon, const char *name, struct strbuf *out);

/* Runs one line of a front end. True: it was a quit, and was accepted. */
bool command_run(struct daemon *daemon, const struct peer *peer, const char *line, struct strbuf *out);

/* Interface 3: the words are separated by '\n'. False: |out| is an error message. */
bool command_run_v3(struct daemon *daemon, char *words, struct strbuf *out);

/* ---- the front end ---- */

int frontend_run(const char *pipe_directory);
int frontend_quit(const char *pipe_directory);
int frontend_run_v3(const char *pipe_directory, int argc, char **argv);
