// SPDX-License-Identifier: Apache-2.0
#include "gpu/hangs.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* ---- call ---- */

void gpu_call_about(enum call_subject subject, unsigned int index, const char *uuid)
{
        struct worker_call *step = worker_own_call();

        step->subject = subject;
        step->index = subject == CALL_ON_GPU ? index : CALL_NO_INDEX;
        snprintf(step->name, sizeof(step->name), "%s", uuid ? uuid : "");
}

void gpu_call_begin(const char *call, uint64_t extra_ms)
{
        struct worker_call *step = worker_own_call();

        step->since_ms = clock_now_ms();
        step->extra_ms = extra_ms;
        step->times = step->subject == CALL_TO_OPEN ? 3 : 1;
        snprintf(step->call, sizeof(step->call), "%s", call);
}

void gpu_call_end(void)
{
        struct worker_call *step = worker_own_call();

        step->call[0] = '\0';
        step->since_ms = clock_now_ms();
}

/* The library that cannot be opened is the driver that does not answer. */
static enum call_subject whom(enum call_subject subject)
{
        return subject == CALL_TO_OPEN ? CALL_ON_DRIVER : subject;
}

bool hang_is_of_driver(const struct worker_call *call)
{
        return whom(call->subject) == CALL_ON_DRIVER;
}

static bool hangs_is_about(
        const struct worker_call *call, enum call_subject subject, unsigned int index, const char *uuid)
{
        if (whom(call->subject) != whom(subject))
                return false;
        if (subject != CALL_ON_GPU)
                return true;
        return *uuid && *call->name ? strcmp(call->name, uuid) == 0 : call->index == index && index != CALL_NO_INDEX;
}

static struct hang *gpu_hangs_find(struct hangs *hangs, enum call_subject subject, unsigned int index, const char *uuid)
{
        for (size_t i = 0; i < hangs->n; i++)
                if (hangs_is_about(&hangs->all[i].call, subject, index, uuid ? uuid : ""))
                        return &hangs->all[i];
        return NULL;
}

struct hang *hangs_find(struct hangs *hangs, enum call_subject subject, unsigned int index, const char *uuid)
{
        struct hang *hang = gpu_hangs_find(hangs, subject, index, uuid);

        return hang && !hang->is_over ? hang : NULL;
}

/* A free one, or the oldest. */
static struct hang *hangs_find_room(struct hangs *hangs)
{
        struct hang *oldest = hangs->all;

        if (hangs->n < HANGS_MAX)
                return &hangs->all[hangs->n++];
        for (size_t i = 1; i < hangs->n; i++)
                if (hangs->all[i].call.since_ms < oldest->call.since_ms)
                        oldest = &hangs->all[i];
        return oldest;
}

static uint64_t pause_after(unsigned int times, uint64_t pause_ms)
{
        for (unsigned int i = 1; i < times && pause_ms < HANG_PAUSE_MAX_MS; i++)
                pause_ms *= 2;
        return MIN(pause_ms, HANG_PAUSE_MAX_MS);
}

bool hangs_add(
        struct hangs *hangs, const struct worker_call *call, bool has_crashed, uint64_t pause_ms, uint64_t now_ms)
{
        struct hang *hang = gpu_hangs_find(hangs, call->subject, call->index, call->name);
        bool is_new = !hang || hang->is_over;

        if (!hang) {
                hang = hangs_find_room(hangs);
                *hang = (struct hang){0};
        }
        if (hang->is_over && now_ms - hang->at_ms > HANG_RELAPSE_MS)
                hang->times = 0;
        if (is_new)
                hang->call = *call;
        hang->has_crashed = has_crashed;
        hang->is_over = hang->is_tried = false;
        hang->times++;
        hang->at_ms = now_ms + pause_after(hang->times, pause_ms);
        return is_new;
}

void hangs_end(struct hang *hang, uint64_t now_ms)
{
        hang->is_over = true;
        hang->is_tried = false;
        hang->at_ms = now_ms;
}

void hang_name_gpu(struct worker_call *call, const struct inventory *inventory)
{
        if (call->subject != CALL_ON_GPU || !inventory)
                return;
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];

                if (*call->name ? gpu_has_unit(gpu, call->name) : gpu->index == call->index) {
                        snprintf(call->name, sizeof(call->name), "%s", gpu->uuid);
                        call->index = gpu->index;
                }
        }
}

void hang_print_lane(const struct worker_call *call, char text[CALL_GPU_SIZE])
{
        if (*call->name)
                snprintf(text, CALL_GPU_SIZE, "%s", call->name);
        else
                snprintf(text, CALL_GPU_SIZE, "subject %u, index %u", (unsigned int)call->subject, call->index);
}

void hang_print(const struct worker_call *call, char *text, size_t size)
{
        if (call->subject != CALL_ON_GPU)
                snprintf(text, size, "%s", call->call);
        else if (call->index == CALL_NO_INDEX)
                snprintf(text, size, "%s of %s", call->call, call->name);
        else if (call->name[0])
                snprintf(text, size, "%s of GPU %u (%s)", call->call, call->index, call->name);
        else
                snprintf(text, size, "%s of GPU %u", call->call, call->index);
}

void hang_explain(const struct worker_call *call, const struct error *cause, uint64_t now_ms, struct error *ret)
{
        char text[200];

        *ret = *cause;
        if (!*call->call)
                return;
        hang_print(call, text, sizeof(text));
        if (cause->kind == ERROR_TIMEOUT)
                error_raise(ret, ERROR_TIMEOUT, "%s does not return: it was given up after %ju s", text,
                        (uintmax_t)hang_seconds(call, now_ms));
        else
                error_raise(ret, cause->kind, "%s has not returned: %s", text, cause->text);
}

uint64_t hang_seconds(const struct worker_call *call, uint64_t now_ms)
{
        return now_ms > call->since_ms ? (now_ms - call->since_ms) / 1000 : 0;
}

/* ---- what must not be asked ---- */

void skips_add(struct skips *skips, const struct worker_call *call, const char *reason)
{
        struct skipped_gpu *gpu;

        skips->pairs = skips->pairs || call->subject == CALL_ON_PAIR;
        if (call->subject != CALL_ON_GPU || skips->n_gpus == HANGS_MAX)
                return;
        gpu = &skips->gpus[skips->n_gpus++];
        gpu->index = call->index;
        snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", call->name);
        snprintf(gpu->reason, sizeof(gpu->reason), "%s", reason);
}

struct skips hangs_skips(const struct hangs *hangs)
{
        struct skips skips = {0};

        for (size_t i = 0; i < hangs->n; i++) {
                const struct hang *hang = &hangs->all[i];
                char reason[160];

                if (hang->is_over)
                        continue;
                snprintf(reason, sizeof(reason), "%s %s; this GPU is asked again from time to time", hang->call.call,
                        hang->has_crashed ? "ended the process that called it" : "does not return");
                skips_add(&skips, &hang->call, reason);
        }
        return skips;
}

const struct skipped_gpu *skips_at(const struct skips *skips, unsigned int index)
{
        for (size_t i = 0; skips && i < skips->n_gpus; i++)
                if (skips->gpus[i].index == index)
                        return &skips->gpus[i];
        return NULL;
}

const struct skipped_gpu *skips_find(const struct skips *skips, const char *uuid)
{
        for (size_t i = 0; skips && i < skips->n_gpus; i++)
                if (strcmp(skips->gpus[i].uuid, uuid) == 0)
                        return &skips->gpus[i];
        return NULL;
}
