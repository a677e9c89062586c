/*
 * The shared memory of a server and its clients. The real ones meet in segments below /dev/shm; the simulated ones only find out whether they
 * could: they have to have the same tmpfs there, with room in it. Nothing is left behind.
 */
#pragma once

#include <stdbool.h>

#define SEGMENT_PLACE_SIZE 48

/* What this process has as /dev/shm: "<device>:<inode>", the same text for the same tmpfs. */
void segment_place(char place[SEGMENT_PLACE_SIZE]);

/* There is room for one more file with a page. */
bool segment_has_room(void);
