/*
 * One control daemon, from wanted to gone: when to start, ask, give up, wait, end. The state machine is pure (events in,
 * actions out: no process, no clock); mps/supervisor/daemon_run.h carries it out.
 *
 *   off ──WANTED──► starting ──ANSWERED──► configuring ──CONFIGURED──► ready ──SERVER_FAULT──► fault
 *    ▲                 │ EXITED, TIMEOUT      │ EXITED, REFUSED,         │ EXITED, SILENT,      │ SERVER_ACTIVE
 *    │                 │                      │ SILENT, TIMEOUT          │ LOST                 ▼
 *    │                 ▼                      ▼                          ▼                    ready
 *    │◄──UNWANTED─── fault ◄──────────────────┴──────────────────────────┘
 *    │                 └──TIMEOUT (1 s, doubled each time to 60 s; back to 1 s after 60 s of ready)──► starting
 *    └──EXITED── draining ◄──UNWANTED, CHANGED── starting, configuring, ready, fault
 *                  └──EXITED, while it is wanted (with other settings)──► starting
 *
 * What is not drawn: a process that has to go before the next one comes is killed first, and fault and draining last until
 * it has EXITED; so there are never two. A daemon that drains waits for its clients (EMPTY), then is told to quit; one that has
 * not quit is killed. WANTED takes a daemon back that only waits for clients. REFUSED while ready (somebody else
 * changed a setting) configures again.
 *
 * SERVER_FAULT is not the daemon's end: from Volta on the server recovers once every affected client has left (MPS manual,
 * "FAULT"). So the state is fault, and the way back is SERVER_ACTIVE; only a server that stays in FAULT with no client, or
 * longer than MPS_FAULT_PATIENCE_MS with some, is shut down, and where that does not help, the daemon is killed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mps/wire/status.h"

enum mps_event {
        MPS_EVENT_WANTED, /* with the settings that a process of it, if there is one, was started with */
        MPS_EVENT_UNWANTED,
        MPS_EVENT_CHANGED,    /* wanted, but with other settings than those */
        MPS_EVENT_ADOPTED,    /* alive and answering: configuring without a start */
        MPS_EVENT_ANSWERED,   /* the first round trip */
        MPS_EVENT_CONFIGURED, /* everything reads back as it was set */
        MPS_EVENT_REFUSED,    /* something does not */
        MPS_EVENT_EXITED,     /* the process ended, or could not be started */
        MPS_EVENT_SILENT,     /* no answer within the deadline */
        MPS_EVENT_SERVER_FAULT,
        MPS_EVENT_SERVER_ACTIVE, /* no server is in FAULT (any more) */
        MPS_EVENT_LOST,          /* its directory is gone or another one, or its GPU is lost */
        MPS_EVENT_EMPTY,         /* it has no client; may be said again and again */
        MPS_EVENT_HURRY,         /* draining: its clients have had their time */
        MPS_EVENT_TIMEOUT,
};
#define MPS_N_EVENTS (MPS_EVENT_TIMEOUT + 1)

enum mps_command {
        MPS_DO_NOTHING,
        MPS_DO_START,       /* directories, compute mode, process; ask until it answers */
        MPS_DO_CONFIGURE,   /* set and read back */
        MPS_DO_DRAIN,       /* look for clients: EMPTY follows when there are none */
        MPS_DO_QUIT,        /* "quit": EXITED follows */
        MPS_DO_END,         /* "quit" with a timeout: it ends with its clients */
        MPS_DO_KILL,        /* server and daemon, however they are: EXITED follows */
        MPS_DO_SHUT_SERVER, /* shutdown_server -f: the next client gets a new one */
        MPS_DO_GONE,        /* nothing is left */
};

#define MPS_TIMER_KEEP UINT64_MAX

struct mps_action {
        enum mps_command command;
        uint64_t
                timeout_ms; /* until TIMEOUT is to be reported, instead of what was armed; 0: never; or MPS_TIMER_KEEP */
};

/* What a state waits for. */
enum mps_phase {
        MPS_PHASE_PLAIN,        /* fault: there is no process, the timer starts the next one */
        MPS_PHASE_QUITTING,     /* draining */
        MPS_PHASE_KILLING,      /* draining, fault */
        MPS_PHASE_SERVER_FAULT, /* fault, and the next two */
        MPS_PHASE_SERVER_EMPTY, /* in FAULT without a client */
        MPS_PHASE_SERVER_SHUT,
};

/* A zeroed one is off and not wanted. */
struct mps_machine {
        enum mps_state state;
        enum mps_phase phase;
        bool wanted;
        unsigned int failures; /* in a row */
        int64_t ready_since;
};

#define MPS_START_TIMEOUT_MS UINT64_C(30000)
#define MPS_CONFIGURE_TIMEOUT_MS UINT64_C(60000)
#define MPS_QUIT_TIMEOUT_MS UINT64_C(15000)
#define MPS_KILL_TIMEOUT_MS UINT64_C(5000)
#define MPS_FIRST_RETRY_MS UINT64_C(1000)
#define MPS_LAST_RETRY_MS UINT64_C(60000)
#define MPS_STABLE_MS INT64_C(60000)
#define MPS_FAULT_PATIENCE_MS UINT64_C(60000)
#define MPS_FAULT_EMPTY_MS UINT64_C(5000)

struct mps_action mps_step(struct mps_machine *machine, enum mps_event event, int64_t now_ms);

/* There is a process, or there may be: it was told to start and has not EXITED. */
bool mps_machine_is_alive(const struct mps_machine *machine);
/* The server is in FAULT, and the daemon waits for it. */
bool mps_machine_is_server_fault(const struct mps_machine *machine);
