// SPDX-License-Identifier: Apache-2.0
#include "mig/manager.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"

static bool manager_enter(struct mig_manager *manager, enum mig_phase phase, uint64_t timeout_ms)
{
        manager->phase = phase;
        manager->timeout_ms = timeout_ms;
        return true;
}

static uint64_t manager_retry_ms(const struct mig_manager *manager)
{
        uint64_t wait = MIG_RETRY_MS;

        for (unsigned int i = 1; i < manager->failures && wait < MIG_RETRY_MAX_MS; i++)
                wait *= 2;
        return MIN(wait, MIG_RETRY_MAX_MS);
}

static bool begin_idle(struct mig_manager *manager, enum mig_state state)
{
        manager->state = state;
        manager->failures = 0;
        manager->reason[0] = '\0';
        return manager_enter(manager, MIG_IDLE, 0);
}

static bool begin_failed(struct mig_manager *manager)
{
        manager->state = MIG_STATE_FAILED;
        manager->failures++;
        return manager_enter(manager, MIG_FAILED, manager->is_final ? 0 : manager_retry_ms(manager));
}

/* The newest configuration. Without one, there is nothing to do. */
static bool begin_planning(struct mig_manager *manager)
{
        if (strcmp(manager->config, manager->wanted) != 0)
                manager->failures = 0;
        memcpy(manager->config, manager->wanted, sizeof(manager->config));
        manager->is_final = manager->is_broken = manager->is_stale = false;
        if (!*manager->config)
                return begin_idle(manager, MIG_STATE_NONE);
        return manager_enter(manager, MIG_PLANNING, 0);
}

static bool manager_finish(struct mig_manager *manager)
{
        if (strcmp(manager->config, manager->wanted) != 0 || manager->outcome == MIG_STATE_NONE || manager->is_stale)
                return begin_planning(manager);
        return manager->outcome == MIG_STATE_FAILED ? begin_failed(manager) : begin_idle(manager, manager->outcome);
}

/* Gives back the withdrawn GPUs first, if there are any; the outcome is reported afterwards. */
static bool manager_end(struct mig_manager *manager, enum mig_state outcome)
{
        manager->outcome = outcome;
        return manager->is_withdrawn ? manager_enter(manager, MIG_RETAKING, 0) : manager_finish(manager);
}

static bool end_change(struct mig_manager *manager, enum mig_result result)
{
        manager->results[result]++;
        return manager_end(manager, result == MIG_RESULT_APPLIED ? MIG_STATE_SUCCESS : MIG_STATE_FAILED);
}

static bool end_without_reboot(struct mig_manager *manager)
{
        char why[MIG_REASON_SIZE];

        memcpy(why, manager->reason, sizeof(why));
        manager->is_final = true;
        snprintf(manager->reason, sizeof(manager->reason), "%s%s%.400s",
                manager->has_rebooted
                        ? "the node was rebooted, and another reboot would be needed to change the MIG mode"
                        : "the node has to be rebooted to change the MIG mode",
                *why ? ": " : "", why);
        return end_change(manager, MIG_RESULT_FAILED);
}

static bool on_needs_reboot(struct mig_manager *manager)
{
        if (!manager->may_reboot || manager->has_rebooted)
                return end_without_reboot(manager);
        manager->state = MIG_STATE_REBOOTING;
        return manager_enter(manager, MIG_REBOOTING, MIG_REBOOT_MS);
}

/* Starts over with the newest name, before anything was touched. False: the name is the same. */
static bool start_over(struct mig_manager *manager)
{
        if (strcmp(manager->config, manager->wanted) == 0)
                return false;
        return *manager->wanted ? begin_planning(manager) : manager_end(manager, MIG_STATE_NONE);
}

static bool step_resuming(struct mig_manager *manager, enum mig_event event)
{
        switch (event) {
        case MIG_EVENT_RESUMED:
                manager->failures = 0;
                manager->results[MIG_RESULT_RESUMED] += manager->is_withdrawn;
                return manager_end(manager, manager->is_broken ? MIG_STATE_FAILED : MIG_STATE_NONE);
        case MIG_EVENT_NEEDS_REBOOT:
                memcpy(manager->config, manager->wanted, sizeof(manager->config));
                manager->waits_for_name = !manager->has_wanted;
                return on_needs_reboot(manager);
        case MIG_EVENT_FAILED:
                manager->state = MIG_STATE_FAILED;
                manager->failures++;
                manager->timeout_ms = manager_retry_ms(manager);
                return false;
        case MIG_EVENT_TIMEOUT:
                return manager_enter(manager, MIG_RESUMING, 0);
        default:
                return false;
        }
}

