// SPDX-License-Identifier: Apache-2.0
/*
 * The state of the MPS daemons for people: a table. Pure.
 */
#pragma once

#include "base/strbuf.h"
#include "mps/wire/status.h"

/* One row per unit. |now|: seconds since the epoch, for ages. */
void mps_table_print(struct strbuf *text, const struct mps_status *status, int64_t now, bool has_colours);

/* "GPU-…  claim team/train": a line for each that has a share; nothing where none is known. */
void mps_holders_print(struct strbuf *text, const struct mps_status *status);

/* Every daemon is ready. */
bool mps_table_is_good(const struct mps_status *status);
