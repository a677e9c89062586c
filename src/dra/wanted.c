#include "dra/wanted.h"

#include <string.h>

#include "dra/parameters.h"

/* Reads the limit; 0 for a device without this capacity. */
static int take_limit(const struct dra_wanted *wanted, const char *name, uint64_t *ret, struct error *err)
{
        const struct dra_capacity *capacity = dra_device_capacity(wanted->device, name);
        uint64_t value;

        *ret = 0;
        if (!capacity)
                return 0;
        value = wanted->device->allows_multiple ? dra_claim_capacity(wanted->result, name, 0) : capacity->value;
        if (value == 0)
                return error_set(err, ERROR_INVALID, "consumedCapacity has no %s", name);
        if (value > capacity->value)
                return error_set(err, ERROR_INVALID, "consumedCapacity %s: %ju, the device has %ju", name,
                        (uintmax_t)value, (uintmax_t)capacity->value);
        *ret = value;
        return 0;
}

static int read_one(struct dra_wanted *wanted, const struct dra_wanted_rules *rules, struct error *err)
{
        const struct dra_claim_result *result = wanted->result;
        const struct dra_device *device = dra_layout_find(rules->layout, result->device);
        uint64_t threads, clients;

        if (!device)
                return error_set(err, ERROR_UNAVAILABLE, "this node does not offer it now");
        if (!(rules->kinds & 1U << device->kind))
                return error_set(err, ERROR_UNSUPPORTED, "devices of kind '%s' cannot be prepared",
                        dra_device_kind_name(device->kind));
        if (result->admin_access && dra_device_kind_is_by_mps(device->kind))
                return error_set(err, ERROR_UNSUPPORTED,
                        "admin access to a share by MPS is not supported, since its limits would be taken from others; ask "
                        "for the device class of whole GPUs");
        if (result->admin_access && device->kind == DRA_DEVICE_MIG_CANDIDATE)
                return error_set(err, ERROR_UNSUPPORTED,
                        "admin access to a MIG device that is still to be made is not supported: it would take what others can have");
        if (device->allows_multiple && !result->share_id && !result->admin_access)
                return error_set(err, ERROR_INVALID, "it is shared, and the result has no shareID");
        wanted->device = device;
        if (!dra_device_kind_is_by_mps(device->kind))
                return 0;
        if (take_limit(wanted, DRA_CAPACITY_MEMORY, &wanted->memory_bytes, err) < 0 ||
                take_limit(wanted, DRA_CAPACITY_THREADS, &threads, err) < 0 ||
                take_limit(wanted, DRA_CAPACITY_CLIENTS, &clients, err) < 0)
                return -1;
        wanted->thread_percentage = (unsigned int)threads;
        wanted->clients = (unsigned int)clients;
        return 0;
}

/* The first device by MPS whose unit is not that of |one|; NULL: there is none. */
static const struct dra_device *other_unit(const struct dra_wanted *all, size_t count, const struct dra_device *one)
{
        for (size_t i = 0; i < count; i++)
                if (dra_device_kind_is_by_mps(all[i].device->kind) && strcmp(all[i].device->uuid, one->uuid) != 0)
                        return all[i].device;
        return NULL;
}

int dra_wanted_read(const struct dra_wanted **ret, struct arena *arena, const struct dra_claim *claim,
        const struct dra_wanted_rules *rules, struct error *err)
{
        struct dra_wanted *all = ARENA_ARRAY(arena, struct dra_wanted, claim->n_results);

        if (!rules->layout)
                return error_set(err, ERROR_UNAVAILABLE, "the GPUs of this node are not known yet");
        for (size_t i = 0; i < claim->n_results; i++) {
                const struct dra_device *other;

                all[i].result = &claim->results[i];
                if (read_one(&all[i], rules, err) < 0)
                        return error_prefix(err, "device '%s'", claim->results[i].device);
                other = dra_device_kind_is_by_mps(all[i].device->kind) ? other_unit(all, i, all[i].device) : NULL;
                if (other && !rules->one_daemon)
                        return error_set(err, ERROR_UNSUPPORTED,
                                "devices '%s' and '%s' are shared by different MPS daemons, and a process can use only "
                                "one; use a claim for each, or one daemon for the node (daemonScope: node)",
                                other->name, all[i].device->name);
        }
        for (size_t i = 0; i < claim->n_results; i++)
                if (dra_parameters_apply(all, claim->n_results, i, claim, rules, err) < 0)
                        return error_prefix(err, "device '%s'", claim->results[i].device);
        *ret = all;
        return 0;
}
