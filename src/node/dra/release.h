/*
 * What schedulers of some releases do wrong with devices as ours are. The agent knows the API server's release; the
 * scheduler is of the same, or of the one before while a cluster is being updated. docs/dra.md has the table.
 *
 * kubernetes#139034: 1.34 and 1.35 (with their feature gates on), 1.36.0 and 1.36.1 forget in the next cycle what
 * shares consume of a counter set: the whole GPU is given out beside its shares. Right from 1.36.2 and 1.37.0 on.
 */
#pragma once

#include <stdbool.h>

#define DRA_RELEASE_GOOD "1.36.2"

/* |git_version|: of /version. True also where it names no release: doubt must not cost a tenant its share. */
bool dra_release_forgets_shares(const char *git_version);
