// SPDX-License-Identifier: Apache-2.0
#include "mig/profile_text.h"

#include <string.h>

#include "base/macro.h"
#include "base/strbuf.h"
#include "base/text.h"

#define MAX_SLICES 99U
#define MAX_GB 99999U
#define MAX_ATTRIBUTES ((size_t)16) /* bytes */

/* ---- parsing ---- */

/* A number from 1 to |most|, followed by |unit|; moves |at| behind both. */
static bool profile_text_take_number(const char **at, unsigned int most, const char *unit, unsigned int *ret)
{
        const char *end = *at;
        unsigned int value = 0;

        while (*end >= '0' && *end <= '9' && value <= most)
                value = value * 10 + (unsigned int)(*end++ - '0');
        if (value == 0 || value > most || **at == '0' || !text_starts_with(end, unit))
                return false;
        *ret = value;
        *at = end + strlen(unit);
        return true;
}

/* A GPU with the memory of its machine (Thor) has "0gb" in all of its profiles. */
static bool profile_text_take_memory(const char **at, unsigned int *ret)
{
        if (!text_starts_with(*at, "0gb"))
                return profile_text_take_number(at, MAX_GB, "gb", ret);
        *ret = 0;
        *at += strlen("0gb");
        return true;
}

/*
 * Any number of '+' or '-', each with a word of lower-case letters and dots: names of new attributes are not known yet.
 */
static bool are_attributes(const char *text)
{
        size_t length = 0;

        if (strlen(text) > MAX_ATTRIBUTES)
                return false;
        while (text[length] == '+' || text[length] == '-') {
                size_t word = strspn(text + length + 1, "abcdefghijklmnopqrstuvwxyz.");

                if (word == 0 || text[length + 1] == '.')
                        return false;
                length += 1 + word;
        }
        return text[length] == '\0';
}

bool mig_profile_text_parse(struct mig_profile_text *ret, const char *text)
{
        struct mig_profile_text profile = {0};
        const bool has_compute = profile_text_take_number(&text, MAX_SLICES, "c.", &profile.compute);

        if (!profile_text_take_number(&text, MAX_SLICES, "g.", &profile.slices) ||
                !profile_text_take_memory(&text, &profile.gb) || !are_attributes(text))
                return false;
        if (!has_compute)
                profile.compute = profile.slices;
        profile.attributes = text;
        *ret = profile;
        return profile.compute <= profile.slices;
}

bool mig_profile_text_is_whole(const struct mig_profile_text *profile)
{
        return profile->compute == profile->slices;
}

const char *mig_profile_text_instance(const char *text)
{
        size_t digits = strspn(text, "0123456789");

        return text_starts_with(text + digits, "c.") ? text + digits + strlen("c.") : text;
}

const char *mig_profile_text_device(struct arena *arena, const char *profile, unsigned int compute)
{
        return compute ? arena_printf(arena, "%uc.%s", compute, profile) : profile;
}

/* ---- finding ---- */

static bool differs_by_attributes(const struct mig_profile_text *a, const struct mig_profile_text *b)
{
        return a->compute != b->compute || a->slices != b->slices || strcmp(a->attributes, b->attributes) != 0;
}

static bool profile_text_is_named(const struct mig_profile_text *wanted, const char *name)
{
        struct mig_profile_text profile;

        return name && mig_profile_text_parse(&profile, name) && profile.gb == wanted->gb &&
               !differs_by_attributes(&profile, wanted);
}

static bool profile_text_is_near(const struct mig_profile_text *wanted, const char *name)
{
        struct mig_profile_text profile;
        unsigned int larger;
        unsigned int smaller;

        if (!name || !mig_profile_text_parse(&profile, name) || differs_by_attributes(&profile, wanted))
                return false;
        larger = MAX(profile.gb, wanted->gb);
        smaller = MIN(profile.gb, wanted->gb);
        return (larger - smaller) * 20 <= larger;
}

const struct mig_gpu_profile *mig_profile_text_find(const struct mig_geometry *geometry, const char *text)
{
        const struct mig_gpu_profile *near = NULL;
        struct mig_profile_text wanted;
        size_t n_near = 0;

        if (!mig_profile_text_parse(&wanted, text))
                return NULL;
        for (size_t i = 0; i < geometry->n_profiles; i++)
                if (profile_text_is_named(&wanted, geometry->profiles[i].driver_name))
                        return &geometry->profiles[i];
        for (size_t i = 0; i < geometry->n_profiles; i++)
                if (profile_text_is_named(&wanted, geometry->profiles[i].name))
                        return &geometry->profiles[i];
        for (size_t i = 0; i < geometry->n_profiles; i++) {
                const struct mig_gpu_profile *profile = &geometry->profiles[i];

                if (!profile_text_is_near(&wanted, profile->driver_name) &&
                        !profile_text_is_near(&wanted, profile->name))
                        continue;
                near = profile;
                n_near++;
        }
        return n_near == 1 ? near : NULL;
}

const char *mig_profile_text_list(struct arena *arena, const struct mig_geometry *geometry)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < geometry->n_profiles; i++)
                strbuf_printf(&text, "%s%s", i ? ", " : "", geometry->profiles[i].name);
        return arena_strdup(arena, text.size ? text.data : "");
}
