#include "dra/layout.h"

#include <assert.h>
#include <string.h>

#include "base/macro.h"

static const char *const kind_names[] = {
        [DRA_DEVICE_WHOLE] = "whole",
        [DRA_DEVICE_SHARED] = "shared",
        [DRA_DEVICE_TIMESLICE] = "timeslice",
        [DRA_DEVICE_SHARE] = "share",
        [DRA_DEVICE_MIG] = "mig",
        [DRA_DEVICE_MIG_CANDIDATE] = "mig-candidate",
};

const char *dra_device_kind_name(enum dra_device_kind kind)
{
        assert(kind < ARRAY_SIZE(kind_names));
        return kind_names[kind];
}

const struct dra_device *dra_layout_find(const struct dra_layout *layout, const char *name)
{
        for (size_t i = 0; i < layout->n_devices; i++)
                if (strcmp(layout->devices[i].name, name) == 0)
                        return &layout->devices[i];
        return NULL;
}

const struct dra_capacity *dra_device_capacity(const struct dra_device *device, const char *name)
{
        for (size_t i = 0; i < device->n_capacities; i++)
                if (strcmp(device->capacities[i].name, name) == 0)
                        return &device->capacities[i];
        return NULL;
}
