// SPDX-License-Identifier: Apache-2.0
/*
 * A lock on a directory itself, held by at most one process of the node and given back by the kernel when it dies.
 *
 * It is flock(2) on the directory's descriptor: no file is made (kubelets up to 1.32 delete every file in their plugin
 * directory at start), and containers that mount the same directory from the host share the lock. A directory that was
 * removed and made again is another directory: the holder must take the lock again (lock_is_current()).
 *
 * A process that waits for the lock need not try again and again: lock_hand_over() touches the directory afterwards,
 * and a watch on it (base/io/dirwatch.h) reports that at once. A process that was killed touches nothing, so a slow
 * timer is needed as well.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct lock {
        int fd; /* -1: not held */
        dev_t device;
        ino_t inode;
};

#define LOCK_INIT                                                                                                      \
        {                                                                                                              \
                .fd = -1                                                                                               \
        }

#define LOCK_BUSY 1 /* another process holds it */

/* 0: held now; LOCK_BUSY; or -1. Releases what |lock| held before. */
int lock_take(struct lock *lock, const char *directory, struct error *err) MUST_USE;
/*
 * The same, but LOCK_BUSY only when it was busy for |patience_ms|: a process that is killed while it starts another one
 * leaves the lock to that for some milliseconds, until the other program is executed. Blocks meanwhile.
 */
int lock_take_within(struct lock *lock, const char *directory, unsigned int patience_ms, struct error *err) MUST_USE;
#define LOCK_PATIENCE_MS 1000U          /* many times what a busy machine takes for that */
void lock_release(struct lock *lock);   /* leaves the directory as it is */
void lock_hand_over(struct lock *lock); /* and wakes who waits for it */

/* Held, and still the lock of what is at |directory| now; also where that cannot be found out, for want of memory. */
bool lock_is_current(const struct lock *lock, const char *directory);
