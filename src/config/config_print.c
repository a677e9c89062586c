/*
 * The effective configuration, for the log: NVIDIA's key order, then our own keys.
 */
#include <jansson.h>
#include <string.h>

#include "config/config.h"

static json_t *text(const char *value)
{
        json_t *json = json_string(value);

        /* Command line and environment may hold any bytes. */
        return json ? json : json_string("(not UTF-8)");
}

static json_t *print_flags(const struct config *config)
{
        json_t *plugin = json_object();
        json_t *flags = json_object();

        json_object_set_new(flags, "migStrategy", text(mig_strategy_name(config->mig_strategy)));
        json_object_set_new(flags, "failOnInitError", json_boolean(config->fail_on_init_error));
        json_object_set_new(flags, "mpsRoot", text(config->mps_root));
        json_object_set_new(flags, "nvidiaDriverRoot", text(config->driver_root));
        json_object_set_new(plugin, "deviceListStrategy", json_pack("[s]", "envvar"));
        json_object_set_new(
                plugin, "deviceIDStrategy", text(config->id_strategy == ID_STRATEGY_INDEX ? "index" : "uuid"));
        json_object_set_new(plugin, "containerDriverRoot", text(config->driver_root_ctr));
        json_object_set_new(plugin, "sharedDevicesAllocationPolicy", text(placement_name(config->placement)));
        json_object_set_new(flags, "plugin", plugin);
        return flags;
}

static json_t *print_section(const struct sharing_section *sharing)
{
        json_t *section = json_object();
        json_t *resources = json_array();

        json_object_set_new(
                section, "failRequestsGreaterThanOne", json_boolean(sharing->fail_requests_greater_than_one));
        if (sharing->strategy == SHARING_MPS)
                json_object_set_new(section, "provisioning", text(provisioning_name(sharing->provisioning)));
        for (size_t i = 0; i < sharing->n_resources; i++) {
                const struct shared_resource *resource = &sharing->resources[i];
                json_t *item = json_object();

                json_object_set_new(item, "name", text(resource->name));
                if (resource->rename)
                        json_object_set_new(item, "rename", text(resource->rename));
                json_object_set_new(item, "devices", text("all"));
                json_object_set_new(item, "replicas", json_integer(resource->replicas));
                json_array_append_new(resources, item);
        }
        json_object_set_new(section, "resources", resources);
        return section;
}

static json_t *print_sharing(const struct sharing *sharing)
{
        json_t *json = json_object();

        json_object_set_new(
                json, "timeSlicing", sharing->time_slicing ? print_section(sharing->time_slicing) : json_object());
        if (sharing->mps)
                json_object_set_new(json, "mps", print_section(sharing->mps));
        return json;
}

/* What is not in the file, since it must be known before the file can be read or cannot change while the process lives. */
static json_t *print_process(const struct config *config)
{
        json_t *process = json_object();

        json_object_set_new(process, "configFile", text(config->path));
        json_object_set_new(process, "kubeletSocket", text(config->kubelet_socket));
        json_object_set_new(process, "nvmlLibrary", text(config->nvml_library));
        json_object_set_new(process, "logLevel", text(config->log_level));
        json_object_set_new(process, "logFormat", text(config->log_format));
        return process;
}

char *config_print(const struct config *config)
{
        json_t *json = json_object();
        char *printed;

        json_object_set_new(json, "version", text("v1"));
        json_object_set_new(json, "flags", print_flags(config));
        json_object_set_new(json, "sharing", print_sharing(&config->sharing));
        json_object_set_new(json, "process", print_process(config));
        printed = json_dumps(json, JSON_INDENT(2));
        json_decref(json);
        /* Everything was checked while it was added, so only memory can be short. */
        return printed ? printed : xstrdup("{}");
}
