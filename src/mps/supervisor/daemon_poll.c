/* Polls a daemon: whether it answers at all, and, while it serves, its servers and clients. */
#include "mps/supervisor/daemon_parts.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "mps/control/dialogue_v3.h"
#include "mps/supervisor/identity.h"

#define FIRST_ASK_MS UINT64_C(5)
#define LAST_ASK_MS UINT64_C(500)
#define FLOOD_MS INT64_C(60000) /* a log that must be cut twice within this time is being flooded */
#define POLLS_BETWEEN_VERIFICATIONS 5U
#define MISSES 3U /* of MPS_COMMAND_TIMEOUT_MS each, then the daemon hangs */
#define FAILURES                                                                                                       \
        2U /* in a row; a daemon that is being killed can break off an answer shortly before its process is gone */

static void on_poll_turn(uv_timer_t *turn);

/*
 * True if it was reported. Containers have mounted the directory itself, so a new one of the same name does not reach
 * them.
 */
static bool is_lost(struct mps_run *run)
{
        if (mps_folder_is_same(&run->folder))
                return false;
        run_report(run, MPS_EVENT_LOST,
                "its pipe directory '%s' was removed or replaced, and is created again; containers that were started "
                "before have the old one mounted and must be restarted",
                run->folder.pipe);
        return true;
}

/* True if it was reported. Clients and the supervisor would connect to a process of somebody else. */
static bool is_changed(struct mps_run *run)
{
        const char *door = mps_folder_changed_door(&run->folder);

        if (door)
                run_report(run, MPS_EVENT_LOST, "'%s/%s' is not what its control daemon created: it was replaced",
                        run->folder.pipe, door);
        return door != NULL;
}

bool run_is_silent(struct mps_run *run, const struct error *err)
{
        if (err->kind == ERROR_EXHAUSTED) { /* nobody was asked: what this process lacks says nothing of the daemon */
                log_warn("MPS daemon cannot be asked, will try again", LOG_STR("name", run->name), LOG_ERR(err));
                return true;
        }
        if (run->closed_peers) /* the daemon works: connections blocked it, one after the other */
                return true;
        if (run->launch && identity_has_ended(mps_launch_pid(run->launch), mps_launch_start_time(run->launch)))
                return false;
        if (is_lost(run))
                return false;
        if (++run->misses < (err->kind == ERROR_TIMEOUT ? MISSES : FAILURES)) {
                log_warn("MPS daemon", LOG_STR("name", run->name), LOG_UINT("missed", run->misses), LOG_ERR(err));
                return true;
        }
        run_report(run, MPS_EVENT_SILENT, "%s", err->text);
        return false;
}

void run_poll_again(struct mps_run *run, uint64_t ms)
{
        if (!run->is_closing)
                uv_timer_start(&run->turn, on_poll_turn, ms, 0);
}

bool run_is_looking(const struct mps_run *run)
{
        const struct mps_machine *machine = &run->machine;

        return machine->state == MPS_READY || mps_machine_is_server_fault(machine) ||
               (machine->state == MPS_DRAINING && machine->phase == MPS_PHASE_PLAIN);
}

void run_on_log(void *data)
{
        struct mps_run *run = data;
        const int64_t now = (int64_t)uv_now(run->context->loop);

        if (!mps_folder_trim_log(&run->folder))
                return;
        if (run->trimmed_at && now - run->trimmed_at < FLOOD_MS) {
                run_set_text(&run->drift,
                        xstrdup("its log is flooded and is truncated again and again: some process queries its "
                                "control socket without pause"));
                run->drift_polls = RUN_DRIFT_POLLS;
        }
        run->trimmed_at = MAX(now, 1);
}

/* A unit that it was started without, and that is wanted now. */
static const char *find_lacking(const struct mps_run *run)
{
        return run->machine.wanted ? mps_daemon_lacks(&run->started, &run->wanted) : NULL;
}

