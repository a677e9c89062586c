#include "share/grants.h"

#include <string.h>

#include "share/grants_books.h"

/* ---- ledger ---- */

static char **copy_texts(const char *const *texts, size_t count)
{
        size_t size = count * sizeof(char *);
        char **copy;
        char *at;

        for (size_t i = 0; i < count; i++)
                size += strlen(texts[i]) + 1;
        copy = xmalloc(size);
        at = (char *)(copy + count);
        for (size_t i = 0; i < count; i++) {
                copy[i] = at;
                at = stpcpy(at, texts[i]) + 1;
        }
        return copy;
}

struct holding *holding_new(
        const char *id, const char *unit, const char *const *devices, size_t n_devices, struct grants_moment granted)
{
        struct holding *holding = xcalloc(1, sizeof(*holding));

        holding->id = xstrdup(id);
        holding->unit = unit ? xstrdup(unit) : NULL;
        holding->devices = copy_texts(devices, n_devices);
        holding->grant = (struct grant){
                .id = holding->id,
                .unit = holding->unit,
                .devices = (const char *const *)holding->devices,
                .n_devices = n_devices,
                .since = granted.date,
        };
        holding->entered = granted.clock;
        return holding;
}

struct holding *holding_free(struct holding *holding)
{
        if (!holding)
                return NULL;
        free(holding->id);
        free(holding->unit);
        free(holding->devices);
        free(holding);
        return NULL;
}

/* ---- the count ---- */

static uint32_t find_unit(const struct resource *resource, const char *uuid)
{
        const struct unit *unit = uuid ? resource_find_unit(resource, uuid) : NULL;

        return unit ? (uint32_t)(unit - resource->units) : GRANTS_NO_UNIT;
}

/* The position of the unit that an id of this holding uses; GRANTS_NO_UNIT: one that is gone. */
static uint32_t unit_used(const struct holding *holding, const struct device *device)
{
        if (holding->unit)
                return holding->position;
        return device ? device->unit : GRANTS_NO_UNIT;
}

static void use_unit(struct grants *grants, uint32_t unit, int32_t replicas)
{
        if (unit != GRANTS_NO_UNIT)
                grants->places[unit].used += (uint32_t)replicas;
}

static void hold_device(struct grants *grants, struct holding *holding, const char *id)
{
        const struct device *device = map_find(&grants->resource->by_id, id);
        struct holding **holder;
        bool *hidden;

        use_unit(grants, unit_used(holding, device), 1);
        if (!device)
                return;
        holder = &grants->holders[device - grants->resource->devices];
        hidden = &grants->hidden[device - grants->resource->devices];
        if (*holder)
                use_unit(grants, unit_used(*holder, device), -1);
        grants->places[device->unit].held += *holder == NULL;
        grants->places[device->unit].hidden -= *hidden;
        *holder = holding;
        *hidden = false;
}

static void hold(struct grants *grants, struct holding *holding)
{
        holding->position = find_unit(grants->resource, holding->unit);
        for (size_t i = 0; i < holding->grant.n_devices; i++)
                hold_device(grants, holding, holding->devices[i]);
}

/* Every id that it had is another one's by now. */
static bool has_nothing_left(const struct grants *grants, const struct holding *holding)
{
        for (size_t i = 0; i < holding->grant.n_devices; i++) {
                const struct device *device = map_find(&grants->resource->by_id, holding->devices[i]);

                if (!device || grants->holders[device - grants->resource->devices] == holding)
                        return false;
        }
        return true;
}

/*
 * A grant that has nothing left may be that of an init container that runs; there are no more of those than devices. Of more
 * than that the oldest are over, though nobody has said so: kubelet may not tell who holds what.
 */
static void forget_oldest(struct grants *grants)
{
        size_t n_devices = grants->resource->n_devices;
        size_t excess = grants->n_all > 2 * n_devices ? grants->n_all - n_devices : 0;
        size_t kept = 0;

        for (size_t i = 0; i < grants->n_all; i++) {
                if (excess > 0 && has_nothing_left(grants, grants->all[i])) {
                        excess--;
                        holding_free(grants->all[i]);
                } else {
                        grants->all[kept++] = grants->all[i];
                }
        }
        grants->n_all = kept;
}

void books_add(struct grants *grants, struct holding *holding)
{
        if (grants->n_all > 2 * grants->resource->n_devices)
                forget_oldest(grants);
        if (grants->n_all == grants->room) {
                grants->room = grants->room ? 2 * grants->room : 16;
                grants->all = xrealloc(grants->all, grants->room * sizeof(*grants->all));
        }
        grants->all[grants->n_all++] = holding;
        hold(grants, holding);
}

void books_count(struct grants *grants)
{
        for (size_t i = 0; i < grants->resource->n_units; i++)
                grants->places[i].used = grants->places[i].held = 0;
        for (size_t i = 0; i < grants->resource->n_devices; i++)
                grants->holders[i] = NULL;
        for (size_t i = 0; i < grants->n_all; i++)
                hold(grants, grants->all[i]);
        books_hide(grants);
}

