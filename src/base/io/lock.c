// SPDX-License-Identifier: Apache-2.0
#include "base/io/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define PAUSE_MS 20U

int lock_take(struct lock *lock, const char *directory, struct error *err)
{
        _close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct stat status;

        lock_release(lock);
        if (fd < 0)
                return error_errno(err, errno, "open directory '%s'", directory);
        if (fstat(fd, &status) < 0)
                return error_errno(err, errno, "inspect directory '%s'", directory);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (errno == EWOULDBLOCK)
                        return LOCK_BUSY;
                return error_errno(err, errno, "lock directory '%s'", directory);
        }
        *lock = (struct lock){.fd = TAKE_FD(fd), .device = status.st_dev, .inode = status.st_ino};
        return 0;
}

int lock_take_within(struct lock *lock, const char *directory, unsigned int patience_ms, struct error *err)
{
        int rc = lock_take(lock, directory, err);

        for (unsigned int waited = 0; rc == LOCK_BUSY && waited < patience_ms; waited += PAUSE_MS) {
                usleep(PAUSE_MS * 1000);
                rc = lock_take(lock, directory, err);
        }
        return rc;
}

void lock_hand_over(struct lock *lock)
{
        /*
         * Unlocked before it is touched: who wakes by that must get it. Not every holder may touch it; then the timer
         * of who waits helps.
         */
        if (lock->fd >= 0 && flock(lock->fd, LOCK_UN) == 0)
                (void)!futimens(lock->fd, NULL);
        lock_release(lock);
}

void lock_release(struct lock *lock)
{
        close_pointer(&lock->fd);
        *lock = (struct lock)LOCK_INIT;
}

bool lock_is_current(const struct lock *lock, const char *directory)
{
        return lock->fd >= 0 && file_is_still(directory, lock->device, lock->inode);
}