void run_note_unread(struct mps_run *run, const struct dialogue_unread *unread)
{
        if (!unread->count || run->has_noted_unread)
                return;
        run->has_noted_unread = true;
        log_warn(
                "lines of an MPS daemon's lists cannot be read: what they say counts as unknown, known clients as there",
                LOG_STR("name", run->name), LOG_INT("lines", (int64_t)unread->count), LOG_STR("first", unread->first));
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

/* What the partitions lack of one of its units, as it is wanted now; or NULL. */
static char *find_scarcity(const struct mps_run *run)
{
        char *found = NULL;

        for (size_t i = 0; !found && i < MIN(run->n_chunks, run->started.n_units); i++) {
                const struct mps_unit *started = &run->started.units[i];
                const struct mps_unit *wanted =
                        run->machine.wanted ? mps_daemon_unit(&run->wanted, started->uuid) : NULL;

                found = scarcity_of(wanted ? wanted : started, run->chunks[i]);
        }
        return found;
}

/* Problems to report although the daemon serves. True: it is another one than before, or none any more. */
static bool note_observation(struct mps_run *run)
{
        const unsigned int most = run_most_clients(run);
        const char *lacking = find_lacking(run);
        char *notice = NULL;
        bool is_new;

        if (most && run->started.n_units == 1 && run->seen->n_clients >= most)
                notice = xasprintf("it has %zu clients, the most that its GPU takes: further ones are refused with "
                                   "CUDA error 808 until one ends",
                        run->seen->n_clients);
        else if (run->seen->waiting)
                notice = xstrdup(run->seen->waiting);
        else if (run->drift)
                notice = xstrdup(run->drift);
        else if (lacking && run->machine.state == MPS_READY && run->seen->n_clients)
                notice = xasprintf(
                        "it was started while %s could not be used, and takes it in when it has no clients", lacking);
        else
                notice = find_scarcity(run);
        if (run->drift && run->drift_polls-- == 0)
                run_set_text(&run->drift, NULL);
        is_new = !text_is_same(notice, run->notice);
        if (notice && is_new)
                log_warn("MPS daemon", LOG_STR("name", run->name), LOG_STR("notice", notice));
        run_set_text(&run->notice, notice);
        return is_new;
}

/* The same. */
static bool note_draining(struct mps_run *run)
{
        char *reason = xasprintf("it waits for its %zu clients to end, then it %s", run->seen->n_clients,
                run->machine.wanted ? "restarts with other settings" : "ends");
        const bool is_new = !text_is_same(reason, run->reason);

        run_set_text(&run->reason, reason);
        return is_new;
}

static void judge_observation(struct mps_run *run)
{
        const struct mps_observation *seen = run->seen;
        const bool is_empty = !mps_run_has_clients(run);

        if (is_empty && run->machine.state == MPS_READY && find_lacking(run))
                run_report(run, MPS_EVENT_CHANGED, "it takes in %s", find_lacking(run));
        if (is_empty)
                run_report(run, MPS_EVENT_EMPTY, NULL);
        if (!run_is_looking(run))
                return;
        if (seen->has_fault)
                run_report(run, MPS_EVENT_SERVER_FAULT,
                        "its server is in FAULT: a client made a fatal GPU error, so every client of this GPU has to "
                        "end; it recovers when the last of %zu has ended",
                        seen->n_clients);
        else
                run_report(run, MPS_EVENT_SERVER_ACTIVE, NULL);
}

void mps_run_look(struct mps_run *run)
{
        if (run->seen && mps_observation_drop_ended(run->seen, run->context->system_root))
                run_notify(run, false);
}

static void on_polled(struct mps_observation *observation, const struct error *err, void *data)
{
        struct mps_run *run = data;
        bool is_new;

        run->poll = NULL;
        if (!observation) {
                if (run_is_silent(run, err))
                        run_poll_again(run, 0);
                return;
        }
        run->misses = 0;
        run_note_unread(run, &observation->unread);
        mps_journal_explain(run->journal, observation, run->started.units, run->started.n_units);
        is_new = !mps_observation_is_same(observation, run->seen);
        mps_observation_free(run->seen);
        run->seen = observation;
        is_new |= note_observation(run);
        if (run->machine.state == MPS_DRAINING)
                is_new |= note_draining(run);
        run->polls++;
        judge_observation(run);
        if (run->polls % POLLS_BETWEEN_VERIFICATIONS == 0)
                run_verify(run);
        if (is_new)
                run_notify(run, false);
        if (run_is_looking(run) && !run->poll)
                run_poll_again(run, mps_run_pause(run->context));
}

static void run_poll(struct mps_run *run)
{
        const struct mps_poll_options options = {
                .control = run->control,
                .daemon = run->launch ? mps_launch_pid(run->launch) : 0,
                .daemon_start = run->launch ? mps_launch_start_time(run->launch) : 0,
                .can = run->can,
                .is_v3 = run_is_v3(run),
                .asks_singly = run->misses > 0,
                .reads_again = run->polls % POLLS_BETWEEN_VERIFICATIONS == 0,
                .known = run->seen,
                .unit = run->started.n_units == 1 ? run->started.units[0].uuid : NULL,
                .system_root = run->context->system_root,
                .environments = run->context->environments,
                .done = on_polled,
                .data = run,
        };

        if (is_lost(run) || is_changed(run))
                return;
        if (!run->poll)
                run->poll = mps_poll_start(&options);
}

/* ---- the first answer ---- */

/* A daemon that was started with the v3 interface but answers without it does not count as answering. */
static bool is_answer(const struct mps_run *run, const char *answer)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dialogue_unread unread = {0};
        struct dialogue_v3_server *servers;
        size_t count;

        if (!run_is_v3(run))
                return true;
        dialogue_v3_read_servers(answer, &arena, &servers, &count, &unread);
        return count || !unread.count;
}

static void on_first_answer(const struct error *err, const char *answer, void *data)
{
        struct mps_run *run = data;

        if (!err && is_answer(run, answer)) {
                mps_folder_note_doors(&run->folder, mps_launch_pid(run->launch));
                run_report(run, MPS_EVENT_ANSWERED, NULL);
                return;
        }
        run_poll_again(run, run->ask_ms);
        run->ask_ms = MIN(run->ask_ms * 2, LAST_ASK_MS);
}

static void ask_for_first_answer(struct mps_run *run)
{
        if (run_is_v3(run))
                mps_control_run(run->control, DIALOGUE_V3_SERVER_LIST, on_first_answer, run);
        else
                mps_control_ask(run->control, "get_default_active_thread_percentage", on_first_answer, run);
}

void run_ask_until_it_answers(struct mps_run *run)
{
        run->ask_ms = FIRST_ASK_MS;
        run_poll_again(run, FIRST_ASK_MS);
}

void run_wait(struct mps_run *run, uint64_t ms)
{
        run_poll_again(run, ms);
}

void run_wait_for_units(struct mps_run *run, const char *blocker)
{
        uv_timer_stop(&run->deadline);
        run_set_text(&run->reason,
                xasprintf("it waits for the daemon '%s' to end, which still serves one of its units", blocker));
        run_notify(run, false);
}

static void on_poll_turn(uv_timer_t *turn)
{
        struct mps_run *run = turn->data;

        if (run->prepare)
                run_prepare_is_late(run);
        else if (run->machine.state == MPS_STARTING && run->control)
                ask_for_first_answer(run);
        else if (run_is_looking(run) && run->control)
                run_poll(run);
}
