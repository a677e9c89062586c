/*
 * Checks whether a serving daemon still has the settings that it was given. With 535 every user may change its
 * defaults, and the user of a server may change that server's settings. A setting that differs is set again and read
 * again, while the daemon serves. Clients that connected meanwhile keep what they got; the limit monitor handles those.
 *
 * What a server reports about itself was never seen on hardware, so the check is tolerant: a rounded value is accepted,
 * and a server that does not take the setting is left alone.
 */
#include "mps/supervisor/daemon_parts.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "mps/control/dialogue.h"
#include "mps/control/dialogue_v3.h"

#define ROUNDING_PERMILLE 10U

/* One setting, with the commands that read and set it: a line, or arguments of the v3 interface. */
struct check {
        const char *get;
        const char *set;
        const char *const *get_arguments;
        const char *const *set_arguments;
        bool is_threads;
        uint64_t expected; /* permille, MiB */
        pid_t server;      /* 0: the daemon's default */
        const char *what;
};

struct verify {
        struct arena arena;
        struct mps_run *run;
        struct check *checks;
        size_t count;
        size_t at;
        char difference[256]; /* of the setting that is being restored; "": none is */
};

void run_stop_verifying(struct mps_run *run)
{
        struct verify *verify = TAKE_PTR(run->verify);

        if (verify) {
                struct arena arena = verify->arena;

                arena_done(&arena);
        }
}

/* ---- the checks ---- */

static char *percentage(struct arena *arena, unsigned int permille)
{
        return arena_printf(arena, "%u.%u", permille / 10, permille % 10);
}

static void add_threads(struct verify *verify, pid_t server)
{
        struct arena *arena = &verify->arena;
        const unsigned int permille = verify->run->started.threads_permille;
        char *number = percentage(arena, permille);
        struct check *check = &verify->checks[verify->count++];

        *check = (struct check){.is_threads = true, .expected = permille, .server = server};
        if (server) {
                check->get = arena_printf(arena, "get_active_thread_percentage %d", (int)server);
                check->set = arena_printf(arena, "set_active_thread_percentage %d %s", (int)server, number);
                check->what = arena_printf(arena, "active thread percentage of its server %d", (int)server);
        } else {
                check->get = "get_default_active_thread_percentage";
                check->set = arena_printf(arena, "set_default_active_thread_percentage %s", number);
                check->what = "default active thread percentage";
        }
}

static void add_limit(struct verify *verify, size_t ordinal, pid_t server)
{
        struct arena *arena = &verify->arena;
        const struct mps_unit *unit = &verify->run->started.units[ordinal];
        const unsigned long long mib = unit->limit_mib;
        struct check *check = &verify->checks[verify->count++];

        *check = (struct check){.expected = unit->limit_mib, .server = server};
        if (server) {
                check->get = arena_printf(arena, "get_device_pinned_mem_limit %d %zu", (int)server, ordinal);
                check->set = arena_printf(arena, "set_device_pinned_mem_limit %d %zu %lluM", (int)server, ordinal, mib);
                check->what = arena_printf(arena, "memory limit of its server %d on %s", (int)server, unit->uuid);
        } else {
                check->get = arena_printf(arena, "get_default_device_pinned_mem_limit %zu", ordinal);
                check->set = arena_printf(arena, "set_default_device_pinned_mem_limit %zu %lluM", ordinal, mib);
                check->what = arena_printf(arena, "default memory limit of %s", unit->uuid);
        }
}

