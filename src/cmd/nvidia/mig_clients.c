#include "cmd/nvidia/mig_clients.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/data/yaml.h"
#include "net/kube/object.h"

#define FILE_LIMIT ((size_t)64 * 1024)

static const char *const labels[] = {
        "nvidia.com/gpu.deploy.device-plugin",
        "nvidia.com/gpu.deploy.gpu-feature-discovery",
        "nvidia.com/gpu.deploy.dcgm-exporter",
        "nvidia.com/gpu.deploy.dcgm",
        "nvidia.com/gpu.deploy.nvsm",
        "nvidia.com/gpu.deploy.client",
};

json_t *mig_clients_patch(const json_t *node, bool pause)
{
        json_t *patch = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(labels); i++) {
                const char *value = object_text(node, "metadata", "labels", labels[i], NULL);

                if (!text_is_same(value, pause ? "true" : MIG_CLIENTS_PAUSED))
                        continue;
                if (!patch)
                        patch = json_object();
                json_object_set_new(object_make(patch, "metadata", "labels", NULL), labels[i],
                        json_string(pause ? MIG_CLIENTS_PAUSED : "true"));
        }
        return patch;
}

bool mig_clients_has(const json_t *node, const json_t *pod)
{
        const char *phase = object_text(pod, "status", "phase", NULL);

        if (phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0))
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(labels); i++)
                if (object_find(pod, "spec", "nodeSelector", labels[i], NULL) &&
                        text_is_same(object_text(node, "metadata", "labels", labels[i], NULL), MIG_CLIENTS_PAUSED))
                        return true;
        return false;
}

void mig_clients_name(struct names *names, const json_t *node, const json_t *pods)
{
        for (size_t i = 0; i < json_array_size(pods); i++) {
                const json_t *pod = json_array_get(pods, i);
                const char *of = object_text(pod, "metadata", "namespace", NULL);
                const char *name = object_text(pod, "metadata", "name", NULL);

                if (of && name && mig_clients_has(node, pod))
                        names_add(names, "%s/%s", of, name);
        }
}

/* It becomes an argument of systemctl, as root of the host. */
static bool mig_clients_is_unit(const char *name)
{
        return name && *name && *name != '-' && strlen(name) < 256 &&
               strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@") == strlen(name);
}

int mig_clients_read(
        const char *const **ret, size_t *ret_count, struct arena *arena, const char *path, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _cleanup_(yaml_unloadp) struct yaml *yaml = NULL;
        const json_t *services;
        const char **names;

        if (file_read(path, FILE_LIMIT, &text, err) < 0 ||
                yaml_load(&yaml, arena_printf(arena, "GPU clients '%s'", path), text.data, text.size, NULL, NULL, err) <
                        0)
                return -1;
        if (!text_is_same(json_string_value(json_object_get(yaml->root, "version")), "v1"))
                return error_set(err, ERROR_INVALID, "GPU clients '%s': version: must be v1", path);
        services = json_object_get(yaml->root, "systemd-services");
        if (json_array_size(services) > MIG_CLIENTS_SERVICES_MAX)
                return error_set(err, ERROR_INVALID, "GPU clients '%s': %zu services, at most %zu are possible", path,
                        json_array_size(services), MIG_CLIENTS_SERVICES_MAX);
        names = ARENA_ARRAY(arena, const char *, json_array_size(services));
        for (size_t i = 0; i < json_array_size(services); i++) {
                const char *name = json_string_value(json_array_get(services, i));

                if (!mig_clients_is_unit(name))
                        return error_set(err, ERROR_INVALID, "GPU clients '%s' line %d: not the name of a service",
                                path, yaml_line_at(yaml, services, i));
                names[i] = arena_strdup(arena, name);
        }
        *ret = names;
        *ret_count = json_array_size(services);
        return 0;
}
