// SPDX-License-Identifier: Apache-2.0
/* Two tables: where an event leads from each place, and what that means. */
#include "mps/supervisor/machine.h"

#include "base/macro.h"

enum move {
        STAY, /* an event that a place does not expect changes nothing, not even the timer */
        START,
        CONFIGURE,
        SERVE,
        FAIL,          /* the process ended by itself */
        FAIL_AND_KILL, /* it is of no use any more */
        KILL,          /* again: it has been counted as a failure */
        RETRY,         /* the same, and it has ended */
        SERVER_FAULT,
        SERVER_EMPTY,
        SERVER_SHUT,
        DRAIN,
        DRAIN_KILLED, /* it is being killed, and then not wanted any more */
        DROP,         /* killed because it is not wanted */
        QUIT,
        END,
        START_OR_GO, /* a draining process has ended */
        GO,
};

/* A state with its phase, in the order of enum mps_state and enum mps_phase. */
enum place {
        AT_OFF,
        AT_STARTING,
        AT_CONFIGURING,
        AT_READY,
        AT_DRAINING,
        AT_QUITTING,
        AT_DROPPING,
        AT_WAITING, /* in fault, without a process */
        AT_KILLING,
        AT_SERVER_FAULT,
        AT_SERVER_EMPTY,
        AT_SERVER_SHUT,
};

static const unsigned char moves[][MPS_N_EVENTS] = {
        [AT_OFF] = {[MPS_EVENT_WANTED] = START,
                [MPS_EVENT_CHANGED] = START,
                [MPS_EVENT_ADOPTED] = CONFIGURE,
                [MPS_EVENT_LEFT] = DRAIN},
        /* A process existed already: ADOPTED, LEFT. It was not reported to others yet: UNWANTED, CHANGED. */
        [AT_STARTING] = {[MPS_EVENT_ANSWERED] = CONFIGURE,
                [MPS_EVENT_ADOPTED] = CONFIGURE,
                [MPS_EVENT_LEFT] = DRAIN,
                [MPS_EVENT_EXITED] = FAIL,
                [MPS_EVENT_LOST] = FAIL_AND_KILL,
                [MPS_EVENT_SILENT] = FAIL_AND_KILL,
                [MPS_EVENT_REFUSED] = FAIL_AND_KILL,
                [MPS_EVENT_TIMEOUT] = FAIL_AND_KILL,
                [MPS_EVENT_UNWANTED] = DROP,
                [MPS_EVENT_CHANGED] = DROP},
        /* An adopted process may have clients: UNWANTED, CHANGED. */
        [AT_CONFIGURING] = {[MPS_EVENT_CONFIGURED] = SERVE,
                [MPS_EVENT_EXITED] = FAIL,
                [MPS_EVENT_REFUSED] = FAIL_AND_KILL,
                [MPS_EVENT_SILENT] = FAIL_AND_KILL,
                [MPS_EVENT_LOST] = FAIL_AND_KILL,
                [MPS_EVENT_TIMEOUT] = FAIL_AND_KILL,
                [MPS_EVENT_UNWANTED] = DRAIN,
                [MPS_EVENT_CHANGED] = DRAIN},
        [AT_READY] = {[MPS_EVENT_EXITED] = FAIL,
                [MPS_EVENT_SILENT] = FAIL_AND_KILL,
                [MPS_EVENT_LOST] = FAIL_AND_KILL,
                [MPS_EVENT_REFUSED] = CONFIGURE,
                [MPS_EVENT_SERVER_FAULT] = SERVER_FAULT,
                [MPS_EVENT_UNWANTED] = DRAIN,
                [MPS_EVENT_CHANGED] = DRAIN},
        [AT_DRAINING] = {[MPS_EVENT_EXITED] = START_OR_GO,
                [MPS_EVENT_EMPTY] = QUIT,
                [MPS_EVENT_DRAIN_DEADLINE] = END,
                [MPS_EVENT_SILENT] = DROP,
                [MPS_EVENT_LOST] = DROP,
                [MPS_EVENT_TIMEOUT] = DROP,
                [MPS_EVENT_WANTED] = CONFIGURE},
        [AT_QUITTING] = {[MPS_EVENT_EXITED] = START_OR_GO,
                [MPS_EVENT_DRAIN_DEADLINE] = END,
                [MPS_EVENT_SILENT] = DROP,
                [MPS_EVENT_LOST] = DROP,
                [MPS_EVENT_TIMEOUT] = DROP},
        [AT_DROPPING] = {[MPS_EVENT_EXITED] = START_OR_GO, [MPS_EVENT_TIMEOUT] = DROP},
        [AT_WAITING] = {[MPS_EVENT_TIMEOUT] = START, [MPS_EVENT_CHANGED] = START, [MPS_EVENT_UNWANTED] = GO},
        [AT_KILLING] = {[MPS_EVENT_EXITED] = RETRY, [MPS_EVENT_TIMEOUT] = KILL, [MPS_EVENT_UNWANTED] = DRAIN_KILLED},
        [AT_SERVER_FAULT] = {[MPS_EVENT_SERVER_ACTIVE] = SERVE,
                [MPS_EVENT_EMPTY] = SERVER_EMPTY,
                [MPS_EVENT_TIMEOUT] = SERVER_SHUT,
                [MPS_EVENT_EXITED] = FAIL,
                [MPS_EVENT_SILENT] = FAIL_AND_KILL,
                [MPS_EVENT_LOST] = FAIL_AND_KILL,
                [MPS_EVENT_UNWANTED] = DRAIN,
                [MPS_EVENT_CHANGED] = DRAIN},
        [AT_SERVER_EMPTY] = {[MPS_EVENT_SERVER_ACTIVE] = SERVE,
                [MPS_EVENT_TIMEOUT] = SERVER_SHUT,
                [MPS_EVENT_EXITED] = FAIL,
                [MPS_EVENT_SILENT] = FAIL_AND_KILL,
                [MPS_EVENT_LOST] = FAIL_AND_KILL,
                [MPS_EVENT_UNWANTED] = DRAIN,
                [MPS_EVENT_CHANGED] = DRAIN},
        [AT_SERVER_SHUT] = {[MPS_EVENT_SERVER_ACTIVE] = SERVE,
                [MPS_EVENT_TIMEOUT] = FAIL_AND_KILL,
                [MPS_EVENT_EXITED] = FAIL,
                [MPS_EVENT_SILENT] = FAIL_AND_KILL,
                [MPS_EVENT_LOST] = FAIL_AND_KILL,
                [MPS_EVENT_UNWANTED] = DRAIN,
                [MPS_EVENT_CHANGED] = DRAIN},
};

