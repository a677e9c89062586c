#include "node/config/version.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void config_version_drop(struct config_version *version)
{
        free(version->name);
        free(version->source);
        strbuf_done(&version->content);
        *version = (struct config_version){.content = STRBUF_INIT};
}

void config_version_set(
        struct config_version *version, const char *name, const char *source, const char *by, struct strbuf *content)
{
        struct config_version next = {.name = xstrdup(name), .source = xstrdup(source), .by = by, .content = *content};

        *content = (struct strbuf)STRBUF_INIT;
        sha256_hex(next.content.data, next.content.size, next.hash);
        config_version_drop(version);
        *version = next;
}

void config_version_copy(struct config_version *to, const struct config_version *from, bool with_content)
{
        struct strbuf content = STRBUF_INIT;
        char hash[SHA256_HEX + 1];

        if (with_content)
                strbuf_append(&content, from->content.data, from->content.size);
        memcpy(hash, from->hash, sizeof(hash));
        config_version_set(to, from->name, from->source, from->by, &content);
        memcpy(to->hash, hash, sizeof(hash));
}

bool config_version_is_same(const struct config_version *a, const struct config_version *b)
{
        return a->name && b->name && strcmp(a->name, b->name) == 0 && strcmp(a->hash, b->hash) == 0;
}

const char *config_version_name(const struct config_version *version)
{
        return *version->name ? version->name : "(empty)";
}
