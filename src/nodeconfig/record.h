/*
 * The last good configuration, on disk: what an agent begins with that starts while nobody can tell it which one is the node's. A file
 * of the agent alone, replaced whole. What cannot be understood, or whose content is not what was written, counts as none.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sha256.h"
#include "config/config.h"
#include "config/option.h"

#define CONFIG_RECORD_NAME "configuration.json" /* in the MPS directory */

struct config_record {
        uint64_t generation; /* how many were put in force on this node, this one included */
        const char *name;
        const char *source; /* as config_source_name() */
        const char *content;
        size_t size;
};

enum { CONFIG_RECORD_NONE = 1 };

/* Strings in |arena|. CONFIG_RECORD_NONE: there is no such file. */
int config_record_read(struct config_record *ret, const char *path, struct arena *arena, struct error *err) MUST_USE;
int config_record_write(const struct config_record *record, const char *path, struct error *err) MUST_USE;

/*
 * For commands that look at a node from beside the agent: where the options name a folder or a ConfigMap and no file, the
 * configuration that the agent has put in force. CONFIG_RECORD_NONE: the options name a file or nothing, or there is no record yet.
 */
int config_record_of_node(
        struct config_text *ret, const struct option_set *options, struct arena *arena, struct error *err) MUST_USE;
