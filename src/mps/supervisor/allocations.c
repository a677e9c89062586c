// SPDX-License-Identifier: Apache-2.0
/*
 * Partitions and namespaces of containers. This is the only place that compares the wanted ones with the existing ones.
 *
 * The rule:
 *
 *   1. An entry is wanted from the agent's request, or from the agent's list of allocations, until it is released, or
 *      until it is missing in that list. The ledger alone decides that (node/ledger/ledger.c).
 *   2. It exists if it was created in the current process of its daemon.
 *   3. As soon as that process accepts commands, what is wanted and does not exist is created; what exists and is not
 *      wanted is removed; what is neither is forgotten.
 *   4. A partition that was never created is created for its own request only: its container finds it by an id.
 *   5. There is one request for an entry at a time; others wait for it.
 *   6. A failure is retried after 1 s, then after twice the time, at most a minute; a new process is asked at once.
 *
 * Example: container g1 has a namespace of 30 % in process 4711 of its daemon, and g2 ends while it still has a client.
 * g1 is wanted and exists: nothing to do. g2 exists and is not wanted: its removal fails, and is tried again after 1,
 * 2, 4 s. The daemon dies and is process 4712 after that. g1 does not exist there: it is created again, under the same
 * path, where the container finds it. g2 neither exists nor is wanted: it is forgotten.
 */
#include "mps/supervisor/requests.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"

struct allocation_entry {
        struct list link; /* allocations->entries */
        struct arena arena;
        struct mps_record_allocation value; /* pid 0: not created yet */
        struct backoff backoff;             /* of failures in one process of the daemon */
        uint64_t asked_start;               /* start time of the process that was asked last */
        uint64_t due_ms;
        char *problem; /* why it cannot be created; NULL: no problem known */
};

/* ---- allocations ---- */

static void allocations_note(struct mps_allocations *allocations, bool is_record)
{
        allocations->owner.changed(is_record, allocations->owner.data);
}

static struct allocation_entry *allocations_find_entry(const struct mps_allocations *allocations, const char *id)
{
        LIST_FOR_EACH(link, &allocations->entries) {
                struct allocation_entry *entry = container_of(link, struct allocation_entry, link);

                if (strcmp(entry->value.request.id, id) == 0)
                        return entry;
        }
        return NULL;
}

static void allocations_free_entry(struct allocation_entry *entry)
{
        struct arena arena = entry->arena;

        list_remove(&entry->link);
        free(entry->problem);
        arena_done(&arena);
}

/* Replaces an entry of the same id. */
static struct allocation_entry *allocations_put_entry(
        struct mps_allocations *allocations, const struct mps_record_allocation *value)
{
        struct allocation_entry *old = allocations_find_entry(allocations, value->request.id);
        struct arena arena = ARENA_INIT;
        struct allocation_entry *entry = ARENA_NEW(&arena, struct allocation_entry);

        entry->value = *value;
        mps_allocation_request_copy(&entry->value.request, &arena, &value->request);
        mps_allocation_copy(&entry->value.allocation, &arena, &value->allocation);
        entry->arena = arena;
        entry->backoff = (struct backoff){.least_ms = 1000, .most_ms = 60000};
        list_append(&allocations->entries, &entry->link);
        if (old)
                allocations_free_entry(old);
        return entry;
}

static bool is_current(const struct mps_daemon *daemon, const struct mps_record_allocation *allocation)
{
        struct mps_record_daemon process;

        return mps_daemon_record(daemon, &process) && process.pid == allocation->pid &&
               process.start_time == allocation->start_time;
}

/* The container still has the partition that an earlier process created. */
static bool is_another(const struct allocation_entry *old, const char *partition)
{
        return old && old->value.pid &&
               (!old->value.allocation.partition || strcmp(old->value.allocation.partition, partition) != 0);
}

