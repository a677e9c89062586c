// SPDX-License-Identifier: Apache-2.0
#include "sim/runtime/container.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"

/* ---- CDI devices by name ---- */

static const char *text_of(const json_t *object, const char *key)
{
        const char *text = json_string_value(json_object_get(object, key));

        return text ? text : "";
}

/* Adds, for each qualified device name, the edits of the file and of the device; null if two files have the device. */
static void add_file(json_t *registry, const char *path)
{
        json_t *file = json_load_file(path, 0, NULL);
        const json_t *device;
        size_t i;

        json_array_foreach(json_object_get(file, "devices"), i, device)
        {
                _free_ char *name = xasprintf("%s=%s", text_of(file, "kind"), text_of(device, "name"));

                json_object_set_new(registry, name,
                        json_object_get(registry, name) ? json_null()
                                                        : json_pack("[O*,O*]", json_object_get(file, "containerEdits"),
                                                                  json_object_get(device, "containerEdits")));
        }
        json_decref(file);
}

static json_t *read_registry(const char *root)
{
        json_t *registry = json_object();
        DIR *folder = opendir(root);
        const struct dirent *entry;

        while (folder && (entry = readdir(folder))) {
                const char *end = strrchr(entry->d_name, '.');
                _free_ char *path = xasprintf("%s/%s", root, entry->d_name);

                if (end && strcmp(end, ".json") == 0)
                        add_file(registry, path);
        }
        if (folder)
                closedir(folder);
        return registry;
}

/* ---- edits ---- */

static void set(json_t *object, const char *key, const char *value)
{
        json_object_set_new(object, key, json_string(value));
}

static void set_variable(struct container *container, const char *assignment)
{
        size_t length = strcspn(assignment, "=");
        _free_ char *name = xasprintf("%.*s", (int)length, assignment);

        set(container->variables, name, assignment[length] ? assignment + length + 1 : "");
}

static void edit(struct container *container, const json_t *edits)
{
        const json_t *entry;
        size_t i;

        json_array_foreach(json_object_get(edits, "env"), i, entry)
        {
                set_variable(container, json_string_value(entry));
        }
        json_array_foreach(json_object_get(edits, "deviceNodes"), i, entry)
        {
                const char *host = text_of(entry, "hostPath");

                set(container->nodes, text_of(entry, "path"), *host ? host : text_of(entry, "path"));
        }
        json_array_foreach(json_object_get(edits, "mounts"), i, entry)
        {
                set(container->mounts, text_of(entry, "containerPath"), text_of(entry, "hostPath"));
        }
}

static int add_cdi(struct container *container, const json_t *registry, const char *name, struct error *err)
{
        const json_t *device = json_object_get(registry, name);
        const json_t *edits;
        size_t i;

        if (!json_is_array(device))
                return error_set(err, ERROR_NOT_FOUND, "unresolvable CDI devices %s", name);
        json_array_foreach(device, i, edits)
        {
                edit(container, edits);
        }
        return 0;
}

static int add_cdi_of_annotation(
        struct container *container, const json_t *registry, const char *value, struct error *err)
{
        _free_ char *names = xstrdup(value);
        char *rest = NULL;

        for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
                if (add_cdi(container, registry, name, err) < 0)
                        return -1;
        return 0;
}

static int add_all_cdi(struct container *container, const V1beta1__ContainerAllocateResponse *options,
        const json_t *registry, struct error *err)
{
        for (size_t i = 0; i < options->n_cdi_devices; i++)
                if (add_cdi(container, registry, options->cdi_devices[i]->name, err) < 0)
                        return -1;
        for (size_t i = 0; i < options->n_annotations; i++)
                if (text_starts_with(options->annotations[i]->key, "cdi.k8s.io/") &&
                        add_cdi_of_annotation(container, registry, options->annotations[i]->value, err) < 0)
                        return -1;
        return 0;
}

/* ---- check that all sources exist ---- */

static int check_sources(const struct container *container, struct error *err)
{
        const char *path;
        const json_t *source;
        struct stat info;

        json_object_foreach(container->nodes, path, source)
        {
                if (stat(json_string_value(source), &info) < 0 || !S_ISCHR(info.st_mode))
                        return error_set(err, ERROR_NOT_FOUND, "%s: '%s' is no device node of the node", path,
                                json_string_value(source));
        }
        json_object_foreach(container->mounts, path, source)
        {
                if (access(json_string_value(source), F_OK) < 0)
                        return error_set(err, ERROR_NOT_FOUND, "%s: '%s', which is to be mounted there, is not there",
                                path, json_string_value(source));
        }
        return 0;
}

/* ---- public ---- */

int container_make(struct container *ret, const V1beta1__ContainerAllocateResponse *options, const char *const *own,
        const char *cdi_root, struct error *err)
{
        struct container container = {json_object(), json_object(), json_object()};
        json_t *registry = read_registry(cdi_root);
        int result;

        for (size_t i = 0; i < options->n_envs; i++)
                set(container.variables, options->envs[i]->key, options->envs[i]->value);
        for (; own && *own; own++)
                set_variable(&container, *own);
        for (size_t i = 0; i < options->n_devices; i++)
                set(container.nodes, options->devices[i]->container_path, options->devices[i]->host_path);
        for (size_t i = 0; i < options->n_mounts; i++)
                set(container.mounts, options->mounts[i]->container_path, options->mounts[i]->host_path);
        result = add_all_cdi(&container, options, registry, err);
        json_decref(registry);
        if (result == 0)
                result = check_sources(&container, err);
        if (result < 0)
                container_done(&container);
        else
                *ret = container;
        return result;
}

void container_done(struct container *container)
{
        json_decref(container->variables);
        json_decref(container->nodes);
        json_decref(container->mounts);
}

const char *container_variable(const struct container *container, const char *name)
{
        return text_of(container->variables, name);
}
