// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/faults.h"

#include <string.h>

#include "base/text.h"

const char *mps_fault_kind_name(enum mps_fault_kind kind)
{
        static const char *const names[] = {
                [MPS_FAULT_SERVER] = "server",
                [MPS_FAULT_GONE] = "gone",
                [MPS_FAULT_STUCK] = "stuck",
        };

        return names[kind];
}

void mps_faults_done(struct mps_faults *faults)
{
        for (size_t i = 0; i < faults->n_counts; i++) {
                free(faults->counts[i].daemon);
                free(faults->counts[i].resource);
                free(faults->counts[i].unit);
                free(faults->counts[i].notice);
        }
        free(faults->counts);
        *faults = (struct mps_faults){0};
}

static enum mps_fault_kind faults_kind_of(const struct mps_daemon_status *daemon)
{
        for (size_t i = 0; i < daemon->n_servers; i++)
                if (text_is_same(daemon->servers[i].status, "FAULT"))
                        return MPS_FAULT_SERVER;
        return daemon->pid == 0 ? MPS_FAULT_GONE : MPS_FAULT_STUCK;
}

const struct mps_fault_count *mps_faults_find(const struct mps_faults *faults, const char *daemon)
{
        for (size_t i = 0; i < faults->n_counts; i++)
                if (strcmp(faults->counts[i].daemon, daemon) == 0)
                        return &faults->counts[i];
        return NULL;
}

void mps_faults_follow(struct mps_faults *faults, const struct mps_status *status)
{
        struct mps_faults next = {
                .counts = xcalloc(status->n_daemons, sizeof(*next.counts)), .n_counts = status->n_daemons};

        for (size_t i = 0; i < status->n_daemons; i++) {
                const struct mps_daemon_status *daemon = &status->daemons[i];
                const struct mps_fault_count *previous = mps_faults_find(faults, daemon->name);
                struct mps_fault_count *count = &next.counts[i];

                if (previous)
                        *count = *previous;
                if (daemon->state == MPS_FAULT && !count->is_at_fault)
                        count->totals[faults_kind_of(daemon)]++;
                count->is_at_fault = daemon->state == MPS_FAULT || (count->is_at_fault && daemon->state != MPS_READY);
                count->state = daemon->state;
                count->notice = daemon->notice ? xstrdup(daemon->notice) : NULL;
                count->daemon = xstrdup(daemon->name);
                count->resource = xstrdup(daemon->resource);
                count->unit = daemon->n_units == 1 ? xstrdup(daemon->units[0]) : NULL;
        }
        mps_faults_done(faults);
        *faults = next;
}
