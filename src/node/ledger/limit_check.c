// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/limit_monitor.h"

#include <inttypes.h>
#include <string.h>

#include "base/map.h"
#include "base/text.h"

#define MIB (UINT64_C(1) << 20)

/* A process has at most the violations of its two accounts, of thread and memory limit, of claim and variable. */
#define VIOLATIONS_PER_CLIENT 6

struct owned {
        const struct limit_monitor_allocation *allocation;
        const struct owned *next; /* of the same pod */
};

struct pod {
        const struct owned *allocations;
        bool is_guess; /* one of them */
};

struct account {
        enum { ACCOUNT_ALLOCATION, ACCOUNT_POD, ACCOUNT_STRANGER, ACCOUNT_NOBODY } kind;
        const char *key;
        const struct mps_daemon_status *daemon;
        const char *unit;                                  /* or NULL */
        const struct limit_monitor_allocation *allocation; /* ACCOUNT_ALLOCATION */
        bool is_by_claim;   /* nothing but the environment says that it is this allocation */
        uint64_t limit_mib; /* of all its allocations; 0: none */
        unsigned int threads_permille;
        bool is_by_variable;       /* of all its allocations: nothing but the container's variable lowers its threads */
        bool is_limited_elsewhere; /* not, or not only, by what the server allows every client */

        bool is_on_record;            /* ACCOUNT_NOBODY: kubelet's record has the pod, and no allocation of it here */
        bool is_guess;                /* what the pod was granted is not known for certain */
        int64_t seen;                 /* the newest of its processes, for the first time */
        bool is_mixed;                /* it has processes of several containers */
        const struct mps_client *top; /* the one with most memory */
        uint64_t memory;              /* bytes that are known */
        unsigned int n_clients;
};

struct check {
        struct arena *arena;
        const struct limit_monitor_facts *facts;
        struct map pods;     /* UID → struct pod * */
        struct map by_id;    /* of allocations → const struct limit_monitor_allocation * */
        struct map orphans;  /* UUIDs of units with allocations whose owner is not known */
        struct map accounts; /* key → struct account * */
        struct account **list;
        size_t n_accounts;
        struct limit_monitor_entries *found;
};

/* ---- the allocations ---- */

static void index_allocations(struct check *check)
{
        for (size_t i = 0; i < check->facts->n_allocations; i++) {
                const struct limit_monitor_allocation *allocation = &check->facts->allocations[i];
                struct owned *owned;
                struct pod *pod;

                map_add(&check->by_id, allocation->id, (void *)(uintptr_t)allocation);
                if (!allocation->pod_uid) {
                        map_add(&check->orphans, allocation->unit, check);
                        continue;
                }
                pod = map_find(&check->pods, allocation->pod_uid);
                if (!pod) {
                        pod = ARENA_NEW(check->arena, struct pod);
                        map_add(&check->pods, allocation->pod_uid, pod);
                }
                owned = ARENA_NEW(check->arena, struct owned);
                *owned = (struct owned){.allocation = allocation, .next = pod->allocations};
                pod->allocations = owned;
                pod->is_guess |= allocation->is_guess;
        }
}

static bool is_of_daemon(const struct mps_daemon_status *daemon, const char *uuid)
{
        for (size_t i = 0; i < daemon->n_units; i++)
                if (strcmp(daemon->units[i], uuid) == 0)
                        return true;
        return false;
}

/* |unit| NULL: the unit of a process is unknown, so each unit of the daemon may be the one. */
static bool limit_check_is_on(
        const struct limit_monitor_allocation *allocation, const struct mps_daemon_status *daemon, const char *unit)
{
        return unit ? strcmp(allocation->unit, unit) == 0 : is_of_daemon(daemon, allocation->unit);
}

static bool has_orphans(const struct check *check, const struct mps_daemon_status *daemon, const char *unit)
{
        if (unit)
                return map_find(&check->orphans, unit) != NULL;
        for (size_t i = 0; i < daemon->n_units; i++)
                if (map_find(&check->orphans, daemon->units[i]))
                        return true;
        return false;
}

