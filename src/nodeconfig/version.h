/* One configuration as it was read: its name, its source and its content. A value: the functions copy it. */
#pragma once

#include <stdbool.h>

#include "base/sha256.h"
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
