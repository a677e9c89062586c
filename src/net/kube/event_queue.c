// SPDX-License-Identifier: Apache-2.0
#include "net/kube/event_queue.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/text.h"

/* The balance in milliseconds: a token costs the time in which it is refilled. */
struct bucket {
        int64_t credit_ms;
        int64_t at_ms;
};

/* An object with events, and its tokens. */
struct subject {
        struct list link;
        struct event event; /* of which only |about| is set, in |texts| */
        struct bucket bucket;
        char texts[];
};

struct entry {
        struct list link;
        struct event_entry reported; /* must be first: callers get a pointer to it */
        bool again;                  /* it happened again while it was being sent */
        struct event_tries tries;
        char texts[]; /* texts of the event */
};

struct event_queue {
        struct list waiting;   /* in the order in which they came */
        struct list reported;  /* in the order in which they last happened */
        struct entry *sending; /* one of |waiting| */
        struct event_server server;
        size_t n_entries;
        struct list subjects; /* in the order in which they were last reported */
        size_t n_subjects;
        struct bucket total;
        bool has_begun; /* false: |total| is filled at the first event */
        unsigned int serial;
        uint64_t dropped;
};

/* ---- texts ---- */

/* The texts of an event; those of its object are the first. */
enum { N_OBJECT_TEXTS = 5, N_TEXTS = 7 };

struct texts {
        const char **at[N_TEXTS];
};

static struct texts texts_of(const struct event *event)
{
        struct event *of = (struct event *)(uintptr_t)event;

        return (struct texts){{&of->about.api_version, &of->about.kind, &of->about.namespace, &of->about.name,
                &of->about.uid, &of->reason, &of->message}};
}

static const char *text_or_empty(const char *text)
{
        return text ? text : "";
}

static bool has_same_texts(const struct event *a, const struct event *b, size_t count)
{
        const struct texts x = texts_of(a);
        const struct texts y = texts_of(b);
        bool is_same = true;

        for (size_t i = 0; i < count; i++)
                is_same &= strcmp(text_or_empty(*x.at[i]), text_or_empty(*y.at[i])) == 0;
        return is_same;
}

static size_t size_of_texts(const struct event *event)
{
        const struct texts texts = texts_of(event);
        size_t size = 0;

        for (size_t i = 0; i < N_TEXTS; i++)
                size += strlen(text_or_empty(*texts.at[i])) + 1;
        return size;
}

/* The texts go to |at|, which has room for size_of_texts(). */
static void copy_event(struct event *to, const struct event *from, char *at)
{
        const struct texts texts = texts_of(from);
        const struct texts copies = texts_of(to);

        to->is_warning = from->is_warning;
        for (size_t i = 0; i < N_TEXTS; i++) {
                *copies.at[i] = at;
                at = stpcpy(at, text_or_empty(*texts.at[i])) + 1;
        }
}

static char *fit_message(const char *message)
{
        static const char dots[] = "…";
        char *text = xstrdup(text_or_empty(message));
        size_t end = EVENT_MESSAGE_MAX - (sizeof(dots) - 1);

        text_clean(text);
        if (strlen(text) <= EVENT_MESSAGE_MAX)
                return text;
        while (end > 0 && ((unsigned char)text[end] & 0xc0U) == 0x80U)
                end--; /* do not cut within a character */
        memcpy(text + end, dots, sizeof(dots));
        return text;
}

/* ---- tokens ---- */

static void bucket_fill(struct bucket *bucket, unsigned int burst, int64_t refill_ms, int64_t now_ms)
{
        int64_t most = burst * refill_ms;
        int64_t elapsed = MAX(now_ms - bucket->at_ms, INT64_C(0));

        bucket->credit_ms = elapsed >= most ? most : MIN(bucket->credit_ms + elapsed, most);
        bucket->at_ms = now_ms;
}

static struct subject *find_subject(const struct event_queue *queue, const struct event *event)
{
        LIST_FOR_EACH(link, &queue->subjects) {
                struct subject *subject = container_of(link, struct subject, link);

                if (has_same_texts(&subject->event, event, N_OBJECT_TEXTS))
                        return subject;
        }
        return NULL;
}

static void free_subject(struct event_queue *queue, struct subject *subject)
{
        assert(subject && queue->n_subjects > 0);
        list_remove(&subject->link);
        free(subject);
        queue->n_subjects--;
}

static struct subject *need_subject(struct event_queue *queue, const struct event *event, int64_t now_ms)
{
        const struct event about = {.about = event->about};
        struct subject *subject = find_subject(queue, event);

        if (subject) {
                list_remove(&subject->link);
                bucket_fill(&subject->bucket, EVENT_OBJECT_BURST, EVENT_OBJECT_REFILL_MS, now_ms);
        } else {
                if (queue->n_subjects == EVENT_QUEUE_MAX)
                        free_subject(queue, container_of(queue->subjects.next, struct subject, link));
                subject = xcalloc(1, sizeof(*subject) + size_of_texts(&about));
                copy_event(&subject->event, &about, subject->texts);
                subject->bucket = (struct bucket){EVENT_OBJECT_BURST * EVENT_OBJECT_REFILL_MS, now_ms};
                queue->n_subjects++;
        }
        list_append(&queue->subjects, &subject->link);
        return subject;
}

