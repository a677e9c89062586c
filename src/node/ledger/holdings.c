// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/holdings.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"

/* The interval of requests for the list while devices are held, and after kubelet was made to write its checkpoint. */
#define LIST_INTERVAL_MS UINT64_C(5000)
#define LIST_SOON_MS UINT64_C(1000)
/*
 * The pauses between failed requests, and between repeated device lists, grow from the minimum to the maximum. They
 * have no random part: kubelet is asked by this agent alone.
 */
#define RETRY_MIN_MS 1000
#define RETRY_MAX_MS 60000
#define REPEAT_MAX_MS 10000 /* each makes kubelet write a file */
/* A kubelet that does not answer is waited for this long. */
#define PATIENCE_MS INT64_C(60000)

struct question {
        struct list link;
        struct holdings *holdings;
        int64_t at;
        holdings_listed_fn *done;
        void *data;
};

static int64_t holdings_clock(const struct holdings *holdings)
{
        return holdings->options->now(holdings->options->data).clock;
}

/* ---- kubelet's socket and its record ---- */

const char *holdings_folder(const struct holdings *holdings)
{
        return holdings->pods ? holdings->paths.folder : NULL;
}

/*
 * A kubelet that has just started may list too few pods. It creates its socket when it starts. Clocks may be set, so
 * the date of the socket does not show its age: what counts is how long we have seen this socket.
 */
static bool is_young(struct holdings *holdings)
{
        struct file_mark now = file_mark_at(holdings->paths.socket);

        if (!file_mark_is_same(&now, &holdings->kubelet))
                holdings->kubelet_since = holdings_clock(holdings);
        holdings->kubelet = now;
        return !file_mark_exists(&now) || holdings_clock(holdings) - holdings->kubelet_since < HOLDINGS_GRACE_MS;
}

/* The record has all containers, also those that the list of a kubelet that has just started lacks. */
bool holdings_are_whole(struct holdings *holdings)
{
        return holdings->has_record || !is_young(holdings);
}

bool holdings_read_record(const struct holdings *holdings, struct arena *arena, struct checkpoint *ret)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        if (file_read(holdings->paths.record, CHECKPOINT_MAX, &text, &err) == 0 &&
                checkpoint_read(ret, arena, "", text.data, text.size, &err) == 0)
                return true;
        log_debug("kubelet's record of devices is ignored", LOG_ERR(&err));
        return false;
}

const char *holdings_record_path(const struct holdings *holdings)
{
        return holdings->paths.record;
}

/*
 * Reports a missing pod-resources socket at once. Without MPS the list is not requested until something changes, so the
 * failure would show only then. A kubelet that does not run has neither of its sockets, and creates both when it
 * starts.
 */
static void holdings_check_socket(struct holdings *holdings)
{
        struct error err;

        if (!holdings->pods || access(holdings->paths.socket, F_OK) == 0 ||
                access(holdings->paths.kubelet_socket, F_OK) < 0) {
                complaint_settle(&holdings->complaints.socket);
                return;
        }
        error_raise(&err, ERROR_NOT_FOUND,
                "there is no '%s'; its folder is below kubelet's --root-dir: is that another one (--kubelet-root, "
                "kubeletRootDir of the chart), or is the folder not mounted into this container?",
                holdings->paths.socket);
        complain(&holdings->complaints.socket,
                "kubelet does not say which pods have ended, and a change may wait for them: its pod-resources socket is "
                "missing",
                &err);
}

static bool is_mounted(const struct holdings *holdings)
{
        return access(holdings->paths.folder, F_OK) == 0 || errno != ENOENT;
}

/* False: kubelet's list cannot be had, because its folder is not mounted here, or kubelet has refused for a minute. */
static bool holdings_can_ask(const struct holdings *holdings)
{
        const struct holdings_pace *pace = &holdings->pace;

        if (!holdings->pods || !is_mounted(holdings))
                return false;
        return !pace->is_refused || holdings_clock(holdings) - pace->refused_since < PATIENCE_MS;
}

/* ---- recent requests ---- */

struct recent_request {
        char *resource;
        char *device;
        int64_t since;
        bool is_recorded;
        uint64_t recorded_at; /* n_questions then */
};

static void forget_at(struct recent_requests *requests, size_t position)
{
        free(requests->all[position].resource);
        free(requests->all[position].device);
        requests->count--;
        memmove(&requests->all[position], &requests->all[position + 1],
                (requests->count - position) * sizeof(*requests->all));
}

