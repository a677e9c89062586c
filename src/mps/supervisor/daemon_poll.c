/* Polls a daemon: whether it answers at all, and, while it serves, its servers and clients. */
#include "mps/supervisor/daemon_state.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "mps/control/dialogue_v3.h"
#include "mps/supervisor/process.h"

#define FIRST_ASK_MS UINT64_C(5)
#define LAST_ASK_MS UINT64_C(500)
#define POLLS_BETWEEN_VERIFICATIONS 5U
#define MISSES 3U /* of MPS_COMMAND_TIMEOUT_MS each, then the daemon hangs */
#define FAILURES                                                                                                       \
        2U /* in a row; a daemon that is being killed can break off an answer shortly before its process is gone */

static void on_poll_turn(uv_timer_t *turn);

/*
 * True if it was reported. Containers have mounted the directory itself, so a new one of the same name does not reach
 * them.
 */
static bool daemon_poll_is_lost(struct mps_daemon *daemon)
{
        if (mps_folder_is_same(&daemon->folder))
                return false;
        daemon_report(daemon, MPS_EVENT_LOST,
                "its pipe directory '%s' was removed or replaced, and is created again; containers that were started "
                "before have the old one mounted and must be restarted",
                daemon->folder.pipe);
        return true;
}

/*
 * Reports a socket or lock file that the daemon has not created, since clients and the supervisor would connect to
 * another process; true if there is one.
 */
static bool is_changed(struct mps_daemon *daemon)
{
        const char *door = mps_folder_changed_door(&daemon->folder);

        if (door)
                daemon_report(daemon, MPS_EVENT_LOST, "'%s/%s' is not what its control daemon created: it was replaced",
                        daemon->folder.pipe, door);
        return door != NULL;
}

bool daemon_is_silent(struct mps_daemon *daemon, const struct error *err)
{
        if (err->kind == ERROR_EXHAUSTED) { /* the daemon was not asked: this process lacked a resource */
                log_warn("MPS daemon cannot be asked, will try again", LOG_STR("name", daemon->name), LOG_ERR(err));
                return true;
        }
        if (mps_peers_are_blocking(&daemon->peers)) /* the daemon works: connections blocked it, one after the other */
                return true;
        if (daemon->process.launch && process_has_ended(mps_launch_pid(daemon->process.launch),
                                              mps_launch_start_time(daemon->process.launch)))
                return false;
        if (daemon_poll_is_lost(daemon))
                return false;
        if (++daemon->polls.misses < (err->kind == ERROR_TIMEOUT ? MISSES : FAILURES)) {
                log_warn("MPS daemon", LOG_STR("name", daemon->name), LOG_UINT("missed", daemon->polls.misses),
                        LOG_ERR(err));
                return true;
        }
        daemon_report(daemon, MPS_EVENT_SILENT, "%s", err->text);
        return false;
}

void daemon_poll_again(struct mps_daemon *daemon, uint64_t ms)
{
        if (!daemon->end.is_closing)
                uv_timer_start(&daemon->turn, on_poll_turn, ms, 0);
}

bool daemon_is_looking(const struct mps_daemon *daemon)
{
        const struct mps_machine *machine = &daemon->machine;

        return machine->state == MPS_READY || mps_machine_is_server_fault(machine) ||
               (machine->state == MPS_DRAINING && machine->phase == MPS_PHASE_PLAIN);
}

/* A unit that it was started without, and that is wanted now. */
static const char *find_lacking(const struct mps_daemon *daemon)
{
        return daemon->machine.wanted ? mps_daemon_lacks(&daemon->started.value, &daemon->wanted.value) : NULL;
}

void daemon_note_unread(struct mps_daemon *daemon, const struct dialogue_unread *unread)
{
        if (!unread->count || daemon->polls.has_noted_unread)
                return;
        daemon->polls.has_noted_unread = true;
        log_warn("lines of an MPS daemon's lists cannot be read: what they say counts as unknown, known clients as "
                 "there",
                LOG_STR("name", daemon->name), LOG_INT("lines", (int64_t)unread->count),
                LOG_STR("first", unread->first));
}