static void add_v3(struct verify *verify)
{
        struct arena *arena = &verify->arena;
        const struct mps_daemon_wanted *settings = &verify->run->started;
        const uint64_t mib = settings->units[0].limit_mib;
        const char *server = dialogue_v3_own_server(arena, geteuid());
        const char *const *set = dialogue_v3_server_set(arena, server, settings->threads_permille, mib);

        verify->checks[verify->count++] = (struct check){
                .is_threads = true,
                .expected = settings->threads_permille,
                .get_arguments = dialogue_v3_namespace_get(arena, server, "default", DIALOGUE_V3_THREADS),
                .set_arguments = set,
                .what = arena_printf(arena, "active thread percentage of its server %s", server),
        };
        if (mib)
                verify->checks[verify->count++] = (struct check){
                        .expected = mib,
                        .get_arguments = dialogue_v3_namespace_get(arena, server, "default", DIALOGUE_V3_LIMIT),
                        .set_arguments = set,
                        .what = arena_printf(arena, "memory limit of its server %s", server),
                };
}

/* Partitions do not use the percentage, and it is not known what their servers report. */
static void add_servers(struct verify *verify)
{
        const struct mps_run *run = verify->run;

        for (size_t i = 0; run->seen && !(run->options & MPS_CAN_PARTITION) && i < run->seen->n_servers; i++) {
                const struct mps_server *server = &run->seen->servers[i];

                if (server->pid == run->unresponsive_server ||
                        (server->status && strcmp(server->status, "ACTIVE") != 0))
                        continue;
                add_threads(verify, server->pid);
                for (size_t j = 0; j < run->started.n_units; j++)
                        add_limit(verify, j, server->pid);
        }
}

/* ---- judging the answers ---- */

enum verdict { IS_SAME, IS_OTHER, IS_UNCLEAR };

static enum verdict differs(const struct check *check, struct error *err, const char *format, ...) PRINTF_LIKE(3, 4);
static enum verdict differs(const struct check *check, struct error *err, const char *format, ...)
{
        char found[64];
        va_list args;

        va_start(args, format);
        vsnprintf(found, sizeof(found), format, args);
        va_end(args);
        if (check->is_threads)
                error_raise(err, ERROR_INVALID, "%s: %s instead of %" PRIu64 ".%" PRIu64 " %%", check->what, found,
                        check->expected / 10, check->expected % 10);
        else
                error_raise(
                        err, ERROR_INVALID, "%s: %s instead of %" PRIu64 " MiB", check->what, found, check->expected);
        return IS_OTHER;
}

static enum verdict judge_threads(const struct check *check, const char *answer, struct error *err)
{
        const unsigned int slack = check->server ? ROUNDING_PERMILLE : 0;
        unsigned int permille;

        if (dialogue_read_percentage(answer, &permille, err) < 0)
                return IS_UNCLEAR;
        if (permille + slack >= check->expected && permille <= check->expected + slack)
                return IS_SAME;
        return differs(check, err, "%u.%u", permille / 10, permille % 10);
}

static enum verdict judge_limit(const struct check *check, const char *answer, struct error *err)
{
        uint64_t mib;

        if (dialogue_read_limit(answer, &mib, err) < 0)
                return IS_UNCLEAR;
        if (mib == dialogue_limit_shown(check->expected))
                return IS_SAME;
        return differs(check, err, "%" PRIu64, mib);
}

static enum verdict daemon_verify_judge(const struct check *check, const char *answer, struct error *err)
{
        int rc;

        if (check->get_arguments) {
                rc = check->is_threads ? dialogue_v3_check_threads(answer, (unsigned int)check->expected, err)
                                       : dialogue_v3_check_limit(answer, check->expected, err);
                return rc == 0 ? IS_SAME : IS_OTHER;
        }
        if (check->server && dialogue_is_not_found(answer))
                return IS_UNCLEAR;
        return check->is_threads ? judge_threads(check, answer, err) : judge_limit(check, answer, err);
}

/* ---- the questions ---- */

static void on_get(const struct error *err, const char *answer, void *data);
static void on_daemon_verify_set(const struct error *err, const char *answer, void *data);

static void daemon_verify_ask(struct verify *verify, bool sets)
{
        const struct check *check = &verify->checks[verify->at];
        struct mps_control *control = verify->run->control;
        mps_answer_fn *done = sets ? on_daemon_verify_set : on_get;

        if (check->get_arguments)
                mps_control_run(control, sets ? check->set_arguments : check->get_arguments, done, verify->run);
        else
                mps_control_ask(control, sets ? check->set : check->get, done, verify->run);
}

