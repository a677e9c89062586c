// SPDX-License-Identifier: Apache-2.0
/*
 * A control daemon while it is carried out: for daemon_run.c, which runs the state machine and its actions and polls
 * the daemon, daemon_start.c, which starts or adopts the process, daemon_settings.c, which sets and checks its
 * settings, and daemon.c, which is what others see of it.
 */
#pragma once

#include "base/io/loop.h"
#include "mps/supervisor/daemon.h"
#include "mps/supervisor/peer.h"
#include "mps/supervisor/shm.h"
#include "mps/supervisor/journal.h"
#include "mps/supervisor/launch.h"
#include "mps/supervisor/observe.h"

struct prepare;
struct settings;

/* Settings with the memory of their texts; without a name: none. */
struct daemon_settings_copy {
        struct arena arena;
        struct mps_daemon_wanted value;
};

/* The process on record, which is adopted at the next start; PID 0: none. */
struct daemon_recorded {
        struct arena arena;
        struct mps_record_daemon process;
};

struct daemon_process {
        struct mps_launch *launch; /* NULL: no process */
        unsigned int options;      /* MPS_CAN_*: the options that |launch| was started with */
        unsigned int can;
};

struct daemon_fronts {
        struct mps_control *control;  /* for the state machine; renewed with each process */
        struct mps_control *requests; /* for requests of others; lives as long as the daemon */
};

struct daemon_polls {
        struct mps_poll *current; /* the poll in progress */
        struct mps_observation *seen;
        struct mps_journal *journal;
        unsigned int count;
        unsigned int misses;   /* questions in a row without an answer */
        uint64_t ask_ms;       /* until the next attempt at a first answer */
        bool has_noted_unread; /* daemon_note_unread() has logged */
};

struct daemon_checks {
        struct settings *current; /* the configuration or the check in progress */
        unsigned int *chunks;     /* of started.units: those of static partitions, 0: unknown */
        size_t n_chunks;
        pid_t unresponsive_server;     /* the server whose settings are not checked, since it does not take them */
        bool has_noted_unchecked;      /* a check that could not be read has been logged */
        unsigned int threads_permille; /* as read back */
        uint64_t limit_mib;
        unsigned int repairs; /* settings that were restored, in total */
};

struct daemon_notes {
        char *reason;
        char *notice;
        char *drift;              /* the last one that was restored, while it is reported */
        unsigned int drift_polls; /* for how many more polls it is reported */
        int64_t since;
        unsigned int restarts;
};

struct daemon_end {
        struct closing closing; /* handles and controls */
        bool is_closing;
        void (*closed)(void *data);
        void *data;
};

struct mps_daemon {
        struct mps_daemon_context *context;
        char *name;
        struct mps_folder folder;
        struct mps_machine machine;
        struct daemon_settings_copy wanted;
        struct daemon_settings_copy started; /* what the process was started with */
        struct daemon_recorded recorded;
        struct daemon_process process;
        struct daemon_fronts fronts;
        struct prepare *prepare; /* asking NVML before a start */
        bool is_waiting;         /* its start waits until another daemon has left its units */
        struct daemon_polls polls;
        struct daemon_checks checks;
        struct daemon_notes notes;
        struct mps_peers peers;
        struct daemon_shm shm;
        struct mps_log log;
        uv_timer_t deadline; /* the machine's */
        uv_timer_t turn;     /* the next question or poll */
        struct daemon_end end;
};

/* |value| may be the present one. */
void daemon_settings_set(struct daemon_settings_copy *settings, const struct mps_daemon_wanted *value);

/*
 * Reports an event to the state machine and executes its action. The text becomes the reason; NULL keeps the present
 * one.
 */
void daemon_report(struct mps_daemon *daemon, enum mps_event event, const char *format, ...) PRINTF_LIKE(3, 4);
void daemon_notify(struct mps_daemon *daemon, bool is_process);
/* Replaces a text of |daemon->notes|; takes |value|. */
void daemon_set_text(char **text, char *value);
/* Reports a problem for the next five minutes (with the default interval) as the daemon's notice; takes |text|. */
void daemon_set_drift(struct mps_daemon *daemon, char *text);
/*
 * A question got no answer. True: ask again, since a node may stall for some seconds, and killing a daemon kills its
 * clients. If the process is dead already, nothing is reported: its exit will be, with the reason.
 */
bool daemon_is_silent(struct mps_daemon *daemon, const struct error *err);

/* The process was started with the v3 interface, so only v3 commands are sent to it. */
bool daemon_is_v3(const struct mps_daemon *daemon);

/* Replaces the control by a new one; questions to the old one get no callback. */
int daemon_renew_control(struct mps_daemon *daemon, struct error *err) MUST_USE;
/* The same; false: it failed, which is reported as silence. */
bool daemon_can_be_asked(struct mps_daemon *daemon);
void daemon_drop_control(struct mps_daemon *daemon);
/* The one for others, too. */
void daemon_close_controls(struct mps_daemon *daemon);

/* Schedules the next question or poll; replaces one that is scheduled. */
void daemon_poll_again(struct mps_daemon *daemon, uint64_t ms);
/* Asks at intervals until the first answer. */
void daemon_ask_until_it_answers(struct mps_daemon *daemon);
/* The largest number of clients on one unit; 0: unknown. */
unsigned int daemon_most_clients(const struct mps_daemon *daemon);

/* daemon_start.c */
void daemon_start(struct mps_daemon *daemon);
enum daemon_found {
        DAEMON_NONE,
        DAEMON_TAKEN_OVER, /* |*ret_same|: it has the wanted settings */
        DAEMON_BLOCKED,    /* a privileged process of others holds the pipe directory: |err| says which */
};
/* Adopts a process that is already running. */
enum daemon_found daemon_take_over(struct mps_daemon *daemon, bool *ret_same, struct error *err);
/* Whether its process has the wanted settings. If these can only be guessed and do not contradict, they are its own. */
bool daemon_suits(struct mps_daemon *daemon);
void daemon_stop_preparing(struct mps_daemon *daemon);
/* NVML has not answered in time. */
void daemon_prepare_is_late(struct mps_daemon *daemon);

/* daemon_settings.c */
/* Gives the daemon its settings. */
void daemon_configure(struct mps_daemon *daemon);
/* Reads the settings of a serving daemon and restores those that differ. */
void daemon_verify(struct mps_daemon *daemon);
/* Call it only after |control| is closed, or from a callback of the settings themselves. */
void daemon_stop_settings(struct mps_daemon *daemon);
