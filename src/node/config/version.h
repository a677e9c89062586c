// SPDX-License-Identifier: Apache-2.0
/*
 * One configuration as it was read: its name, its source and its content. Immutable, and shared by references. The last
 * good one is recorded on disk: an agent starts with it while it cannot learn which configuration is the node's. Only
 * the agent writes that file, and always replaces it as a whole. A record that cannot be parsed, or whose content does
 * not match its hash, counts as missing.
 *
 * And which one this node uses, and whether the newest was accepted: log, annotation, metric and event all use that.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "config/config.h"
#include "config/option.h"

struct config_version {
        unsigned int references;
        char *name; /* "": the empty one */
        char *source;
        const char *by; /* a string constant: the rule that chose it */
        char hash[SHA256_HEX + 1];
        struct strbuf content;
};

/* Takes over the content, and leaves an empty one. The first reference is the caller's. */
struct config_version *config_version_new(const char *name, const char *source, const char *by, struct strbuf *content);

struct config_version *config_version_unref(struct config_version *version); /* accepts NULL, returns NULL */

/* |*place| gets a reference to |version| instead of its present one; both may be NULL. */
void config_version_set(struct config_version **place, struct config_version *version);

/* Both exist, with the same content. */
bool config_version_is_same(const struct config_version *a, const struct config_version *b);

/* The name for messages; "(empty)" for the empty configuration. */
const char *config_version_name(const struct config_version *version);

/* ---- the record ---- */

#define CONFIG_RECORD_NAME "configuration.json" /* in the MPS directory */
#define CONFIG_RECORD_BY "last good"            /* the rule that chose a configuration of a record */

enum { CONFIG_RECORD_NONE = 1 };

/*
 * |ret_generation|: how many configurations were accepted on this node, including this one. CONFIG_RECORD_NONE: the
 * file does not exist.
 */
int config_record_read(
        struct config_version **ret, uint64_t *ret_generation, const char *path, struct error *err) MUST_USE;
int config_record_write(
        const struct config_version *version, uint64_t generation, const char *path, struct error *err) MUST_USE;

/*
 * For commands that run beside the agent: if the options name a folder or a ConfigMap and no file, the configuration
 * that the agent has accepted. CONFIG_RECORD_NONE: the options name a file or nothing, or none was accepted yet.
 */
int config_record_of_node(
        struct config_text *ret, const struct option_set *options, struct arena *arena, struct error *err) MUST_USE;

/* ---- the configuration in use ---- */

#define CONFIG_HASH ((size_t)16) /* digits that are shown, of SHA-256: "sha256sum | cut -c1-16" */

enum config_state {
        CONFIG_WAITING,  /* none can be chosen yet; |why| */
        CONFIG_ACCEPTED, /* the newest one is in use */
        CONFIG_REFUSED,  /* the newest cannot be used; |why| */
};

struct config_status {
        const char *name;   /* of the configuration in use; NULL: none is */
        const char *source; /* where it came from: "ConfigMap gpu/configs", "folder '/available-configs'", "file" */
        const char *by;     /* the rule that chose it: "label", "default", …; "last good"; "file" */
        char hash[CONFIG_HASH + 1];
        uint64_t generation; /* how many were accepted so far, including this one */
        enum config_state state;
        const char *why;
};

const char *config_state_name(enum config_state state); /* "waiting", "accepted", "refused" */