#define RETRY_MS (MPS_TIMER_KEEP - 1) /* as long as its failures say */

static const struct {
        enum mps_state state;
        enum mps_phase phase;
        struct mps_action action;
} outcomes[] = {
        [START] = {MPS_STARTING, MPS_PHASE_PLAIN, {MPS_DO_START, MPS_START_TIMEOUT_MS}},
        [CONFIGURE] = {MPS_CONFIGURING, MPS_PHASE_PLAIN, {MPS_DO_CONFIGURE, MPS_CONFIGURE_TIMEOUT_MS}},
        [SERVE] = {MPS_READY, MPS_PHASE_PLAIN, {MPS_DO_NOTHING, 0}},
        [FAIL] = {MPS_FAULT, MPS_PHASE_PLAIN, {MPS_DO_NOTHING, RETRY_MS}},
        [FAIL_AND_KILL] = {MPS_FAULT, MPS_PHASE_KILLING, {MPS_DO_KILL, MPS_KILL_TIMEOUT_MS}},
        [KILL] = {MPS_FAULT, MPS_PHASE_KILLING, {MPS_DO_KILL, MPS_KILL_TIMEOUT_MS}},
        [RETRY] = {MPS_FAULT, MPS_PHASE_PLAIN, {MPS_DO_NOTHING, RETRY_MS}},
        [SERVER_FAULT] = {MPS_FAULT, MPS_PHASE_SERVER_FAULT, {MPS_DO_NOTHING, MPS_FAULT_PATIENCE_MS}},
        [SERVER_EMPTY] = {MPS_FAULT, MPS_PHASE_SERVER_EMPTY, {MPS_DO_NOTHING, MPS_FAULT_EMPTY_MS}},
        [SERVER_SHUT] = {MPS_FAULT, MPS_PHASE_SERVER_SHUT, {MPS_DO_SHUT_SERVER, MPS_QUIT_TIMEOUT_MS}},
        [DRAIN] = {MPS_DRAINING, MPS_PHASE_PLAIN, {MPS_DO_DRAIN, 0}},
        [DRAIN_KILLED] = {MPS_DRAINING, MPS_PHASE_KILLING, {MPS_DO_NOTHING, MPS_TIMER_KEEP}},
        [DROP] = {MPS_DRAINING, MPS_PHASE_KILLING, {MPS_DO_KILL, MPS_KILL_TIMEOUT_MS}},
        [QUIT] = {MPS_DRAINING, MPS_PHASE_QUITTING, {MPS_DO_QUIT, MPS_QUIT_TIMEOUT_MS}},
        [END] = {MPS_DRAINING, MPS_PHASE_QUITTING, {MPS_DO_END, MPS_QUIT_TIMEOUT_MS}},
        [GO] = {MPS_OFF, MPS_PHASE_PLAIN, {MPS_DO_GONE, 0}},
};

