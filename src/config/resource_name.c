#include "config/resource_name.h"

#include <string.h>

#include "base/text.h"

int resource_name_check(const char *name, struct arena *arena, const char **ret, struct error *err)
{
        const char *rest = name;

        if (text_starts_with(name, RESOURCE_NAME_PREFIX))
                rest += strlen(RESOURCE_NAME_PREFIX);
        if (strchr(rest, '/'))
                return error_set(err, ERROR_INVALID,
                        "'%.100s' is not a resource name: the only domain possible is " RESOURCE_NAME_PREFIX, name);
        if (strlen(RESOURCE_NAME_PREFIX) + strlen(rest) > RESOURCE_NAME_MAX)
                return error_set(err, ERROR_INVALID,
                        "'%.100s' is not a resource name: %zu characters with " RESOURCE_NAME_PREFIX ", at most %zu",
                        name, strlen(RESOURCE_NAME_PREFIX) + strlen(rest), RESOURCE_NAME_MAX);
        if (!text_is_subdomain(rest))
                return error_set(err, ERROR_INVALID,
                        "'%.100s' is not a resource name: use lower-case letters, digits, '-' and '.', a letter or digit "
                        "first and last",
                        name);
        *ret = arena_printf(arena, RESOURCE_NAME_PREFIX "%s", rest);
        return 0;
}