static void recent_requests_done(struct recent_requests *requests)
{
        while (requests->count)
                forget_at(requests, requests->count - 1);
        free(TAKE_PTR(requests->all));
}

static void recent_requests_forget_before(struct recent_requests *requests, int64_t time)
{
        while (requests->count && requests->all[0].since < time)
                forget_at(requests, 0);
}

static struct recent_request *recent_requests_find(
        const struct recent_requests *requests, const char *resource, const char *device)
{
        for (size_t i = 0; i < requests->count; i++)
                if (strcmp(requests->all[i].device, device) == 0 && strcmp(requests->all[i].resource, resource) == 0)
                        return &requests->all[i];
        return NULL;
}

static void mark_recorded(struct recent_request *request, uint64_t n_questions)
{
        if (!request->is_recorded)
                request->recorded_at = n_questions;
        request->is_recorded = true;
}

/*
 * A previous request for the same device is over: its container has ended, or is an init container of the same pod.
 * kubelet admits pods one by one, so its record has all earlier requests by now.
 */
static void recent_requests_add(struct recent_requests *requests, const char *resource, const char *const *ids,
        size_t n_ids, int64_t now, uint64_t n_questions)
{
        for (size_t i = 0; i < requests->count; i++)
                mark_recorded(&requests->all[i], n_questions);
        if (!requests->all)
                requests->all = xcalloc(HOLDINGS_RECENT_MAX, sizeof(*requests->all));
        for (size_t i = 0; i < n_ids; i++) {
                const struct recent_request *previous = recent_requests_find(requests, resource, ids[i]);

                if (previous)
                        forget_at(requests, (size_t)(previous - requests->all));
                if (requests->count == HOLDINGS_RECENT_MAX)
                        forget_at(requests, 0);
                requests->all[requests->count++] =
                        (struct recent_request){.resource = xstrdup(resource), .device = xstrdup(ids[i]), .since = now};
        }
}

static void recent_requests_note_record(
        struct recent_requests *requests, const struct checkpoint *record, uint64_t n_questions)
{
        for (size_t i = 0; i < record->n_entries && requests->count; i++)
                for (size_t j = 0; j < record->entries[i].n_devices; j++) {
                        struct recent_request *request = recent_requests_find(
                                requests, record->entries[i].resource, record->entries[i].devices[j]);

                        if (request)
                                mark_recorded(request, n_questions);
                }
}

/*
 * Adds to |held|, with copies in |arena|, the requests that are too new for kubelet's checkpoint and, with |by_list|,
 * for its newest list. Forgets the others.
 */
static size_t recent_requests_take(struct recent_requests *requests, bool by_list, uint64_t n_questions,
        struct arena *arena, struct rollout_held *held)
{
        size_t count = 0;

        for (size_t i = requests->count; i-- > 0;) {
                const struct recent_request *request = &requests->all[i];

                if (request->is_recorded && (!by_list || request->recorded_at < n_questions))
                        forget_at(requests, i);
                else
                        held[count++] = (struct rollout_held){.resource = arena_strdup(arena, request->resource),
                                .device = arena_strdup(arena, request->device)};
        }
        return count;
}

/* ---- kubelet's answers ---- */

static void forget_old_requests(struct holdings *holdings)
{
        recent_requests_forget_before(&holdings->recent, holdings_clock(holdings) - HOLDINGS_GRACE_MS);
}

static void note_record(struct holdings *holdings, const struct checkpoint *record)
{
        recent_requests_note_record(&holdings->recent, record, holdings->n_questions);
}

/* |list| is empty where there is none. */
static void take_holders(struct holdings *holdings, const struct pod_list *list, const struct holders *previous)
{
        struct arena scratch = ARENA_INIT;
        struct checkpoint record;
        struct holders *holders;

        holdings->has_record = holdings_read_record(holdings, &scratch, &record);
        if (holdings->has_record)
                note_record(holdings, &record);
        /* Done here, too, because old requests between freed memory keep it from being returned to the kernel. */
        forget_old_requests(holdings);
        holders = holders_new(list, holdings->has_record ? &record : NULL, previous, !is_young(holdings));
        holders_free(holdings->holders);
        holdings->holders = holders;
        arena_done(&scratch);
}

