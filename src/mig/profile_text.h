// SPDX-License-Identifier: Apache-2.0
/*
 * The names of MIG profiles that people write: "1g.10gb", "1g.10gb+me", "1c.3g.20gb", "1g.24gb-me". Pure.
 *
 * The same profile may have another name after a change of the driver, since the memory in the name is rounded: that of
 * a GB200's seventh is 23 or 24, its whole 186 or 189. So a written name finds the profile of a GPU in three steps: the
 * name that the driver reports, the name that is made from its numbers (gpu/mig_profile.h), and the only profile with
 * the same slices and attributes whose memory differs by no more than a twentieth.
 */
#pragma once

#include <stdbool.h>

#include "base/alloc.h"
#include "gpu/mig_instances.h"

#define MIG_PROFILE_TEXT_MAX ((size_t)31)

struct mig_profile_text {
        unsigned int compute;   /* compute slices of the compute instance, from 1 to |slices| */
        unsigned int slices;    /* compute slices of the GPU instance */
        unsigned int gb;        /* 0: that of a GPU with the memory of its machine, "1g.0gb" */
        const char *attributes; /* "+me", or ""; points into the text that was parsed */
};

/* False: |text| is not such a name. */
bool mig_profile_text_parse(struct mig_profile_text *ret, const char *text);

/* The compute instance has all slices of its GPU instance, as "1g.10gb" and "1c.1g.10gb" say. */
bool mig_profile_text_is_whole(const struct mig_profile_text *profile);

/* Behind "1c.": the GPU instance that |text| is a part of, "3g.20gb". */
const char *mig_profile_text_instance(const char *text);

/* "1c.3g.20gb", in |arena|; |compute| 0: |profile| itself. */
const char *mig_profile_text_device(struct arena *arena, const char *profile, unsigned int compute);

/* The profile that |text|, that of a whole GPU instance, names on the GPU with |geometry|, or NULL. */
const struct mig_gpu_profile *mig_profile_text_find(const struct mig_geometry *geometry, const char *text);

/* "1g.5gb, 2g.10gb": the profiles of that GPU, in |arena|. */
const char *mig_profile_text_list(struct arena *arena, const struct mig_geometry *geometry);