/* A namespace has the same path again, so its container finds it. */
void allocations_made(struct request *request, const struct mps_record_daemon *process)
{
        const struct allocation_entry *old = allocations_find_entry(request->allocations, request->wanted.id);
        const char *partition = request->allocation.partition;
        const struct mps_record_allocation value = {
                .request = request->wanted,
                .allocation = request->allocation,
                .pid = process->pid,
                .start_time = process->start_time,
                .is_void = partition && is_another(old, partition),
                .is_over = request->is_unwanted,
        };

        allocations_put_entry(request->allocations, &value);
        request_end(request, NULL);
        allocations_note(request->allocations, true);
}

void allocations_removed(struct request *request, const struct error *err)
{
        struct allocation_entry *entry = allocations_find_entry(request->allocations, request->wanted.id);

        if (entry && !err)
                allocations_free_entry(entry);
        request_end(request, err);
        allocations_note(request->allocations, true);
}

/* ---- requests ---- */

/* The running request for this entry, or NULL; other requests wait for it. */
static struct request *allocations_find_request(const struct mps_allocations *allocations, const char *id)
{
        LIST_FOR_EACH(link, &allocations->requests) {
                struct request *request = container_of(link, struct request, link);

                if (request->kind != REQUEST_TERMINATE && !request->is_waiting && strcmp(request->wanted.id, id) == 0)
                        return request;
        }
        return NULL;
}

static bool makes_parts(const struct mps_daemon *daemon)
{
        return mps_daemon_options(daemon) & (MPS_CAN_PARTITION | MPS_CAN_NAMESPACE);
}

static void start_allocation(struct request *request)
{
        struct mps_allocations *allocations = request->allocations;
        struct allocation_entry *entry = allocations_find_entry(allocations, request->wanted.id);

        request->is_waiting = false;
        if (!request_find_daemon(request, request->wanted.daemon))
                return;
        if (entry)
                entry->value.is_over = request->is_unwanted;
        if (!makes_parts(request->daemon)) {
                request->allocation.tier = mps_daemon_tier(request->daemon); /* nothing needs to be created */
                request_end(request, NULL);
        } else if (entry && is_current(request->daemon, &entry->value)) {
                mps_allocation_copy(&request->allocation, &request->arena, &entry->value.allocation);
                request_end(request, NULL);
        } else {
                request_make(request);
        }
}

void mps_allocations_make(struct mps_allocations *allocations, const struct mps_allocation_request *wanted,
        mps_granted_fn *done, void *data)
{
        const bool is_busy = allocations_find_request(allocations, wanted->id) != NULL;
        struct request *request = request_new(allocations, REQUEST_ALLOCATION, data);

        request->granted = done;
        mps_allocation_request_copy(&request->wanted, &request->arena, wanted);
        request->is_waiting = is_busy;
        if (!is_busy)
                start_allocation(request);
}

/* Entries whose retry is due. */
static void start_waiting(struct mps_allocations *allocations)
{
        LIST_FOR_EACH(link, &allocations->requests) {
                struct request *request = container_of(link, struct request, link);

                if (request->is_waiting && !allocations_find_request(allocations, request->wanted.id))
                        start_allocation(request);
        }
}

/* May free the entry. |done| may be NULL. */
static void release_entry(
        struct mps_allocations *allocations, struct allocation_entry *entry, mps_done_fn *done, void *data)
{
        struct mps_daemon *daemon = mps_daemons_find(allocations->daemons, entry->value.request.daemon);
        struct request *request = request_new(allocations, REQUEST_RELEASE, data);

        entry->value.is_over = true;
        request->done = done;
        mps_allocation_request_copy(&request->wanted, &request->arena, &entry->value.request);
        if (daemon && is_current(daemon, &entry->value) && mps_daemon_control(daemon)) {
                request_remove(request, daemon, &entry->value);
                return;
        }
        allocations_free_entry(entry); /* what it had ended with the process, or was never created */
        request_end(request, NULL);
        allocations_note(allocations, true);
}

