/*
 * Decides what a viewer of the dashboard may see. A viewer who may list nodes sees nodes, GPUs, the size of shares and
 * their use; the pod of a share only in namespaces in which the viewer may list pods. Events may name any pod, so they
 * are for those who see all.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct dashboard_scope {
        bool sees_all;
        const char *const *namespaces; /* otherwise: those, in the order of strcmp() */
        size_t n_namespaces;
};

/* |namespace| NULL: it is not known whose it is. */
bool dashboard_scope_sees(const struct dashboard_scope *scope, const char *namespace);