static bool is_guess(const struct check *check, const char *uid)
{
        const struct pod *pod = uid ? map_find(&check->pods, uid) : NULL;

        return pod && pod->is_guess;
}

static const struct owned *allocations_of_pod(const struct check *check, const char *uid)
{
        const struct pod *pod = uid ? map_find(&check->pods, uid) : NULL;

        return pod ? pod->allocations : NULL;
}

/* ---- the account of a process ---- */

static struct account *get_account(struct check *check, const struct account *like, const char *what, const char *who)
{
        const char *key =
                arena_printf(check->arena, "%s|%s|%s|%s", what, like->daemon->name, like->unit ? like->unit : "", who);
        struct account *account = map_find(&check->accounts, key);

        if (account)
                return account;
        account = ARENA_NEW(check->arena, struct account);
        *account = *like;
        account->key = key;
        map_add(&check->accounts, key, account);
        check->list[check->n_accounts++] = account;
        return account;
}

static struct account *account_of_allocation(
        struct check *check, const struct account *like, const struct limit_monitor_allocation *allocation)
{
        struct account account = *like;

        account.kind = ACCOUNT_ALLOCATION;
        account.allocation = allocation;
        account.limit_mib = allocation->limit_mib;
        account.threads_permille = allocation->threads_permille;
        account.is_limited_elsewhere = allocation->tier != MPS_TIER_DEFAULT;
        account.is_by_variable = allocation->tier == MPS_TIER_VERIFIED;
        return get_account(check, &account, "grant", allocation->id);
}

/* Adds up what the process may have at most, and finds the allocation that it is counted to, or NULL. */
static const struct limit_monitor_allocation *match(
        struct account *sum, size_t *ret_count, const struct owned *owned, const struct mps_client *client)
{
        const struct limit_monitor_allocation *found = NULL;
        bool is_limited = true;

        sum->is_by_variable = true;
        *ret_count = 0;
        for (; owned; owned = owned->next) {
                const struct limit_monitor_allocation *allocation = owned->allocation;

                if (!limit_check_is_on(allocation, sum->daemon, sum->unit))
                        continue;
                ++*ret_count;
                is_limited = is_limited && allocation->limit_mib > 0;
                sum->limit_mib += allocation->limit_mib;
                sum->threads_permille = MIN(sum->threads_permille + allocation->threads_permille, 1000);
                sum->is_limited_elsewhere |= allocation->tier != MPS_TIER_DEFAULT;
                sum->is_by_variable &= allocation->tier == MPS_TIER_VERIFIED;
                if (*ret_count == 1 || text_is_same(allocation->id, client->allocation))
                        found = allocation;
        }
        if (!is_limited)
                sum->limit_mib = 0;
        sum->is_by_claim = *ret_count > 1;
        return sum->is_by_claim && !text_is_same(found->id, client->allocation) ? NULL : found;
}

static uint64_t limit_check_memory_of(const struct mps_client *client)
{
        return client->memory == UINT64_MAX ? 0 : client->memory;
}

static int64_t seen_of(
        const struct check *check, const struct mps_daemon_status *daemon, const struct mps_client *client)
{
        const int64_t *seen = map_find(check->facts->seen, limit_monitor_client_key(check->arena, daemon, client));

        return seen ? *seen : INT64_MAX;
}

static void count_client(const struct check *check, struct account *account, const struct mps_client *client)
{
        int64_t seen = seen_of(check, account->daemon, client);

        account->seen = account->n_clients ? MAX(account->seen, seen) : seen;
        if (account->top && !text_is_same(account->top->container_id, client->container_id))
                account->is_mixed = true;
        account->n_clients++;
        account->memory += limit_check_memory_of(client);
        if (!account->top || limit_check_memory_of(client) > limit_check_memory_of(account->top))
                account->top = client;
}

/* The account to which this process is counted. */
static struct account *find_account(
        struct check *check, const struct mps_daemon_status *daemon, const struct mps_client *client)
{
        struct account account = {.daemon = daemon, .unit = client->unit, .is_guess = is_guess(check, client->pod_uid)};
        struct account *whole;
        const struct limit_monitor_allocation *allocation;
        size_t n_allocations;

