/*
 * Who holds what: the books of one resource, so that a request is put whole on one unit, and never one that was promised is
 * refused. Pure: no clock, no I/O; what kubelet knows is told to it.
 *
 * The scheduler only counts replicas, and kubelet picks ids without knowing that those of one unit belong together. So, with U
 * units of N replicas and no request above R, no more than U·N − (U−1)·(R−1) ids are advertised as healthy (with units of
 * different sizes: ΣN − (U−1)·(R−1)); then each request of s ≤ R that the scheduler admits finds a unit with s free
 * replicas: were there none, each unit had at most s−1 free, and those in use plus s were more than was advertised. The
 * ids that are not advertised are free ones, chosen so that units keep what a request of R needs: from the fullest
 * unit first. Ids in use are never hidden.
 *
 * An id is a token. Where kubelet's choice, made before it had our newest list, mixes units although one of them has
 * room, the grant is bound to that unit whatever its ids say, and the books follow the grant.
 *
 * A container may ask for ids that its own pod's init container held: then the older grant of those ids ends, and the new one
 * stays on the same unit if that has room.
 */
#pragma once

#include "base/error.h"
#include "share/plan.h"

struct grants;

/* One container's holding. */
struct grant {
        const char *id;             /* "g" and hexadecimal digits, unique on this node */
        const char *unit;           /* UUID of the unit it is bound to; NULL: each id counts for its own unit */
        const char *const *devices; /* ids as kubelet knows them */
        size_t n_devices;
        int64_t since; /* seconds since the epoch */
};

/* What kubelet says that one container holds of this resource. */
struct grants_held {
        const char *const *devices;
        size_t n_devices;
};

/* |max_per_request|: R; 0: no guarantee is kept, every id is advertised and each id of a request counts for its own unit. */
struct grants *grants_new(const struct resource *resource, unsigned int max_per_request);
struct grants *grants_free(struct grants *grants); /* accepts NULL, returns NULL */

/* The plan changed: holdings stay, also those on units that are gone. The old resource must be valid during the call. */
void grants_set_resource(struct grants *grants, const struct resource *resource, unsigned int max_per_request);

/* How many ids are advertised as healthy while every unit is. */
size_t grants_capacity(const struct resource *resource, unsigned int max_per_request);

/*
 * A request: decides the unit, and enters it into the books. |*ret| is valid until the grants change. Errors: more ids than
 * |max_per_request| or than any unit has (ERROR_INVALID, a fault of the request); ERROR_UNAVAILABLE where no unit has room by
 * the books: they may be old, so the caller asks kubelet, calls grants_sync() and tries once more.
 */
int grants_allocate(struct grants *grants, const char *const *devices, size_t n_devices, int64_t now, const char *id,
        const struct grant **ret, struct error *err) MUST_USE;

/*
 * What kubelet's list says, whole, as of |as_of|: grants made before that which it does not have are over. |released| hears their ids.
 * Holdings that the books do not know (the agent started anew without its record) are entered with the unit of most of their ids.
 */
void grants_sync(struct grants *grants, const struct grants_held *held, size_t n_held, int64_t as_of,
        void (*released)(const char *id, void *data), void *data);

/* The unit is healthy or not: ids of one that is not are neither advertised nor counted as room. */
void grants_set_unit_health(struct grants *grants, const char *uuid, bool healthy);

/* By position in resource->devices: ids that are free and not advertised now. */
const bool *grants_hidden(const struct grants *grants);

size_t grants_count(const struct grants *grants);
const struct grant *grants_get(const struct grants *grants, size_t position);
/* The grant that holds the id, or NULL. */
const struct grant *grants_of_device(const struct grants *grants, const char *device);

/* The books as JSON text, to survive the agent; and back, into new grants, with what no longer fits left out. */
char *grants_write(const struct grants *grants);
int grants_read(struct grants *grants, const char *text, size_t length, struct error *err) MUST_USE;