/* Two holders mean a fault outside of the agent: another program registers the same resource, or kubelet is wrong. */
static void report_twice(struct holdings *holdings)
{
        struct arena scratch = ARENA_INIT;
        const struct holders_twice *twice;
        struct error err;

        holdings->n_twice = holders_twice(holdings->holders, &scratch, &twice);
        if (holdings->n_twice > 0) {
                error_raise(&err, ERROR_INVALID, "'%s' of %s is held by %s/%s and by %s/%s; devices with two pods: %zu",
                        twice[0].device, twice[0].resource, twice[0].first->pod_namespace, twice[0].first->pod,
                        twice[0].second->pod_namespace, twice[0].second->pod, holdings->n_twice);
                complain(&holdings->complaints.twice, "kubelet has given one device to two pods", &err);
        } else {
                complaint_settle(&holdings->complaints.twice);
        }
        arena_done(&scratch);
}

static void list_within(struct holdings *holdings, uint64_t ms);

/* |at_once|: even if kubelet was made to write its record a moment ago. */
static bool renew_record(struct holdings *holdings, bool at_once)
{
        struct holdings_pace *pace = &holdings->pace;
        struct arena scratch = ARENA_INIT;
        uint64_t doubt = holders_doubt(holdings->holders);
        int64_t now = holdings_clock(holdings);
        const char *const *resources;
        size_t count = holders_doubtful(holdings->holders, &scratch, &resources);

        if (doubt != pace->doubt) {
                pace->repeat_at = now;
                pace->repeat.failures = 0;
        }
        pace->doubt = doubt;
        if (count > 0 && (at_once || now >= pace->repeat_at)) {
                for (size_t i = 0; i < count; i++)
                        if (holdings->options->repeat(resources[i], holdings->options->data))
                                break;
                pace->repeat_at = now + (int64_t)backoff_next(&pace->repeat, 0, 0);
                list_within(holdings, LIST_SOON_MS);
        }
        arena_done(&scratch);
        return count > 0;
}

bool holdings_renew_record(struct holdings *holdings)
{
        return renew_record(holdings, true);
}

static void holdings_take_list(struct holdings *holdings, const struct pod_list *list, int64_t asked_at)
{
        take_holders(holdings, list, holdings->holders);
        if (holdings->has_record)
                holdings->listed_at = MAX(holdings->listed_at, asked_at);
        complaint_settle(&holdings->complaints.list);
        holdings->pace.is_refused = false;
        holdings->pace.retry.failures = 0;
        log_debug(
                "kubelet has reported which container holds which devices", LOG_UINT("containers", list->n_containers));
        report_twice(holdings);
        holdings->on_change(true, holdings->data);
        renew_record(holdings, false);
}

/* Without an answer of kubelet only its checkpoint is used: a container that it no longer has has ended. */
static void take_record(struct holdings *holdings)
{
        static const struct pod_list nothing;

        take_holders(holdings, &nothing, NULL);
        if (holdings->has_record)
                holdings->on_change(false, holdings->data);
}

static void take_refusal(struct holdings *holdings, const struct error *err)
{
        struct holdings_pace *pace = &holdings->pace;

        complain(&holdings->complaints.list,
                "kubelet does not report which container holds which devices, will ask again", err);
        if (!pace->is_refused)
                pace->refused_since = holdings_clock(holdings);
        pace->is_refused = true;
        pace->retry_ms = backoff_next(&pace->retry, 0, 0);
        if (!holdings_can_ask(holdings))
                take_record(holdings);
}

/* ---- questions ---- */

static void holdings_on_timer(uv_timer_t *timer);

static void list_within(struct holdings *holdings, uint64_t ms)
{
        uv_timer_t *timer = &holdings->timer;

        if (uv_is_closing((uv_handle_t *)timer) || mps_resources_count(holdings->resources) == 0)
                return;
        if (!uv_is_active((uv_handle_t *)timer) || uv_timer_get_due_in(timer) > ms)
                uv_timer_start(timer, holdings_on_timer, ms, 0);
}

static void holdings_list_again(struct holdings *holdings)
{
        if (holdings->pace.is_refused)
                list_within(holdings, holdings->pace.retry_ms);
        else if (mps_resources_count_allocations(holdings->resources) > 0 ||
                 (holdings->pods && !holdings_are_whole(holdings)))
                list_within(holdings, LIST_INTERVAL_MS);
}

/* Gives back what the record took as JSON for a moment; free() keeps pages that lie between others. */
static void trim_memory(void)
{
        malloc_trim(0);
}

static void on_listed(const struct error *err, const struct pod_list *list, void *data)
{
        struct question question = *(struct question *)data;
        struct holdings *holdings = question.holdings;
        bool was_silent = !holdings_can_ask(holdings);

        list_remove(&((struct question *)data)->link);
        free(data);
        if (err)
                take_refusal(holdings, err);
        else
                holdings_take_list(holdings, list, question.at);
        holdings_list_again(holdings);
        holdings->is_new = !err;
        if (was_silent && !err)
                holdings->options->on_held(holdings->options->data);
        question.done(err, question.data);
        holdings->is_new = false;
        trim_memory();
}

