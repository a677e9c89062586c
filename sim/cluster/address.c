// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster/address.h"

#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"

static const struct resource resources[] = {
        {"/api/v1", "nodes", "v1", "Node", .has_status = true},
        {"/api/v1", "pods", "v1", "Pod", .is_namespaced = true, .has_status = true},
        {"/api/v1", "events", "v1", "Event", .is_namespaced = true},
        {"/api/v1", "configmaps", "v1", "ConfigMap", .is_namespaced = true},
        {"/apis/resource.k8s.io/v1", "deviceclasses", "resource.k8s.io/v1", "DeviceClass"},
        {"/apis/resource.k8s.io/v1", "resourceslices", "resource.k8s.io/v1", "ResourceSlice"},
        {"/apis/resource.k8s.io/v1", "resourceclaims", "resource.k8s.io/v1", "ResourceClaim", .is_namespaced = true,
                .has_status = true},
};

/* Takes "/PART" from |*path|; false: there is none, or it is too long. */
static bool take_part(const char **path, char *ret, size_t size)
{
        size_t length = **path == '/' ? strcspn(*path + 1, "/") : 0;

        if (length == 0 || length >= size)
                return false;
        snprintf(ret, size, "%.*s", (int)length, *path + 1);
        *path += 1 + length;
        return true;
}

static bool read_as(struct address *ret, const struct resource *resource, const char *path)
{
        struct address address = {.resource = resource};
        const char *at = path + strlen(resource->prefix);
        char part[256];

        if (!text_starts_with(path, resource->prefix))
                return false;
        if (resource->is_namespaced && text_starts_with(at, "/namespaces/")) {
                at += strlen("/namespaces");
                if (!take_part(&at, address.namespace, sizeof(address.namespace)))
                        return false;
        }
        if (!take_part(&at, part, sizeof(part)) || strcmp(part, resource->name) != 0)
                return false;
        snprintf(address.collection, sizeof(address.collection), "%.*s", (int)(at - path), path);
        if (*at && !take_part(&at, address.name, sizeof(address.name)))
                return false;
        /* A collection of all namespaces can be listed, and has no objects of its own. */
        if (address.name[0] && resource->is_namespaced && !address.namespace[0])
                return false;
        address.is_status = strcmp(at, "/status") == 0;
        if (*at && !(address.is_status && resource->has_status))
                return false;
        *ret = address;
        return true;
}

bool address_read(struct address *ret, const char *path)
{
        for (size_t i = 0; i < ARRAY_SIZE(resources); i++)
                if (read_as(ret, &resources[i], path))
                        return true;
        return false;
}
