#include "plan/prefer.h"

#include "plan/prefer_links.h"
#include "plan/prefer_placement.h"

struct choice {
        const struct resource *resource;
        const char **ids; /* the answer */
        size_t n_ids;
        uint32_t *required; /* the units of the required ids */
        bool *is_candidate; /* by position of the device */
        size_t n_candidates;
        size_t needed;  /* besides the required ones */
        bool has_parts; /* candidates or required ids include replicas or MIG devices */
};

static void prefer_note_unit(struct choice *choice, uint32_t position)
{
        const struct unit *unit = &choice->resource->units[position];

        choice->has_parts |= unit->replicas > 1 || unit->mig;
}

/* The answer begins with the required ids. They are not candidates, and the answer has room for all of them. */
static int prefer_collect(
        struct choice *choice, const struct prefer_request *request, struct arena *scratch, struct error *err)
{
        const struct resource *resource = choice->resource;
        bool *is_required = ARENA_ARRAY(scratch, bool, resource->n_devices);

        choice->is_candidate = ARENA_ARRAY(scratch, bool, resource->n_devices);
        choice->required = ARENA_ARRAY(scratch, uint32_t, MIN(request->size, resource->n_devices));
        for (size_t i = 0; i < request->n_required; i++) {
                const struct device *device = map_find(&resource->by_id, request->required[i]);

                if (!device || is_required[device - resource->devices])
                        continue;
                if (choice->n_ids == request->size)
                        return error_set(err, ERROR_INVALID,
                                "resource '%s': %zu devices are asked for, but more devices than that must be included",
                                resource->name, request->size);
                is_required[device - resource->devices] = true;
                prefer_note_unit(choice, device->unit);
                choice->required[choice->n_ids] = device->unit;
                choice->ids[choice->n_ids++] = device->id;
        }
        for (size_t i = 0; i < request->n_available; i++) {
                const struct device *device = map_find(&resource->by_id, request->available[i]);
                size_t position = device ? (size_t)(device - resource->devices) : 0;

                if (!device || is_required[position] || choice->is_candidate[position])
                        continue;
                prefer_note_unit(choice, device->unit);
                choice->is_candidate[position] = true;
                choice->n_candidates++;
        }
        choice->needed = request->size - choice->n_ids;
        if (choice->n_candidates < choice->needed)
                return error_set(err, ERROR_INVALID,
                        "resource '%s': not enough available devices: %zu are asked for, %zu are available",
                        resource->name, request->size, choice->n_ids + choice->n_candidates);
        return 0;
}

static void pick_all(struct choice *choice)
{
        for (size_t i = 0; i < choice->resource->n_devices; i++)
                if (choice->is_candidate[i])
                        choice->ids[choice->n_ids++] = choice->resource->devices[i].id;
}

static void pick_by_placement(struct choice *choice, struct arena *scratch)
{
        const struct prefer_placement placement = {
                .resource = choice->resource,
                .is_candidate = choice->is_candidate,
                .required = choice->required,
                .n_required = choice->n_ids,
        };

        prefer_placement(&placement, scratch, choice->needed, choice->ids + choice->n_ids);
        choice->n_ids += choice->needed;
}

static void pick_by_links(struct choice *choice, struct arena *scratch)
{
        const struct resource *resource = choice->resource;
        size_t n_required = choice->n_ids;
        uint32_t *candidates = ARENA_ARRAY(scratch, uint32_t, choice->n_candidates);
        uint32_t *picked = ARENA_ARRAY(scratch, uint32_t, n_required + choice->needed);
        size_t count = 0;

        /* A whole unit is one device. */
        for (size_t i = 0; i < resource->n_devices; i++)
                if (choice->is_candidate[i])
                        candidates[count++] = resource->devices[i].unit;
        for (size_t i = 0; i < n_required; i++)
                picked[i] = choice->required[i];
        prefer_links(resource, scratch, candidates, count, choice->needed, picked, n_required);
        for (size_t i = n_required; i < n_required + choice->needed; i++)
                choice->ids[choice->n_ids++] = resource->devices[resource->units[picked[i]].first_device].id;
}

int prefer(const struct resource *resource, const struct prefer_request *request, struct arena *scratch,
        const char **ret_ids, size_t *ret_n_ids, struct error *err)
{
        struct choice choice = {.resource = resource, .ids = ret_ids};

        if (prefer_collect(&choice, request, scratch, err) < 0)
                return -1;
        if (choice.needed == choice.n_candidates)
                pick_all(&choice);
        else if (choice.needed > 0 && choice.has_parts)
                pick_by_placement(&choice, scratch);
        else if (choice.needed > 0)
                pick_by_links(&choice, scratch);
        *ret_n_ids = choice.n_ids;
        return 0;
}
