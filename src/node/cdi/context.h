/* Shared by all functions of one cdi_publish(); it is on the stack of that call. */
#pragma once

#include "base/alloc.h"
#include "node/cdi/files.h"
#include "node/cdi/roots.h"
#include "plan/plan.h"

struct cdi_context {
        struct arena *arena; /* freed when cdi_publish() returns */
        const struct plan *plan;
        const struct config *config;
        struct roots roots;
        struct cdi_files *files;
        const char *const *unknown_hooks; /* of the host's program, ends with NULL; may be NULL */
        bool *lacks_nodes;                /* set if a node is missing that CUDA needs */
        config_warn_fn *warn;
        void *warn_data;
};

void cdi_warn(const struct cdi_context *context, const char *format, ...) PRINTF_LIKE(2, 3);

/* Is |word| in the list that ends with NULL? |list| may be NULL. */
bool cdi_lists(const char *const *list, const char *word);
