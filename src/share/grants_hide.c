/*
 * Which free ids are hidden. Ids and room are counted apart: after a request that mixed units, a unit may have more free ids
 * than room for them, or fewer.
 */
#include "share/grants_books.h"

uint32_t place_room(const struct grants *grants, size_t unit, uint32_t moved)
{
        const struct place *place = &grants->places[unit];
        uint32_t used = place->used - moved;
        uint32_t replicas = grants->resource->units[unit].replicas;

        return place->is_sick || used >= replicas ? 0 : replicas - used;
}

static unsigned int healthy_replicas(const struct resource *resource, const struct place *places, size_t unit)
{
        return places && places[unit].is_sick ? 0 : resource->units[unit].replicas;
}

size_t books_safe_count(const struct resource *resource, unsigned int max_per_request, const struct place *places)
{
        unsigned int largest = 0;
        unsigned int healthy = 0; /* the largest of them */
        unsigned int less = 0;    /* than the worst request, by one */
        size_t count;

        for (size_t i = 0; i < resource->n_units; i++) {
                largest = MAX(largest, resource->units[i].replicas);
                healthy = MAX(healthy, healthy_replicas(resource, places, i));
        }
        if (max_per_request > 0 && resource->reserves)
                less = MIN(MIN(max_per_request, largest) - 1, healthy);
        count = less;
        for (size_t i = 0; i < resource->n_units; i++)
                count += MAX(healthy_replicas(resource, places, i), less) - less;
        return count;
}

size_t grants_reserved(const struct resource *resource)
{
        if (!resource->reserves || resource->max_per_request == 0)
                return 0;
        return resource->n_devices - books_safe_count(resource, resource->max_per_request, NULL);
}

bool grants_reserved_is_much(const struct resource *resource)
{
        return grants_reserved(resource) * 3 > resource->n_devices;
}

struct hiding {
        struct grants *grants;
        size_t n_units;
        uint32_t *room; /* by unit; 0 for those that are sick, as all below */
        uint32_t *free; /* own ids that nobody holds, hidden or not */
        uint32_t *hide; /* how many of those are to be hidden */
        size_t wanted;  /* how many in all */
        size_t visible; /* free ids that are not hidden then */
};

static void measure(struct hiding *hiding, struct arena *scratch)
{
        const struct grants *grants = hiding->grants;
        const struct resource *resource = grants->resource;
        size_t healthy = 0;
        size_t free_ids = 0;

        hiding->n_units = resource->n_units;
        hiding->room = ARENA_ARRAY(scratch, uint32_t, resource->n_units);
        hiding->free = ARENA_ARRAY(scratch, uint32_t, resource->n_units);
        hiding->hide = ARENA_ARRAY(scratch, uint32_t, resource->n_units);
        for (size_t i = 0; i < resource->n_units; i++) {
                if (grants->places[i].is_sick)
                        continue;
                hiding->room[i] = place_room(grants, i, 0);
                hiding->free[i] = resource->units[i].replicas - grants->places[i].held;
                healthy += resource->units[i].replicas;
                free_ids += hiding->free[i];
        }
        hiding->wanted = healthy - books_safe_count(resource, grants->max_per_request, grants->places);
        hiding->wanted = MIN(hiding->wanted, free_ids);
        hiding->visible = free_ids - hiding->wanted;
}

/* How many ids of the unit lead to room on it. */
static uint32_t usable(const struct hiding *hiding, size_t unit)
{
        return MIN(hiding->free[unit], hiding->room[unit]);
}

/* The unit that is to have the next request visible. */
static size_t find_keeper(const struct hiding *hiding)
{
        size_t keeper = 0;

        for (size_t i = 1; i < hiding->n_units; i++)
                if (usable(hiding, i) > usable(hiding, keeper))
                        keeper = i;
        return keeper;
}

/* How many it is to have: of the largest request that can still come, what is possible. */
static uint32_t count_kept(const struct hiding *hiding, size_t keeper)
{
        size_t request = MIN(hiding->visible, hiding->grants->max_per_request);

        return (uint32_t)MIN(request, usable(hiding, keeper));
}

/* What is hidden now is the right number, and some unit has the next request visible. */
static bool is_enough(const struct hiding *hiding)
{
        const struct place *places = hiding->grants->places;
        uint32_t most = 0;
        size_t count = 0;

        for (size_t i = 0; i < hiding->n_units; i++) {
                if (places[i].hidden > hiding->free[i])
                        return false;
                count += places[i].hidden;
                most = MAX(most, MIN(hiding->free[i] - places[i].hidden, hiding->room[i]));
        }
        return count == hiding->wanted && most >= count_kept(hiding, find_keeper(hiding));
}

/* Hides up to |most| more of the unit's ids. */
static size_t hide_more(struct hiding *hiding, size_t unit, size_t most, size_t left)
{
        uint32_t more = (uint32_t)MIN(most, left);

        hiding->hide[unit] += more;
        return left - more;
}

/* The emptiest unit that has more ids to hide than are kept of it, or n_units. */
static size_t find_emptiest(const struct hiding *hiding, size_t keeper, uint32_t kept)
{
        size_t emptiest = hiding->n_units;

        for (size_t i = 0; i < hiding->n_units; i++) {
                if (hiding->free[i] <= hiding->hide[i] + (i == keeper ? kept : 0))
                        continue;
                if (emptiest == hiding->n_units || hiding->room[i] > hiding->room[emptiest])
                        emptiest = i;
        }
        return emptiest;
}

/* Ids without room first; then those of the emptiest units, but what is kept last. */
static void choose(struct hiding *hiding)
{
        size_t keeper = find_keeper(hiding);
        uint32_t kept = count_kept(hiding, keeper);
        size_t left = hiding->wanted;

        for (size_t i = 0; i < hiding->n_units; i++)
                left = hide_more(hiding, i, hiding->free[i] - usable(hiding, i), left);
        while (left > 0) {
                size_t unit = find_emptiest(hiding, keeper, kept);

                if (unit == hiding->n_units) {
                        kept = 0;
                        continue;
                }
                left = hide_more(
                        hiding, unit, hiding->free[unit] - hiding->hide[unit] - (unit == keeper ? kept : 0), left);
        }
}

/* The last of its ids, and those that are hidden already stay so. */
static void hide_ids(struct grants *grants, size_t position, uint32_t count)
{
        const struct unit *unit = &grants->resource->units[position];
        struct place *place = &grants->places[position];
        size_t first = unit->first_device;

        for (size_t i = first; place->hidden > count; i++) {
                place->hidden -= grants->hidden[i];
                grants->hidden[i] = false;
        }
        for (size_t i = first + unit->replicas; place->hidden < count; i--) {
                if (grants->holders[i - 1] || grants->hidden[i - 1])
                        continue;
                grants->hidden[i - 1] = true;
                place->hidden++;
        }
}

void books_hide(struct grants *grants)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct hiding hiding = {.grants = grants};

        measure(&hiding, &scratch);
        if (is_enough(&hiding))
                return;
        choose(&hiding);
        for (size_t i = 0; i < hiding.n_units; i++)
                hide_ids(grants, i, hiding.hide[i]);
}
