#include "mps/wire/status.h"

#include <string.h>

#include "base/macro.h"

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
