// SPDX-License-Identifier: Apache-2.0
/*
 * When to register with kubelet, when to close, when to wait: the state machine of one resource. Pure: events in,
 * actions out; it owns no socket, no timer and no clock.
 *
 *                       KUBELET_CAME / TIMEOUT
 *        IDLE ──────────────► CALLING ──REGISTER_OK──► ACCEPTED ──WATCH_OPENED──► WATCHED
 *         ▲ kubelet's socket     │                        │                          │
 *         │ is not there         │ REGISTER_FAILED        │ TIMEOUT                  │ WATCH_LOST, KUBELET_CAME
 *         │                      ▼                        ▼                          ▼
 *      WAITING ◄──SERVER_CLOSED── CLOSING ◄────────────────────────────────────────────
 *         └────TIMEOUT, KUBELET_CAME──► CALLING
 *
 * STOP leads from everywhere through CLOSING to STOPPED. A list that was opened and lost before REGISTER_OK leads from
 * there to CLOSING.
 *
 * Why a new server and socket each time, and why CLOSING waits: kubelets up to 1.36 know a plugin by its resource name
 * alone. When they notice the end of an old ListAndWatch stream they look the plugin up by name, find the new one, and
 * disconnect it; the resource then stays at zero until the next registration (kubernetes issue 127803, fixed after 1.36
 * by PR 135437, which identifies plugins by socket path). So the old connection has to be gone on kubelet's side before
 * Register is called again, each incarnation has its own path, and a stream that ends all the same leads to another
 * registration, with back-off.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

enum registration_state {
        REGISTRATION_IDLE,
        REGISTRATION_CALLING,
        REGISTRATION_ACCEPTED,
        REGISTRATION_WATCHED,
        REGISTRATION_CLOSING,
        REGISTRATION_WAITING,
        REGISTRATION_STOPPED,
};

enum registration_event {
        REGISTRATION_KUBELET_CAME, /* its socket appeared, or was replaced */
        REGISTRATION_KUBELET_WENT, /* its socket is gone; the kubelet behind it may still run */
        REGISTRATION_REGISTER_OK,
        REGISTRATION_REGISTER_FAILED, /* refused, unreachable, timed out, or our own server could not listen */
        REGISTRATION_WATCH_OPENED,    /* kubelet opened ListAndWatch (perhaps before Register was answered) */
        REGISTRATION_WATCH_LOST,      /* the stream that kubelet opened has ended */
        REGISTRATION_SERVER_CLOSED,
        REGISTRATION_TIMEOUT,
        REGISTRATION_STOP,
};

enum registration_command {
        REGISTRATION_NOTHING,
        REGISTRATION_SERVE, /* bind a new socket, then call Register */
        REGISTRATION_CLOSE, /* close the server gracefully; SERVER_CLOSED must follow */
        REGISTRATION_DONE,  /* stopped, and nothing is left to close */
};

struct registration_action {
        enum registration_command command;
        uint64_t timeout_ms; /* after which TIMEOUT is to be reported, replacing the present timer; 0: none */
};

struct registration {
        enum registration_state state;
        bool kubelet_present;
        bool watch_open;
        bool watch_lost; /* opened and lost again before Register was answered */
        bool at_once;    /* after CLOSING: another kubelet waits, so do not back off */
        bool stopping;
        struct backoff backoff;
        int64_t watched_since;
};

#define REGISTRATION_FIRST_RETRY_MS UINT64_C(100)
#define REGISTRATION_LAST_RETRY_MS UINT64_C(5000)
/* A stream that lasted this long counts as success and resets the back-off. */
#define REGISTRATION_STABLE_MS INT64_C(10000)
/* kubelet opens ListAndWatch right after it answered Register. */
#define REGISTRATION_WATCH_TIMEOUT_MS UINT64_C(10000)

void registration_init(struct registration *registration);

/*
 * |random| shortens the back-off by up to a quarter, so that two plugins that compete for a name do not stay in step.
 */
struct registration_action registration_step(
        struct registration *registration, enum registration_event event, int64_t now_ms, uint32_t random);

const char *registration_state_name(enum registration_state state);
