// SPDX-License-Identifier: Apache-2.0
#include "node/kubelet/registration.h"

void registration_init(struct registration *registration)
{
        *registration = (struct registration){.state = REGISTRATION_IDLE,
                .backoff = {.least_ms = REGISTRATION_FIRST_RETRY_MS, .most_ms = REGISTRATION_LAST_RETRY_MS}};
}

static struct registration_action action(enum registration_command command, uint64_t timeout_ms)
{
        return (struct registration_action){.command = command, .timeout_ms = timeout_ms};
}

static struct registration_action registration_serve(struct registration *registration)
{
        registration->state = REGISTRATION_CALLING;
        registration->watch_open = false;
        registration->watch_lost = false;
        registration->at_once = false;
        return action(REGISTRATION_SERVE, 0);
}

static struct registration_action kubelet_registration_close_server(struct registration *registration, bool at_once)
{
        registration->state = REGISTRATION_CLOSING;
        registration->at_once = at_once;
        return action(REGISTRATION_CLOSE, 0);
}

static struct registration_action registration_watch_began(struct registration *registration, int64_t now_ms)
{
        registration->state = REGISTRATION_WATCHED;
        registration->watched_since = now_ms;
        return action(REGISTRATION_NOTHING, 0);
}

static struct registration_action registration_stop(struct registration *registration)
{
        registration->stopping = true;
        switch (registration->state) {
        case REGISTRATION_CALLING:
        case REGISTRATION_ACCEPTED:
        case REGISTRATION_WATCHED:
                return kubelet_registration_close_server(registration, false);
        case REGISTRATION_CLOSING:
                return action(REGISTRATION_NOTHING, 0);
        default:
                registration->state = REGISTRATION_STOPPED;
                return action(REGISTRATION_DONE, 0);
        }
}

/* The server is closed: stop, try again now, try again later, or wait for kubelet's socket. */
static struct registration_action closed(struct registration *registration, uint32_t random)
{
        if (registration->stopping) {
                registration->state = REGISTRATION_STOPPED;
                return action(REGISTRATION_DONE, 0);
        }
        if (registration->at_once)
                return registration_serve(registration);
        registration->state = REGISTRATION_WAITING;
        return action(REGISTRATION_NOTHING, backoff_next(&registration->backoff, 0, random / 2));
}

static struct registration_action registration_wait_ended(struct registration *registration)
{
        if (registration->kubelet_present)
                return registration_serve(registration);
        registration->state = REGISTRATION_IDLE;
        return action(REGISTRATION_NOTHING, 0);
}

static struct registration_action kubelet_came(struct registration *registration)
{
        registration->kubelet_present = true;
        switch (registration->state) {
        case REGISTRATION_IDLE:
        case REGISTRATION_WAITING:
                registration->backoff.failures = 0;
                return registration_serve(registration);
        case REGISTRATION_CALLING:
        case REGISTRATION_ACCEPTED:
        case REGISTRATION_WATCHED:
                registration->backoff.failures = 0;
                return kubelet_registration_close_server(registration, true);
        case REGISTRATION_CLOSING:
                registration->at_once = !registration->stopping;
                return action(REGISTRATION_NOTHING, 0);
        default:
                return action(REGISTRATION_NOTHING, 0);
        }
}

struct registration_action registration_step(
        struct registration *registration, enum registration_event event, int64_t now_ms, uint32_t random)
{
        enum registration_state state = registration->state;

        switch (event) {
        case REGISTRATION_STOP:
                return registration_stop(registration);
        case REGISTRATION_KUBELET_CAME:
                return kubelet_came(registration);
        case REGISTRATION_KUBELET_WENT:
                registration->kubelet_present = false;
                break;
        case REGISTRATION_WATCH_OPENED:
                registration->watch_open = true;
                registration->watch_lost = false;
                if (state == REGISTRATION_ACCEPTED)
                        return registration_watch_began(registration, now_ms);
                break;
        case REGISTRATION_WATCH_LOST:
                registration->watch_open = false;
                registration->watch_lost = true;
                if (state == REGISTRATION_WATCHED) {
                        if (now_ms - registration->watched_since >= REGISTRATION_STABLE_MS)
                                registration->backoff.failures = 0;
                        return kubelet_registration_close_server(registration, false);
                }
                break;
        case REGISTRATION_REGISTER_OK:
                if (state != REGISTRATION_CALLING)
                        break;
                if (registration->watch_open)
                        return registration_watch_began(registration, now_ms);
                if (registration->watch_lost)
                        return kubelet_registration_close_server(registration, false);
                registration->state = REGISTRATION_ACCEPTED;
                return action(REGISTRATION_NOTHING, REGISTRATION_WATCH_TIMEOUT_MS);
        case REGISTRATION_REGISTER_FAILED:
                if (state == REGISTRATION_CALLING)
                        return kubelet_registration_close_server(registration, false);
                break;
        case REGISTRATION_SERVER_CLOSED:
                if (state == REGISTRATION_CLOSING)
                        return closed(registration, random);
                break;
        case REGISTRATION_TIMEOUT:
                if (state == REGISTRATION_ACCEPTED)
                        return kubelet_registration_close_server(registration, false);
                if (state == REGISTRATION_WAITING)
                        return registration_wait_ended(registration);
                break;
        }
        return action(REGISTRATION_NOTHING, 0);
}

const char *registration_state_name(enum registration_state state)
{
        static const char *const names[] = {
                [REGISTRATION_IDLE] = "idle",
                [REGISTRATION_CALLING] = "calling",
                [REGISTRATION_ACCEPTED] = "accepted",
                [REGISTRATION_WATCHED] = "watched",
                [REGISTRATION_CLOSING] = "closing",
                [REGISTRATION_WAITING] = "waiting",
                [REGISTRATION_STOPPED] = "stopped",
        };

        return names[state];
}