static char *scarcity_of(const struct mps_unit *unit, unsigned int chunks)
{
        if (!chunks || !unit->chunks_needed)
                return NULL;
        if (chunks < unit->chunks_needed)
                return xasprintf(
                        "%s has %u chunks of SMs, and its partitions need %u together, so the last are refused: "
                        "lower replicas or sms",
                        unit->uuid, chunks, unit->chunks_needed);
        if (unit->chunk_sms && chunks > unit->sms / unit->chunk_sms)
                return xasprintf(
                        "%s has %u chunks of its %u SMs, which are smaller than the %u SMs that were expected: "
                        "partitions have fewer SMs than their shares",
                        unit->uuid, chunks, unit->sms, unit->chunk_sms);
        return NULL;
}

/* Describes what a unit lacks for the partitions that are wanted now; NULL: nothing is lacking. */
static char *find_scarcity(const struct mps_daemon *daemon)
{
        char *found = NULL;

        for (size_t i = 0; !found && i < MIN(daemon->checks.n_chunks, daemon->started.value.n_units); i++) {
                const struct mps_unit *started = &daemon->started.value.units[i];
                const struct mps_unit *wanted =
                        daemon->machine.wanted ? mps_daemon_unit(&daemon->wanted.value, started->uuid) : NULL;

                found = scarcity_of(wanted ? wanted : started, daemon->checks.chunks[i]);
        }
        return found;
}

/* Problems to report although the daemon serves. True: it is another one than before, or none any more. */
static bool note_observation(struct mps_daemon *daemon)
{
        const unsigned int most = daemon_most_clients(daemon);
        const char *lacking = find_lacking(daemon);
        char *notice = NULL;
        bool is_new;

        if (most && daemon->started.value.n_units == 1 && daemon->polls.seen->n_clients >= most)
                notice = xasprintf("it has %zu clients, the most that its GPU takes: further ones are refused with "
                                   "CUDA error 808 until one ends",
                        daemon->polls.seen->n_clients);
        else if (daemon->polls.seen->waiting)
                notice = xstrdup(daemon->polls.seen->waiting);
        else if (daemon->notes.drift)
                notice = xstrdup(daemon->notes.drift);
        else if (lacking && daemon->machine.state == MPS_READY && daemon->polls.seen->n_clients)
                notice = xasprintf(
                        "it was started while %s could not be used, and takes it in when it has no clients", lacking);
        else
                notice = find_scarcity(daemon);
        if (daemon->notes.drift && daemon->notes.drift_polls-- == 0)
                daemon_set_text(&daemon->notes.drift, NULL);
        is_new = !text_is_same(notice, daemon->notes.notice);
        if (notice && is_new)
                log_warn("MPS daemon", LOG_STR("name", daemon->name), LOG_STR("notice", notice));
        daemon_set_text(&daemon->notes.notice, notice);
        return is_new;
}

/* Renews the reason of a daemon that waits for its clients. True: it has changed. */
static bool note_draining(struct mps_daemon *daemon)
{
        char *reason = xasprintf("it waits for its %zu clients to end, then it %s", daemon->polls.seen->n_clients,
                daemon->machine.wanted ? "restarts with other settings" : "ends");
        const bool is_new = !text_is_same(reason, daemon->notes.reason);

        daemon_set_text(&daemon->notes.reason, reason);
        return is_new;
}

static void act_on_observation(struct mps_daemon *daemon)
{
        const struct mps_observation *seen = daemon->polls.seen;
        const bool is_empty = !mps_daemon_has_clients(daemon);

        if (is_empty && daemon->machine.state == MPS_READY && find_lacking(daemon))
                daemon_report(daemon, MPS_EVENT_CHANGED, "it takes in %s", find_lacking(daemon));
        if (is_empty)
                daemon_report(daemon, MPS_EVENT_EMPTY, NULL);
        if (!daemon_is_looking(daemon))
                return;
        if (seen->has_fault)
                daemon_report(daemon, MPS_EVENT_SERVER_FAULT,
                        "its server is in FAULT: a client made a fatal GPU error, so every client of this GPU has to "
                        "end; it recovers when the last of %zu has ended",
                        seen->n_clients);
        else
                daemon_report(daemon, MPS_EVENT_SERVER_ACTIVE, NULL);
}

void mps_daemon_look(struct mps_daemon *daemon)
{
        if (daemon->polls.seen && mps_observation_drop_ended(daemon->polls.seen, daemon->context->options->system_root))
                daemon_notify(daemon, false);
}