void mps_allocations_release(struct mps_allocations *allocations, const char *id, mps_done_fn *done, void *data)
{
        struct allocation_entry *entry = allocations_find_entry(allocations, id);
        struct request *request;

        if (entry && !allocations_find_request(allocations, id)) {
                release_entry(allocations, entry, done, data);
                return;
        }
        /* If a request is running for it, it is removed when that ends; otherwise there is nothing to remove. */
        if (entry)
                entry->value.is_over = true;
        LIST_FOR_EACH(link, &allocations->requests) {
                struct request *asked = container_of(link, struct request, link);

                if (asked->kind == REQUEST_ALLOCATION && strcmp(asked->wanted.id, id) == 0)
                        asked->is_unwanted = true;
        }
        request = request_new(allocations, REQUEST_RELEASE, data);
        request->done = done;
        request->wanted.id = arena_strdup(&request->arena, id);
        request_end(request, NULL);
        allocations_note(allocations, true);
}

/* ---- reconciling ---- */

void mps_allocations_hold(
        struct mps_allocations *allocations, const struct mps_allocation_request *wanted, size_t n_wanted)
{
        struct map ids = {0};
        bool is_new = false;

        for (size_t i = 0; i < n_wanted; i++)
                map_add(&ids, wanted[i].id, allocations);
        LIST_FOR_EACH(link, &allocations->requests) {
                struct request *request = container_of(link, struct request, link);

                if (request->kind == REQUEST_ALLOCATION)
                        request->is_unwanted = !map_find(&ids, request->wanted.id);
        }
        LIST_FOR_EACH(link, &allocations->entries) {
                struct allocation_entry *entry = container_of(link, struct allocation_entry, link);
                const bool is_over = !map_find(&ids, entry->value.request.id);

                is_new |= entry->value.is_over != is_over;
                entry->value.is_over = is_over;
        }
        map_done(&ids);
        for (size_t i = 0; i < n_wanted; i++)
                if (!allocations_find_entry(allocations, wanted[i].id) &&
                        !allocations_find_request(allocations, wanted[i].id)) {
                        allocations_put_entry(allocations, &(const struct mps_record_allocation){.request = wanted[i]});
                        is_new = true;
                }
        if (is_new)
                allocations_note(allocations, true);
        mps_allocations_reconcile(allocations);
}

static uint64_t allocations_now_ms(const struct mps_allocations *allocations)
{
        return uv_now(allocations->timer.loop);
}

/* The entry's daemon, if its current process is ready for such commands. */
static struct mps_daemon *find_ready_daemon(
        const struct mps_allocations *allocations, const struct allocation_entry *entry)
{
        struct mps_daemon *daemon = mps_daemons_find(allocations->daemons, entry->value.request.daemon);

        return daemon && mps_daemon_is_ready(daemon) && makes_parts(daemon) ? daemon : NULL;
}

/*
 * A container finds its namespace by path, so it may be created now, too. But it finds a partition by an id, so
 * creating one that never existed before would help no container.
 */
static bool is_of_use(const struct mps_daemon *daemon, const struct allocation_entry *entry)
{
        return mps_daemon_options(daemon) & MPS_CAN_NAMESPACE || entry->value.pid;
}

/* May free the entry. */
static void reconcile_entry(struct mps_allocations *allocations, struct allocation_entry *entry)
{
        struct mps_daemon *daemon = mps_daemons_find(allocations->daemons, entry->value.request.daemon);
        const bool is_there = daemon && is_current(daemon, &entry->value);
        struct mps_record_daemon process;

        if (allocations_find_request(allocations, entry->value.request.id))
                return;
        if (entry->value.is_over && !is_there) {
                release_entry(allocations, entry, NULL, NULL);
                return;
        }
        daemon = find_ready_daemon(allocations, entry);
        if (!daemon || entry->value.is_over != is_there || !mps_daemon_record(daemon, &process))
                return;
        if (entry->asked_start != process.start_time) {
                entry->asked_start = process.start_time;
                entry->backoff.failures = 0;
                entry->due_ms = 0;
        }
        if (entry->due_ms > allocations_now_ms(allocations))
                return;
        if (entry->value.is_over)
                release_entry(allocations, entry, NULL, NULL);
        else if (is_of_use(daemon, entry))
                mps_allocations_make(allocations, &entry->value.request, NULL, NULL);
}

static void on_reconcile(uv_timer_t *timer)
{
        mps_allocations_reconcile(timer->data);
}