static bool event_queue_take_token(struct event_queue *queue, const struct event *event, int64_t now_ms)
{
        struct subject *subject = need_subject(queue, event, now_ms);

        if (!queue->has_begun)
                queue->total = (struct bucket){EVENT_TOTAL_BURST * EVENT_TOTAL_REFILL_MS, now_ms};
        queue->has_begun = true;
        bucket_fill(&queue->total, EVENT_TOTAL_BURST, EVENT_TOTAL_REFILL_MS, now_ms);
        if (subject->bucket.credit_ms < EVENT_OBJECT_REFILL_MS || queue->total.credit_ms < EVENT_TOTAL_REFILL_MS)
                return false;
        subject->bucket.credit_ms -= EVENT_OBJECT_REFILL_MS;
        queue->total.credit_ms -= EVENT_TOTAL_REFILL_MS;
        return true;
}

/* ---- tries ---- */

static uint64_t wait_after(const struct event_server *server, unsigned int failures, uint64_t asked_ms, uint32_t random)
{
        struct backoff backoff = {.least_ms = server->least_ms, .most_ms = server->most_ms, .failures = failures};

        return backoff_next(&backoff, asked_ms, random);
}

/* The server works but did not accept this event. */
static bool is_strike(const struct event_tries *tries, const struct event_server *server)
{
        return tries->failures > 0 && tries->taken != server->taken;
}

void event_tries_fail(struct event_tries *tries, struct event_server *server, const struct event_failure *failure)
{
        bool strikes = is_strike(tries, server);

        if (strikes || tries->failures == 0)
                server->failing++; /* otherwise it was counted at its first failure */
        server->due_ms =
                failure->now_ms + wait_after(server, server->failing - 1, failure->retry_after_ms, failure->random);
        tries->due_ms = failure->now_ms + wait_after(server, tries->failures, 0, failure->random);
        tries->strikes += strikes;
        tries->failures++;
        tries->taken = server->taken;
}

void event_server_take(struct event_server *server)
{
        server->taken++;
        server->failing = 0;
        server->due_ms = 0;
}

bool event_tries_are_last(const struct event_tries *tries, const struct event_server *server)
{
        return tries->strikes + is_strike(tries, server) >= EVENT_STRIKES || tries->failures + 1 >= EVENT_TRIES;
}

uint64_t event_tries_due(const struct event_tries *tries, const struct event_server *server)
{
        return MAX(tries->due_ms, server->due_ms);
}

/* ---- entries ---- */

static struct entry *event_queue_find_among(const struct list *list, const struct event *event)
{
        LIST_FOR_EACH(link, list) {
                struct entry *entry = container_of(link, struct entry, link);

                if (entry->reported.event.is_warning == event->is_warning &&
                        has_same_texts(&entry->reported.event, event, N_TEXTS))
                        return entry;
        }
        return NULL;
}

static void event_queue_free_entry(struct event_queue *queue, struct entry *entry)
{
        list_remove(&entry->link);
        free(entry);
        queue->n_entries--;
}

/*
 * Drops the oldest event that was sent, which loses only its count; else the oldest waiting one, but not the one being
 * sent.
 */
static void make_room(struct event_queue *queue)
{
        struct list *from = list_is_empty(&queue->reported) ? &queue->waiting : &queue->reported;
        struct entry *oldest = container_of(from->next, struct entry, link);

        if (queue->n_entries < EVENT_QUEUE_MAX)
                return;
        if (oldest == queue->sending)
                oldest = container_of(oldest->link.next, struct entry, link);
        queue->dropped += oldest->reported.is_new;
        event_queue_free_entry(queue, oldest);
}

/* the form of client-go, "<object>.<nanoseconds in hex>"; the serial distinguishes events within one millisecond */
static void name_entry(struct event_queue *queue, struct entry *entry, int64_t now_ms)
{
        uint64_t number = (uint64_t)now_ms * 1000000 + queue->serial++ % 1000000;
        char suffix[24];
        int length = snprintf(suffix, sizeof(suffix), ".%" PRIx64, number);

        snprintf(entry->reported.name, sizeof(entry->reported.name), "%.*s%s",
                (int)sizeof(entry->reported.name) - 1 - length, entry->reported.event.about.name, suffix);
}

static void kube_event_queue_add(struct event_queue *queue, const struct event *event, int64_t now_ms)
{
        struct entry *entry = xcalloc(1, sizeof(*entry) + size_of_texts(event));

        make_room(queue);
        copy_event(&entry->reported.event, event, entry->texts);
        entry->reported.count = 1;
        entry->reported.first_ms = entry->reported.last_ms = now_ms;
        entry->reported.is_new = true;
        name_entry(queue, entry, now_ms);
        list_append(&queue->waiting, &entry->link);
        queue->n_entries++;
}

