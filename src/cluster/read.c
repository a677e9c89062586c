#include "cluster/read.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cluster/node.h"
#include "net/kube/object.h"

const char *read_cut(struct arena *arena, const char *text)
{
        size_t length = 0;
        char *copy;

        if (!text)
                return NULL;
        while (text[length]) {
                const size_t step = text_utf8_length(text + length);

                if (length + MAX(step, (size_t)1) > CLUSTER_TEXT)
                        break;
                length += MAX(step, (size_t)1);
        }
        copy = arena_strndup(arena, text, length);
        text_clean(copy);
        return copy;
}

const char *read_text(struct arena *arena, const json_t *object, const char *key)
{
        return read_cut(arena, json_string_value(json_object_get(object, key)));
}

const char *read_text_or_empty(struct arena *arena, const json_t *object, const char *key)
{
        const char *text = read_text(arena, object, key);

        return text ? text : "";
}

int64_t read_time(const char *text)
{
        int64_t time;

        return object_read_time(text, &time) ? time : 0;
}

bool read_is_device_resource(const char *name)
{
        static const char own[] = "kubernetes.io";
        const char *slash = strchr(name, '/');
        size_t length;

        if (!slash)
                return false;
        if (text_starts_with(name, "deviceclass.resource.kubernetes.io/"))
                return true;
        length = (size_t)(slash - name);
        if (length < strlen(own) || strncmp(slash - strlen(own), own, strlen(own)) != 0)
                return true;
        return length > strlen(own) && slash[-(ptrdiff_t)strlen(own) - 1] != '.';
}

char *read_key(const json_t *object)
{
        const char *name = object_text(object, "metadata", "name", NULL);
        const char *namespace = object_text(object, "metadata", "namespace", NULL);

        return name && namespace ? xasprintf("%s/%s", namespace, name) : NULL;
}
