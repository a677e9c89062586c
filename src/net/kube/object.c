// SPDX-License-Identifier: Apache-2.0
#include "net/kube/object.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/text.h"

static json_t *kube_object_find(const json_t *object, va_list keys)
{
        json_t *value = (json_t *)(uintptr_t)object;
        const char *key;

        while (value && (key = va_arg(keys, const char *)))
                value = json_object_get(value, key);
        return value;
}

json_t *object_find(const json_t *object, ...)
{
        json_t *value;
        va_list keys;

        va_start(keys, object);
        value = kube_object_find(object, keys);
        va_end(keys);
        return value;
}

const char *object_text(const json_t *object, ...)
{
        json_t *value;
        va_list keys;

        va_start(keys, object);
        value = kube_object_find(object, keys);
        va_end(keys);
        return json_string_value(value);
}

json_t *object_make(json_t *object, ...)
{
        const char *key;
        va_list keys;

        va_start(keys, object);
        while ((key = va_arg(keys, const char *))) {
                json_t *member = json_object_get(object, key);

                if (!json_is_object(member)) {
                        member = json_object();
                        json_object_set_new(object, key, member);
                }
                object = member;
        }
        va_end(keys);
        return object;
}

bool object_covers(const json_t *object, const json_t *part)
{
        const char *key;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)part, key, value)
        {
                if (!json_equal(value, json_object_get(object, key)))
                        return false;
        }
        return true;
}

json_t *object_difference(const json_t *before, const json_t *after)
{
        json_t *patch = json_object();
        const char *key;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)before, key, value)
        {
                const json_t *now = json_object_get(after, key);

                if (!json_is_null(value) && (!now || json_is_null(now)))
                        json_object_set_new(patch, key, json_null());
        }
        json_object_foreach((json_t *)(uintptr_t)after, key, value)
        {
                json_t *was = json_object_get(before, key);

                if (json_is_null(value) || (was && json_equal(was, value)))
                        continue;
                if (json_is_object(was) && json_is_object(value)) {
                        json_t *inner = object_difference(was, value);

                        /* Both contain only nulls, so they are equal. */
                        if (json_object_size(inner))
                                json_object_set_new(patch, key, inner);
                        else
                                json_decref(inner);
                } else {
                        json_object_set(patch, key, value);
                }
        }
        return patch;
}

bool object_is_name(const char *text)
{
        return strlen(text) <= 253 && text_is_subdomain(text);
}

void object_escape(struct strbuf *url, const char *text)
{
        for (; *text; text++) {
                unsigned char c = (unsigned char)*text;

                if (c < 0x80 && (isalnum(c) || strchr("-._~", c)))
                        strbuf_putc(url, (char)c);
                else
                        strbuf_printf(url, "%%%02X", c);
        }
}

char *object_collection(const char *group, const char *scope, const char *kinds)
{
        struct strbuf path = STRBUF_INIT;

        strbuf_printf(&path, "%s/namespaces/", group);
        object_escape(&path, scope);
        strbuf_printf(&path, "/%s", kinds);
        return strbuf_take(&path);
}

char *object_path(const char *collection, const char *name)
{
        struct strbuf path = STRBUF_INIT;

        strbuf_printf(&path, "%s/", collection);
        object_escape(&path, name);
        return strbuf_take(&path);
}

json_t *object_node(const char *name)
{
        return json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "Node", "metadata", "name", name);
}

char *object_time(int64_t unix_us)
{
        time_t seconds = (time_t)(unix_us / 1000000);
        char text[40];
        struct tm parts;

        gmtime_r(&seconds, &parts);
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
        return xstrdup(text);
}

bool object_read_time(const char *text, int64_t *ret_unix)
{
        struct tm tm = {0};
        const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
        int64_t offset;

        if (!end)
                return false;
        if (*end == '.')
                end += 1 + strspn(end + 1, "0123456789");
        if (*end != 'Z' && ((*end != '+' && *end != '-') || strlen(end) != strlen("+01:00")))
                return false;
        end = strptime(end, "%z", &tm);
        if (!end || *end)
                return false;
        offset = tm.tm_gmtoff; /* which timegm() sets to 0 */
        *ret_unix = (int64_t)timegm(&tm) - offset;
        return true;
}

/* ---- the release of an API server ---- */

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
