/*
 * One configuration as it was read: what it is called, where it came from, what it says. A value: the functions copy.
 */
#pragma once

#include <stdbool.h>

#include "base/sha256.h"
#include "base/strbuf.h"

struct config_version {
        char *name; /* NULL: none. "": the empty one */
        char *source;
        const char *by; /* a word that lives for ever */
        char hash[SHA256_HEX + 1];
        struct strbuf content;
};

/* Takes the content, and leaves an empty one. */
void config_version_set(
        struct config_version *version, const char *name, const char *source, const char *by, struct strbuf *content);

/* The hash is that of |from| also without its content. */
void config_version_copy(struct config_version *to, const struct config_version *from, bool with_content);

/* To none. Accepts what was only zeroed. */
void config_version_drop(struct config_version *version);

/* Both are there, with the same name and content. */
bool config_version_is_same(const struct config_version *a, const struct config_version *b);

/* For people: "(empty)" for the empty one. */
const char *config_version_name(const struct config_version *version);
