/*
 * Looks how full the tmpfs of MPS is, and whose files fill it.
 *
 * All that lies in it is written by tenants: no link is followed, nothing is opened but folders, and names are never repeated. What is
 * counted is bounded: MPS_SHM_ENTRIES_MAX entries, MPS_SHM_DEPTH_MAX folders one in another. A file with several names counts
 * for each with its part. Space of a file that has no name any more, and that a process still has open or mapped, is nobody's by this
 * look: it is |nameless|.
 */
#pragma once

#include "base/error.h"
#include "mps/wire/shared_memory.h"

#define MPS_SHM_ENTRIES_MAX ((size_t)131072) /* twice what the tmpfs takes: mps mount-shm */
#define MPS_SHM_DEPTH_MAX 16U

/* The tmpfs at |path|: size, used, files_max and files; 0 where there is none. */
int mps_shm_poll(struct mps_shm *ret, const char *path, struct error *err) MUST_USE;

/* Adds owners and nameless: up to a tenth of a second where there are very many files. */
int mps_shm_count(struct mps_shm *shm, const char *path, struct error *err) MUST_USE;
