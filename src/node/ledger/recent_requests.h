/*
 * Devices that kubelet asked for lately. Until kubelet has read our answer, neither its list nor its record has them.
 *
 * |n_questions| counts the questions to kubelet about who holds what. An answer to a question that was asked after a
 * request was recorded has that request's devices.
 */
#pragma once

#include "plan/checkpoint.h"
#include "plan/rollout.h"

/* More are not remembered; the oldest go first. */
#define RECENT_REQUESTS_MAX ((size_t)1024)

struct recent_request;

struct recent_requests {
        struct recent_request *all; /* one for each device, from the oldest to the newest */
        size_t count;
};

void recent_requests_done(struct recent_requests *requests);

/*
 * A request. A previous one for the same device is over: its container has ended, or is an init container of the same
 * pod. kubelet admits pods one by one, so its record has all earlier requests by now.
 */
void recent_requests_add(struct recent_requests *requests, const char *resource, const char *const *ids, size_t n_ids,
        int64_t now, uint64_t n_questions);

/* Marks the requests that kubelet's record contains. */
void recent_requests_note_record(
        struct recent_requests *requests, const struct checkpoint *record, uint64_t n_questions);

/* Forgets those made before |time|: kubelet has recorded or dropped them. */
void recent_requests_forget_before(struct recent_requests *requests, int64_t time);

bool recent_requests_have(const struct recent_requests *requests, const char *resource, const char *device);

/*
 * Adds to |held|, with copies in |arena|, the requests that are too new for kubelet's checkpoint and, with |by_list|,
 * for its newest list. Forgets the others.
 */
size_t recent_requests_take(struct recent_requests *requests, bool by_list, uint64_t n_questions, struct arena *arena,
        struct rollout_held *held);
