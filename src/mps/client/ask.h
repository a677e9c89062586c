/*
 * One question to the MPS supervisor, for commands: it waits for the answer.
 */
#pragma once

#include "base/error.h"
#include "mps/wire/status.h"

/* How the daemons below |root| are, for the caller to free; NULL with |err| where nobody answers within ten seconds. */
struct mps_status *mps_ask(const char *root, struct error *err);
