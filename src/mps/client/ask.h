/*
 * One question to the MPS supervisor, for commands: it waits for the answer.
 */
#pragma once

#include "base/error.h"
#include "mps/wire/status.h"

/*
 * The status of the daemons below |root|, for the caller to free; NULL with |err| if the supervisor does not answer
 * within 10 s.
 */
struct mps_status *mps_ask(const char *root, struct error *err);
