#include "config/node_taint.h"

#include <ctype.h>
#include <string.h>

#include "base/text.h"

#define NAME_MAX_LENGTH ((size_t)63)
#define DOMAIN_MAX_LENGTH ((size_t)253)

static bool node_taint_is_alphanumeric(char c)
{
        return isascii((unsigned char)c) && isalnum((unsigned char)c);
}

/* Letters, digits, '-', '_' and '.', a letter or digit first and last. */
static bool node_taint_is_word(const char *text, size_t length)
{
        if (length == 0 || length > NAME_MAX_LENGTH || !node_taint_is_alphanumeric(text[0]) ||
                !node_taint_is_alphanumeric(text[length - 1]))
                return false;
        for (size_t i = 0; i < length; i++)
                if (!node_taint_is_alphanumeric(text[i]) && !strchr("-_.", text[i]))
                        return false;
        return true;
}

bool qualified_name_is_valid(const char *text)
{
        const char *slash = strchr(text, '/');
        char domain[DOMAIN_MAX_LENGTH + 1];
        size_t length;

        if (!slash)
                return node_taint_is_word(text, strlen(text));
        length = (size_t)(slash - text);
        if (length > DOMAIN_MAX_LENGTH)
                return false;
        memcpy(domain, text, length);
        domain[length] = '\0';
        return text_is_subdomain(domain) && node_taint_is_word(slash + 1, strlen(slash + 1));
}

int node_taint_parse(struct node_taint *ret, struct arena *arena, const char *text, struct error *err)
{
        static const char *const effects[] = {"NoSchedule", "PreferNoSchedule", "NoExecute"};
        char *key = arena_strdup(arena, text);
        char *colon = strrchr(key, ':');
        char *value;

        if (!colon)
                return error_set(err, ERROR_INVALID,
                        "'%.150s' is not a taint: write key=value:effect or key:effect, for example "
                        "nvidia.com/gpu-sharing=unavailable:NoSchedule",
                        text);
        *colon = '\0';
        value = strchr(key, '=');
        if (value)
                *value++ = '\0';
        if (!qualified_name_is_valid(key))
                return error_set(err, ERROR_INVALID,
                        "'%.150s' is not a key of a taint: a name of at most 63 letters, digits, '-', '_' and '.', and before "
                        "it, if wanted, a domain and a slash",
                        key);
        if (text_starts_with(key, "node.kubernetes.io/"))
                return error_set(
                        err, ERROR_INVALID, "'%.150s' is a taint that Kubernetes sets itself: use another key", key);
        if (value && *value && !node_taint_is_word(value, strlen(value)))
                return error_set(err, ERROR_INVALID,
                        "'%.150s' is not a value of a taint: at most 63 letters, digits, '-', '_' and '.', a letter or digit "
                        "first and last",
                        value);
        for (size_t i = 0; i < ARRAY_SIZE(effects); i++)
                if (strcmp(colon + 1, effects[i]) == 0) {
                        *ret = (struct node_taint){key, value ? value : "", effects[i]};
                        return 0;
                }
        return error_set(err, ERROR_INVALID,
                "'%.150s' is not an effect of a taint: use NoSchedule, PreferNoSchedule or NoExecute", colon + 1);
}

int node_condition_check(const char *type, struct error *err)
{
        static const char *const taken[] = {
                "Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "OutOfDisk"};

        for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
                if (strcmp(type, taken[i]) == 0)
                        return error_set(err, ERROR_INVALID,
                                "'%s' is a condition that kubelet sets: use another type, for example GPUSharingReady",
                                type);
        if (!qualified_name_is_valid(type))
                return error_set(err, ERROR_INVALID,
                        "'%.150s' is not a type of a condition: a name of at most 63 letters, digits, '-', '_' and '.', and "
                        "before it, if wanted, a domain and a slash; for example GPUSharingReady",
                        type);
        return 0;
}
