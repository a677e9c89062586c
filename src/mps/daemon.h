/*
 * One control daemon, from wanted to gone: when to start, ask, give up, wait, end. The state machine is pure (events in,
 * actions out: no process, no clock); mps/daemon_run.h carries it out.
 *
 *   off ──WANTED──► starting ──ANSWERED──► configuring ──CONFIGURED──► ready
 *    ▲                 │ EXITED, TIMEOUT        │ EXITED, REFUSED, TIMEOUT   │ EXITED, SILENT, SERVER_FAULT
 *    │                 ▼                        ▼                            ▼
 *    │◄──UNWANTED── fault ◄──────────────────────────────────────────────────┘
 *    │                 └──TIMEOUT (1 s, doubled each time to 60 s; back to 1 s after 60 s of ready)──► starting
 *    └──EXITED── draining ◄──UNWANTED── starting, configuring, ready
 *
 * SERVER_FAULT is not the daemon's end: from Volta on the server recovers once every affected client has left (MPS manual,
 * "FAULT"). So the state is fault, and the way back is SERVER_ACTIVE; only a server that stays in FAULT with no client, or
 * longer than MPS_FAULT_PATIENCE_MS with some, is shut down.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mps/status.h"

enum mps_event {
        MPS_EVENT_WANTED,
        MPS_EVENT_UNWANTED,
        MPS_EVENT_ADOPTED,    /* on record, alive and answering: configuring without a start */
        MPS_EVENT_ANSWERED,   /* the first round trip */
        MPS_EVENT_CONFIGURED, /* everything reads back as it was set */
        MPS_EVENT_REFUSED,    /* something does not */
        MPS_EVENT_EXITED,     /* the process ended, or could not be started */
        MPS_EVENT_SILENT,     /* no answer within the deadline */
        MPS_EVENT_SERVER_FAULT,
        MPS_EVENT_SERVER_ACTIVE,
        MPS_EVENT_LOST,    /* its directory is gone or another one, or its GPU is lost */
        MPS_EVENT_CHANGED, /* wanted still, but with other settings */
        MPS_EVENT_EMPTY,   /* the last client has left */
        MPS_EVENT_TIMEOUT,
};

enum mps_command {
        MPS_DO_NOTHING,
        MPS_DO_START,       /* directories, compute mode, process; ask until it answers */
        MPS_DO_CONFIGURE,   /* set and read back */
        MPS_DO_QUIT,        /* "quit", waits for clients */
        MPS_DO_KILL,        /* server and daemon, however they are: EXITED follows */
        MPS_DO_SHUT_SERVER, /* shutdown_server -f: the next client gets a new one */
        MPS_DO_GONE,        /* nothing is left */
};

struct mps_action {
        enum mps_command command;
        uint64_t timeout_ms; /* after which TIMEOUT is to be reported, replacing what was armed; 0: none */
};

struct mps_machine {
        enum mps_state state;
        bool wanted;
        bool alive;   /* there is a process */
        bool changed; /* configure again, or start anew, when there is nobody to disturb */
        bool server_fault;
        unsigned int failures; /* in a row */
        int64_t ready_since;
};

#define MPS_START_TIMEOUT_MS UINT64_C(30000)
#define MPS_CONFIGURE_TIMEOUT_MS UINT64_C(30000)
#define MPS_FIRST_RETRY_MS UINT64_C(1000)
#define MPS_LAST_RETRY_MS UINT64_C(60000)
#define MPS_STABLE_MS INT64_C(60000)
#define MPS_FAULT_PATIENCE_MS UINT64_C(60000)

struct mps_action mps_step(struct mps_machine *machine, enum mps_event event, int64_t now_ms);