static void daemon_poll_on_polled(struct mps_observation *observation, const struct error *err, void *data)
{
        struct mps_daemon *daemon = data;
        bool is_new;

        daemon->polls.current = NULL;
        if (!observation) {
                if (daemon_is_silent(daemon, err))
                        daemon_poll_again(daemon, 0);
                return;
        }
        daemon->polls.misses = 0;
        daemon_note_unread(daemon, &observation->unread);
        mps_journal_explain(
                daemon->polls.journal, observation, daemon->started.value.units, daemon->started.value.n_units);
        is_new = !mps_observation_is_same(observation, daemon->polls.seen);
        mps_observation_free(daemon->polls.seen);
        daemon->polls.seen = observation;
        is_new |= note_observation(daemon);
        if (daemon->machine.state == MPS_DRAINING)
                is_new |= note_draining(daemon);
        daemon->polls.count++;
        act_on_observation(daemon);
        if (daemon->polls.count % POLLS_BETWEEN_VERIFICATIONS == 0)
                daemon_verify(daemon);
        if (is_new)
                daemon_notify(daemon, false);
        if (daemon_is_looking(daemon) && !daemon->polls.current)
                daemon_poll_again(daemon, mps_daemon_pause(daemon->context));
}

static void daemon_poll(struct mps_daemon *daemon)
{
        const struct mps_poll_options options = {
                .control = daemon->fronts.control,
                .daemon = daemon->process.launch ? mps_launch_pid(daemon->process.launch) : 0,
                .daemon_start = daemon->process.launch ? mps_launch_start_time(daemon->process.launch) : 0,
                .can = daemon->process.can,
                .is_v3 = daemon_is_v3(daemon),
                .asks_singly = daemon->polls.misses > 0,
                .reads_again = daemon->polls.count % POLLS_BETWEEN_VERIFICATIONS == 0,
                .known = daemon->polls.seen,
                .unit = daemon->started.value.n_units == 1 ? daemon->started.value.units[0].uuid : NULL,
                .system_root = daemon->context->options->system_root,
                .environments = daemon->context->environments,
                .done = daemon_poll_on_polled,
                .data = daemon,
        };

        if (daemon_poll_is_lost(daemon) || is_changed(daemon))
                return;
        if (!daemon->polls.current)
                daemon->polls.current = mps_poll_start(&options);
}

/* ---- the first answer ---- */

/* A daemon that was started with the v3 interface but answers without it does not count as answering. */
static bool is_answer(const struct mps_daemon *daemon, const char *answer)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dialogue_unread unread = {0};
        struct dialogue_v3_server *servers;
        size_t count;

        if (!daemon_is_v3(daemon))
                return true;
        dialogue_v3_read_servers(answer, &arena, &servers, &count, &unread);
        return count || !unread.count;
}

static void on_first_answer(const struct error *err, const char *answer, void *data)
{
        struct mps_daemon *daemon = data;

        if (!err && is_answer(daemon, answer)) {
                mps_folder_note_doors(&daemon->folder, mps_launch_pid(daemon->process.launch));
                daemon_report(daemon, MPS_EVENT_ANSWERED, NULL);
                return;
        }
        daemon_poll_again(daemon, daemon->polls.ask_ms);
        daemon->polls.ask_ms = MIN(daemon->polls.ask_ms * 2, LAST_ASK_MS);
}

static void ask_for_first_answer(struct mps_daemon *daemon)
{
        if (daemon_is_v3(daemon))
                mps_control_run(daemon->fronts.control, DIALOGUE_V3_SERVER_LIST, on_first_answer, daemon);
        else
                mps_control_ask(
                        daemon->fronts.control, "get_default_active_thread_percentage", on_first_answer, daemon);
}

void daemon_ask_until_it_answers(struct mps_daemon *daemon)
{
        daemon->polls.ask_ms = FIRST_ASK_MS;
        daemon_poll_again(daemon, FIRST_ASK_MS);
}

void daemon_wait_for_units(struct mps_daemon *daemon, const char *blocker)
{
        uv_timer_stop(&daemon->deadline);
        daemon_set_text(&daemon->notes.reason,
                xasprintf("it waits for the daemon '%s' to end, which still serves one of its units", blocker));
        daemon_notify(daemon, false);
}

static void on_poll_turn(uv_timer_t *turn)
{
        struct mps_daemon *daemon = turn->data;

        if (daemon->prepare)
                daemon_prepare_is_late(daemon);
        else if (daemon->machine.state == MPS_STARTING && daemon->fronts.control)
                ask_for_first_answer(daemon);
        else if (daemon_is_looking(daemon) && daemon->fronts.control)
                daemon_poll(daemon);
}
