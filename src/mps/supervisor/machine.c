/* One function per state. An event that a state does not expect changes nothing, not even the timer. */
#include "mps/supervisor/machine.h"

#include <assert.h>

static struct mps_action machine_act(enum mps_command command, uint64_t timeout_ms)
{
        return (struct mps_action){.command = command, .timeout_ms = timeout_ms};
}

static struct mps_action machine_ignore(void)
{
        return machine_act(MPS_DO_NOTHING, MPS_TIMER_KEEP);
}

static void machine_enter(struct mps_machine *machine, enum mps_state state, enum mps_phase phase)
{
        machine->state = state;
        machine->phase = phase;
}

static uint64_t machine_retry_ms(const struct mps_machine *machine)
{
        uint64_t ms = MPS_FIRST_RETRY_MS;

        for (unsigned int i = 1; i < machine->failures && ms < MPS_LAST_RETRY_MS; i++)
                ms *= 2;
        return ms < MPS_LAST_RETRY_MS ? ms : MPS_LAST_RETRY_MS;
}

static struct mps_action machine_start(struct mps_machine *machine)
{
        machine_enter(machine, MPS_STARTING, MPS_PHASE_PLAIN);
        return machine_act(MPS_DO_START, MPS_START_TIMEOUT_MS);
}

static struct mps_action machine_configure(struct mps_machine *machine)
{
        machine_enter(machine, MPS_CONFIGURING, MPS_PHASE_PLAIN);
        return machine_act(MPS_DO_CONFIGURE, MPS_CONFIGURE_TIMEOUT_MS);
}

static struct mps_action become_ready(struct mps_machine *machine, int64_t now_ms)
{
        machine_enter(machine, MPS_READY, MPS_PHASE_PLAIN);
        machine->ready_since = now_ms;
        return machine_act(MPS_DO_NOTHING, 0);
}

static struct mps_action wait_to_retry(struct mps_machine *machine)
{
        machine_enter(machine, MPS_FAULT, MPS_PHASE_PLAIN);
        return machine_act(MPS_DO_NOTHING, machine_retry_ms(machine));
}

static struct mps_action be_gone(struct mps_machine *machine)
{
        machine_enter(machine, MPS_OFF, MPS_PHASE_PLAIN);
        machine->failures = 0;
        return machine_act(MPS_DO_GONE, 0);
}

static void count_failure(struct mps_machine *machine, int64_t now_ms)
{
        if (machine->state == MPS_READY && now_ms - machine->ready_since >= MPS_STABLE_MS)
                machine->failures = 0;
        machine->failures++;
}

/* The process ended by itself. */
static struct mps_action machine_fail(struct mps_machine *machine, int64_t now_ms)
{
        count_failure(machine, now_ms);
        return wait_to_retry(machine);
}

static struct mps_action machine_kill(struct mps_machine *machine, enum mps_state state)
{
        machine_enter(machine, state, MPS_PHASE_KILLING);
        return machine_act(MPS_DO_KILL, MPS_KILL_TIMEOUT_MS);
}

static struct mps_action fail_and_kill(struct mps_machine *machine, int64_t now_ms)
{
        count_failure(machine, now_ms);
        return machine_kill(machine, MPS_FAULT);
}

static struct mps_action machine_drain(struct mps_machine *machine)
{
        machine_enter(machine, MPS_DRAINING, MPS_PHASE_PLAIN);
        return machine_act(MPS_DO_DRAIN, 0);
}

static struct mps_action machine_quit(struct mps_machine *machine, enum mps_command command)
{
        machine_enter(machine, MPS_DRAINING, MPS_PHASE_QUITTING);
        return machine_act(command, MPS_QUIT_TIMEOUT_MS);
}

/* ---- states ---- */

static struct mps_action step_off(struct mps_machine *machine, enum mps_event event)
{
        switch (event) {
        case MPS_EVENT_WANTED:
        case MPS_EVENT_CHANGED:
                return machine_start(machine);
        case MPS_EVENT_ADOPTED:
                machine->wanted = true;
                return machine_configure(machine);
        case MPS_EVENT_LEFT:
                return machine_drain(machine);
        default:
                return machine_ignore();
        }
}

static struct mps_action step_starting(struct mps_machine *machine, enum mps_event event, int64_t now_ms)
{
        switch (event) {
        case MPS_EVENT_ANSWERED:
        case MPS_EVENT_ADOPTED: /* instead of a start: a process existed already */
                return machine_configure(machine);
        case MPS_EVENT_LEFT: /* the same */
                return machine_drain(machine);
        case MPS_EVENT_EXITED:
                return machine_fail(machine, now_ms);
        case MPS_EVENT_LOST:
        case MPS_EVENT_SILENT:
        case MPS_EVENT_REFUSED:
        case MPS_EVENT_TIMEOUT:
                return fail_and_kill(machine, now_ms);
        case MPS_EVENT_UNWANTED:
        case MPS_EVENT_CHANGED:
                return machine_kill(machine, MPS_DRAINING); /* not reported to others yet */
        default:
                return machine_ignore();
        }
}

static struct mps_action step_configuring(struct mps_machine *machine, enum mps_event event, int64_t now_ms)
{
        switch (event) {
        case MPS_EVENT_CONFIGURED:
                return become_ready(machine, now_ms);
        case MPS_EVENT_EXITED:
                return machine_fail(machine, now_ms);
        case MPS_EVENT_REFUSED:
        case MPS_EVENT_SILENT:
        case MPS_EVENT_LOST:
        case MPS_EVENT_TIMEOUT:
                return fail_and_kill(machine, now_ms);
        case MPS_EVENT_UNWANTED:
        case MPS_EVENT_CHANGED:
                return machine_drain(machine); /* an adopted one may have clients */
        default:
                return machine_ignore();
        }
}

