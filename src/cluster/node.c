// SPDX-License-Identifier: Apache-2.0
#include "cluster/node.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "net/kube/object.h"

/* ---- values of API objects ---- */

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

const json_t *read_find(const json_t *list, const char *key, const char *text)
{
        for (size_t i = 0; text && i < MIN(json_array_size(list), CLUSTER_LOOK); i++)
                if (text_is_same(object_text(json_array_get(list, i), key, NULL), text))
                        return json_array_get(list, i);
        return NULL;
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

/* ---- the Node object ---- */

const char *cluster_agent_state_name(enum cluster_agent_state state)
{
        static const char *const names[] = {
                [CLUSTER_AGENT_NONE] = "none",
                [CLUSTER_AGENT_ASKED] = "asked",
                [CLUSTER_AGENT_ANSWERS] = "answers",
                [CLUSTER_AGENT_TOO_OLD] = "too-old",
                [CLUSTER_AGENT_SILENT] = "silent",
        };

        return names[state];
}

static void read_labels(struct cluster_node_object *node, const json_t *object, struct arena *arena)
{
        const json_t *labels = object_find(object, "metadata", "labels", NULL);
        struct cluster_label *found;
        const char *key;
        json_t *value;

        found = ARENA_ARRAY(arena, struct cluster_label, MIN(json_object_size(labels), CLUSTER_LABELS));
        json_object_foreach((json_t *)(uintptr_t)labels, key, value)
        {
                if (node->n_labels == CLUSTER_LABELS)
                        break;
                if (json_is_string(value))
                        found[node->n_labels++] = (struct cluster_label){
                                .key = read_cut(arena, key), .value = read_cut(arena, json_string_value(value))};
        }
        node->labels = found;
}

static void read_taints(struct cluster_node_object *node, const json_t *object, struct arena *arena)
{
        const json_t *list = object_find(object, "spec", "taints", NULL);
        struct cluster_taint *found;

        node->n_taints = MIN(json_array_size(list), CLUSTER_TAINTS);
        found = ARENA_ARRAY(arena, struct cluster_taint, node->n_taints);
        for (size_t i = 0; i < node->n_taints; i++) {
                const json_t *item = json_array_get(list, i);

                found[i].key = read_text_or_empty(arena, item, "key");
                found[i].value = read_text_or_empty(arena, item, "value");
                found[i].effect = read_text_or_empty(arena, item, "effect");
        }
        node->taints = found;
}

static void read_conditions(struct cluster_node_object *node, const json_t *object, struct arena *arena)
{
        const json_t *list = object_find(object, "status", "conditions", NULL);
        struct cluster_condition *found;

        node->n_conditions = MIN(json_array_size(list), CLUSTER_CONDITIONS);
        found = ARENA_ARRAY(arena, struct cluster_condition, node->n_conditions);
        for (size_t i = 0; i < node->n_conditions; i++) {
                const json_t *item = json_array_get(list, i);

                found[i].type = read_text_or_empty(arena, item, "type");
                found[i].status = read_text_or_empty(arena, item, "status");
                found[i].reason = read_text_or_empty(arena, item, "reason");
                found[i].message = read_text_or_empty(arena, item, "message");
                found[i].since = read_time(object_text(item, "lastTransitionTime", NULL));
                if (strcmp(found[i].type, "Ready") == 0)
                        node->is_ready = strcmp(found[i].status, "True") == 0;
        }
        node->conditions = found;
}

static int compare_resources(const void *a, const void *b)
{
        return strcmp(((const struct cluster_resource *)a)->name, ((const struct cluster_resource *)b)->name);
}

static uint64_t node_count_of(const json_t *counts, const char *name)
{
        const char *text = json_string_value(json_object_get(counts, name));
        uint64_t value = 0;

        return text && quantity_value(text, &value) ? MIN(value, UINT32_MAX) : 0;
}

static void read_resources(struct cluster_node_object *node, const json_t *object, struct arena *arena)
{
        const json_t *capacity = object_find(object, "status", "capacity", NULL);
        const json_t *allocatable = object_find(object, "status", "allocatable", NULL);
        struct cluster_resource *found;
        const char *name;
        json_t *value;

        found = ARENA_ARRAY(arena, struct cluster_resource, MIN(json_object_size(capacity), CLUSTER_RESOURCES));
        json_object_foreach((json_t *)(uintptr_t)capacity, name, value)
        {
                if (node->n_resources < CLUSTER_RESOURCES && read_is_device_resource(name))
                        found[node->n_resources++] = (struct cluster_resource){.name = read_cut(arena, name),
                                .capacity = node_count_of(capacity, name),
                                .allocatable = node_count_of(allocatable, name)};
        }
        if (node->n_resources > 0)
                qsort(found, node->n_resources, sizeof(*found), compare_resources);
        node->resources = found;
}

const struct cluster_node_object *cluster_node_read(const json_t *object, struct arena *arena)
{
        struct cluster_node_object *node = ARENA_NEW(arena, struct cluster_node_object);

        node->uid = read_cut(arena, object_text(object, "metadata", "uid", NULL));
        node->is_cordoned = json_is_true(object_find(object, "spec", "unschedulable", NULL));
        node->kubelet = read_cut(arena, object_text(object, "status", "nodeInfo", "kubeletVersion", NULL));
        node->address = read_text(
                arena, read_find(object_find(object, "status", "addresses", NULL), "type", "InternalIP"), "address");
        node->created = read_time(object_text(object, "metadata", "creationTimestamp", NULL));
        read_labels(node, object, arena);
        read_taints(node, object, arena);
        read_conditions(node, object, arena);
        read_resources(node, object, arena);
        return node;
}

/* ---- looking up ---- */

const char *cluster_node_label(const struct cluster_node *node, const char *key)
{
        for (size_t i = 0; node->object && i < node->object->n_labels; i++)
                if (strcmp(node->object->labels[i].key, key) == 0)
                        return node->object->labels[i].value;
        return NULL;
}

const struct cluster_resource *cluster_node_resource(const struct cluster_node *node, const char *name)
{
        for (size_t i = 0; node->object && i < node->object->n_resources; i++)
                if (strcmp(node->object->resources[i].name, name) == 0)
                        return &node->object->resources[i];
        return NULL;
}

const struct cluster_condition *cluster_node_condition(const struct cluster_node *node, const char *type)
{
        for (size_t i = 0; node->object && i < node->object->n_conditions; i++)
                if (strcmp(node->object->conditions[i].type, type) == 0)
                        return &node->object->conditions[i];
        return NULL;
}

/* ---- what the page says ---- */

bool cluster_next_unit(const struct node_page *page, struct cluster_place *place)
{
        for (; page && place->n_gpus < page->n_gpus; place->n_gpus++, place->n_units = 0) {
                place->gpu = &page->gpus[place->n_gpus];
                if (place->n_units < place->gpu->n_units) {
                        place->unit = &place->gpu->units[place->n_units++];
                        place->n_shares = 0;
                        return true;
                }
        }
        return false;
}

bool cluster_next_share(const struct node_page *page, struct cluster_place *place)
{
        while (!place->unit || place->n_shares == place->unit->n_shares)
                if (!cluster_next_unit(page, place))
                        return false;
        place->share = &place->unit->shares[place->n_shares++];
        return true;
}