/* By the unit it is bound to, or by its first id. */
static bool belongs_to(const struct holding *holding, const struct resource *resource)
{
        if (holding->unit)
                return resource_find_unit(resource, holding->unit);
        return map_find(&resource->by_id, holding->devices[0]);
}

void grants_move(struct grants *from, struct grants *to)
{
        size_t left = 0;

        for (size_t i = 0; i < from->n_all; i++)
                if (belongs_to(from->all[i], to->resource))
                        books_add(to, from->all[i]);
                else
                        from->all[left++] = from->all[i];
        from->n_all = left;
        books_count(from);
        books_count(to);
}

/* ---- a request ---- */

struct request {
        const struct grants *grants;
        const char **ids; /* each once */
        size_t n_ids;
        uint32_t *own;   /* by unit: how many of the ids are its own */
        uint32_t *fresh; /* by unit: of those, how many no grant has */
        uint32_t *moved; /* by unit: how many of the ids a grant has that is bound to it */
};

static int collect(
        struct request *request, struct arena *scratch, const char *const *devices, size_t n_devices, struct error *err)
{
        const struct grants *grants = request->grants;
        const struct resource *resource = grants->resource;
        bool *seen = ARENA_ARRAY(scratch, bool, resource->n_devices);

        request->ids = ARENA_ARRAY(scratch, const char *, MIN(n_devices, resource->n_devices));
        request->own = ARENA_ARRAY(scratch, uint32_t, resource->n_units);
        request->fresh = ARENA_ARRAY(scratch, uint32_t, resource->n_units);
        request->moved = ARENA_ARRAY(scratch, uint32_t, resource->n_units);
        for (size_t i = 0; i < n_devices; i++) {
                const struct device *device = map_find(&resource->by_id, devices[i]);
                const struct holding *holder;
                uint32_t used;

                if (!device)
                        return error_set(err, ERROR_NOT_FOUND,
                                "invalid request for resource '%s': unknown device '%.100s'", resource->name,
                                devices[i]);
                if (seen[device - resource->devices])
                        continue;
                seen[device - resource->devices] = true;
                request->ids[request->n_ids++] = device->id;
                request->own[device->unit]++;
                holder = grants->holders[device - resource->devices];
                request->fresh[device->unit] += holder == NULL;
                used = holder ? unit_used(holder, device) : GRANTS_NO_UNIT;
                if (used != GRANTS_NO_UNIT)
                        request->moved[used]++;
        }
        return 0;
}

static unsigned int largest_unit(const struct resource *resource)
{
        unsigned int largest = 0;

        for (size_t i = 0; i < resource->n_units; i++)
                largest = MAX(largest, resource->units[i].replicas);
        return largest;
}

static int check_size(const struct request *request, struct error *err)
{
        const struct grants *grants = request->grants;
        const char *name = grants->resource->name;
        unsigned int largest = largest_unit(grants->resource);

        if (request->n_ids == 0)
                return error_set(err, ERROR_INVALID, "invalid request for resource '%s': it names no device", name);
        if (grants->max_per_request == 0)
                return 0;
        if (request->n_ids > largest)
                return error_set(err, ERROR_INVALID,
                        "invalid request for resource '%s': %zu replicas are asked for, but all must be of one unit, and the "
                        "largest has %u: ask for fewer",
                        name, request->n_ids, largest);
        if (request->n_ids > grants->max_per_request)
                return error_set(err, ERROR_INVALID,
                        "invalid request for resource '%s': %zu replicas are asked for, but maxPerRequest is %u: ask for "
                        "fewer, or raise it",
                        name, request->n_ids, grants->max_per_request);
        return 0;
}

/*
 * More in the books than is safe to advertise: some of it is over, and we have not heard. Let in, it would leave too few free ids
 * to hide, and the scheduler would be promised more than there is. At the second try kubelet was asked.
 */
static int check_count(const struct request *request, struct error *err)
{
        const struct grants *grants = request->grants;
        size_t safe = books_safe_count(grants->resource, grants->max_per_request, grants->places);
        size_t held = 0;

        for (size_t i = 0; i < grants->resource->n_units; i++)
                held += grants->places[i].is_sick ? 0 : grants->places[i].held + request->fresh[i];
        if (held <= safe || grants->was_refused)
                return 0;
        return error_set(err, ERROR_EXHAUSTED,
                "with this request %zu replicas of resource '%s' would be in use, and %zu are advertised", held,
                grants->resource->name, safe);
}

/* Where its own ids were, then where most of the ids are, then where it fits tightest. */
static bool is_better(const struct request *request, const uint32_t *room, uint32_t a, uint32_t b)
{
        if (request->moved[a] != request->moved[b])
                return request->moved[a] > request->moved[b];
        if (request->own[a] != request->own[b])
                return request->own[a] > request->own[b];
        return room[a] < room[b];
}

