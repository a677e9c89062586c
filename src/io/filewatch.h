/*
 * Tells when the content of one file changed, for as long as the loop runs, however it changed: written in place, replaced by
 * a rename, or reached through symbolic links of which one was turned. A ConfigMap in a pod is the last: "config.yaml" leads to
 * "..data/config.yaml", and kubelet swaps "..data"; NVIDIA's config manager puts a link of its own before that.
 *
 * inotify tells of the file, and of the names that lead to it: every link on the way, in the folder where it stands. What is written to, or
 * made beside them, wakes nobody or is passed over. A timer looks as well, for what inotify does not see (a folder above that is moved
 * away, more than eight links, a system without a watch left). A change is told when it has been quiet for 200 ms, after a second at most,
 * and only if the bytes differ from those last known: a touch is nothing. A file that is missing is no change either; what was
 * known stays known until there is one again.
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
        size_t limit; /* bytes that are read; a larger file, or one that cannot be read, counts as a content of its own */
        uint64_t poll_ms;            /* 0: FILEWATCH_POLL_MS */
        void (*changed)(void *data); /* may close the watch */
        void *data;
};

/* What the file holds now is known. */
int filewatch_new(
        struct filewatch **ret, uv_loop_t *loop, const struct filewatch_options *options, struct error *err) MUST_USE;

/* As at the start: what the file holds now is known. For who is about to read it for another reason. */
void filewatch_accept(struct filewatch *watch);

/* Stops at once; the memory goes when the loop has closed the handles. Accepts NULL, returns NULL. */
struct filewatch *filewatch_close(struct filewatch *watch);
