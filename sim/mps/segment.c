// SPDX-License-Identifier: Apache-2.0
#include "sim/mps/segment.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"

#define FOLDER "/dev/shm"
#define PAGE 4096

void segment_place(char place[SEGMENT_PLACE_SIZE])
{
        struct stat status = {0};

        if (stat(FOLDER, &status) < 0)
                status = (struct stat){0};
        snprintf(place, SEGMENT_PLACE_SIZE, "%llu:%llu", (unsigned long long)status.st_dev,
                (unsigned long long)status.st_ino);
}

bool segment_has_room(void)
{
        static const char page[PAGE];
        _close_ int fd = open(FOLDER, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

        return fd >= 0 && write(fd, page, sizeof(page)) == (ssize_t)sizeof(page);
}