static void allocations_arm(struct mps_allocations *allocations)
{
        uint64_t due = UINT64_MAX;

        LIST_FOR_EACH(link, &allocations->entries) {
                const struct allocation_entry *entry = container_of(link, struct allocation_entry, link);

                if (entry->due_ms > allocations_now_ms(allocations))
                        due = MIN(due, entry->due_ms);
        }
        if (due == UINT64_MAX)
                uv_timer_stop(&allocations->timer);
        else
                uv_timer_start(&allocations->timer, on_reconcile, due - allocations_now_ms(allocations), 0);
}

void mps_allocations_reconcile(struct mps_allocations *allocations)
{
        struct list *next;

        start_waiting(allocations);
        if (allocations->is_paused)
                return;
        for (struct list *link = allocations->entries.next; link != &allocations->entries; link = next) {
                next = link->next; /* this frees no entry except its own, and adds none */
                reconcile_entry(allocations, container_of(link, struct allocation_entry, link));
        }
        allocations_arm(allocations);
}

/* A partition ends with the process that created it, and that may have ended since it answered. */
static void fail_if_ended(struct request *request, const struct allocation_entry *entry)
{
        const char *name = entry->value.request.daemon;
        const struct mps_daemon *daemon = mps_daemons_find(request->allocations->daemons, name);

        if (request->kind == REQUEST_ALLOCATION && request->err.kind == ERROR_NONE && request->allocation.partition &&
                !(daemon && is_current(daemon, &entry->value)))
                error_raise(&request->err, ERROR_UNAVAILABLE, "MPS daemon '%s' has ended", name);
}

/* A caller gets the error and retries by itself, so only an entry that was created before is retried here. */
static void allocations_note_outcome(struct request *request)
{
        struct mps_allocations *allocations = request->allocations;
        struct allocation_entry *entry =
                request->kind == REQUEST_TERMINATE ? NULL : allocations_find_entry(allocations, request->wanted.id);

        if (!entry)
                return;
        fail_if_ended(request, entry);
        if (request->err.kind == ERROR_NONE) {
                entry->backoff.failures = 0;
                entry->due_ms = 0;
                free(TAKE_PTR(entry->problem));
                return;
        }
        entry->due_ms = allocations_now_ms(allocations) + backoff_next(&entry->backoff, 0, backoff_random());
        if (entry->backoff.failures == 1) {
                log_warn(request->kind == REQUEST_ALLOCATION
                                 ? "a container's partition or namespace is missing, and is "
                                   "created later"
                                 : "a container's partition or namespace stays for now, and "
                                   "is removed later",
                        LOG_STR("daemon", entry->value.request.daemon), LOG_STR("allocation", entry->value.request.id),
                        LOG_ERR(&request->err));
                allocations_note(allocations, true); /* so that others see when the problem is over */
        }
        if (request->kind == REQUEST_ALLOCATION) {
                free(entry->problem);
                entry->problem = xstrdup(request->err.text);
        }
}

/* ---- answers ---- */

static void request_deliver(struct request *request)
{
        const struct error *err = request->err.kind == ERROR_NONE ? NULL : &request->err;

        if (request->granted)
                request->granted(err, err ? NULL : &request->allocation, request->data);
        else if (request->done)
                request->done(err, request->data);
}

static struct request *first_over(const struct mps_allocations *allocations)
{
        LIST_FOR_EACH(link, &allocations->requests)
                if (container_of(link, struct request, link)->is_over)
                        return container_of(link, struct request, link);
        return NULL;
}

void mps_allocations_deliver(struct mps_allocations *allocations)
{
        struct request *request;

        while ((request = first_over(allocations))) {
                list_remove(&request->link);
                allocations_note_outcome(request);
                request_deliver(request);
                request_free(request);
        }
}

void mps_allocations_fail_daemon(struct mps_allocations *allocations, const struct mps_daemon *daemon)
{
        LIST_FOR_EACH(link, &allocations->requests) {
                struct request *request = container_of(link, struct request, link);

                if (request->daemon == daemon)
                        request_fail(request, ERROR_UNAVAILABLE, "has ended", mps_daemon_get_name(daemon));
        }
}