/* Planning, waiting and releasing: nothing has been touched. Events of another of the three change nothing. */
static bool step_before_applying(struct mig_manager *manager, enum mig_event event)
{
        const bool is_planning = manager->phase == MIG_PLANNING;
        const bool is_releasing = manager->phase == MIG_RELEASING;

        if (event == MIG_EVENT_WANT)
                return start_over(manager);
        if (event == MIG_EVENT_AGAIN)
                return !is_releasing && begin_planning(manager);
        if (event == MIG_EVENT_FAILED)
                return end_change(manager, MIG_RESULT_REFUSED);
        if (is_planning && event == MIG_EVENT_SAME)
                return manager_end(manager, MIG_STATE_SUCCESS);
        if (is_releasing && event == MIG_EVENT_HELD)
                return manager_enter(manager, MIG_WAITING, 0);
        if (is_releasing && event == MIG_EVENT_TIMEOUT) {
                if (!*manager->reason)
                        snprintf(manager->reason, sizeof(manager->reason), "the GPUs are not released in time");
                return end_change(manager, MIG_RESULT_REFUSED);
        }
        if (event != (is_planning ? MIG_EVENT_CHANGES : is_releasing ? MIG_EVENT_RELEASED : MIG_EVENT_UNHELD))
                return false;
        manager->reason[0] = '\0';
        if (is_releasing)
                return manager_enter(manager, MIG_APPLYING, 0);
        if (!is_planning)
                return manager_enter(manager, MIG_RELEASING, MIG_RELEASE_MS);
        manager->state = MIG_STATE_PENDING;
        manager->is_withdrawn = true;
        return manager_enter(manager, MIG_WAITING, 0);
}

static bool step_applying(struct mig_manager *manager, enum mig_event event)
{
        switch (event) {
        case MIG_EVENT_APPLIED:
                return end_change(manager, MIG_RESULT_APPLIED);
        case MIG_EVENT_NEEDS_REBOOT:
                return on_needs_reboot(manager);
        case MIG_EVENT_BROKEN:
                manager->is_broken = true;
                return manager_enter(manager, MIG_RESUMING, 0);
        case MIG_EVENT_FAILED:
                return end_change(manager, MIG_RESULT_FAILED);
        default:
                return false;
        }
}

static bool step_rebooting(struct mig_manager *manager, enum mig_event event)
{
        if (event == MIG_EVENT_TIMEOUT)
                snprintf(manager->reason, sizeof(manager->reason),
                        "the node was told to reboot to change the MIG mode, and did not");
        else if (event != MIG_EVENT_FAILED)
                return false;
        manager->is_final = true;
        return end_change(manager, MIG_RESULT_FAILED);
}

bool mig_manager_step(struct mig_manager *manager, enum mig_event event)
{
        manager->is_stale = manager->is_stale || event == MIG_EVENT_AGAIN;
        switch (manager->phase) {
        case MIG_IDLE:
        case MIG_FAILED:
                if (event == MIG_EVENT_WANT || event == MIG_EVENT_AGAIN ||
                        (event == MIG_EVENT_TIMEOUT && manager->phase == MIG_FAILED))
                        return begin_planning(manager);
                return false;
        case MIG_RESUMING:
                return step_resuming(manager, event);
        case MIG_PLANNING:
        case MIG_WAITING:
        case MIG_RELEASING:
                return step_before_applying(manager, event);
        case MIG_APPLYING:
                return step_applying(manager, event);
        case MIG_RETAKING:
                if (event != MIG_EVENT_RETAKEN)
                        return false;
                manager->is_withdrawn = false;
                return manager_finish(manager);
        case MIG_REBOOTING:
                return step_rebooting(manager, event);
        }
        return false;
}

void mig_manager_begin(struct mig_manager *manager, bool is_withdrawn)
{
        manager->is_withdrawn = is_withdrawn;
        (void)manager_enter(manager, MIG_RESUMING, 0);
}

bool mig_manager_want(struct mig_manager *manager, const char *name)
{
        char copy[MIG_CONFIG_NAME_SIZE] = {0};

        snprintf(copy, sizeof(copy), "%s", name);
        manager->has_wanted = true;
        if (manager->waits_for_name) { /* whether the label or the end of the old change came first is chance */
                memcpy(manager->config, copy, sizeof(copy));
                memcpy(manager->wanted, copy, sizeof(copy));
                manager->waits_for_name = false;
                return false;
        }
        if (strcmp(manager->wanted, copy) == 0)
                return false;
        memcpy(manager->wanted, copy, sizeof(copy));
        return true;
}

/* ---- words ---- */

static const char *const state_names[] = {[MIG_STATE_NONE] = "",
        [MIG_STATE_PENDING] = "pending",
        [MIG_STATE_SUCCESS] = "success",
        [MIG_STATE_FAILED] = "failed",
        [MIG_STATE_REBOOTING] = "rebooting"};

const char *mig_phase_name(enum mig_phase phase)
{
        static const char *const names[] = {[MIG_IDLE] = "idle",
                [MIG_RESUMING] = "resuming",
                [MIG_PLANNING] = "planning",
                [MIG_WAITING] = "waiting",
                [MIG_RELEASING] = "releasing",
                [MIG_APPLYING] = "applying",
                [MIG_RETAKING] = "retaking",
                [MIG_FAILED] = "failed",
                [MIG_REBOOTING] = "rebooting"};

        return names[phase];
}

