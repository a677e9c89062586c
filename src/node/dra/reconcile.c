#include "node/dra/reconcile.h"

#include "base/macro.h"
#include "base/text.h"
#include "node/dra/slices.h"
#include "net/kube/object.h"

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

/* The slice that can be changed into |wanted|; NULL: there is none. The name of its pool cannot be changed. */
static const json_t *find_there(const struct dra_pool *pool, const json_t *wanted)
{
        const json_t *there = json_object_get(pool->there, name_of(wanted));

        return text_is_same(object_text(wanted, "spec", "pool", "name", NULL),
                       object_text(there, "spec", "pool", "name", NULL))
                       ? there
                       : NULL;
}

/* The name of one that is to be deleted; there has to be one. */
static const char *find_obsolete(const struct dra_pool *pool)
{
        const char *name;
        json_t *there;

        json_object_foreach(pool->there, name, there)
        {
                bool is_wanted = false;
                size_t i;
                json_t *wanted;

                json_array_foreach(pool->wanted, i, wanted) is_wanted |= find_there(pool, wanted) == there;
                if (!is_wanted)
                        return name;
        }
        return NULL;
}

/* The generation of the wanted slices, once all others are gone, and how many of them have to be written for it. */
static json_int_t choose_generation(const struct dra_pool *pool, json_int_t newest, size_t *ret_writes)
{
        size_t count = json_array_size(pool->wanted);
        size_t n_newest = 0;
        size_t n_changed = 0;
        size_t n_writes = 0;
        size_t i;
        json_t *wanted;

        *ret_writes = count;
        if (newest == 0)
                return 1;
        json_array_foreach(pool->wanted, i, wanted)
        {
                const json_t *there = find_there(pool, wanted);
                bool is_changed = !is_right(pool, wanted);

                n_changed += is_changed;
                n_writes += is_changed || generation_of(there) != newest;
                if (generation_of(there) != newest)
                        continue;
                if (json_integer_value(object_find(there, "spec", "pool", "resourceSliceCount", NULL)) !=
                        (json_int_t)count)
                        return newest + 1;
                n_newest++;
        }
        if (n_newest == count && n_changed > 1)
                return newest + 1;
        *ret_writes = n_writes;
        return newest;
}

struct dra_action dra_reconcile(const struct dra_pool *pool)
{
        struct dra_action create = {.step = DRA_STEP_NONE};
        size_t n_obsolete = json_object_size(pool->there);
        json_int_t newest = 0;
        json_int_t generation;
        size_t n_writes;
        size_t i;
        json_t *slice;

        json_array_foreach(pool->wanted, i, slice)
        {
                const json_t *there = find_there(pool, slice);

                n_obsolete -= there != NULL;
                newest = MAX(newest, generation_of(there));
        }
        generation = choose_generation(pool, newest, &n_writes);
        if (n_obsolete > 0)
                return (struct dra_action){
                        .step = DRA_STEP_DELETE, .name = find_obsolete(pool), .n_writes = n_obsolete + n_writes};
        json_array_foreach(pool->wanted, i, slice)
        {
                const json_t *there = find_there(pool, slice);
                struct dra_action action = {.step = there ? DRA_STEP_REPLACE : DRA_STEP_CREATE,
                        .name = name_of(slice),
                        .spec = json_object_get(slice, "spec"),
                        .generation = generation,
                        .n_writes = n_writes};

                if (there && generation_of(there) == generation && is_right(pool, slice))
                        continue;
                if (there)
                        return action;
                if (create.step == DRA_STEP_NONE)
                        create = action;
        }
        return create;
}
