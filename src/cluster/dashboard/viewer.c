// SPDX-License-Identifier: Apache-2.0
#include "cluster/dashboard/viewer.h"

#include <math.h>
#include <stdlib.h>

#include "base/macro.h"
#include "base/text.h"

bool dashboard_scope_sees(const struct dashboard_scope *scope, const char *namespace)
{
        if (scope->sees_all)
                return true;
        return namespace && scope->n_namespaces > 0 &&
               bsearch(&namespace, scope->namespaces, scope->n_namespaces, sizeof(*scope->namespaces), text_compare);
}

json_t *dashboard_object(const struct json_shape *shape, const void *from)
{
        json_t *object = json_object();

        json_fields_put(object, shape, from);
        return object;
}

void dashboard_put_text(json_t *object, const char *key, const char *text)
{
        if (text)
                json_object_set_new(object, key, json_string(text));
}

void dashboard_put_count(json_t *object, const char *key, double number)
{
        if (isfinite(number) && fabs(number) < 9e15)
                json_object_set_new(object, key, json_integer((json_int_t)number));
}

void dashboard_put_time(json_t *object, const char *key, int64_t seconds)
{
        if (seconds)
                json_object_set_new(object, key, json_integer(seconds));
}

void dashboard_put_flag(json_t *object, const char *key, bool is_so)
{
        if (is_so)
                json_object_set_new(object, key, json_true());
}

json_t *dashboard_ratio(double part, double whole, unsigned int scale)
{
        const double ratio = part / whole;

        if (!isfinite(ratio))
                return json_null();
        return json_integer((json_int_t)(MIN(MAX(ratio, 0.0), 9.99) * scale + 0.5));
}
