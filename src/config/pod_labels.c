#include "config/pod_labels.h"

#include <ctype.h>
#include <string.h>

#include "config/node_taint.h"

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
