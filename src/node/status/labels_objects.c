#include "node/status/labels_objects.h"

#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "net/kube/object.h"
#include "node/labels/labels.h"

#define NODE_NAME_LABEL "nfd.node.kubernetes.io/node-name"

char *labels_feature_name(const char *node)
{
        return xasprintf("nvidia-features-for-%s", node);
}

char *labels_feature_path(const char *scope, const char *node)
{
        _free_ char *features = object_collection("/apis/nfd.k8s-sigs.io/v1alpha1", scope, "nodefeatures");
        _free_ char *name = node ? labels_feature_name(node) : NULL;

        return name ? object_path(features, name) : TAKE_PTR(features);
}

void labels_feature_set(json_t *object, const char *node, json_t *labels, json_t *owners)
{
        _free_ char *name = labels_feature_name(node);
        json_t *metadata = object_make(object, "metadata", NULL);

        json_object_set_new(object, "apiVersion", json_string("nfd.k8s-sigs.io/v1alpha1"));
        json_object_set_new(object, "kind", json_string("NodeFeature"));
        json_object_set_new(metadata, "name", json_string(name));
        json_object_set_new(metadata, "labels", json_pack("{s:s}", NODE_NAME_LABEL, node));
        if (owners && json_array_size(owners) > 0)
                json_object_set(metadata, "ownerReferences", owners);
        else if (owners)
                json_object_del(metadata, "ownerReferences");
        json_object_set_new(object, "spec",
                json_pack("{s:{s:{}, s:{}, s:{}}, s:O}", "features", "flags", "attributes", "instances", "labels",
                        labels));
}

static json_t *labels_objects_owner_of(const char *version, const char *kind, const char *name, const char *uid)
{
        return json_pack("{s:s, s:s, s:s, s:s}", "apiVersion", version, "kind", kind, "name", name, "uid", uid);
}

json_t *labels_feature_owners(const json_t *pod)
{
        const char *name = object_text(pod, "metadata", "name", NULL);
        const char *uid = object_text(pod, "metadata", "uid", NULL);
        json_t *owners = json_array();
        json_t *owner;
        size_t i;

        json_array_foreach(object_find(pod, "metadata", "ownerReferences", NULL), i, owner)
        {
                const char *kind = object_text(owner, "kind", NULL);

                if (!kind || strcmp(kind, "DaemonSet") != 0 || !json_is_true(object_find(owner, "controller", NULL)) ||
                        !name || !uid)
                        continue;
                json_array_append(owners, owner);
                json_array_append_new(owners, labels_objects_owner_of("v1", "Pod", name, uid));
                break;
        }
        return owners;
}

bool labels_feature_is_ours(const json_t *object)
{
        json_t *labels = object_find(object, "spec", "labels", NULL);
        const char *key;
        json_t *value;

        json_object_foreach(labels, key, value)
        {
                if (text_starts_with(key, LABELS_PREFIX))
                        return true;
        }
        return false;
}

char *labels_node_path(const char *node)
{
        return object_path("/api/v1/nodes", node);
}

json_t *labels_node_object(const char *node, json_t *labels)
{
        json_t *object = json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "Node", "metadata", "name", node);

        if (labels)
                json_object_set(object_find(object, "metadata", NULL), "labels", labels);
        return object;
}

bool labels_node_is_ours(const json_t *node)
{
        json_t *entry;
        size_t i;

        json_array_foreach(object_find(node, "metadata", "managedFields", NULL), i, entry)
        {
                const char *manager = object_text(entry, "manager", NULL);

                if (manager && strcmp(manager, LABELS_FIELD_MANAGER) == 0 &&
                        json_object_size(object_find(entry, "fieldsV1", NULL)) > 0)
                        return true;
        }
        return false;
}