/* ---- what others see ---- */

void mps_allocations_describe(
        const struct mps_allocations *allocations, struct arena *arena, struct mps_daemon_status *daemon)
{
        const struct allocation_entry *first = NULL;
        size_t n_missing = 0;
        size_t n_void = 0;

        LIST_FOR_EACH(link, &allocations->entries) {
                const struct allocation_entry *entry = container_of(link, struct allocation_entry, link);

                if (entry->value.is_over || strcmp(entry->value.request.daemon, daemon->name) != 0)
                        continue;
                n_void += entry->value.is_void;
                n_missing += entry->problem != NULL;
                if (entry->problem && !first)
                        first = entry;
        }
        if (n_void && !daemon->notice)
                daemon->notice = arena_printf(arena,
                        "the SM partitions of %zu containers ended with an earlier process of its control daemon: "
                        "restart their pods",
                        n_void);
        else if (first && !daemon->notice)
                daemon->notice = arena_printf(arena,
                        "the partitions or namespaces of %zu containers cannot be created, will try again: %s",
                        n_missing, first->problem);
}

static bool has_namespace(const struct allocation_entry *entry, const struct mps_daemon *daemon)
{
        return entry->value.allocation.tier == MPS_TIER_NAMESPACE &&
               strcmp(entry->value.request.daemon, mps_daemon_get_name(daemon)) == 0 &&
               is_current(daemon, &entry->value);
}

size_t mps_allocations_list_namespaces(const struct mps_allocations *allocations, const struct mps_daemon *daemon,
        struct arena *arena, struct mps_allocation_request **ret)
{
        size_t count = 0;

        LIST_FOR_EACH(link, &allocations->entries)
                count += has_namespace(container_of(link, struct allocation_entry, link), daemon);
        *ret = ARENA_ARRAY(arena, struct mps_allocation_request, count);
        count = 0;
        LIST_FOR_EACH(link, &allocations->entries) {
                const struct allocation_entry *entry = container_of(link, struct allocation_entry, link);

                if (has_namespace(entry, daemon))
                        mps_allocation_request_copy(&(*ret)[count++], arena, &entry->value.request);
        }
        return count;
}

/* ---- start and end ---- */

void mps_allocations_init(
        struct mps_allocations *allocations, struct mps_daemons *daemons, const struct mps_record_owner *owner)
{
        *allocations = (struct mps_allocations){.daemons = daemons, .owner = *owner, .is_paused = true};
        list_init(&allocations->entries);
        list_init(&allocations->requests);
        uv_timer_init(daemons->context.options->loop, &allocations->timer);
        allocations->timer.data = allocations;
}

void mps_allocations_pause(struct mps_allocations *allocations, bool is_paused)
{
        allocations->is_paused = is_paused;
        if (is_paused)
                uv_timer_stop(&allocations->timer);
}

void mps_allocations_close(struct mps_allocations *allocations, struct closing *closing)
{
        closing_close(closing, &allocations->timer);
}

void mps_allocations_done(struct mps_allocations *allocations)
{
        while (!list_is_empty(&allocations->requests))
                request_free(container_of(allocations->requests.next, struct request, link));
        while (!list_is_empty(&allocations->entries))
                allocations_free_entry(container_of(allocations->entries.next, struct allocation_entry, link));
}

void mps_allocations_fill_record(const struct mps_allocations *allocations, struct mps_record *record)
{
        size_t count = 0;

        LIST_FOR_EACH(link, &allocations->entries)
                count++;
        record->allocations = ARENA_ARRAY(&record->arena, struct mps_record_allocation, count);
        LIST_FOR_EACH(link, &allocations->entries)
                record->allocations[record->n_allocations++] = container_of(link, struct allocation_entry, link)->value;
}

void mps_allocations_restore(struct mps_allocations *allocations, const struct mps_record *record)
{
        for (size_t i = 0; i < record->n_allocations; i++)
                allocations_put_entry(allocations, &record->allocations[i]);
}