        if (!account.unit && daemon->n_units == 1)
                account.unit = daemon->units[0];
        if (client->pid <= 0 || !client->pod_uid) {
                account.kind = ACCOUNT_NOBODY;
                return get_account(check, &account, "unknown", "");
        }
        allocation = match(&account, &n_allocations, allocations_of_pod(check, client->pod_uid), client);
        if (n_allocations == 0) {
                bool is_open = has_orphans(check, daemon, account.unit);

                account.is_on_record = !is_open && check->facts->pods && map_find(check->facts->pods, client->pod_uid);
                account.kind = is_open || account.is_on_record ? ACCOUNT_NOBODY : ACCOUNT_STRANGER;
                return get_account(check, &account, account.kind == ACCOUNT_NOBODY ? "unknown" : "stranger",
                        client->container_id ? client->container_id : client->pod_uid);
        }
        if (!account.is_by_claim)
                return account_of_allocation(check, &account, allocation);
        account.kind = ACCOUNT_POD;
        account.is_by_claim = false;
        whole = get_account(check, &account, "pod", client->pod_uid);
        if (!allocation)
                return whole;
        count_client(check, whole, client);
        account.is_by_claim = true;
        return account_of_allocation(check, &account, allocation);
}

/* ---- what is wrong ---- */

/* Whom the violation is about, as far as it is known. */
static const char *violation_subject(
        const struct check *check, const struct account *account, const struct mps_client *client)
{
        const struct owned *owned = allocations_of_pod(check, client->pod_uid);
        const char *pod = owned ? owned->allocation->pod : NULL;

        if (!client->pod_uid)
                return arena_printf(check->arena, "process %d", (int)client->pid);
        return arena_printf(check->arena, "container %.12s of pod %s on %s (daemon %s)",
                client->container_id ? client->container_id : "?", pod ? pod : client->pod_uid,
                account->unit ? account->unit : "an unknown unit", account->daemon->name);
}

/* Kubelet's next answer may say whose the processes are. */
static bool may_get_owner(const struct account *account)
{
        return account->top->pid > 0 && account->top->pod_uid && !account->is_on_record;
}

/* The violation of one client: "<what>|<daemon>|<unit>|<PID>". */
static const char *client_key(
        const struct check *check, const char *what, const struct account *account, const struct mps_client *client)
{
        return arena_printf(check->arena, "%s|%s|%s|%d", what, account->daemon->name,
                account->unit ? account->unit : "", (int)client->pid);
}

/* |measured| and |granted|: struct limit_violation. |text| is in the arena. */
static struct limit_violation *add_violation(struct check *check, enum limit_violation_kind kind,
        const struct account *account, const struct mps_client *client, const char *key, uint64_t measured,
        uint64_t granted, const char *text)
{
        struct limit_monitor_entry *entry = &check->found->entries[check->found->count++];
        const struct owned *owned = allocations_of_pod(check, client->pod_uid);
        bool is_of_account =
                kind == LIMIT_VIOLATION_MEMORY || kind == LIMIT_VIOLATION_STRANGER || kind == LIMIT_VIOLATION_UNKNOWN;

        entry->key = key;
        entry->proof_may_lack = kind == LIMIT_VIOLATION_UNKNOWN && may_get_owner(account);
        entry->needs_proof = kind != LIMIT_VIOLATION_UNKNOWN || account->is_on_record || entry->proof_may_lack;
        entry->seen = is_of_account ? account->seen : seen_of(check, account->daemon, client);
        entry->violation = (struct limit_violation){
                .kind = kind,
                .is_certain = (kind == LIMIT_VIOLATION_MEMORY || kind == LIMIT_VIOLATION_STRANGER) &&
                              client->container_id && !account->is_by_claim && !account->is_guess &&
                              !(kind == LIMIT_VIOLATION_MEMORY && account->is_mixed),
                .daemon = arena_strdup(check->arena, account->daemon->name),
                .unit = arena_strdup(check->arena, account->unit),
                .client = client->pid,
                .pod_uid = arena_strdup(check->arena, client->pod_uid),
                .pod = owned ? arena_strdup(check->arena, owned->allocation->pod) : NULL,
                .container_id = arena_strdup(check->arena, client->container_id),
                .allocation = account->kind == ACCOUNT_ALLOCATION ? arena_strdup(check->arena, account->allocation->id)
                                                                  : NULL,
                .measured = measured,
                .granted = granted,
                .text = text,
        };
        return &entry->violation;
}

