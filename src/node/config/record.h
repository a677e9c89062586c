/*
 * The last good configuration, on disk. An agent starts with it while it cannot learn which configuration is the
 * node's. Only the agent writes the file, and always replaces it as a whole. A record that cannot be parsed, or whose
 * content does not match its hash, counts as missing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "config/config.h"
#include "config/option.h"

#define CONFIG_RECORD_NAME "configuration.json" /* in the MPS directory */
#define CONFIG_RECORD_BY "last good"            /* the rule that chose a configuration of a record */

struct config_record {
        uint64_t generation; /* how many were accepted on this node, including this one */
        const char *name;
        const char *source; /* as config_source_name() */
        const char *content;
        size_t size;
};

enum { CONFIG_RECORD_NONE = 1 };

/* Strings in |arena|. CONFIG_RECORD_NONE: the file does not exist. */
int config_record_read(struct config_record *ret, const char *path, struct arena *arena, struct error *err) MUST_USE;
int config_record_write(const struct config_record *record, const char *path, struct error *err) MUST_USE;

/*
 * For commands that run beside the agent: if the options name a folder or a ConfigMap and no file, the configuration
 * that the agent has accepted. CONFIG_RECORD_NONE: the options name a file or nothing, or none was accepted yet.
 */
int config_record_of_node(
        struct config_text *ret, const struct option_set *options, struct arena *arena, struct error *err) MUST_USE;