const char *mig_result_name(enum mig_result result)
{
        static const char *const names[] = {[MIG_RESULT_APPLIED] = "applied",
                [MIG_RESULT_REFUSED] = "refused",
                [MIG_RESULT_FAILED] = "failed",
                [MIG_RESULT_RESUMED] = "resumed"};

        return names[result];
}

const char *mig_state_name(enum mig_state state)
{
        return state_names[state];
}

enum mig_state mig_state_parse(const char *text)
{
        for (unsigned int i = MIG_STATE_PENDING; i < ARRAY_SIZE(state_names); i++)
                if (strcmp(state_names[i], text) == 0)
                        return (enum mig_state)i;
        return MIG_STATE_NONE;
}

/* ---- what a change withdraws ---- */

static bool is_true(const json_t *object, const char *key)
{
        return json_is_true(json_object_get(object, key));
}

static const char *handover_text_of(const json_t *object, const char *key)
{
        const char *text = json_string_value(json_object_get(object, key));

        return text ? text : "";
}

static const char *find_object(const char *output)
{
        for (const char *line = output; line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (*line == '{')
                        return line;
        }
        return NULL;
}

/* Reads the UUIDs of the MIG devices that stay. An instance has several if it has several compute instances. */
static void read_stays(struct mig_handover *handover, struct mig_handover_gpu *gpu, const json_t *stays)
{
        const char **uuids;
        size_t most = 0;

        for (size_t i = 0; i < json_array_size(stays); i++)
                most += json_array_size(json_object_get(json_array_get(stays, i), "uuids"));
        uuids = ARENA_ARRAY(&handover->arena, const char *, most);
        for (size_t i = 0; i < json_array_size(stays); i++) {
                const json_t *of = json_object_get(json_array_get(stays, i), "uuids");

                for (size_t j = 0; j < json_array_size(of); j++) {
                        const char *uuid = json_string_value(json_array_get(of, j));

                        if (uuid)
                                uuids[gpu->n_stays++] = arena_strdup(&handover->arena, uuid);
                }
        }
        gpu->stays = uuids;
}

static void handover_read_gpus(struct mig_handover *handover, const json_t *gpus)
{
        handover->n_seen = json_array_size(gpus);
        handover->gpus = ARENA_ARRAY(&handover->arena, struct mig_handover_gpu, handover->n_seen);
        for (size_t i = 0; i < handover->n_seen; i++) {
                const json_t *from = json_array_get(gpus, i);
                struct mig_handover_gpu *gpu = &handover->gpus[handover->n_gpus];

                if (!is_true(from, "changes"))
                        continue;
                handover->n_gpus++;
                handover->needs_reset = handover->needs_reset ||
                                        strcmp(handover_text_of(json_object_get(from, "mode"), "needs"), "reset") == 0;
                gpu->uuid = arena_strdup(&handover->arena, handover_text_of(from, "uuid"));
                if (strcmp(handover_text_of(json_object_get(from, "mode"), "needs"), "nothing") == 0)
                        read_stays(handover, gpu, json_object_get(from, "stays"));
        }
}

int mig_handover_read(struct mig_handover *ret, const char *output, struct error *err)
{
        const char *start = find_object(output);
        json_error_t trouble = {.text = "it has no JSON object"};
        json_t *json = start ? json_loads(start, JSON_DISABLE_EOF_CHECK, &trouble) : NULL;

        *ret = (struct mig_handover){.config = "", .text = "", .reason = ""};
        if (!json)
                return error_set(err, ERROR_INVALID, "the answer of 'warpshare mig plan': %s", trouble.text);
        ret->config = arena_strdup(&ret->arena, handover_text_of(json, "config"));
        ret->text = arena_strdup(&ret->arena, start);
        ret->fits = is_true(json, "fits");
        ret->reason = arena_strdup(&ret->arena, handover_text_of(json, "reason"));
        handover_read_gpus(ret, json_object_get(json, "gpus"));
        json_decref(json);
        return 0;
}

void mig_handover_done(struct mig_handover *handover)
{
        arena_done(&handover->arena);
        *handover = (struct mig_handover){.config = "", .text = "", .reason = ""};
}

bool mig_handover_takes(const struct mig_handover *handover, const char *gpu, const char *unit)
{
        for (size_t i = 0; i < handover->n_gpus; i++) {
                const struct mig_handover_gpu *taken = &handover->gpus[i];

                if (strcmp(taken->uuid, gpu) != 0)
                        continue;
                for (size_t j = 0; j < taken->n_stays; j++)
                        if (strcmp(taken->stays[j], unit) == 0)
                                return false;
                return true;
        }
        return false;
}
