#include "gpu/hangs.h"

#include <stdio.h>
#include <string.h>

/* The same GPU, or both about no GPU in particular. */
static bool is_about_the_same(const struct call_info *a, const struct call_info *b)
{
        if (a->subject != b->subject)
                return false;
        return a->subject != CALL_ON_GPU || a->index == b->index;
}

enum hang_answer hang_judge(const struct call_info *call, const struct call_info *dismissed, size_t n_dismissed)
{
        if (call->subject == CALL_TO_OPEN || n_dismissed >= HANGS_MAX)
                return HANG_WAIT;
        for (size_t i = 0; i < n_dismissed; i++)
                if (is_about_the_same(call, &dismissed[i]))
                        return HANG_WAIT;
        return HANG_REPLACE;
}

bool hang_has_events(const struct call_info *call)
{
        return strncmp(call->call, "nvmlEventSetWait", strlen("nvmlEventSetWait")) == 0;
}

void hang_name_gpu(struct call_info *call, const struct inventory *inventory)
{
        if (call->subject != CALL_ON_GPU || call->gpu[0] || !inventory)
                return;
        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (inventory->gpus[i].index == call->index)
                        snprintf(call->gpu, sizeof(call->gpu), "%s", inventory->gpus[i].uuid);
}

void hang_print(const struct call_info *call, char *text, size_t size)
{
        if (call->subject != CALL_ON_GPU)
                snprintf(text, size, "%s", call->call);
        else if (call->index == CALL_NO_INDEX)
                snprintf(text, size, "%s of %s", call->call, call->gpu);
        else if (call->gpu[0])
                snprintf(text, size, "%s of GPU %u (%s)", call->call, call->index, call->gpu);
        else
                snprintf(text, size, "%s of GPU %u", call->call, call->index);
}

void hang_explain(const struct call_info *call, const struct error *cause, uint64_t now_ms, struct error *ret)
{
        char text[200];

        *ret = *cause;
        if (!call->call)
                return;
        hang_print(call, text, sizeof(text));
        if (cause->kind == ERROR_TIMEOUT)
                error_raise(ret, ERROR_TIMEOUT, "%s does not return: it was given up after %ju s", text,
                        (uintmax_t)hang_seconds(call, now_ms));
        else
                error_raise(ret, cause->kind, "%s has not returned: %s", text, cause->text);
}

uint64_t hang_seconds(const struct call_info *call, uint64_t now_ms)
{
        return now_ms > call->since_ms ? (now_ms - call->since_ms) / 1000 : 0;
}

void skips_add(struct skips *skips, const struct call_info *call, bool is_over)
{
        struct skipped_gpu *gpu = &skips->gpus[skips->n_gpus];

        skips->pairs = skips->pairs || call->subject == CALL_ON_PAIR;
        if (call->subject != CALL_ON_GPU || skips->n_gpus == SKIPS_MAX)
                return;
        skips->n_gpus++;
        gpu->index = call->index;
        snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", call->gpu);
        if (is_over)
                snprintf(gpu->reason, sizeof(gpu->reason),
                        "%s took too long again and again; this GPU is polled again later", call->call);
        else
                snprintf(gpu->reason, sizeof(gpu->reason), "%s does not return; this GPU is not polled until it does",
                        call->call);
}

/* The entry of this GPU, or else a free one, or else the oldest. */
static struct hang_past *find_past(struct hang_history *history, const struct call_info *call)
{
        struct hang_past *oldest = history->past;

        for (size_t i = 0; i < history->n_past; i++) {
                struct hang_past *past = &history->past[i];

                if (is_about_the_same(&past->call, call))
                        return past;
                if (past->asked_at_ms < oldest->asked_at_ms)
                        oldest = past;
        }
        if (history->n_past < HANGS_MAX)
                oldest = &history->past[history->n_past++];
        *oldest = (struct hang_past){.call = *call};
        return oldest;
}

static uint64_t pause_after(unsigned int times, uint64_t pause_ms)
{
        uint64_t pause = times > 1 ? pause_ms : 0;

        for (unsigned int i = 2; i < times && pause < HANG_PAUSE_MAX_MS; i++)
                pause *= 2;
        return MIN(pause, HANG_PAUSE_MAX_MS);
}

uint64_t hang_history_add(
        struct hang_history *history, const struct call_info *call, uint64_t pause_ms, uint64_t now_ms)
{
        struct hang_past *past = find_past(history, call);
        uint64_t pause;

        if (past->times && call->since_ms > past->asked_at_ms + HANG_RELAPSE_MS)
                past->times = 0;
        past->times++;
        pause = pause_after(past->times, pause_ms);
        past->asked_at_ms = now_ms + pause;
        return pause;
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
