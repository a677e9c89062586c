/*
 * What all parts of one publication share. It lives on the stack of cdi_publish().
 */
#pragma once

#include "base/alloc.h"
#include "cdi/roots.h"
#include "share/plan.h"

struct cdi_context {
        struct arena *arena; /* goes at the end of the publication */
        const struct plan *plan;
        const struct config *config;
        struct roots roots;
        config_warn_fn *warn;
        void *warn_data;
};

void cdi_warn(const struct cdi_context *context, const char *format, ...) PRINTF_LIKE(2, 3);

/* Is |word| in the list that ends with NULL? |list| may be NULL. */
bool cdi_lists(const char *const *list, const char *word);