static void go_on(struct verify *verify)
{
        struct mps_run *run = verify->run;

        verify->difference[0] = '\0';
        if (++verify->at < verify->count) {
                daemon_verify_ask(verify, false);
                return;
        }
        run_stop_verifying(run);
        if (run_is_v3(run))
                run_verify_namespaces(run);
}

/*
 * From 1 GiB on the daemon shows a rounded limit, which hides a small change. So such a limit is set again without a
 * report.
 */
static bool is_blurred(const struct check *check)
{
        return !check->is_threads && !check->get_arguments && dialogue_limit_shown(check->expected) != check->expected;
}

static void on_daemon_verify_set(const struct error *err, const char *answer UNUSED, void *data)
{
        struct mps_run *run = data;
        struct verify *verify = run->verify;

        if (err)
                run_stop_verifying(run);
        else if (verify->difference[0])
                daemon_verify_ask(verify, false);
        else
                go_on(verify);
}

void run_note_drift(struct mps_run *run, const char *difference, bool is_repaired)
{
        run->repairs += is_repaired;
        run_set_text(&run->drift,
                xasprintf("its settings were changed from outside (configuration drift): %s; %s", difference,
                        is_repaired ? "they were restored, except for clients that connected meanwhile"
                                    : "they cannot be restored"));
        run->drift_polls = RUN_DRIFT_POLLS;
        run_notify(run, false);
}

static void on_other(struct verify *verify, const struct check *check, const struct error *difference)
{
        struct mps_run *run = verify->run;

        if (!verify->difference[0]) {
                snprintf(verify->difference, sizeof(verify->difference), "%.250s", difference->text);
                daemon_verify_ask(verify, true);
        } else if (check->server) {
                log_info("an MPS server does not take its settings, and is left as it is", LOG_STR("name", run->name),
                        LOG_INT("server", check->server), LOG_ERR(difference));
                run->unresponsive_server = check->server;
                go_on(verify);
        } else {
                run_stop_verifying(run);
                run_report(run, MPS_EVENT_REFUSED, "%s", difference->text);
        }
}

/* Without an answer, the next poll finds out what is wrong. */
static void on_get(const struct error *err, const char *answer, void *data)
{
        struct mps_run *run = data;
        struct verify *verify = run->verify;
        const struct check *check = &verify->checks[verify->at];
        struct error difference;
        enum verdict verdict;

        if (err || run->machine.state != MPS_READY) {
                run_stop_verifying(run);
                return;
        }
        verdict = daemon_verify_judge(check, answer, &difference);
        if (verdict == IS_OTHER) {
                on_other(verify, check, &difference);
                return;
        }
        if (verdict == IS_SAME && verify->difference[0]) {
                run_note_drift(run, verify->difference, true);
                go_on(verify);
        } else if (verdict == IS_SAME && is_blurred(check)) {
                daemon_verify_ask(verify, true);
        } else {
                go_on(verify);
        }
}

void run_verify(struct mps_run *run)
{
        struct arena arena = ARENA_INIT;
        const struct mps_daemon_wanted *settings = &run->started;
        const size_t servers = run->seen ? run->seen->n_servers : 0;
        struct verify *verify;

        if (run->verify || run->namespaces || run->machine.state != MPS_READY || !run->control)
                return;
        verify = ARENA_NEW(&arena, struct verify);
        verify->checks = ARENA_ARRAY(&arena, struct check, (settings->n_units + 1) * (servers + 1) + 1);
        verify->arena = arena;
        verify->run = run;
        run->verify = verify;
        if (run_is_v3(run)) {
                add_v3(verify);
        } else {
                add_threads(verify, 0);
                for (size_t i = 0; i < settings->n_units; i++)
                        add_limit(verify, i, 0);
                add_servers(verify);
        }
        daemon_verify_ask(verify, false);
}
