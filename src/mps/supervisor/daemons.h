/*
 * The list of a supervisor's daemons: those that are wanted, and those that are ending. It adopts what runs already, by
 * the record and without, and asks each daemon for what is wanted of it.
 */
#pragma once

#include "mps/supervisor/daemon.h"

struct mps_daemons {
        struct mps_daemon_context context; /* of all of them: its owner fills it, but for |blocker| and |daemons| */
        struct mps_daemon **items;
        size_t n_items;
};

void mps_daemons_init(struct mps_daemons *daemons, const struct mps_daemon_context *context);
/* All of them have been removed. */
void mps_daemons_done(struct mps_daemons *daemons);

struct mps_daemon *mps_daemons_find(const struct mps_daemons *daemons, const char *name);
/* A daemon has the unit, or is to have it. */
bool mps_daemons_need(const struct mps_daemons *daemons, const char *uuid);

/*
 * Goes on with the daemons on record. What runs with other settings than are wanted, or is not wanted any more, still
 * has its units, so it is adopted before anything starts.
 */
void mps_daemons_restore(struct mps_daemons *daemons, const struct mps_record *record);
/* Starts, keeps and drains daemons so that those in |wanted| daemon; their names were checked. */
void mps_daemons_apply(struct mps_daemons *daemons, const struct mps_wanted *wanted);
/* Takes a daemon out of the list, for the caller to close. */
struct mps_daemon *mps_daemons_remove(struct mps_daemons *daemons, size_t position);
