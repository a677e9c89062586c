#include "node/dra/slice_cache.h"

#include <assert.h>
#include <stdlib.h>

#include "base/macro.h"
#include "net/kube/object.h"

json_t *slice_cache_slices(struct slice_cache *cache)
{
        if (!cache->slices) {
                cache->slices = cache->text ? json_loads(cache->text, JSON_ALLOW_NUL, NULL) : json_object();
                assert(cache->slices); /* our own text, of what was read from one */
                free(TAKE_PTR(cache->text));
        }
        return cache->slices;
}

static uint64_t version_of(const json_t *object)
{
        const char *text = object_text(object, "metadata", "resourceVersion", NULL);

        return text ? strtoull(text, NULL, 10) : 0;
}

static bool slice_cache_is_same(const json_t *known, const json_t *object)
{
        return json_equal(object_find(known, "spec", NULL), object_find(object, "spec", NULL)) &&
               json_equal(object_find(known, "metadata", "ownerReferences", NULL),
                       object_find(object, "metadata", "ownerReferences", NULL));
}

enum slice_cache_news slice_cache_follow(struct slice_cache *cache, enum kube_change what, json_t *object)
{
        const char *name = object_text(object, "metadata", "name", NULL);
        const json_t *known = name ? json_object_get(slice_cache_slices(cache), name) : NULL;
        uint64_t version = version_of(object);
        enum slice_cache_news news;

        if (!name || (known && version > 0 && version < version_of(known)) || (what == KUBE_GONE && !known))
                return SLICE_CACHE_SAME;
        if (what == KUBE_GONE) {
                json_object_del(cache->slices, name);
                return SLICE_CACHE_GONE;
        }
        news = slice_cache_is_same(known, object) ? SLICE_CACHE_SAME : SLICE_CACHE_CHANGED;
        json_object_set(cache->slices, name, object);
        return news;
}

void slice_cache_compact(struct slice_cache *cache)
{
        char *text = cache->slices ? json_dumps(cache->slices, JSON_COMPACT) : NULL;

        if (!text)
                return;
        slice_cache_clear(cache);
        cache->text = text;
}

void slice_cache_clear(struct slice_cache *cache)
{
        json_decref(cache->slices);
        cache->slices = NULL;
        free(TAKE_PTR(cache->text));
}
