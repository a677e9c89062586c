/* JSON of what may be unknown: then the member is left out. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/data/json_fields.h"

#define DASHBOARD_JSON_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(6))

json_t *dashboard_object(const struct json_shape *shape, const void *from); /* a new reference */

void dashboard_put_text(json_t *object, const char *key, const char *text); /* NULL: unknown */
void dashboard_put_count(json_t *object, const char *key, double number);   /* NaN: unknown; cut to an integer */
void dashboard_put_time(json_t *object, const char *key, int64_t seconds);  /* 0: unknown */
void dashboard_put_flag(json_t *object, const char *key, bool is_so);       /* false is left out */

/* |part| of |whole|, in |scale| parts; null where it is not known. */
json_t *dashboard_ratio(double part, double whole, unsigned int scale);
