// SPDX-License-Identifier: Apache-2.0
/*
 * Where MIG instances are placed on a GPU: the rules, pure. It knows profiles, but no handles and no scenario.
 *
 * A GPU has |memory_slices| slots of memory and |compute_slices| of compute. A GPU instance takes consecutive memory
 * slots from one of the starts of its profile, as many compute slots as its profile has slices, and the decoders of its
 * profile; the largest profile has all decoders. A compute instance takes consecutive compute slots of its GPU
 * instance. On an A100-40GB, with 8 memory slots and 7 compute slots, a 3g.20gb takes the memory slots 0 to 3 or 4 to 7
 * and 3 compute slots: two of them leave one compute slot that no profile can use.
 */
#pragma once

#include <stdbool.h>

#include "sim/hardware/models.h"

#define MIG_INSTANCES_MAX 8U
#define MIG_COMPUTE_MAX 8U

struct mig_compute {
        bool used;
        unsigned int id;
        unsigned int slices;
        unsigned int start; /* compute slot within the GPU instance */
        const char *uuid;   /* NULL: derived */
};

struct mig_instance {
        const struct mig_profile *profile; /* NULL: free entry */
        unsigned int id;
        unsigned int start;
        struct mig_compute computes[MIG_COMPUTE_MAX];
};

/* The instances of one GPU, in no order, with holes. */
struct mig_layout {
        struct mig_instance instances[MIG_INSTANCES_MAX];
};

/* How many more of |profile| fit by count, compute and memory, given what is there. */
unsigned int mig_room(const struct model *model, const struct mig_layout *layout, const struct mig_profile *profile);

bool mig_fits(const struct model *model, const struct mig_layout *layout, const struct mig_profile *profile,
        unsigned int start);

/*
 * The start that the driver would choose: the one that makes the fewest placements of other profiles impossible; of
 * several, the lowest. An empty A100 gives 3g.20gb at 4, and seven 1g.5gb in the order 6, 4, 5, 0, 1, 2, 3 (MIG user
 * guide, "-cgi"). False: no room.
 */
bool mig_choose(const struct model *model, const struct mig_layout *layout, const struct mig_profile *profile,
        unsigned int *ret_start);

/*
 * The id of a GPU instance at |start|: the driver halves the GPU again and again, and numbers the parts from the
 * largest on (7g 0, 3g 1-2, 2g 3-5, 1g 7-13).
 */
unsigned int mig_instance_id(const struct model *model, const struct mig_profile *profile, unsigned int start);

bool mig_fits_compute(const struct mig_instance *instance, unsigned int slices, unsigned int start);

/* |slices| consecutive free compute slots in |instance|; false: there are none. */
bool mig_choose_compute(const struct mig_instance *instance, unsigned int slices, unsigned int *ret_start);

/* Multiprocessors of a compute instance with |slices| in a GPU instance of |profile|. */
unsigned int mig_multiprocessors(const struct model *model, const struct mig_profile *profile, unsigned int slices);

/*
 * The NVML_COMPUTE_INSTANCE_PROFILE_* with |slices| slices in a GPU instance of |profile|, and the other way round (0:
 * there is none).
 */
unsigned int mig_compute_profile(const struct mig_profile *profile, unsigned int slices);
unsigned int mig_compute_slices(const struct mig_profile *profile, unsigned int compute_profile);
