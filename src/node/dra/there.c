#include "node/dra/there.h"

#include <assert.h>
#include <stdlib.h>

#include "base/macro.h"
#include "net/kube/object.h"

json_t *dra_there_slices(struct dra_there *there)
{
        if (!there->slices) {
                there->slices = there->text ? json_loads(there->text, JSON_ALLOW_NUL, NULL) : json_object();
                assert(there->slices); /* our own text, of what was read from one */
                free(TAKE_PTR(there->text));
        }
        return there->slices;
}

static uint64_t version_of(const json_t *object)
{
        const char *text = object_text(object, "metadata", "resourceVersion", NULL);

        return text ? strtoull(text, NULL, 10) : 0;
}

static bool is_same(const json_t *known, const json_t *object)
{
        return json_equal(object_find(known, "spec", NULL), object_find(object, "spec", NULL)) &&
               json_equal(object_find(known, "metadata", "ownerReferences", NULL),
                       object_find(object, "metadata", "ownerReferences", NULL));
}

enum dra_there_news dra_there_follow(struct dra_there *there, enum kube_change what, json_t *object)
{
        const char *name = object_text(object, "metadata", "name", NULL);
        const json_t *known = name ? json_object_get(dra_there_slices(there), name) : NULL;
        uint64_t version = version_of(object);
        enum dra_there_news news;

        if (!name || (known && version > 0 && version < version_of(known)) || (what == KUBE_GONE && !known))
                return DRA_THERE_SAME;
        if (what == KUBE_GONE) {
                json_object_del(there->slices, name);
                return DRA_THERE_GONE;
        }
        news = is_same(known, object) ? DRA_THERE_SAME : DRA_THERE_CHANGED;
        json_object_set(there->slices, name, object);
        return news;
}

void dra_there_rest(struct dra_there *there)
{
        char *text = there->slices ? json_dumps(there->slices, JSON_COMPACT) : NULL;

        if (!text)
                return;
        dra_there_clear(there);
        there->text = text;
}

void dra_there_clear(struct dra_there *there)
{
        json_decref(there->slices);
        there->slices = NULL;
        free(TAKE_PTR(there->text));
}
