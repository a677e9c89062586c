/* How often what a cluster's view shows has changed. The objects that make up the view share it. */
#pragma once

#include <stdint.h>

#include "base/io/loop.h"

struct cluster_changes {
        uint64_t version;       /* of the view; grows with each change */
        struct deferred report; /* calls the owner of the cluster at the end of the turn, if it has a callback */
};

/* Something in the view has changed: its new version. */
static inline uint64_t cluster_changes_count(struct cluster_changes *changes)
{
        if (changes->report.run)
                deferred_schedule(&changes->report);
        return ++changes->version;
}
