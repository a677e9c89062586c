// SPDX-License-Identifier: Apache-2.0
/*
 * Reports that the content of one file has changed, for as long as the loop runs, however it changed: it was written in
 * place, replaced by a rename, or a symbolic link on the way to it leads elsewhere. A ConfigMap in a pod is the last:
 * "config.yaml" leads to "..data/config.yaml", and kubelet swaps "..data"; NVIDIA's config manager puts a link of its
 * own before that.
 *
 * inotify watches the file and the names that lead to it: every link on the way, in its folder. Other files of these
 * folders are ignored. A timer checks as well, for what inotify does not report (a folder above that is moved away,
 * more than eight links, no watch left on the system). A change is reported after 200 ms without another one, after a
 * second at most, and only if the bytes are not those that were read last: a touch is not a change. Neither is a
 * missing file: the last content counts until the file exists again.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"

#define FILEWATCH_POLL_MS UINT64_C(10000)

struct filewatch;

struct filewatch_options {
        const char *path;
        /* bytes that are read; a larger file, or one that cannot be read, counts as a content of its own */
        size_t limit;
        uint64_t poll_ms;            /* 0: FILEWATCH_POLL_MS */
        void (*changed)(void *data); /* may close the watch */
        void *data;
};

/* Takes the present content of the file as known: only a later change is reported. */
int filewatch_new(
        struct filewatch **ret, uv_loop_t *loop, const struct filewatch_options *options, struct error *err) MUST_USE;

/*
 * Takes the present content of the file as known, as at the start. Call it before reading the file for another reason.
 */
void filewatch_accept(struct filewatch *watch);

/* Stops at once; the memory goes when the loop has closed the handles. Accepts NULL, returns NULL. */
struct filewatch *filewatch_close(struct filewatch *watch);
