#include "net/kube/version.h"

#include <stddef.h>
#include <string.h>

#include "base/macro.h"

#define DIGITS_MAX 4

static bool version_read_number(const char **at, char end, unsigned int *ret)
{
        size_t length = strspn(*at, "0123456789");

        *ret = 0;
        if (length == 0 || length > DIGITS_MAX || (end && (*at)[length] != end))
                return false;
        for (size_t i = 0; i < length; i++)
                *ret = *ret * 10 + (unsigned int)((*at)[i] - '0');
        *at += length + (end != '\0');
        return true;
}

static bool version_is_before(const char *rest)
{
        static const char *const stages[] = {"-alpha", "-beta", "-rc"};

        for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
                if (strncmp(rest, stages[i], strlen(stages[i])) == 0)
                        return true;
        return false;
}

bool kube_version_read(struct kube_version *ret, const char *text)
{
        const char *at = text + (*text == 'v');
        struct kube_version version = {0};

        *ret = version;
        if (!version_read_number(&at, '.', &version.major) || !version_read_number(&at, '.', &version.minor) ||
                !version_read_number(&at, '\0', &version.patch) || version.major == 0 || (*at && !strchr("-+", *at)))
                return false;
        version.is_before = version_is_before(at);
        *ret = version;
        return true;
}

bool kube_version_is_since(
        const struct kube_version *version, unsigned int major, unsigned int minor, unsigned int patch)
{
        if (version->major != major)
                return version->major > major;
        if (version->minor != minor)
                return version->minor > minor;
        if (version->patch != patch)
                return version->patch > patch;
        return !version->is_before;
}