static enum place machine_place(const struct mps_machine *machine)
{
        if (machine->state == MPS_DRAINING)
                return AT_DRAINING + machine->phase;
        if (machine->state == MPS_FAULT)
                return machine->phase == MPS_PHASE_PLAIN ? AT_WAITING
                                                         : AT_KILLING + (machine->phase - MPS_PHASE_KILLING);
        return (enum place)machine->state;
}

static void count_failure(struct mps_machine *machine, int64_t now_ms)
{
        if (machine->state == MPS_READY && now_ms - machine->ready_since >= MPS_STABLE_MS)
                machine->failures = 0;
        machine->failures++;
}

static uint64_t machine_retry_ms(const struct mps_machine *machine)
{
        uint64_t ms = MPS_FIRST_RETRY_MS;

        for (unsigned int i = 1; i < machine->failures && ms < MPS_LAST_RETRY_MS; i++)
                ms *= 2;
        return MIN(ms, MPS_LAST_RETRY_MS);
}

struct mps_action mps_step(struct mps_machine *machine, enum mps_event event, int64_t now_ms)
{
        enum move move = moves[machine_place(machine)][event];
        struct mps_action action;

        if (event == MPS_EVENT_WANTED || event == MPS_EVENT_CHANGED ||
                (event == MPS_EVENT_ADOPTED && machine->state == MPS_OFF))
                machine->wanted = true;
        if (event == MPS_EVENT_UNWANTED)
                machine->wanted = false;
        if (move == STAY)
                return (struct mps_action){MPS_DO_NOTHING, MPS_TIMER_KEEP};
        if (move == START_OR_GO)
                move = machine->wanted ? START : GO;
        if (move == FAIL || move == FAIL_AND_KILL)
                count_failure(machine, now_ms);
        else if (move == GO)
                machine->failures = 0;
        else if (move == SERVE)
                machine->ready_since = now_ms;
        machine->state = outcomes[move].state;
        machine->phase = outcomes[move].phase;
        action = outcomes[move].action;
        if (action.timeout_ms == RETRY_MS)
                action.timeout_ms = machine_retry_ms(machine);
        return action;
}

bool mps_machine_is_alive(const struct mps_machine *machine)
{
        if (machine->state == MPS_FAULT)
                return machine->phase != MPS_PHASE_PLAIN;
        return machine->state != MPS_OFF;
}

bool mps_machine_is_server_fault(const struct mps_machine *machine)
{
        return machine->state == MPS_FAULT && machine->phase >= MPS_PHASE_SERVER_FAULT;
}
