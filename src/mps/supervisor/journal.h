/*
 * What the logs of one daemon add to what it can be asked: whose server it is, which client waits for one of another user, what
 * a server allowed a client, and why a server does not start. Kept from look to look; reads files, decides nothing.
 *
 * The logs can be made to say things by whoever reaches the control socket (mps/supervisor/server_log.h): so this explains, fills in what nothing else tells, and
 * is never a reason to end anybody.
 */
#pragma once

#include "mps/supervisor/observe.h"
#include "share/mps_wanted.h"

#define MPS_JOURNAL_CLIENTS_MAX ((size_t)1024) /* those beyond are not remembered */

struct mps_journal;

struct mps_journal *mps_journal_new(const char *log_folder);
struct mps_journal *mps_journal_free(struct mps_journal *journal); /* accepts NULL, returns NULL */

/* A new process begins: what is there is of others. */
void mps_journal_skip(struct mps_journal *journal);

/* Reads what is new, and adds it to what was seen. |units|: UUIDs by the daemon's ordinals. */
void mps_journal_explain(
        struct mps_journal *journal, struct mps_observation *seen, const struct mps_unit *units, size_t n_units);

/* Only that. */
void mps_journal_read(struct mps_journal *journal);

/* What was read of the logs says that |pid| is a client. Tenants can forge that. */
bool mps_journal_names(struct mps_journal *journal, pid_t pid);
