#include "config/resource_name.h"

#include <string.h>

#include "base/text.h"

static bool is_alphanumeric(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool resource_name_is_subdomain(const char *text)
{
        char previous = '.';

        for (; *text; previous = *text++) {
                if (is_alphanumeric(*text))
                        continue;
                if (*text != '-' && *text != '.')
                        return false;
                if (previous == '.' || (*text == '.' && previous == '-'))
                        return false;
        }
        return is_alphanumeric(previous);
}

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
        if (!resource_name_is_subdomain(rest))
                return error_set(err, ERROR_INVALID,
                        "'%.100s' is not a resource name: use lower-case letters, digits, '-' and '.', a letter or digit "
                        "first and last",
                        name);
        *ret = arena_printf(arena, RESOURCE_NAME_PREFIX "%s", rest);
        return 0;
}
