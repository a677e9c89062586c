// SPDX-License-Identifier: Apache-2.0
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

/*
 * Does the supervisor's loop answer within |ms|, however its daemons and NVML are? If it closes the connection, since
 * too many are open, it has answered, too.
 */
int mps_ping(const char *root, uint64_t ms, struct error *err) MUST_USE;
