// SPDX-License-Identifier: Apache-2.0
#include "mps/wire/status.h"

#include <inttypes.h>
#include <string.h>

#include "base/macro.h"
#include "base/strbuf.h"

const char *mps_state_name(enum mps_state state)
{
        static const char *const names[] = {
                [MPS_OFF] = "off",
                [MPS_STARTING] = "starting",
                [MPS_CONFIGURING] = "configuring",
                [MPS_READY] = "ready",
                [MPS_DRAINING] = "draining",
                [MPS_FAULT] = "fault",
        };

        return names[state];
}

struct mps_status *mps_status_new(void)
{
        return xcalloc(1, sizeof(struct mps_status));
}

struct mps_status *mps_status_free(struct mps_status *status)
{
        if (!status)
                return NULL;
        arena_done(&status->arena);
        free(status);
        return NULL;
}

const struct mps_daemon_status *mps_status_find(const struct mps_status *status, const char *name)
{
        for (size_t i = 0; i < status->n_daemons; i++)
                if (strcmp(status->daemons[i].name, name) == 0)
                        return &status->daemons[i];
        return NULL;
}

const struct mps_daemon_status *mps_status_find_unit(const struct mps_status *status, const char *uuid)
{
        for (size_t i = 0; i < status->n_daemons; i++)
                for (size_t j = 0; j < status->daemons[i].n_units; j++)
                        if (strcmp(status->daemons[i].units[j], uuid) == 0)
                                return &status->daemons[i];
        return NULL;
}

const char *mps_daemon_promise(const struct mps_daemon_status *daemon, const char *uuid)
{
        bool limits_memory = uuid || !daemon->n_unlimited;

        for (size_t i = 0; uuid && i < daemon->n_unlimited; i++)
                limits_memory &= strcmp(daemon->unlimited[i], uuid) != 0;
        return mps_tier_promise(daemon->tier, limits_memory);
}

struct mps_holder *mps_holders_copy(struct arena *arena, const struct mps_holder *holders, size_t n_holders)
{
        struct mps_holder *copies = ARENA_ARRAY(arena, struct mps_holder, n_holders);

        for (size_t i = 0; i < n_holders; i++)
                copies[i] = (struct mps_holder){.unit = arena_strdup(arena, holders[i].unit),
                        .pod = arena_strdup(arena, holders[i].pod),
                        .claim = arena_strdup(arena, holders[i].claim)};
        return copies;
}

void mps_allocation_request_copy(
        struct mps_allocation_request *ret, struct arena *arena, const struct mps_allocation_request *request)
{
        *ret = *request;
        ret->id = arena_strdup(arena, request->id);
        ret->daemon = arena_strdup(arena, request->daemon);
        ret->unit = arena_strdup(arena, request->unit);
}

void mps_allocation_copy(struct mps_allocation *ret, struct arena *arena, const struct mps_allocation *allocation)
{
        *ret = *allocation;
        ret->pipe = arena_strdup(arena, allocation->pipe);
        ret->partition = arena_strdup(arena, allocation->partition);
}

void mps_container_limit_copy(
        struct mps_container_limit *ret, struct arena *arena, const struct mps_container_limit *limit)
{
        *ret = *limit;
        ret->allocation = arena_strdup(arena, limit->allocation);
        ret->unit = arena_strdup(arena, limit->unit);
        ret->cgroup = arena_strdup(arena, limit->cgroup);
        ret->problem = arena_strdup(arena, limit->problem);
}

/* ---- shared memory ---- */

static unsigned int permille(uint64_t part, uint64_t whole)
{
        return whole ? (unsigned int)((double)MIN(part, whole) * 1000 / (double)whole) : 0;
}

unsigned int mps_shm_permille(const struct mps_shm *shm)
{
        return MAX(permille(shm->used, shm->size), permille(shm->files, shm->files_max));
}

void mps_shm_mark_full(struct mps_shm *shm, const struct mps_shm *before)
{
        const unsigned int now = mps_shm_permille(shm);

        shm->is_full = now >= (before->is_full ? MPS_SHM_FREE_PERMILLE : MPS_SHM_FULL_PERMILLE);
        if (!shm->is_full)
                return;
        memcpy(shm->owners, before->owners, sizeof(shm->owners));
        shm->n_owners = before->n_owners;
        shm->nameless = before->nameless;
}

static bool has_same_owners(const struct mps_shm *a, const struct mps_shm *b)
{
        if (a->n_owners != b->n_owners)
                return false;
        for (size_t i = 0; i < a->n_owners; i++)
                if (a->owners[i].uid != b->owners[i].uid)
                        return false;
        return true;
}

bool mps_shm_is_same(const struct mps_shm *a, const struct mps_shm *b)
{
        return a->size == b->size && a->files_max == b->files_max && a->is_full == b->is_full &&
               permille(a->used, a->size) / 10 == permille(b->used, b->size) / 10 &&
               permille(a->files, a->files_max) / 10 == permille(b->files, b->files_max) / 10 && has_same_owners(a, b);
}

char *mps_shm_text(const struct mps_shm *shm)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        strbuf_printf(&text, "%" PRIu64 " of %" PRIu64 " MiB and %" PRIu64 " of %" PRIu64 " files are used",
                shm->used >> 20, shm->size >> 20, shm->files, shm->files_max);
        for (size_t i = 0; i < shm->n_owners; i++)
                strbuf_printf(&text, "%suser %u has %" PRIu64 " MiB in %" PRIu64 " files", i ? ", " : "; ",
                        (unsigned int)shm->owners[i].uid, shm->owners[i].bytes >> 20, shm->owners[i].files);
        if (permille(shm->nameless, shm->size) >= 10)
                strbuf_printf(&text,
                        "; %" PRIu64 " MiB are of files that were removed and that a process still has open",
                        shm->nameless >> 20);
        return xstrdup(text.data);
}