static struct mps_action step_ready(struct mps_machine *machine, enum mps_event event, int64_t now_ms)
{
        switch (event) {
        case MPS_EVENT_EXITED:
                return machine_fail(machine, now_ms);
        case MPS_EVENT_SILENT:
        case MPS_EVENT_LOST:
                return fail_and_kill(machine, now_ms);
        case MPS_EVENT_REFUSED:
                return machine_configure(machine);
        case MPS_EVENT_SERVER_FAULT:
                machine_enter(machine, MPS_FAULT, MPS_PHASE_SERVER_FAULT);
                return machine_act(MPS_DO_NOTHING, MPS_FAULT_PATIENCE_MS);
        case MPS_EVENT_UNWANTED:
        case MPS_EVENT_CHANGED:
                return machine_drain(machine);
        default:
                return machine_ignore();
        }
}

static struct mps_action step_draining(struct mps_machine *machine, enum mps_event event)
{
        switch (event) {
        case MPS_EVENT_EXITED:
                return machine->wanted ? machine_start(machine) : be_gone(machine);
        case MPS_EVENT_EMPTY:
                return machine->phase == MPS_PHASE_PLAIN ? machine_quit(machine, MPS_DO_QUIT) : machine_ignore();
        case MPS_EVENT_DRAIN_DEADLINE:
                return machine->phase == MPS_PHASE_KILLING ? machine_ignore() : machine_quit(machine, MPS_DO_END);
        case MPS_EVENT_SILENT:
        case MPS_EVENT_LOST:
                return machine->phase == MPS_PHASE_KILLING ? machine_ignore() : machine_kill(machine, MPS_DRAINING);
        case MPS_EVENT_TIMEOUT:
                return machine_kill(machine, MPS_DRAINING);
        case MPS_EVENT_WANTED:
                return machine->phase == MPS_PHASE_PLAIN ? machine_configure(machine) : machine_ignore();
        default:
                return machine_ignore();
        }
}

/* Used while the daemon has no process. */
static struct mps_action machine_step_waiting(struct mps_machine *machine, enum mps_event event)
{
        switch (event) {
        case MPS_EVENT_TIMEOUT:
        case MPS_EVENT_CHANGED:
                return machine_start(machine);
        case MPS_EVENT_UNWANTED:
                return be_gone(machine);
        default:
                return machine_ignore();
        }
}

static struct mps_action step_killing(struct mps_machine *machine, enum mps_event event)
{
        switch (event) {
        case MPS_EVENT_EXITED:
                return wait_to_retry(machine);
        case MPS_EVENT_TIMEOUT:
                return machine_kill(machine, MPS_FAULT);
        case MPS_EVENT_UNWANTED:
                machine_enter(machine, MPS_DRAINING, MPS_PHASE_KILLING);
                return machine_ignore();
        default:
                return machine_ignore();
        }
}

static struct mps_action step_server_fault(struct mps_machine *machine, enum mps_event event, int64_t now_ms)
{
        switch (event) {
        case MPS_EVENT_SERVER_ACTIVE:
                return become_ready(machine, now_ms);
        case MPS_EVENT_EMPTY:
                if (machine->phase != MPS_PHASE_SERVER_FAULT)
                        return machine_ignore();
                machine->phase = MPS_PHASE_SERVER_EMPTY;
                return machine_act(MPS_DO_NOTHING, MPS_FAULT_EMPTY_MS);
        case MPS_EVENT_TIMEOUT:
                if (machine->phase == MPS_PHASE_SERVER_SHUT)
                        return fail_and_kill(machine, now_ms);
                machine->phase = MPS_PHASE_SERVER_SHUT;
                return machine_act(MPS_DO_SHUT_SERVER, MPS_QUIT_TIMEOUT_MS);
        case MPS_EVENT_EXITED:
                return machine_fail(machine, now_ms);
        case MPS_EVENT_SILENT:
        case MPS_EVENT_LOST:
                return fail_and_kill(machine, now_ms);
        case MPS_EVENT_UNWANTED:
        case MPS_EVENT_CHANGED:
                return machine_drain(machine);
        default:
                return machine_ignore();
        }
}

static struct mps_action step_fault(struct mps_machine *machine, enum mps_event event, int64_t now_ms)
{
        switch (machine->phase) {
        case MPS_PHASE_PLAIN:
                return machine_step_waiting(machine, event);
        case MPS_PHASE_KILLING:
                return step_killing(machine, event);
        default:
                return step_server_fault(machine, event, now_ms);
        }
}

struct mps_action mps_step(struct mps_machine *machine, enum mps_event event, int64_t now_ms)
{
        if (event == MPS_EVENT_WANTED || event == MPS_EVENT_CHANGED)
                machine->wanted = true;
        if (event == MPS_EVENT_UNWANTED)
                machine->wanted = false;
        switch (machine->state) {
        case MPS_OFF:
                return step_off(machine, event);
        case MPS_STARTING:
                return step_starting(machine, event, now_ms);
        case MPS_CONFIGURING:
                return step_configuring(machine, event, now_ms);
        case MPS_READY:
                return step_ready(machine, event, now_ms);
        case MPS_DRAINING:
                return step_draining(machine, event);
        case MPS_FAULT:
                return step_fault(machine, event, now_ms);
        }
        assert(false);
        return machine_ignore();
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
