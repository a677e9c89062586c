#include "cluster/pod_fit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "net/kube/object.h"

/* ---- taints ---- */

static bool tolerates(const json_t *toleration, const struct cluster_taint *taint)
{
        const char *key = object_text(toleration, "key", NULL);
        const char *effect = object_text(toleration, "effect", NULL);
        const char *how = object_text(toleration, "operator", NULL);
        const char *value = object_text(toleration, "value", NULL);

        if (effect && *effect && strcmp(effect, taint->effect) != 0)
                return false;
        if (key && *key ? strcmp(key, taint->key) != 0 : !text_is_same(how, "Exists"))
                return false;
        if (!how || !*how || strcmp(how, "Equal") == 0)
                return strcmp(value ? value : "", taint->value) == 0;
        return true; /* Exists, and what is not known here */
}

const struct cluster_taint *pod_fit_taint(const json_t *pod, const struct cluster_node *node)
{
        const json_t *tolerations = object_find(pod, "spec", "tolerations", NULL);

        for (size_t i = 0; node->object && i < node->object->n_taints; i++) {
                const struct cluster_taint *taint = &node->object->taints[i];
                bool is_tolerated = strcmp(taint->effect, "NoSchedule") != 0 && strcmp(taint->effect, "NoExecute") != 0;

                for (size_t k = 0; k < json_array_size(tolerations) && !is_tolerated; k++)
                        is_tolerated = tolerates(json_array_get(tolerations, k), taint);
                if (!is_tolerated)
                        return taint;
        }
        return NULL;
}

/* ---- labels ---- */

static bool has_value(const json_t *values, const char *value)
{
        for (size_t i = 0; value && i < json_array_size(values); i++)
                if (text_is_same(json_string_value(json_array_get(values, i)), value))
                        return true;
        return false;
}

static bool pod_fit_read_number(const char *text, long long *ret)
{
        char *end;

        if (!text || !*text)
                return false;
        errno = 0;
        *ret = strtoll(text, &end, 10);
        return errno == 0 && !*end;
}

static bool expression_fits(const json_t *expression, const char *value)
{
        const char *how = object_text(expression, "operator", NULL);
        const json_t *values = json_object_get(expression, "values");
        long long is;
        long long bound;

        if (text_is_same(how, "In"))
                return has_value(values, value);
        if (text_is_same(how, "NotIn"))
                return !has_value(values, value);
        if (text_is_same(how, "Exists"))
                return value != NULL;
        if (text_is_same(how, "DoesNotExist"))
                return value == NULL;
        if (!text_is_same(how, "Gt") && !text_is_same(how, "Lt"))
                return true;
        if (!pod_fit_read_number(value, &is) ||
                !pod_fit_read_number(json_string_value(json_array_get(values, 0)), &bound))
                return false;
        return *how == 'G' ? is > bound : is < bound;
}

/* All of its expressions; an empty term selects nothing. */
static bool term_fits(const json_t *term, const struct cluster_node *node)
{
        const json_t *labels = json_object_get(term, "matchExpressions");
        const json_t *fields = json_object_get(term, "matchFields");

        if (json_array_size(labels) + json_array_size(fields) == 0)
                return false;
        for (size_t i = 0; i < json_array_size(labels); i++) {
                const json_t *expression = json_array_get(labels, i);
                const char *key = object_text(expression, "key", NULL);

                if (!expression_fits(expression, cluster_node_label(node, key ? key : "")))
                        return false;
        }
        for (size_t i = 0; i < json_array_size(fields); i++)
                if (!expression_fits(json_array_get(fields, i), node->name)) /* metadata.name is the only field */
                        return false;
        return true;
}

bool pod_fit_is_selected(const json_t *pod, const struct cluster_node *node)
{
        json_t *selector = object_find(pod, "spec", "nodeSelector", NULL);
        const json_t *terms = object_find(pod, "spec", "affinity", "nodeAffinity",
                "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", NULL);
        const char *key;
        json_t *value;

        json_object_foreach(selector, key, value)
        {
                if (!text_is_same(cluster_node_label(node, key), json_string_value(value)))
                        return false;
        }
        for (size_t i = 0; i < json_array_size(terms); i++)
                if (term_fits(json_array_get(terms, i), node))
                        return true;
        return json_array_size(terms) == 0;
}