void holdings_list(struct holdings *holdings, holdings_listed_fn *done, void *data)
{
        struct question *question = xcalloc(1, sizeof(*question));

        *question = (struct question){.holdings = holdings, .at = holdings_clock(holdings), .done = done, .data = data};
        list_append(&holdings->questions, &question->link);
        pod_resources_list(holdings->pods, on_listed, question);
}

static void on_nothing(const struct error *err UNUSED, void *data UNUSED)
{
}

static void holdings_on_timer(uv_timer_t *timer)
{
        struct holdings *holdings = container_of(timer, struct holdings, timer);

        if (holdings->pods) {
                holdings_list(holdings, on_nothing, NULL);
                return;
        }
        take_record(holdings);
        holdings_list_again(holdings);
        trim_memory();
}

static void holdings_on_answer(const struct error *err UNUSED, void *data)
{
        const struct holdings *holdings = data;

        holdings->options->on_held(holdings->options->data);
}

void holdings_ask(struct holdings *holdings)
{
        struct arena scratch = ARENA_INIT;
        struct checkpoint record;

        if (!holdings->pods) {
                holdings_on_answer(NULL, holdings);
                return;
        }
        if (holdings->recent.count && holdings_read_record(holdings, &scratch, &record))
                note_record(holdings, &record);
        arena_done(&scratch);
        holdings->n_questions++;
        holdings_list(holdings, holdings_on_answer, holdings);
}

void holdings_begin(struct holdings *holdings)
{
        list_within(holdings, holdings->holders ? LIST_INTERVAL_MS : 0);
        holdings_check_socket(holdings);
}

void holdings_list_soon(struct holdings *holdings)
{
        list_within(holdings, LIST_SOON_MS);
}

/* ---- what is known ---- */

const struct holders *holdings_holders(const struct holdings *holdings)
{
        return holdings->holders;
}

const struct holder *holdings_find(const struct holdings *holdings, const char *resource, const char *device)
{
        return holdings->holders ? holders_find(holdings->holders, resource, device) : NULL;
}

const struct holder *holdings_find_named(const struct holdings *holdings, const struct checkpoint_entry *entry)
{
        const struct holder *holder = holdings_find(holdings, entry->resource, entry->devices[0]);

        return holder && holder->pod ? holder : NULL;
}

int64_t holdings_listed_at(const struct holdings *holdings)
{
        return holdings->listed_at;
}

size_t holdings_n_twice(const struct holdings *holdings)
{
        return holdings->n_twice;
}

void holdings_note_request(struct holdings *holdings, const char *resource, const char *const *ids, size_t n_ids)
{
        forget_old_requests(holdings);
        recent_requests_add(&holdings->recent, resource, ids, n_ids, holdings_clock(holdings), holdings->n_questions);
}

static const char *holdings_key_of(struct arena *arena, const struct checkpoint_entry *entry, const char *device)
{
        return arena_printf(arena, "%s\n%s\n%s\n%s", entry->pod_uid, entry->container, entry->resource, device);
}

static void forget_ended(struct holdings *holdings)
{
        map_done(&holdings->ended.ids);
        arena_done(&holdings->ended.arena);
}

/*
 * kubelet's record keeps pods that have ended until it is written for another reason; a container that was seen to have
 * ended stays ended.
 */
static void note_ended(struct holdings *holdings, const struct checkpoint *record)
{
        forget_ended(holdings);
        for (size_t i = 0; i < record->n_entries; i++) {
                const struct checkpoint_entry *entry = &record->entries[i];

                for (size_t j = 0; j < entry->n_devices; j++)
                        if (!holders_find(holdings->holders, entry->resource, entry->devices[j]) &&
                                !recent_requests_find(&holdings->recent, entry->resource, entry->devices[j]))
                                map_add(&holdings->ended.ids,
                                        holdings_key_of(&holdings->ended.arena, entry, entry->devices[j]), holdings);
        }
}

/* For people: the pod and container, by name or by UID. */
static const char *holder_text(
        const struct holdings *holdings, struct arena *arena, const struct checkpoint_entry *entry)
{
        const struct holder *holder = holdings_find_named(holdings, entry);

        if (holder)
                return arena_printf(arena, "%s/%s/%s", holder->pod_namespace, holder->pod, holder->container);
        return arena_printf(arena, "%s/%s", entry->pod_uid, entry->container);
}

