// SPDX-License-Identifier: Apache-2.0
#include "plan/checkpoint.h"

#include <jansson.h>
#include <string.h>

#include "base/map.h"
#include "base/text.h"

/* The longest answer that is kept. */
#define ANSWER_MAX ((size_t)64 * 1024)
/* Kubernetes names and device ids are shorter. */
#define NAME_MAX_LENGTH ((size_t)255)

static const char *checkpoint_name(const json_t *json)
{
        const char *text = json_string_value(json);

        return text && *text && strlen(text) <= NAME_MAX_LENGTH ? text : NULL;
}

struct ids {
        struct arena *arena;
        struct map seen;
        const char **ids;
        size_t count;
};

static void checkpoint_add_list(struct ids *ids, const json_t *list)
{
        for (size_t i = 0; i < json_array_size(list); i++) {
                const char *id = checkpoint_name(json_array_get(list, i));

                if (!id || map_find(&ids->seen, id))
                        continue;
                id = arena_strdup(ids->arena, id);
                map_add(&ids->seen, id, ids);
                ids->ids[ids->count++] = id;
        }
}

/* A device of several NUMA nodes is in several lists. */
static void read_ids(struct checkpoint_entry *entry, struct arena *arena, json_t *json)
{
        struct ids ids = {.arena = arena};
        size_t most = json_array_size(json);
        const char *key;
        json_t *list;

        json_object_foreach(json, key, list) most += json_array_size(list);
        ids.ids = ARENA_ARRAY(arena, const char *, most);
        checkpoint_add_list(&ids, json);
        json_object_foreach(json, key, list) checkpoint_add_list(&ids, list);
        map_done(&ids.seen);
        entry->devices = ids.ids;
        entry->n_devices = ids.count;
}

static bool checkpoint_read_entry(
        struct checkpoint_entry *ret, struct arena *arena, const char *prefix, const json_t *json)
{
        const char *pod_uid = checkpoint_name(json_object_get(json, "PodUID"));
        const char *container = checkpoint_name(json_object_get(json, "ContainerName"));
        const char *resource = checkpoint_name(json_object_get(json, "ResourceName"));
        const char *answer = json_string_value(json_object_get(json, "AllocResp"));

        if (!pod_uid || !container || !resource || !text_starts_with(resource, prefix))
                return false;
        read_ids(ret, arena, json_object_get(json, "DeviceIDs"));
        ret->pod_uid = arena_strdup(arena, pod_uid);
        ret->container = arena_strdup(arena, container);
        ret->resource = arena_strdup(arena, resource);
        if (answer && strlen(answer) <= ANSWER_MAX)
                ret->answer = arena_strdup(arena, answer);
        return ret->n_devices > 0;
}

int checkpoint_read(struct checkpoint *ret, struct arena *arena, const char *prefix, const char *text, size_t length,
        struct error *err)
{
        struct checkpoint_entry *entries;
        json_error_t fault;
        json_t *root;
        const json_t *data;
        const json_t *list;

        if (length > CHECKPOINT_MAX)
                return error_set(
                        err, ERROR_INVALID, "%zu bytes are more than the limit of %zu", length, CHECKPOINT_MAX);
        root = json_loadb(text, length, 0, &fault);
        data = json_object_get(root, "Data");
        list = json_object_get(data, "PodDeviceEntries");
        if (!json_is_object(data) || !(json_is_array(list) || json_is_null(list))) {
                json_decref(root);
                return error_set(err, ERROR_INVALID, "no checkpoint of kubelet's devices: %s",
                        root ? "it has no Data.PodDeviceEntries" : fault.text);
        }
        entries = ARENA_ARRAY(arena, struct checkpoint_entry, json_array_size(list));
        ret->n_entries = 0;
        for (size_t i = 0; i < json_array_size(list); i++)
                ret->n_entries +=
                        checkpoint_read_entry(&entries[ret->n_entries], arena, prefix, json_array_get(list, i));
        ret->entries = entries;
        json_decref(root);
        return 0;
}

bool checkpoint_is_of_container(const struct checkpoint_entry *a, const struct checkpoint_entry *b)
{
        return strcmp(a->pod_uid, b->pod_uid) == 0 && strcmp(a->container, b->container) == 0;
}
