// SPDX-License-Identifier: Apache-2.0
/*
 * The data that a viewer of the dashboard is shown.
 *
 * A viewer who may list nodes sees nodes, GPUs, the size of shares and their use; the pod of a share only in namespaces
 * in which the viewer may list pods. Events may name any pod, so they are for those who see all. A member of the JSON
 * whose value is not known is left out.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/json_fields.h"

struct dashboard_scope {
        bool sees_all;
        const char *const *namespaces; /* otherwise: those, in the order of strcmp() */
        size_t n_namespaces;
};

/* |namespace| NULL: it is not known whose it is. */
bool dashboard_scope_sees(const struct dashboard_scope *scope, const char *namespace);

#define DASHBOARD_JSON_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(6))

json_t *dashboard_object(const struct json_shape *shape, const void *from); /* a new reference */

void dashboard_put_text(json_t *object, const char *key, const char *text); /* NULL: unknown */
void dashboard_put_count(json_t *object, const char *key, double number);   /* NaN: unknown; cut to an integer */
void dashboard_put_time(json_t *object, const char *key, int64_t seconds);  /* 0: unknown */
void dashboard_put_flag(json_t *object, const char *key, bool is_so);       /* false is left out */

/* |part| of |whole|, in |scale| parts; null where it is not known. */
json_t *dashboard_ratio(double part, double whole, unsigned int scale);
