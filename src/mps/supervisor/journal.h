/*
 * Collects what the logs of one daemon add to its answers: which user its server belongs to, which client waits because
 * of another user's server, what limits a server allowed a client, and why a server does not start. The facts are kept
 * from poll to poll. It reads files and decides nothing.
 *
 * Every process that reaches the control socket can write such lines into the logs (mps/supervisor/server_log.h). So
 * these facts only explain, and fill in what no other source has. They are never a reason to end a process.
 */
#pragma once

#include "mps/supervisor/observe.h"
#include "plan/mps_wanted.h"

#define MPS_JOURNAL_CLIENTS_MAX ((size_t)1024) /* more clients are not remembered */

struct mps_journal;

struct mps_journal *mps_journal_new(const char *log_folder);
struct mps_journal *mps_journal_free(struct mps_journal *journal); /* accepts NULL, returns NULL */

/* A new process starts: skips what earlier processes wrote. */
void mps_journal_skip(struct mps_journal *journal);

/* Reads what is new and adds it to the known facts. |units|: UUIDs, in the order of the daemon's ordinals. */
void mps_journal_explain(
        struct mps_journal *journal, struct mps_observation *seen, const struct mps_unit *units, size_t n_units);

/* Only reads what is new. */
void mps_journal_read(struct mps_journal *journal);

/* The logs say that |pid| is a client. Tenants can forge that. */
bool mps_journal_names(struct mps_journal *journal, pid_t pid);
