// SPDX-License-Identifier: Apache-2.0
/*
 * The state machine of one control daemon: when to start it, ask it, give up, wait and end it. It is pure (events in,
 * actions out: no process, no clock); mps/supervisor/daemon.h executes the actions.
 *
 *   off ──WANTED──► starting ──ANSWERED──► configuring ──CONFIGURED──► ready ──SERVER_FAULT──► fault
 *    ▲                 │ EXITED, TIMEOUT      │ EXITED, REFUSED,         │ EXITED, SILENT,      │ SERVER_ACTIVE
 *    │                 │                      │ SILENT, TIMEOUT          │ LOST                 ▼
 *    │                 ▼                      ▼                          ▼                    ready
 *    │◄──UNWANTED─── fault ◄──────────────────┴──────────────────────────┘
 *    │                 ├──TIMEOUT (1 s, doubled each time to 60 s; back to 1 s after 60 s of ready)──► starting
 *    │                 └──CHANGED, while no process is left──► starting
 *    └──EXITED── draining ◄──UNWANTED, CHANGED── starting, configuring, ready, fault; LEFT── off, starting
 *                  └──EXITED, while it is wanted (with other settings)──► starting
 *
 * Not drawn: before a new process starts, the old one is killed, and fault and draining last until it has EXITED; so
 * there are never two processes. A draining daemon waits until its clients have left (EMPTY), then gets the command to
 * quit; if it does not quit, it is killed. WANTED makes a daemon ready again that only waits for its clients. REFUSED
 * while ready (another program changed a setting) configures it again.
 *
 * SERVER_FAULT does not end the daemon: from Volta on the server recovers when every affected client has left (MPS
 * manual, "FAULT"). So the state becomes fault, and SERVER_ACTIVE ends it. A server that stays in FAULT without a
 * client, or with clients for longer than MPS_FAULT_PATIENCE_MS, is shut down; if that does not help, the daemon is
 * killed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mps/wire/status.h"

enum mps_event {
        MPS_EVENT_WANTED, /* with the settings of its present process, or without a process */
        MPS_EVENT_UNWANTED,
        MPS_EVENT_CHANGED,    /* wanted, but with other settings than its process has */
        MPS_EVENT_ADOPTED,    /* a running process answers: configure it without a start */
        MPS_EVENT_LEFT,       /* a running process, but not as it is wanted, or not wanted: drain it */
        MPS_EVENT_ANSWERED,   /* the first answer */
        MPS_EVENT_CONFIGURED, /* every setting reads back as it was set */
        MPS_EVENT_REFUSED,    /* a setting does not */
        MPS_EVENT_EXITED,     /* the process ended, or could not be started */
        MPS_EVENT_SILENT,     /* no answer within the deadline */
        MPS_EVENT_SERVER_FAULT,
        MPS_EVENT_SERVER_ACTIVE,  /* no server is in FAULT (any more) */
        MPS_EVENT_LOST,           /* its directory is gone or was replaced, or its GPU is lost */
        MPS_EVENT_EMPTY,          /* it has no client; may be reported repeatedly */
        MPS_EVENT_DRAIN_DEADLINE, /* draining: the time for its clients is over */
        MPS_EVENT_TIMEOUT,
};
#define MPS_N_EVENTS (MPS_EVENT_TIMEOUT + 1)

enum mps_command {
        MPS_DO_NOTHING,
        MPS_DO_START,       /* directories, compute mode, process; then ask until it answers */
        MPS_DO_CONFIGURE,   /* set the limits and read them back */
        MPS_DO_DRAIN,       /* poll for clients; EMPTY follows when there are none */
        MPS_DO_QUIT,        /* send "quit"; EXITED follows */
        MPS_DO_END,         /* send "quit" with a timeout, which ends its clients; EXITED follows */
        MPS_DO_KILL,        /* kill server and daemon, in any state; EXITED follows */
        MPS_DO_SHUT_SERVER, /* shutdown_server -f: the next client gets a new server */
        MPS_DO_GONE,        /* the daemon is gone and leaves nothing */
};

#define MPS_TIMER_KEEP UINT64_MAX

struct mps_action {
        enum mps_command command;
        uint64_t timeout_ms; /* until TIMEOUT is reported, replaces the timer; 0: never; or MPS_TIMER_KEEP */
};

/* The phase of a state: what it waits for. */
enum mps_phase {
        MPS_PHASE_PLAIN,        /* fault: no process is left, the timer starts the next one */
        MPS_PHASE_QUITTING,     /* draining */
        MPS_PHASE_KILLING,      /* draining, fault */
        MPS_PHASE_SERVER_FAULT, /* fault; so are the two below */
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

/* There may be a process: a start was requested and EXITED has not been reported. */
bool mps_machine_is_alive(const struct mps_machine *machine);
/* The server is in FAULT, and the daemon waits until it recovers. */
bool mps_machine_is_server_fault(const struct mps_machine *machine);