static int choose_unit(const struct request *request, struct arena *scratch, uint32_t *ret, struct error *err)
{
        const struct grants *grants = request->grants;
        size_t n_units = grants->resource->n_units;
        uint32_t *room = ARENA_ARRAY(scratch, uint32_t, n_units);
        uint32_t best = GRANTS_NO_UNIT;
        uint32_t most = 0;
        size_t sick = 0;

        for (uint32_t i = 0; i < n_units; i++) {
                sick += grants->places[i].is_sick;
                room[i] = place_room(grants, i, request->moved[i]);
                most = MAX(most, room[i]);
                if (room[i] < request->n_ids)
                        continue;
                if (best == GRANTS_NO_UNIT || is_better(request, room, i, best))
                        best = i;
        }
        if (best == GRANTS_NO_UNIT)
                return error_set(err, ERROR_EXHAUSTED,
                        "no unit of resource '%s' has %zu free replicas: the most is %u; %zu of %zu units are not healthy%s",
                        grants->resource->name, request->n_ids, most, sick, n_units,
                        grants->resource->reserves ? ""
                                                   : " (with reserve: strict no pod is admitted that finds no unit)");
        *ret = best;
        return 0;
}

static int find_room(const struct request *request, struct arena *scratch, const char **ret_uuid, struct error *err)
{
        const struct resource *resource = request->grants->resource;
        uint32_t unit;

        *ret_uuid = NULL;
        if (request->grants->max_per_request == 0)
                return 0;
        if (check_count(request, err) < 0 || choose_unit(request, scratch, &unit, err) < 0)
                return -1;
        *ret_uuid = resource->units[unit].uuid;
        return 0;
}

int grants_allocate(struct grants *grants, const char *const *devices, size_t n_devices, struct grants_moment now,
        const char *id, const struct grant **ret, struct error *err)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct request request = {.grants = grants};
        struct holding *holding;
        const char *uuid;

        if (collect(&request, &scratch, devices, n_devices, err) < 0 || check_size(&request, err) < 0)
                return -1;
        if (find_room(&request, &scratch, &uuid, err) < 0) {
                grants->was_refused = !grants->was_refused;
                return -1;
        }
        grants->was_refused = false;
        holding = holding_new(id, uuid, request.ids, request.n_ids, now);
        books_add(grants, holding);
        books_hide(grants);
        *ret = &holding->grant;
        return 0;
}

void grants_renew(struct grants *grants, const char *id, int64_t clock)
{
        for (size_t i = grants->n_all; i > 0; i--)
                if (strcmp(grants->all[i - 1]->id, id) == 0)
                        grants->all[i - 1]->entered = clock;
}

/* ---- the books as a whole ---- */

struct grants *grants_new(const struct resource *resource, unsigned int max_per_request)
{
        struct grants *grants = xcalloc(1, sizeof(*grants));

        grants_set_resource(grants, resource, max_per_request);
        return grants;
}

struct grants *grants_free(struct grants *grants)
{
        if (!grants)
                return NULL;
        for (size_t i = 0; i < grants->n_all; i++)
                holding_free(grants->all[i]);
        free(grants->all);
        free(grants->places);
        free(grants->holders);
        free(grants->hidden);
        free(grants);
        return NULL;
}

void grants_set_resource(struct grants *grants, const struct resource *resource, unsigned int max_per_request)
{
        struct place *places = xcalloc(resource->n_units, sizeof(*places));

        for (size_t i = 0; grants->resource && i < resource->n_units; i++) {
                uint32_t before = find_unit(grants->resource, resource->units[i].uuid);

                places[i].is_sick = before != GRANTS_NO_UNIT && grants->places[before].is_sick;
        }
        free(grants->places);
        free(grants->holders);
        free(grants->hidden);
        grants->places = places;
        grants->holders = xcalloc(resource->n_devices, sizeof(struct holding *));
        grants->hidden = xcalloc(resource->n_devices, sizeof(bool));
        grants->resource = resource;
        grants->max_per_request = max_per_request;
        books_count(grants);
}

void grants_set_unit_health(struct grants *grants, const char *uuid, bool healthy)
{
        uint32_t unit = find_unit(grants->resource, uuid);

        if (unit == GRANTS_NO_UNIT)
                return;
        grants->places[unit].is_sick = !healthy;
        books_hide(grants);
}

size_t grants_capacity(const struct resource *resource, unsigned int max_per_request)
{
        return books_safe_count(resource, max_per_request, NULL);
}

const bool *grants_hidden(const struct grants *grants)
{
        return grants->hidden;
}

size_t grants_count(const struct grants *grants)
{
        return grants->n_all;
}

const struct grant *grants_get(const struct grants *grants, size_t position)
{
        return &grants->all[position]->grant;
}

static bool has_device(const struct grant *grant, const char *id)
{
        for (size_t i = 0; i < grant->n_devices; i++)
                if (strcmp(grant->devices[i], id) == 0)
                        return true;
        return false;
}

const struct grant *grants_of_device(const struct grants *grants, const char *device)
{
        const struct device *known = map_find(&grants->resource->by_id, device);

        if (known) {
                const struct holding *holder = grants->holders[known - grants->resource->devices];

                return holder ? &holder->grant : NULL;
        }
        /* An id that the plan has no more. */
        for (size_t i = grants->n_all; i > 0; i--)
                if (has_device(&grants->all[i - 1]->grant, device))
                        return &grants->all[i - 1]->grant;
        return NULL;
}
