// SPDX-License-Identifier: Apache-2.0
#include "config/kube_name.h"

#include <ctype.h>
#include <string.h>

#include "base/text.h"

#define NAME_MAX_LENGTH ((size_t)63)
#define DOMAIN_MAX_LENGTH ((size_t)253)

static bool is_alphanumeric(char c)
{
        return isascii((unsigned char)c) && isalnum((unsigned char)c);
}

/* Letters, digits, '-', '_' and '.', a letter or digit first and last. */
static bool is_label_value(const char *text, size_t length)
{
        if (length == 0 || length > NAME_MAX_LENGTH || !is_alphanumeric(text[0]) || !is_alphanumeric(text[length - 1]))
                return false;
        for (size_t i = 0; i < length; i++)
                if (!is_alphanumeric(text[i]) && !strchr("-_.", text[i]))
                        return false;
        return true;
}

/* The key of a label, a taint or an annotation: "team", "app.kubernetes.io/name". */
static bool qualified_name_is_valid(const char *text)
{
        const char *slash = strchr(text, '/');
        char domain[DOMAIN_MAX_LENGTH + 1];
        size_t length;

        if (!slash)
                return is_label_value(text, strlen(text));
        length = (size_t)(slash - text);
        if (length > DOMAIN_MAX_LENGTH)
                return false;
        memcpy(domain, text, length);
        domain[length] = '\0';
        return text_is_subdomain(domain) && is_label_value(slash + 1, strlen(slash + 1));
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
        if (value && *value && !is_label_value(value, strlen(value)))
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

/* ---- labels of pods ---- */

static const char *metric_label_name(struct arena *arena, const char *key)
{
        char *name = arena_printf(arena, "label_%s", key);

        for (char *c = name; *c; c++)
                if (!isascii((unsigned char)*c) || !isalnum((unsigned char)*c))
                        *c = '_';
        return name;
}

int pod_labels_name(const char *const **ret, struct arena *arena, const char *const *keys, struct error *err)
{
        const char **names = ARENA_ARRAY(arena, const char *, POD_LABELS_MAX + 1);

        for (size_t i = 0; keys[i]; i++) {
                if (i == POD_LABELS_MAX)
                        return error_set(err, ERROR_INVALID, "more than %zu labels of pods", POD_LABELS_MAX);
                if (!qualified_name_is_valid(keys[i]))
                        return error_set(err, ERROR_INVALID,
                                "'%.150s' is not a key of a label: write them as team,app.kubernetes.io/name", keys[i]);
                names[i] = metric_label_name(arena, keys[i]);
                for (size_t j = 0; j < i; j++)
                        if (strcmp(names[j], names[i]) == 0)
                                return error_set(err, ERROR_INVALID, "'%s' and '%s' are both %s in metrics: choose one",
                                        keys[j], keys[i], names[i]);
        }
        *ret = names;
        return 0;
}

/* ---- names of resources ---- */

int resource_name_check(const char *name, struct arena *arena, const char **ret, struct error *err)
{
        const char *rest = name;

        if (text_starts_with(name, RESOURCE_NAME_PREFIX))
                rest += strlen(RESOURCE_NAME_PREFIX);
        if (strchr(rest, '/'))
                return error_set(err, ERROR_INVALID,
                        "'%.100s' is not a resource name: the only domain possible is " RESOURCE_NAME_PREFIX, name);
        if (strlen(RESOURCE_NAME_PREFIX) + strlen(rest) > RESOURCE_NAME_MAX)
                return error_set(err, ERROR_INVALID,
                        "'%.100s' is not a resource name: %zu characters with " RESOURCE_NAME_PREFIX ", at most %zu",
                        name, strlen(RESOURCE_NAME_PREFIX) + strlen(rest), RESOURCE_NAME_MAX);
        if (!text_is_subdomain(rest))
                return error_set(err, ERROR_INVALID,
                        "'%.100s' is not a resource name: use lower-case letters, digits, '-' and '.', a letter or digit "
                        "first and last",
                        name);
        *ret = arena_printf(arena, RESOURCE_NAME_PREFIX "%s", rest);
        return 0;
}
