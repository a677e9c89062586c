// SPDX-License-Identifier: Apache-2.0
#include "mps/fakes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct fakes fakes;

/* ---- the supervisor ---- */

void mps_supervisor_look(struct mps_supervisor *supervisor UNUSED)
{
        fakes.looks++;
        fakes.status.generation++;
}

const struct mps_status *mps_supervisor_status(const struct mps_supervisor *supervisor UNUSED)
{
        return &fakes.status;
}

int mps_supervisor_apply(struct mps_supervisor *supervisor UNUSED, const struct mps_wanted *wanted, uint64_t generation,
        struct error *err)
{
        if (fakes.refuses)
                return error_set(err, ERROR_INVALID, "two daemons are named 'a'");
        fakes.applied++;
        fakes.generation = generation;
        snprintf(fakes.daemon, sizeof(fakes.daemon), "%s", wanted->n_daemons ? wanted->daemons[0].name : "");
        return 0;
}

struct mps_allocations *mps_supervisor_allocations(struct mps_supervisor *supervisor UNUSED)
{
        return NULL;
}

void mps_allocations_make(struct mps_allocations *allocations UNUSED, const struct mps_allocation_request *request,
        mps_granted_fn *done, void *data)
{
        static char id[65];

        snprintf(id, sizeof(id), "%s", request->id);
        fakes.granted = *request;
        fakes.granted.id = id;
        fakes.on_granted = done;
        fakes.data = data;
}

void mps_allocations_release(struct mps_allocations *allocations UNUSED, const char *id, mps_done_fn *done, void *data)
{
        snprintf(fakes.released, sizeof(fakes.released), "%s", id);
        fakes.on_done = done;
        fakes.data = data;
}

void mps_allocations_hold(
        struct mps_allocations *allocations UNUSED, const struct mps_allocation_request *wanted, size_t n_wanted)
{
        size_t length = 0;

        fakes.holds++;
        fakes.held[0] = '\0';
        for (size_t i = 0; i < n_wanted; i++)
                length += (size_t)snprintf(fakes.held + length, sizeof(fakes.held) - length, "%s ", wanted[i].id);
}

void mps_supervisor_name_holders(
        struct mps_supervisor *supervisor UNUSED, const struct mps_holder *holders, size_t n_holders)
{
        size_t length = 0;

        fakes.holders[0] = '\0';
        for (size_t i = 0; i < n_holders; i++)
                length += (size_t)snprintf(fakes.holders + length, sizeof(fakes.holders) - length, "%s=%s ",
                        holders[i].unit, holders[i].claim ? holders[i].claim : holders[i].pod);
}

void mps_allocations_terminate(struct mps_allocations *allocations UNUSED, const char *daemon UNUSED, pid_t client,
        const char *container_id UNUSED, mps_done_fn *done, void *data)
{
        fakes.terminated = client;
        fakes.on_done = done;
        fakes.data = data;
}

/* ---- the control program ---- */

struct mps_control {
        mps_answer_fn *done;
        void *data;
        char pipe[256];
};

int mps_control_find(
        char **ret, const char *program, const char *path UNUSED, const char *root UNUSED, struct error *err)
{
        if (fakes.is_missing)
                return error_set(err, ERROR_NOT_FOUND, "there is no '%s'", program);
        *ret = xstrdup(program);
        return 0;
}

int mps_control_new(struct mps_control **ret, const struct mps_control_options *options, struct error *err UNUSED)
{
        *ret = xcalloc(1, sizeof(**ret));
        snprintf((*ret)->pipe, sizeof((*ret)->pipe), "%s", options->pipe_directory);
        fakes.open++;
        return 0;
}

void mps_control_close(struct mps_control *control, void (*closed)(void *data), void *data)
{
        if (fakes.control == control)
                fakes.control = NULL;
        fakes.open--;
        free(control);
        if (closed)
                closed(data);
}

void mps_control_ask(struct mps_control *control, const char *command, mps_answer_fn *done, void *data)
{
        control->done = done;
        control->data = data;
        snprintf(fakes.pipe, sizeof(fakes.pipe), "%s", control->pipe);
        snprintf(fakes.command, sizeof(fakes.command), "%s", command);
        fakes.asked++;
        fakes.control = control;
}

void fakes_answer(const struct error *err, const char *text)
{
        struct mps_control *control = fakes.control;

        fakes.control = NULL;
        control->done(err, text, control->data);
}
