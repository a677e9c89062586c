/*
 * Private to mps/supervisor/daemon_*.c: what they share of one daemon. daemon_run.c has the machine and its actions,
 * daemon_start.c leads to a process, daemon_shm.c to its shared memory, daemon_configure.c to its settings, daemon_poll.c watches it,
 * daemon_peers.c closes connections that keep it busy, daemon_verify.c watches its settings, daemon_describe.c tells of it.
 */
#pragma once

#include "mps/supervisor/daemon_run.h"
#include "mps/supervisor/folder.h"
#include "mps/supervisor/journal.h"
#include "mps/supervisor/launch.h"
#include "mps/supervisor/log_watch.h"
#include "mps/supervisor/observe.h"
#include "mps/supervisor/peer.h"
#include "mps/supervisor/shm_watch.h"

struct prepare;
struct configure;
struct verify;

struct mps_run {
        struct mps_run_context *context;
        char *name;
        struct mps_folder folder;
        struct mps_machine machine;
        struct arena wanted_arena;
        struct mps_daemon_wanted wanted;
        bool has_wanted;  /* |wanted| says something */
        bool has_own_shm; /* folder.shm is /dev/shm of its process, or of the next one */
        struct mps_shm_watch shm;

        struct arena started_arena;
        struct mps_daemon_wanted started; /* what |launch| was started with */
        unsigned int options;             /* MPS_CAN_*: the options that |launch| was started with */
        struct arena recorded_arena;
        struct mps_record_daemon recorded; /* pid 0: none */
        struct mps_launch *launch;         /* NULL: no process */
        struct mps_log_watch *log_watch;
        int64_t trimmed_at;           /* the log was cut, by the loop's clock; 0: never */
        off_t log_start;              /* of control.log, when it was started */
        struct mps_control *control;  /* for its state; renewed with each process */
        struct mps_control *requests; /* for what others ask; lives as long as we do */

        struct prepare *prepare;       /* NVML is being asked before a start */
        struct configure *configure;   /* it is being configured */
        struct mps_poll *poll;         /* it is being looked at */
        struct verify *verify;         /* its settings are being read */
        struct namespaces *namespaces; /* those of its namespaces are, after that */
        unsigned int repairs;          /* settings that were set back, ever */
        char *drift;                   /* what the last of them was, while it is to be told */
        unsigned int drift_polls;      /* for so many looks more */
        pid_t unresponsive_server;     /* the server whose settings are not gone by, since it does not follow */
        struct mps_observation *seen;
        struct mps_journal *journal;
        unsigned int polls;
        unsigned int misses;       /* questions in a row that were not answered */
        uv_timer_t peers;          /* the next look for a peer that blocks the daemon */
        struct peer_wait peer;     /* what the last look found */
        unsigned int closed_peers; /* connections closed since the last search that ended */
        uint64_t refused_since;    /* another front end occupies the daemon, by the loop's clock */
        uint64_t refused_at;       /* the last refusal */
        unsigned int idle_polls;   /* looks in a row that found no such peer */
        bool is_waiting;           /* to start, until another daemon has left its units */
        uint64_t ask_ms;           /* until the next attempt at a first answer */

        unsigned int can;
        unsigned int threads_permille; /* as read back */
        uint64_t limit_mib;
        unsigned int restarts;
        int64_t since;
        char *reason;
        char *notice;

        uv_timer_t deadline; /* the machine's */
        uv_timer_t turn;     /* the next question or look */
        unsigned int open;   /* handles and controls */
        bool is_closing;
        void (*closed)(void *data);
        void *closed_data;
};

/* Reports to the machine and does what it says. The text becomes the reason, NULL keeps the one that is there. */
void run_report(struct mps_run *run, enum mps_event event, const char *format, ...) PRINTF_LIKE(3, 4);
void run_notify(struct mps_run *run, bool is_process);
void run_set_text(char **text, char *value);
/*
 * A question had no answer. True: it is to be asked again, since a node may stall for some seconds, and to kill a daemon is to
 * kill its clients. Nothing is reported of a process that is dead already: its end is about to be told, with its reason.
 */
bool run_is_silent(struct mps_run *run, const struct error *err);

/* Its process was started with the v3 interface: it is spoken to in that and in no other. */
bool run_is_v3(const struct mps_run *run);

/* A control without anything under way; nothing asked before calls back. */
int run_renew_control(struct mps_run *run, struct error *err) MUST_USE;
void run_drop_control(struct mps_run *run);

/* daemon_poll.c */
/* It is in a state in which it is looked at. */
bool run_is_looking(const struct mps_run *run);
/* The next question or look, instead of one that waits. */
void run_poll_again(struct mps_run *run, uint64_t ms);
/* Asks for a first answer, now and then. */
void run_ask_until_it_answers(struct mps_run *run);
/* |run_prepare_is_late| comes after |ms|. */
void run_wait(struct mps_run *run, uint64_t ms);
/* Its log has changed: it is cut if it has grown too long. */
void run_on_log(void *data);
/* It stays as it is until mps_run_poke(). */
void run_wait_for_units(struct mps_run *run, const char *blocker);

/* daemon_peers.c: what mps_control_options calls when an answer is slow, or a question is refused. */
void run_on_slow_answer(void *data);
void run_on_refused_question(void *data);

/* daemon_start.c */
void run_start(struct mps_run *run);
enum run_found {
        RUN_NONE,
        RUN_TAKEN_OVER, /* |*ret_same| says if it has the settings that are wanted */
        RUN_BLOCKED,    /* somebody who may has the pipe directory, and is none of ours: |err| says who */
};
/* Takes over a process that is there. */
enum run_found run_take_over(struct mps_run *run, bool *ret_same, struct error *err);
void run_stop_preparing(struct mps_run *run);
/* NVML has not answered in time. */
void run_prepare_is_late(struct mps_run *run);

/* daemon_shm.c */
/* Before a start; |is_new|: its folder is being made. */
int run_prepare_shm(struct mps_run *run, bool is_new, struct error *err) MUST_USE;
/* Of a process that was taken over. */
void run_find_shm(struct mps_run *run);

/* daemon_describe.c */
/* The most that the server takes on one of its units; 0: not known. */
unsigned int run_most_clients(const struct mps_run *run);

/* daemon_verify.c */
#define RUN_DRIFT_POLLS 150U /* five minutes, as a rule */
/* Reads what was set, and sets back what differs. */
void run_verify(struct mps_run *run);
/* Only with the control that it asks closed, or from within. */
void run_stop_verifying(struct mps_run *run);
/* Somebody has changed a setting; it was set back, or does not follow. */
void run_note_drift(struct mps_run *run, const char *difference, bool is_repaired);

/* daemon_namespaces.c */
/* The same for what was made in it for containers. */
void run_verify_namespaces(struct mps_run *run);
/* Only with the control that it asks closed, or from within. */
void run_stop_verifying_namespaces(struct mps_run *run);

/* daemon_configure.c */
void run_configure(struct mps_run *run);
/* Only with the control that it asks closed. */
void run_stop_configuring(struct mps_run *run);
