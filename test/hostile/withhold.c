// SPDX-License-Identifier: Apache-2.0
/*
 * LD_PRELOAD for a tenant: from SIGUSR1 on, the process holds the lock of its own memory map, for ever. One thread
 * reads WITHHELD_FILE (withheld_fs.py), whose content never comes; another maps it by a descriptor without a cache, for
 * which the kernel waits for what the first one reads, with the lock in its hands.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static char page[4096];
static int cached;
static int uncached;

static void *wait_for_content(void *data)
{
        (void)!pread(cached, page, sizeof(page), 0);
        return data;
}

/* Both threads begin before the lock is held, since a thread takes memory. */
static void *wait_with_the_lock(void *data)
{
        const sigset_t *signals = data;
        pthread_t reader;
        int number;

        sigwait(signals, &number);
        pthread_create(&reader, NULL, wait_for_content, NULL);
        sigwait(signals, &number); /* whoever serves the file has been asked */
        mmap(NULL, sizeof(page), PROT_READ, MAP_PRIVATE, uncached, 0);
        return NULL;
}

__attribute__((constructor)) static void begin(void)
{
        static sigset_t signals;
        const char *path = getenv("WITHHELD_FILE");
        pthread_t holder;

        if (!path)
                return;
        cached = open(path, O_RDONLY);
        uncached = open(path, O_RDONLY | O_APPEND);
        if (cached < 0 || uncached < 0) {
                perror(path);
                exit(EXIT_FAILURE);
        }
        sigemptyset(&signals);
        sigaddset(&signals, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &signals, NULL);
        pthread_create(&holder, NULL, wait_with_the_lock, &signals);
}
