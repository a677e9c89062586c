#include "node/ledger/recent_requests.h"

#include <string.h>

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

void recent_requests_done(struct recent_requests *requests)
{
        while (requests->count)
                forget_at(requests, requests->count - 1);
        free(TAKE_PTR(requests->all));
}

void recent_requests_forget_before(struct recent_requests *requests, int64_t time)
{
        while (requests->count && requests->all[0].since < time)
                forget_at(requests, 0);
}

static struct recent_request *recent_requests_find_request(
        const struct recent_requests *requests, const char *resource, const char *device)
{
        for (size_t i = 0; i < requests->count; i++)
                if (strcmp(requests->all[i].device, device) == 0 && strcmp(requests->all[i].resource, resource) == 0)
                        return &requests->all[i];
        return NULL;
}

bool recent_requests_have(const struct recent_requests *requests, const char *resource, const char *device)
{
        return recent_requests_find_request(requests, resource, device) != NULL;
}

static void mark_recorded(struct recent_request *request, uint64_t n_questions)
{
        if (!request->is_recorded)
                request->recorded_at = n_questions;
        request->is_recorded = true;
}

void recent_requests_add(struct recent_requests *requests, const char *resource, const char *const *ids, size_t n_ids,
        int64_t now, uint64_t n_questions)
{
        for (size_t i = 0; i < requests->count; i++)
                mark_recorded(&requests->all[i], n_questions);
        if (!requests->all)
                requests->all = xcalloc(RECENT_REQUESTS_MAX, sizeof(*requests->all));
        for (size_t i = 0; i < n_ids; i++) {
                const struct recent_request *previous = recent_requests_find_request(requests, resource, ids[i]);

                if (previous)
                        forget_at(requests, (size_t)(previous - requests->all));
                if (requests->count == RECENT_REQUESTS_MAX)
                        forget_at(requests, 0);
                requests->all[requests->count++] =
                        (struct recent_request){.resource = xstrdup(resource), .device = xstrdup(ids[i]), .since = now};
        }
}

void recent_requests_note_record(
        struct recent_requests *requests, const struct checkpoint *record, uint64_t n_questions)
{
        for (size_t i = 0; i < record->n_entries && requests->count; i++)
                for (size_t j = 0; j < record->entries[i].n_devices; j++) {
                        struct recent_request *request = recent_requests_find_request(
                                requests, record->entries[i].resource, record->entries[i].devices[j]);

                        if (request)
                                mark_recorded(request, n_questions);
                }
}

size_t recent_requests_take(struct recent_requests *requests, bool by_list, uint64_t n_questions, struct arena *arena,
        struct rollout_held *held)
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
