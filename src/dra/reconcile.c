#include "dra/reconcile.h"

#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "dra/slices.h"
#include "kube/object.h"

static const json_t *spec_of(const json_t *object)
{
        return json_object_get(object, "spec");
}

static json_int_t generation_of(const json_t *object)
{
        return json_integer_value(object_find(object, "spec", "pool", "generation", NULL));
}

static const char *name_of(const json_t *wanted)
{
        return json_string_value(json_object_get(wanted, "name"));
}

static bool has_owner(const struct dra_pool *pool, const json_t *object)
{
        size_t i;
        json_t *owner;

        json_array_foreach(object_find(object, "metadata", "ownerReferences", NULL), i,
                owner) if (text_is_same(object_text(owner, "uid", NULL), pool->owner_uid)) return true;
        return false;
}

static bool is_right(const struct dra_pool *pool, const json_t *wanted)
{
        const json_t *there = json_object_get(pool->there, name_of(wanted));
        const json_t *accepted = json_object_get(pool->accepted, name_of(wanted));

        if (!has_owner(pool, there))
                return false;
        if (dra_slices_are_same(spec_of(wanted), spec_of(there)))
                return true;
        return accepted && dra_slices_are_same(spec_of(wanted), json_object_get(accepted, "sent")) &&
               dra_slices_are_same(json_object_get(accepted, "kept"), spec_of(there));
}

static const json_t *find_wanted(const struct dra_pool *pool, const char *name)
{
        size_t i;
        json_t *wanted;

        json_array_foreach(pool->wanted, i, wanted) if (strcmp(name_of(wanted), name) == 0) return wanted;
        return NULL;
}

/* A slice whose pool has another name cannot be changed into one of ours: it is deleted. */
static bool is_obsolete(const struct dra_pool *pool, const char *name, const json_t *there)
{
        const json_t *wanted = find_wanted(pool, name);

        return !wanted || !text_is_same(object_text(wanted, "spec", "pool", "name", NULL),
                                  object_text(there, "spec", "pool", "name", NULL));
}

/* The generation of the wanted slices. */
static json_int_t choose_generation(const struct dra_pool *pool, json_int_t newest)
{
        size_t count = json_array_size(pool->wanted);
        size_t n_newest = 0;
        size_t n_changed = 0;
        const char *name;
        size_t i;
        json_t *slice;

        if (newest == 0)
                return 1;
        json_object_foreach(pool->there, name, slice)
        {
                if (generation_of(slice) != newest)
                        continue;
                if (json_integer_value(object_find(slice, "spec", "pool", "resourceSliceCount", NULL)) !=
                        (json_int_t)count)
                        return newest + 1;
                n_newest++;
        }
        json_array_foreach(pool->wanted, i, slice) n_changed += !is_right(pool, slice);
        return n_newest < count || n_changed <= 1 ? newest : newest + 1;
}

struct dra_action dra_reconcile(const struct dra_pool *pool)
{
        struct dra_action create = {.step = DRA_STEP_NONE};
        json_int_t newest = 0;
        json_int_t generation;
        const char *name;
        size_t i;
        json_t *slice;

        json_object_foreach(pool->there, name, slice)
        {
                if (is_obsolete(pool, name, slice))
                        return (struct dra_action){.step = DRA_STEP_DELETE, .name = name};
                newest = MAX(newest, generation_of(slice));
        }
        generation = choose_generation(pool, newest);
        json_array_foreach(pool->wanted, i, slice)
        {
                const json_t *there = json_object_get(pool->there, name_of(slice));
                struct dra_action action = {.step = there ? DRA_STEP_REPLACE : DRA_STEP_CREATE,
                        .name = name_of(slice),
                        .spec = json_object_get(slice, "spec"),
                        .generation = generation};

                if (there && generation_of(there) == generation && is_right(pool, slice))
                        continue;
                if (there)
                        return action;
                if (create.step == DRA_STEP_NONE)
                        create = action;
        }
        return create;
}
