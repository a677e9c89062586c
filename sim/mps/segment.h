// SPDX-License-Identifier: Apache-2.0
/*
 * The shared memory of a server and its clients. NVIDIA's programs share segments below /dev/shm. The simulated ones
 * only check whether they could: both must have the same tmpfs there, with room in it. They leave no file behind.
 */
#pragma once

#include <stdbool.h>

#define SEGMENT_PLACE_SIZE 48

/* What this process has as /dev/shm: "<device>:<inode>", the same text for the same tmpfs. */
void segment_place(char place[SEGMENT_PLACE_SIZE]);

/* Whether there is room for one more file of one page. */
bool segment_has_room(void);