static const char *allocation_text(const struct check *check, const struct account *account)
{
        return account->kind == ACCOUNT_ALLOCATION
                       ? arena_printf(check->arena, "allocation %s", account->allocation->id)
                       : "all allocations of the pod";
}

static void check_memory(struct check *check, const struct account *account)
{
        uint64_t allowed = (account->limit_mib + LIMIT_MONITOR_TOLERANCE_MIB * account->n_clients) * MIB;

        if (account->limit_mib == 0 || account->memory <= allowed)
                return;
        add_violation(check, LIMIT_VIOLATION_MEMORY, account, account->top,
                arena_printf(check->arena, "memory|%s", account->key), account->memory / MIB, account->limit_mib,
                arena_printf(check->arena,
                        "%s uses %" PRIu64 " MiB in %u processes, allocated are %" PRIu64
                        " MiB (%s); process %d uses most, %" PRIu64 " MiB",
                        violation_subject(check, account, account->top), account->memory / MIB, account->n_clients,
                        account->limit_mib, allocation_text(check, account), (int)account->top->pid,
                        limit_check_memory_of(account->top) / MIB));
}

static void check_stranger(struct check *check, const struct account *account)
{
        add_violation(check, LIMIT_VIOLATION_STRANGER, account, account->top,
                arena_printf(check->arena, "stranger|%s", account->key), account->memory / MIB, 0,
                arena_printf(check->arena,
                        "%s has no allocation on this unit but %u processes with %" PRIu64
                        " MiB; process %d uses most, %" PRIu64 " MiB",
                        violation_subject(check, account, account->top), account->n_clients, account->memory / MIB,
                        (int)account->top->pid, limit_check_memory_of(account->top) / MIB));
}

static void check_unknown(struct check *check, const struct account *account)
{
        const char *reason =
                account->top->pid <= 0   ? "their PIDs are not visible, the daemon needs the host's PID namespace"
                : !account->top->pod_uid ? "no pod is in their cgroups"
                : account->is_on_record  ? "kubelet's record has their pod, but no share of this unit for it"
                                         : "their pod has no allocation there, but some allocations have no known "
                                           "owner yet";

        add_violation(check, LIMIT_VIOLATION_UNKNOWN, account, account->top,
                arena_printf(check->arena, "unknown|%s", account->key), account->n_clients, 0,
                arena_printf(check->arena,
                        "%u MPS clients of daemon %s with %" PRIu64
                        " MiB have no known owner, one of them process %d: %s",
                        account->n_clients, account->daemon->name, account->memory / MIB, (int)account->top->pid,
                        reason));
}

static void limit_check_check_account(struct check *check, const struct account *account)
{
        switch (account->kind) {
        case ACCOUNT_POD:
        case ACCOUNT_ALLOCATION:
                check_memory(check, account);
                break;
        case ACCOUNT_STRANGER:
                check_stranger(check, account);
                break;
        case ACCOUNT_NOBODY:
                check_unknown(check, account);
                break;
        }
}

static void check_limits(struct check *check, const struct account *account, const struct mps_client *client)
{
        if (account->is_limited_elsewhere)
                return;
        if (client->threads_permille > account->threads_permille + LIMIT_MONITOR_TOLERANCE_PERMILLE)
                add_violation(check, LIMIT_VIOLATION_LIMIT, account, client,
                        client_key(check, "threads", account, client), client->threads_permille,
                        account->threads_permille,
                        arena_printf(check->arena,
                                "%s: process %d may use %u.%u %% of the threads according to its server's log, "
                                "allocated are %u.%u %% (%s)",
                                violation_subject(check, account, client), (int)client->pid,
                                client->threads_permille / 10, client->threads_permille % 10,
                                account->threads_permille / 10, account->threads_permille % 10,
                                allocation_text(check, account)));
        if (account->limit_mib > 0 && client->limit_mib > account->limit_mib + LIMIT_MONITOR_TOLERANCE_MIB)
                add_violation(check, LIMIT_VIOLATION_LIMIT, account, client,
                        client_key(check, "limit", account, client), client->limit_mib, account->limit_mib,
                        arena_printf(check->arena,
                                "%s: process %d may allocate %" PRIu64
                                " MiB according to its server's log, allocated are %" PRIu64 " MiB (%s)",
                                violation_subject(check, account, client), (int)client->pid, client->limit_mib,
                                account->limit_mib, allocation_text(check, account)));
}