static size_t all_of_record(const struct holdings *holdings, struct arena *arena, const struct checkpoint *record,
        struct rollout_held **ret)
{
        size_t count = 0;

        for (size_t i = 0; i < record->n_entries; i++)
                count += record->entries[i].n_devices;
        *ret = ARENA_ARRAY(arena, struct rollout_held, count + HOLDINGS_RECENT_MAX);
        count = 0;
        for (size_t i = 0; i < record->n_entries; i++) {
                const struct checkpoint_entry *entry = &record->entries[i];
                const char *holder = holder_text(holdings, arena, entry);

                for (size_t j = 0; j < entry->n_devices; j++)
                        if (!map_find(&holdings->ended.ids, holdings_key_of(arena, entry, entry->devices[j])))
                                (*ret)[count++] = (struct rollout_held){.resource = entry->resource,
                                        .device = entry->devices[j],
                                        .holder = holder,
                                        .pod_uid = entry->pod_uid};
        }
        return count;
}

enum ledger_word holdings_all(
        struct holdings *holdings, struct arena *arena, struct rollout_held **ret, size_t *ret_count)
{
        bool by_list = holdings->is_new && holdings->holders && holdings_are_whole(holdings);
        struct checkpoint record = {0};
        bool has_record = holdings_read_record(holdings, arena, &record);

        forget_old_requests(holdings);
        if (has_record)
                note_record(holdings, &record);
        if (by_list || (!has_record && holdings->holders)) {
                by_list = true;
                if (has_record)
                        note_ended(holdings, &record);
                *ret_count = holders_all(holdings->holders, arena, HOLDINGS_RECENT_MAX, ret);
        } else {
                *ret_count = all_of_record(holdings, arena, &record, ret);
        }
        *ret_count += recent_requests_take(&holdings->recent, by_list, holdings->n_questions, arena, *ret + *ret_count);
        if (!by_list && !holdings_can_ask(holdings))
                return LEDGER_STALE;
        return has_record || holdings->holders ? LEDGER_LISTED : LEDGER_UNKNOWN;
}

/* ---- begin and end ---- */

int holdings_init(struct holdings *holdings, const struct ledger_options *options,
        const struct mps_resources *resources, void (*on_change)(bool is_listed, void *data), void *data,
        struct error *err)
{
        const struct config *config = options->config;
        _free_ char *folder = file_folder(config->kubelet.socket);

        *holdings = (struct holdings){
                .options = options,
                .resources = resources,
                .on_change = on_change,
                .data = data,
                .paths.socket = xstrdup(config->kubelet.pod_resources),
                .paths.folder = file_folder(config->kubelet.pod_resources),
                .paths.kubelet_socket = xstrdup(config->kubelet.socket),
                .paths.record = xasprintf("%s/" CHECKPOINT_NAME, folder),
                .listed_at = HOLDINGS_NEVER,
                .pace.retry = {.least_ms = RETRY_MIN_MS, .most_ms = RETRY_MAX_MS},
                .pace.repeat = {.least_ms = RETRY_MIN_MS, .most_ms = REPEAT_MAX_MS},
        };
        list_init(&holdings->questions);
        if (*holdings->paths.socket &&
                pod_resources_new(&holdings->pods, options->loop, holdings->paths.socket, err) < 0)
                return -1;
        uv_timer_init(options->loop, &holdings->timer);
        return 0;
}

void holdings_close(struct holdings *holdings, struct closing *closing)
{
        pod_resources_close(TAKE_PTR(holdings->pods));
        while (!list_is_empty(&holdings->questions)) {
                struct question *question = container_of(holdings->questions.next, struct question, link);

                list_remove(&question->link);
                free(question);
        }
        closing_close(closing, &holdings->timer);
}

void holdings_forget(struct holdings *holdings)
{
        uv_timer_stop(&holdings->timer);
        holdings->holders = holders_free(holdings->holders);
        holdings->listed_at = HOLDINGS_NEVER;
        recent_requests_done(&holdings->recent);
        forget_ended(holdings);
}

void holdings_done(struct holdings *holdings)
{
        pod_resources_close(holdings->pods);
        holders_free(holdings->holders);
        recent_requests_done(&holdings->recent);
        forget_ended(holdings);
        free(holdings->paths.socket);
        free(holdings->paths.folder);
        free(holdings->paths.kubelet_socket);
        free(holdings->paths.record);
}
