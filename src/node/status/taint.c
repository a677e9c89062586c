#include "node/status/taint.h"

#include <string.h>

#include "base/alloc.h"
#include "net/kube/object.h"

static bool has_text(const json_t *taint, const char *key, const char *text)
{
        const char *value = object_text(taint, key, NULL);

        return strcmp(value ? value : "", text) == 0;
}

static bool is_same_place(const json_t *entry, const struct node_taint *taint)
{
        return has_text(entry, "key", taint->key) && has_text(entry, "effect", taint->effect);
}

static json_t *taint_taints_of(const json_t *node)
{
        json_t *taints = object_find(node, "spec", "taints", NULL);

        return json_is_array(taints) ? taints : NULL;
}

/* The index of the taint, or -1. If |taint| has a value, the value must match, too. */
static ssize_t taint_find(const json_t *taints, const struct node_taint *taint, bool with_value)
{
        for (size_t i = 0; i < json_array_size(taints); i++) {
                const json_t *entry = json_array_get(taints, i);

                if (is_same_place(entry, taint) && (!with_value || has_text(entry, "value", taint->value)))
                        return (ssize_t)i;
        }
        return -1;
}

static void taint_append(json_t *node, const struct node_taint *taint)
{
        json_t *spec = object_make(node, "spec", NULL);
        json_t *taints = taint_taints_of(node);
        json_t *entry = json_pack("{s:s, s:s}", "key", taint->key, "effect", taint->effect);

        if (*taint->value)
                json_object_set_new(entry, "value", json_string(taint->value));
        if (!taints) {
                taints = json_array();
                json_object_set_new(spec, "taints", taints);
        }
        json_array_append_new(taints, entry);
}

static void write_annotation(json_t *node, struct arena *scratch, const struct node_taint *taint)
{
        const char *text =
                arena_printf(scratch, "%s%s%s:%s", taint->key, *taint->value ? "=" : "", taint->value, taint->effect);

        json_object_set_new(
                object_make(node, "metadata", "annotations", NULL), NODE_TAINT_ANNOTATION, json_string(text));
}

const char *node_taint_of(const json_t *node)
{
        return object_text(node, "metadata", "annotations", NODE_TAINT_ANNOTATION, NULL);
}

static bool taint_is_same(const struct node_taint *a, const struct node_taint *b)
{
        return strcmp(a->key, b->key) == 0 && strcmp(a->value, b->value) == 0 && strcmp(a->effect, b->effect) == 0;
}

/* An annotation that cannot be parsed is removed, and no taint with it. */
static void remove_ours(json_t *node, const struct node_taint *ours)
{
        ssize_t at = ours ? taint_find(taint_taints_of(node), ours, true) : -1;

        if (at >= 0)
                json_array_remove(taint_taints_of(node), (size_t)at);
        json_object_del(object_find(node, "metadata", "annotations", NULL), NODE_TAINT_ANNOTATION);
}

bool node_taint_merge(json_t *node, const struct node_taint *wanted)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const char *annotation = node_taint_of(node);
        struct node_taint ours;
        struct error err;
        bool has_ours = annotation && node_taint_parse(&ours, &scratch, annotation, &err) == 0;
        bool is_changed = false;

        if (annotation && !(wanted && has_ours && taint_is_same(&ours, wanted) &&
                                  taint_find(taint_taints_of(node), &ours, true) >= 0)) {
                remove_ours(node, has_ours ? &ours : NULL);
                annotation = NULL;
                is_changed = true;
        }
        if (wanted && !annotation && taint_find(taint_taints_of(node), wanted, false) < 0) {
                taint_append(node, wanted);
                write_annotation(node, &scratch, wanted);
                is_changed = true;
        }
        return is_changed;
}
