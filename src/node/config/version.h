/*
 * One configuration as it was read: its name, its source and its content. A value: the functions copy it. And which one
 * this node uses, and whether the newest was accepted: log, annotation, metric and event all use that.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/strbuf.h"

struct config_version {
        char *name; /* NULL: none. "": the empty one */
        char *source;
        const char *by; /* a string constant */
        char hash[SHA256_HEX + 1];
        struct strbuf content;
};

/* Takes over the content, and leaves an empty one. */
void config_version_set(
        struct config_version *version, const char *name, const char *source, const char *by, struct strbuf *content);

/* The hash is copied even if the content is not. */
void config_version_copy(struct config_version *to, const struct config_version *from, bool with_content);

/* Resets to none. Accepts a zeroed struct. */
void config_version_drop(struct config_version *version);

/* Both exist, with the same name and content. */
bool config_version_is_same(const struct config_version *a, const struct config_version *b);

/* The name for messages; "(empty)" for the empty configuration. */
const char *config_version_name(const struct config_version *version);

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

static inline const char *config_state_name(enum config_state state)
{
        static const char *const names[] = {
                [CONFIG_WAITING] = "waiting", [CONFIG_ACCEPTED] = "accepted", [CONFIG_REFUSED] = "refused"};

        return names[state];
}
