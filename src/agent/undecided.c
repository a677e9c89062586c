// SPDX-License-Identifier: Apache-2.0
#include "agent/undecided.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

struct seen_gpu {
        const char *uuid;
        bool is_decided;
};

struct undecided {
        struct arena arena; /* of what follows */
        struct seen_gpu *gpus;
        size_t n_gpus;
        uv_timer_t timer;
        void (*passed)(void *data);
        void *data;
};

static struct seen_gpu *find_seen(const struct undecided *undecided, const char *uuid)
{
        for (size_t i = 0; i < undecided->n_gpus; i++)
                if (strcmp(undecided->gpus[i].uuid, uuid) == 0)
                        return &undecided->gpus[i];
        return NULL;
}

bool undecided_has(const struct undecided *undecided, const char *uuid)
{
        const struct seen_gpu *gpu = find_seen(undecided, uuid);

        return gpu && !gpu->is_decided;
}

bool undecided_has_any(const struct undecided *undecided)
{
        for (size_t i = 0; i < undecided->n_gpus; i++)
                if (!undecided->gpus[i].is_decided)
                        return true;
        return false;
}

bool undecided_settle(struct undecided *undecided)
{
        bool had_any = undecided_has_any(undecided);

        for (size_t i = 0; i < undecided->n_gpus; i++)
                undecided->gpus[i].is_decided = true;
        uv_timer_stop(&undecided->timer);
        return had_any;
}

static void on_undecided_timer(uv_timer_t *timer)
{
        struct undecided *undecided = timer->data;

        log_warn("nobody could say in time which MIG configuration the GPUs are to have; they are offered as they are",
                LOG_UINT("seconds", UNDECIDED_MS / 1000));
        (void)undecided_settle(undecided);
        undecided->passed(undecided->data);
}

bool undecided_look(struct undecided *undecided, const struct inventory *inventory)
{
        struct arena arena = ARENA_INIT;
        struct seen_gpu *gpus = ARENA_ARRAY(&arena, struct seen_gpu, inventory->n_gpus);
        size_t n_gpus = 0;
        bool has_new = false;

        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];
                const struct seen_gpu *before = find_seen(undecided, gpu->uuid);

                if (!gpu->mig_capable)
                        continue;
                has_new = has_new || !before;
                gpus[n_gpus++] = (struct seen_gpu){
                        .uuid = arena_strdup(&arena, gpu->uuid), .is_decided = before && before->is_decided};
        }
        arena_done(&undecided->arena);
        undecided->arena = arena;
        undecided->gpus = gpus;
        undecided->n_gpus = n_gpus;
        if (has_new && !uv_is_active((uv_handle_t *)&undecided->timer)) {
                log_info(
                        "GPUs that can have MIG and that nobody holds are offered when their MIG configuration is known",
                        LOG_UINT("seconds_at_most", UNDECIDED_MS / 1000));
                uv_timer_start(&undecided->timer, on_undecided_timer, UNDECIDED_MS, 0);
        }
        return has_new;
}

struct undecided *undecided_new(uv_loop_t *loop, void (*passed)(void *data), void *data)
{
        struct undecided *undecided = xcalloc(1, sizeof(*undecided));

        undecided->passed = passed;
        undecided->data = data;
        uv_timer_init(loop, &undecided->timer);
        undecided->timer.data = undecided;
        return undecided;
}

static void free_undecided(uv_handle_t *handle)
{
        struct undecided *undecided = handle->data;

        arena_done(&undecided->arena);
        free(undecided);
}

struct undecided *undecided_close(struct undecided *undecided)
{
        if (undecided)
                uv_close((uv_handle_t *)&undecided->timer, free_undecided);
        return NULL;
}