static void event_queue_count(struct entry *entry, int64_t now_ms)
{
        if (entry->reported.count < INT32_MAX)
                entry->reported.count++; /* the API's type is int32 */
        entry->reported.last_ms = now_ms;
}

/* True: there is something new to send. */
static bool event_queue_repeat(struct event_queue *queue, const struct event *event, int64_t now_ms, bool *ret_found)
{
        struct entry *entry = event_queue_find_among(&queue->waiting, event);

        *ret_found = true;
        if (entry) {
                event_queue_count(entry, now_ms);
                if (entry == queue->sending)
                        entry->again = entry->again || event_queue_take_token(queue, event, now_ms);
                return false; /* sent with the waiting one, or after the one being sent */
        }
        entry = event_queue_find_among(&queue->reported, event);
        if (entry && now_ms - entry->reported.last_ms <= EVENT_WINDOW_MS) {
                bool paid = event_queue_take_token(queue, event, now_ms);

                event_queue_count(entry, now_ms);
                list_remove(&entry->link);
                list_append(paid ? &queue->waiting : &queue->reported, &entry->link);
                return paid;
        }
        if (entry)
                event_queue_free_entry(queue, entry);
        *ret_found = false;
        return false;
}

/* ---- public ---- */

struct event_queue *event_queue_new(uint64_t retry_ms)
{
        struct event_queue *queue = xcalloc(1, sizeof(*queue));

        queue->server.least_ms = retry_ms ? retry_ms : EVENT_RETRY_MS;
        queue->server.most_ms = retry_ms ? retry_ms : EVENT_RETRY_MAX_MS;
        list_init(&queue->waiting);
        list_init(&queue->reported);
        list_init(&queue->subjects);
        return queue;
}

struct event_queue *event_queue_free(struct event_queue *queue)
{
        if (!queue)
                return NULL;
        while (!list_is_empty(&queue->waiting))
                event_queue_free_entry(queue, container_of(queue->waiting.next, struct entry, link));
        while (!list_is_empty(&queue->reported))
                event_queue_free_entry(queue, container_of(queue->reported.next, struct entry, link));
        while (!list_is_empty(&queue->subjects))
                free_subject(queue, container_of(queue->subjects.next, struct subject, link));
        free(queue);
        return NULL;
}

bool event_queue_add(struct event_queue *queue, const struct event *event, int64_t now_ms)
{
        _free_ char *message = fit_message(event->message);
        struct event fitting = *event;
        bool is_known;
        bool is_news;

        fitting.message = message;
        is_news = event_queue_repeat(queue, &fitting, now_ms, &is_known);
        if (is_known)
                return is_news;
        if (!event_queue_take_token(queue, &fitting, now_ms)) {
                queue->dropped++;
                return false;
        }
        kube_event_queue_add(queue, &fitting, now_ms);
        return true;
}

/* NULL: none waits. */
static struct entry *find_first_due(const struct event_queue *queue)
{
        struct entry *first = NULL;

        LIST_FOR_EACH(link, &queue->waiting) {
                struct entry *entry = container_of(link, struct entry, link);

                if (!first || entry->tries.due_ms < first->tries.due_ms)
                        first = entry;
        }
        return first;
}

const struct event_entry *event_queue_next(struct event_queue *queue, uint64_t clock_ms, uint64_t *ret_wait_ms)
{
        struct entry *entry = queue->sending ? NULL : find_first_due(queue);
        uint64_t due = entry ? event_tries_due(&entry->tries, &queue->server) : 0;

        if (!entry || due > clock_ms) {
                *ret_wait_ms = entry ? due - clock_ms : UINT64_MAX;
                return NULL;
        }
        queue->sending = entry;
        entry->again = false;
        return &entry->reported;
}

bool event_queue_is_last_try(const struct event_queue *queue)
{
        return event_tries_are_last(&queue->sending->tries, &queue->server);
}

void event_queue_settle(struct event_queue *queue, enum event_outcome outcome, const struct event_failure *failure)
{
        struct entry *entry = TAKE_PTR(queue->sending);

        assert(entry);
        switch (outcome) {
        case EVENT_SENT:
                event_server_take(&queue->server);
                entry->tries = (struct event_tries){0};
                entry->reported.is_new = false;
                list_remove(&entry->link);
                list_append(entry->again ? &queue->waiting : &queue->reported, &entry->link);
                break;
        case EVENT_FAILED:
                event_tries_fail(&entry->tries, &queue->server, failure);
                break;
        case EVENT_LOST:
                entry->reported.is_new = true;
                break;
        case EVENT_REFUSED:
        case EVENT_GIVEN_UP:
                queue->dropped++;
                event_queue_free_entry(queue, entry);
                break;
        }
}

bool event_queue_is_well(const struct event_queue *queue)
{
        LIST_FOR_EACH(link, &queue->waiting) {
                if (container_of(link, struct entry, link)->tries.failures > 0)
                        return false;
        }
        return true;
}

uint64_t event_queue_dropped(const struct event_queue *queue)
{
        return queue->dropped;
}
