/*
 * Checks whether the namespaces of a serving daemon still have their limits (mps/control/namespace.h), since every
 * process that may send commands as the daemon's user can change them. One list shows them all. A limit that differs is
 * set again, and the list is read again. If the limit still differs, this is reported and the namespace is left as it
 * is, since the daemon serves others. A namespace that is missing was released meanwhile.
 */
#include "mps/supervisor/daemon_parts.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "mps/control/dialogue.h"
#include "mps/control/dialogue_v3.h"

struct namespaces {
        struct arena arena;
        struct mps_run *run;
        const char *server;
        struct mps_allocation_request *wanted;
        size_t count;
        size_t at;
        char difference[256]; /* of wanted[at], which is being restored; "": nothing is */
};

void run_stop_verifying_namespaces(struct mps_run *run)
{
        struct namespaces *namespaces = TAKE_PTR(run->namespaces);

        if (namespaces) {
                struct arena arena = namespaces->arena;

                arena_done(&arena);
        }
}

static const struct dialogue_v3_namespace *daemon_namespaces_find(const struct dialogue_v3_namespace *listed,
        size_t n_listed, const struct namespaces *namespaces, const struct mps_allocation_request *wanted)
{
        for (size_t i = 0; i < n_listed; i++)
                if (strcmp(listed[i].name, wanted->id) == 0 && strcmp(listed[i].server, namespaces->server) == 0)
                        return &listed[i];
        return NULL;
}

/* It is not known whether v3 shows limits exactly or rounded as older daemons do: see dialogue_v3_check_limit(). */
static bool is_other(
        const struct dialogue_v3_namespace *found, const struct mps_allocation_request *wanted, char *ret, size_t size)
{
        const uint64_t limit = wanted->limit_mib;
        const unsigned int permille = wanted->threads_permille ? dialogue_v3_threads_set(wanted->threads_permille) : 0;

        if (limit && found->limit_mib != limit && found->limit_mib != dialogue_limit_shown(limit))
                snprintf(ret, size, "memory limit of its namespace %s: %" PRIu64 " instead of %" PRIu64 " MiB",
                        wanted->id, found->limit_mib, limit);
        else if (permille && found->permille != permille)
                snprintf(ret, size, "active thread percentage of its namespace %s: %u.%u instead of %u.%u %%",
                        wanted->id, found->permille / 10, found->permille % 10, permille / 10, permille % 10);
        else
                return false;
        return true;
}

static void on_list(const struct error *err, const char *answer, void *data);

static void ask_for_list(struct namespaces *namespaces)
{
        mps_control_run(namespaces->run->control, dialogue_v3_namespace_list(&namespaces->arena, namespaces->server),
                on_list, namespaces->run);
}

/* A refusal does not stop the check: the next list shows the result. */
static void on_daemon_namespaces_set(const struct error *err, const char *answer UNUSED, void *data)
{
        struct mps_run *run = data;

        if (err && err->kind == ERROR_TIMEOUT)
                run_stop_verifying_namespaces(run);
        else
                ask_for_list(run->namespaces);
}

static void set_back(struct namespaces *namespaces)
{
        const struct mps_allocation_request *wanted = &namespaces->wanted[namespaces->at];

        mps_control_run(namespaces->run->control,
                dialogue_v3_namespace_set(&namespaces->arena, namespaces->server, wanted->id, wanted->threads_permille,
                        wanted->limit_mib),
                on_daemon_namespaces_set, namespaces->run);
}

/* Checks up to the first one that must be restored; true: none is left. */
static bool daemon_namespaces_judge(
        struct namespaces *namespaces, const struct dialogue_v3_namespace *listed, size_t n_listed)
{
        for (; namespaces->at < namespaces->count; namespaces->at++) {
                const struct mps_allocation_request *wanted = &namespaces->wanted[namespaces->at];
                const struct dialogue_v3_namespace *found =
                        daemon_namespaces_find(listed, n_listed, namespaces, wanted);
                bool was_set = namespaces->difference[0] != '\0';
                char difference[sizeof(namespaces->difference)];

                if (found && is_other(found, wanted, difference, sizeof(difference))) {
                        if (!was_set) {
                                memcpy(namespaces->difference, difference, sizeof(difference));
                                return false;
                        }
                        run_note_drift(namespaces->run, difference, false);
                } else if (found && was_set) {
                        run_note_drift(namespaces->run, namespaces->difference, true);
                }
                namespaces->difference[0] = '\0';
        }
        return true;
}

/* Without an answer, the next poll finds out what is wrong. */
static void on_list(const struct error *err, const char *answer, void *data)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct mps_run *run = data;
        struct dialogue_v3_namespace *listed;
        struct error unread;
        size_t n_listed;

        if (err || run->machine.state != MPS_READY) {
                run_stop_verifying_namespaces(run);
        } else if (dialogue_v3_read_namespaces(answer, &scratch, &listed, &n_listed, &unread) < 0) {
                log_debug("the limits of namespaces are not checked", LOG_STR("name", run->name), LOG_ERR(&unread));
                run_stop_verifying_namespaces(run);
        } else if (daemon_namespaces_judge(run->namespaces, listed, n_listed)) {
                run_stop_verifying_namespaces(run);
        } else {
                set_back(run->namespaces);
        }
}

void run_verify_namespaces(struct mps_run *run)
{
        struct arena arena = ARENA_INIT;
        struct mps_allocation_request *wanted;
        size_t count = run->context->namespaces(run, &arena, &wanted, run->context->data);
        struct namespaces *namespaces;

        if (count == 0) {
                arena_done(&arena);
                return;
        }
        namespaces = ARENA_NEW(&arena, struct namespaces);
        *namespaces = (struct namespaces){.arena = arena, .run = run, .wanted = wanted, .count = count};
        namespaces->server = dialogue_v3_own_server(&namespaces->arena, geteuid());
        run->namespaces = namespaces;
        ask_for_list(namespaces);
}
