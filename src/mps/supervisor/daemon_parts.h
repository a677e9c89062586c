/*
 * Private to mps/supervisor/daemon_*.c: what these files share about one daemon. daemon_run.c runs the state machine
 * and its actions, daemon_start.c starts the process, daemon_shm.c handles its shared memory, daemon_settings.c its
 * settings; daemon_poll.c polls it, daemon_peers.c closes connections that block it, daemon_describe.c reports its
 * status.
 */
#pragma once

#include "base/io/worker.h"
#include "mps/supervisor/daemon_run.h"
#include "mps/supervisor/folder.h"
#include "mps/supervisor/journal.h"
#include "mps/supervisor/launch.h"
#include "mps/supervisor/log_watch.h"
#include "mps/supervisor/observe.h"
#include "mps/supervisor/peer.h"
#include "mps/supervisor/shm_left.h"
#include "mps/supervisor/shm_watch.h"

struct prepare;
struct settings;

struct mps_run {
        struct mps_run_context *context;
        char *name;
        struct mps_folder folder;
        struct mps_machine machine;
        struct arena wanted_arena;
        struct mps_daemon_wanted wanted;
        bool has_wanted;          /* |wanted| is set */
        bool has_own_shm;         /* folder.shm is /dev/shm of this process, or of the next one */
        bool has_noted_unread;    /* run_note_unread() has logged, */
        bool is_removing;         /* |removal| is asked */
        bool has_noted_unchecked; /* and so has a check of its settings */
        struct mps_shm_watch shm;
        struct worker_request removal;
        struct mps_shm_left left; /* what it is about */

        struct arena started_arena;
        struct mps_daemon_wanted started; /* what |launch| was started with */
        unsigned int options;             /* MPS_CAN_*: the options that |launch| was started with */
        struct arena recorded_arena;
        struct mps_record_daemon recorded; /* pid 0: none */
        struct mps_launch *launch;         /* NULL: no process */
        struct mps_log_watch *log_watch;
        int64_t trimmed_at;           /* when the log was last cut, by the loop's clock; 0: never */
        off_t log_start;              /* size of control.log when the process started */
        struct mps_control *control;  /* for the state machine; renewed with each process */
        struct mps_control *requests; /* for requests of others; lives as long as this struct */

        struct prepare *prepare;   /* asking NVML before a start */
        struct mps_poll *poll;     /* the poll in progress */
        struct settings *settings; /* the configuration or the check in progress */
        unsigned int *chunks;      /* of started.units: those of static partitions, 0: unknown */
        size_t n_chunks;
        char *drift;               /* the last one that was restored, while it is reported */
        unsigned int drift_polls;  /* for how many more polls it is reported */
        pid_t unresponsive_server; /* the server whose settings are not checked, since it does not take them */
        struct mps_observation *seen;
        struct mps_journal *journal;
        unsigned int polls;
        unsigned int misses;       /* questions in a row without an answer */
        uv_timer_t peers;          /* the next search for a connection that blocks the daemon */
        struct peer_wait peer;     /* result of the last search */
        unsigned int closed_peers; /* connections closed since the last search ended */
        uint64_t refused_since;    /* since when another front end occupies the daemon, by the loop's clock */
        uint64_t refused_at;       /* the last refusal */
        unsigned int idle_polls;   /* searches in a row that found no such connection */
        bool is_waiting;           /* its start waits until another daemon has left its units */
        uint64_t ask_ms;           /* until the next attempt at a first answer */

        unsigned int can;
        unsigned int threads_permille; /* as read back */
        uint64_t limit_mib;
        unsigned int restarts;
        unsigned int repairs; /* settings that were restored, in total */
        int64_t since;
        char *reason;
        char *notice;

        uv_timer_t deadline; /* the machine's */
        uv_timer_t turn;     /* the next question or poll */
        unsigned int open;   /* handles and controls */
        bool is_closing;
        void (*closed)(void *data);
        void *closed_data;
};

/*
 * Reports an event to the state machine and executes its action. The text becomes the reason; NULL keeps the present
 * one.
 */
void run_report(struct mps_run *run, enum mps_event event, const char *format, ...) PRINTF_LIKE(3, 4);
void run_notify(struct mps_run *run, bool is_process);
void run_set_text(char **text, char *value);
/*
 * A question got no answer. True: ask again, since a node may stall for some seconds, and killing a daemon kills its
 * clients. If the process is dead already, nothing is reported: its exit will be, with the reason.
 */
bool run_is_silent(struct mps_run *run, const struct error *err);

/* The process was started with the v3 interface, so only v3 commands are sent to it. */
bool run_is_v3(const struct mps_run *run);

/* Replaces the control by a new one; questions to the old one get no callback. */
int run_renew_control(struct mps_run *run, struct error *err) MUST_USE;
void run_drop_control(struct mps_run *run);

/* daemon_poll.c */
/* It is in a state in which it is polled. */
bool run_is_looking(const struct mps_run *run);
/* Logs lines of the daemon's lists that could not be read; once for a daemon. */
void run_note_unread(struct mps_run *run, const struct dialogue_unread *unread);
/* Schedules the next question or poll; replaces one that is scheduled. */
void run_poll_again(struct mps_run *run, uint64_t ms);
/* Asks at intervals until the first answer. */
void run_ask_until_it_answers(struct mps_run *run);
/* Calls run_prepare_is_late() after |ms|. */
void run_wait(struct mps_run *run, uint64_t ms);
/* The log has changed: cut it if it is too long. */
void run_on_log(void *data);
/* Waits until mps_run_poke(). */
void run_wait_for_units(struct mps_run *run, const char *blocker);

/* daemon_peers.c: callbacks of mps_control_options, for a slow answer and for a refused question. */
void run_on_slow_answer(void *data);
void run_on_refused_question(void *data);

/* daemon_start.c */
void run_start(struct mps_run *run);
enum run_found {
        RUN_NONE,
        RUN_TAKEN_OVER, /* |*ret_same|: it has the wanted settings */
        RUN_BLOCKED,    /* a privileged process of others holds the pipe directory: |err| says which */
};
/* Adopts a process that is already running. */
enum run_found run_take_over(struct mps_run *run, bool *ret_same, struct error *err);
/* Whether its process has the wanted settings. If these can only be guessed and do not contradict, they are its own. */
bool run_suits(struct mps_run *run);
void run_stop_preparing(struct mps_run *run);
/* NVML has not answered in time. */
void run_prepare_is_late(struct mps_run *run);

/* daemon_shm.c */
/* Before a start. |is_new|: its folder is being created. */
int run_prepare_shm(struct mps_run *run, bool is_new, struct error *err) MUST_USE;
/* For an adopted process. */
void run_find_shm(struct mps_run *run);
/* Of what ended containers left. */
void run_stop_removing(struct mps_run *run);

/* daemon_describe.c */
/* The largest number of clients on one unit; 0: unknown. */
unsigned int run_most_clients(const struct mps_run *run);

/* daemon_settings.c */
#define RUN_DRIFT_POLLS 150U /* five minutes with the default interval */
/* Gives the daemon its settings. */
void run_configure(struct mps_run *run);
/* Reads the settings of a serving daemon and restores those that differ. */
void run_verify(struct mps_run *run);
/* Call it only after |control| is closed, or from a callback of the settings themselves. */
void run_stop_settings(struct mps_run *run);