/* A difference of one permille is due to rounding. */
static void check_variable(struct check *check, const struct account *account, const struct mps_client *client)
{
        const unsigned int asked = client->asked_permille;
        const char *how;

        if (!account->is_by_variable || !client->has_environment || account->threads_permille >= 1000 ||
                (asked && asked <= account->threads_permille + 1))
                return;
        how = asked ? arena_printf(check->arena, "with CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%u.%u", asked / 10, asked % 10)
                    : "without CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
        add_violation(check, LIMIT_VIOLATION_VARIABLE, account, client, client_key(check, "variable", account, client),
                asked, account->threads_permille,
                arena_printf(check->arena,
                        "%s: process %d was started %s, allocated are %u.%u %% (%s): it may use up to the daemon's own "
                        "limit",
                        violation_subject(check, account, client), (int)client->pid, how,
                        account->threads_permille / 10, account->threads_permille % 10,
                        allocation_text(check, account)));
}

static void limit_check_check_claim(struct check *check, const struct account *account, const struct mps_client *client)
{
        const struct limit_monitor_allocation *claimed =
                client->allocation ? map_find(&check->by_id, client->allocation) : NULL;
        struct limit_violation *violation;

        if (!client->allocation || !client->pod_uid || (claimed && !claimed->pod_uid) ||
                (!claimed && is_guess(check, client->pod_uid)) || /* its allocation has another id since */
                (claimed && strcmp(claimed->pod_uid, client->pod_uid) == 0))
                return;
        violation = add_violation(check, LIMIT_VIOLATION_CLAIM, account, client,
                arena_printf(check->arena, "claim|%s|%d", account->daemon->name, (int)client->pid), 0, 0,
                arena_printf(check->arena, "%s: process %d claims allocation %.64s, which %s%s",
                        violation_subject(check, account, client), (int)client->pid, client->allocation,
                        claimed ? "belongs to pod " : "is unknown",
                        !claimed       ? ""
                        : claimed->pod ? claimed->pod
                                       : claimed->pod_uid));
        violation->allocation = arena_strdup(check->arena, client->allocation);
}

static void check_client(struct check *check, const struct mps_daemon_status *daemon, const struct mps_client *client)
{
        struct account *account = find_account(check, daemon, client);

        count_client(check, account, client);
        if (account->kind == ACCOUNT_ALLOCATION || account->kind == ACCOUNT_POD) {
                check_limits(check, account, client);
                check_variable(check, account, client);
        }
        limit_check_check_claim(check, account, client);
}

void limit_check(struct limit_monitor_entries *ret, struct arena *arena, const struct limit_monitor_facts *facts)
{
        const struct mps_status *status = facts->status;
        struct check check = {.arena = arena, .facts = facts, .found = ret};
        size_t n_clients = 0;

        for (size_t i = 0; i < status->n_daemons; i++)
                n_clients += status->daemons[i].n_clients;
        ret->entries = ARENA_ARRAY(arena, struct limit_monitor_entry, n_clients * VIOLATIONS_PER_CLIENT);
        check.list = ARENA_ARRAY(arena, struct account *, n_clients * 2);
        index_allocations(&check);
        for (size_t i = 0; i < status->n_daemons; i++)
                for (size_t j = 0; j < status->daemons[i].n_clients; j++)
                        check_client(&check, &status->daemons[i], &status->daemons[i].clients[j]);
        for (size_t i = 0; i < check.n_accounts; i++)
                limit_check_check_account(&check, check.list[i]);
        map_done(&check.pods);
        map_done(&check.by_id);
        map_done(&check.orphans);
        map_done(&check.accounts);
}
