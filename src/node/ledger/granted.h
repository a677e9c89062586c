/*
 * Sends all present allocations, and the names of their holders, to the supervisor of the MPS daemons.
 *
 * The supervisor compares the list of allocations with what it has made (mps/supervisor/allocations.c has the rule). So
 * nothing is left of a container that has ended, even if its release was lost, and a running container lacks nothing.
 * The list is sent only if each allocation has its original id and its share is known: the supervisor removes what the
 * list does not name. Example: of three containers one was found in kubelet's list alone, because the record was lost.
 * Its id is a guess, so no list is sent, and the supervisor keeps all that it has.
 */
#pragma once

#include "node/ledger/claim_set.h"

/* Sends allocations and names. To be called once the ledger has kubelet's list. */
void granted_send(const struct ledger_core *core, const struct claim_set *claims);

/* Sends the names: pods as far as kubelet has listed them, and claims, for people who ask the supervisor. */
void granted_send_names(const struct ledger_core *core, const struct claim_set *claims);
