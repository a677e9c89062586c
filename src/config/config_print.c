/*
 * The effective configuration, for the log: NVIDIA's key order, then our own keys.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "config/config.h"
#include "config/word.h"

static json_t *text(const char *value)
{
        json_t *json = json_string(value);

        /* Command line and environment may hold any bytes. */
        return json ? json : json_string("(not UTF-8)");
}

static json_t *print_memory(bool is_given, uint64_t mib)
{
        return is_given ? json_sprintf("%lluMi", (unsigned long long)mib) : text("auto");
}

static json_t *words(const char *const *list)
{
        json_t *json = json_array();

        for (; *list; list++)
                json_array_append_new(json, text(*list));
        return json;
}

/* ---- flags ---- */

static json_t *print_plugin(const struct config *config)
{
        json_t *plugin = json_object();
        json_t *lists = json_array();

        for (unsigned int i = 0; device_list_words[i]; i++)
                if (config->device_lists & (1U << i))
                        json_array_append_new(lists, text(device_list_words[i]));
        json_object_set_new(plugin, "passDeviceSpecs", json_boolean(config->pass_device_specs));
        json_object_set_new(plugin, "deviceListStrategy", lists);
        json_object_set_new(plugin, "deviceIDStrategy", text(id_strategy_words[config->id_strategy]));
        json_object_set_new(plugin, "cdiAnnotationPrefix", text(config->cdi_annotation_prefix));
        json_object_set_new(plugin, "nvidiaCTKPath", text(config->cdi_hook_path));
        json_object_set_new(plugin, "containerDriverRoot", text(config->driver_root_ctr));
        json_object_set_new(plugin, "sharedDevicesAllocationPolicy", text(placement_name(config->placement)));
        return plugin;
}

static json_t *print_flags(const struct config *config)
{
        json_t *flags = json_object();

        json_object_set_new(flags, "migStrategy", text(mig_strategy_name(config->mig_strategy)));
        json_object_set_new(flags, "failOnInitError", json_boolean(config->fail_on_init_error));
        json_object_set_new(flags, "mpsRoot", text(config->mps_root));
        if (config->mps_pipes_writable)
                json_object_set_new(flags, "mpsPipesWritable", json_true());
        json_object_set_new(flags, "nvidiaDriverRoot", text(config->driver_root));
        json_object_set_new(flags, "nvidiaDevRoot", text(config->dev_root));
        json_object_set_new(flags, "gdrcopyEnabled", json_boolean(config->extras & EXTRA_GDRCOPY));
        json_object_set_new(flags, "gdsEnabled", json_boolean(config->extras & EXTRA_GDS));
        json_object_set_new(flags, "mofedEnabled", json_boolean(config->extras & EXTRA_MOFED));
        json_object_set_new(flags, "useNodeFeatureAPI",
                config->discovery_flags.use_node_feature_api
                        ? json_boolean(*config->discovery_flags.use_node_feature_api)
                        : json_null());
        json_object_set_new(flags, "deviceDiscoveryStrategy", text(discovery_words[config->discovery]));
        json_object_set_new(flags, "plugin", print_plugin(config));
        return flags;
}

/* ---- resources ---- */

static void put_pattern(json_t *list, const char *pattern, const char *name)
{
        json_t *item = json_object();

        json_object_set_new(item, "pattern", text(pattern));
        json_object_set_new(item, "name", text(name));
        json_array_append_new(list, item);
}

/* NVIDIA's plugin prints the rule for what nothing else names, too. */
static json_t *print_resources(const struct config *config)
{
        json_t *resources = json_object();
        json_t *gpus = json_array();
        json_t *mig = json_array();
        bool has_rest = false;

        for (size_t i = 0; i < config->n_gpu_patterns; i++) {
                put_pattern(gpus, config->gpu_patterns[i].pattern, config->gpu_patterns[i].name);
                has_rest = has_rest || strcmp(config->gpu_patterns[i].pattern, "*") == 0;
        }
        if (!has_rest)
                put_pattern(gpus, "*", "nvidia.com/gpu");
        has_rest = false;
        for (size_t i = 0; i < config->n_mig_patterns; i++) {
                put_pattern(mig, config->mig_patterns[i].pattern, config->mig_patterns[i].name);
                has_rest = has_rest || strcmp(config->mig_patterns[i].pattern, "*") == 0;
        }
        if (!has_rest && config->mig_strategy == MIG_STRATEGY_SINGLE)
                put_pattern(mig, "*", "nvidia.com/gpu");
        json_object_set_new(resources, "gpus", gpus);
        if (json_array_size(mig) > 0)
                json_object_set(resources, "mig", mig);
        json_decref(mig);
        return resources;
}

/* ---- sharing ---- */

static json_t *print_devices(const struct device_selector *devices)
{
        json_t *list;

        if (devices->kind == SELECT_ALL)
                return text("all");
        if (devices->kind == SELECT_COUNT)
                return json_integer(devices->count);
        list = json_array();
        for (size_t i = 0; i < devices->n_refs; i++) {
                const struct device_ref *ref = &devices->refs[i];

                json_array_append_new(list, ref->uuid      ? text(ref->uuid)
                                            : ref->mig < 0 ? json_sprintf("%u", ref->gpu)
                                                           : json_sprintf("%u:%d", ref->gpu, ref->mig));
        }
        return list;
}

static json_t *print_resource(const struct shared_resource *resource)
{
        json_t *item = json_object();

        json_object_set_new(item, "name", text(resource->name));
        if (resource->rename)
                json_object_set_new(item, "rename", text(resource->rename));
        json_object_set_new(item, "devices", print_devices(&resource->devices));
        json_object_set_new(item, "replicas", json_integer(resource->replicas));
        if (resource->sms)
                json_object_set_new(item, "sms", json_integer(resource->sms));
        if (resource->memory_mib)
                json_object_set_new(item, "memory", print_memory(true, resource->memory_mib));
        if (resource->has_placement)
                json_object_set_new(item, "placement", text(placement_name(resource->placement)));
        return item;
}

static void print_mps(json_t *section, const struct sharing_section *sharing)
{
        bool has_limit = sharing->tier_limit != MPS_TIER_NAMESPACE;

        json_object_set_new(section, "provisioning", text(provisioning_name(sharing->provisioning)));
        json_object_set_new(section, "daemonScope", text(daemon_scope_name(sharing->daemon_scope)));
        json_object_set_new(
                section, "memoryReserve", print_memory(sharing->has_memory_reserve, sharing->memory_reserve_mib));
        if (sharing->max_threads)
                json_object_set_new(section, "maxThreads", json_integer(sharing->max_threads));
        if (sharing->max_memory_mib)
                json_object_set_new(
                        section, "maxMemory", json_sprintf("%lluMi", (unsigned long long)sharing->max_memory_mib));
        if (sharing->provisioning == PROVISIONING_DECLARED)
                json_object_set_new(section, "declaredOvercommit", json_boolean(!sharing->refuses_overcommit));
        json_object_set_new(section, "guard", text(guard_mode_name(sharing->guard)));
        json_object_set_new(section, "tier", text(has_limit ? mps_tier_name(sharing->tier_limit) : "auto"));
}

static json_t *print_section(const struct sharing_section *sharing)
{
        json_t *section = json_object();
        json_t *resources = json_array();

        if (sharing->rename_by_default) /* NVIDIA leaves it out where it is false */
                json_object_set_new(section, "renameByDefault", json_true());
        if (sharing->strategy == SHARING_MPS ||
                sharing->says_fail_requests) /* NVIDIA prints its default for MPS only */
                json_object_set_new(
                        section, "failRequestsGreaterThanOne", json_boolean(sharing->fail_requests_greater_than_one));
        json_object_set_new(section, "scope", text(sharing_scope_name(sharing->scope)));
        if (sharing->max_per_request)
                json_object_set_new(section, "maxPerRequest", json_integer(sharing->max_per_request));
        if (sharing->reserve != RESERVE_AUTO)
                json_object_set_new(section, "reserve", text(reserve_words[sharing->reserve]));
        if (sharing->strategy == SHARING_MPS)
                print_mps(section, sharing);
        for (size_t i = 0; i < sharing->n_resources; i++)
                json_array_append_new(resources, print_resource(&sharing->resources[i]));
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

/* ---- the rest ---- */

static json_t *print_imex(const struct config *config)
{
        json_t *imex = json_object();

        if (config->has_imex_channel)
                json_object_set_new(imex, "channelIDs", json_pack("[i]", 0));
        if (config->imex_required)
                json_object_set_new(imex, "required", json_true());
        return imex;
}

static json_t *print_health(const struct config *config)
{
        json_t *health = json_object();
        json_t *xids = json_object();
        char number[16];

        for (size_t i = 0; i < config->n_xid_rules; i++) {
                snprintf(number, sizeof(number), "%u", config->xid_rules[i].xid);
                json_object_set_new(xids, number, text(xid_action_words[config->xid_rules[i].unhealthy]));
        }
        json_object_set_new(health, "xids", xids);
        json_object_set_new(health, "recover", json_boolean(config->recover));
        json_object_set_new(health, "pendingRowRemap", text(xid_action_words[config->counts_remaps]));
        return health;
}

static json_t *print_dra(const struct config_dra *dra)
{
        json_t *json = json_object();
        json_t *defaults = json_object();

        json_object_set_new(defaults, "memory", print_memory(dra->default_memory_mib > 0, dra->default_memory_mib));
        json_object_set_new(defaults, "threadPercentage", json_integer(dra->default_thread_percentage));
        json_object_set_new(defaults, "clients", json_integer(dra->default_clients));
        json_object_set_new(json, "enabled", json_boolean(dra->enabled));
        json_object_set_new(json, "driverName", text(dra->driver_name));
        json_object_set_new(json, "devices", print_devices(&dra->devices));
        json_object_set_new(json, "whole", json_boolean(dra->whole));
        json_object_set_new(json, "mps", json_boolean(dra->mps));
        json_object_set_new(json, "timeSlicing", json_boolean(dra->time_slicing));
        json_object_set_new(json, "dynamicMig", json_boolean(dra->dynamic_mig));
        json_object_set_new(json, "slots", json_integer(dra->slots));
        json_object_set_new(json, "defaults", defaults);
        if (dra->memory_mib)
                json_object_set_new(json, "memory", print_memory(true, dra->memory_mib));
        json_object_set_new(json, "memoryReserve", print_memory(dra->has_memory_reserve, dra->memory_reserve_mib));
        json_object_set_new(json, "daemonScope", text(dra_daemon_scope_words[dra->daemon_scope]));
        json_object_set_new(json, "fallback", text(dra_fallback_words[dra->fallback]));
        json_object_set_new(json, "oneForm", text(dra_one_form_words[dra->one_form]));
        json_object_set_new(json, "shares", json_integer(dra->shares));
        json_object_set_new(json, "unenforced", text(dra_unenforced_words[dra->unenforced]));
        json_object_set_new(json, "unhealthy", text(dra_unhealthy_words[dra->unhealthy]));
        return json;
}

static json_t *print_mig(const struct config_mig *mig)
{
        json_t *json = json_object();

        json_object_set_new(json, "manager", json_boolean(mig->manager));
        json_object_set_new(json, "configFile", text(mig->file));
        json_object_set_new(json, "default", text(mig->fallback));
        return json;
}

/*
 * What is not in the file, since it must be known before the file can be read or cannot change while the process lives.
 */
static json_t *print_process(const struct config *config)
{
        json_t *process = json_object();

        json_object_set_new(process, "configFile", text(config->path));
        json_object_set_new(process, "kubeletSocket", text(config->kubelet_socket));
        json_object_set_new(process, "kubeletPluginsRegistry", text(config->dra.registry));
        json_object_set_new(process, "kubeletPlugins", text(config->dra.plugins));
        json_object_set_new(process, "draInstance", text(config->dra.instance ? config->dra.instance : ""));
        json_object_set_new(process, "migStateDirectory", text(config->mig.state_directory));
        json_object_set_new(process, "migProgram", text(config->mig.program));
        json_object_set_new(process, "nvmlLibrary", text(config->nvml_library));
        json_object_set_new(process, "systemRoot", text(config->system_root));
        json_object_set_new(process, "cdiRoot", text(config->cdi_root));
        json_object_set_new(process, "cdiFeatureFlags", words(config->cdi_feature_flags));
        json_object_set_new(process, "cdiDisableHooks", words(config->cdi_disable_hooks));
        json_object_set_new(process, "metricsAddress", text(config->metrics_address));
        json_object_set_new(process, "metricsDcgm", json_boolean(config->metrics_dcgm));
        json_object_set_new(process, "metricsTls", json_boolean(config->metrics_tls));
        json_object_set_new(process, "metricsTlsCertificate", text(config->metrics_tls_certificate));
        json_object_set_new(process, "metricsTlsKey", text(config->metrics_tls_key));
        json_object_set_new(process, "metricsAuthorization", text(metrics_asked_words[config->metrics_authorization]));
        json_object_set_new(process, "metricsNodePage", text(node_page_words[config->metrics_node_page]));
        json_object_set_new(process, "metricsPodLabels", words(config->metrics_pod_labels));
        json_object_set_new(process, "usageSeconds", json_integer(config->usage_seconds));
        json_object_set_new(process, "nodeName", text(config->node_name));
        json_object_set_new(process, "kubeconfig", text(config->kubeconfig));
        json_object_set_new(process, "nodeCondition", text(config->node_condition));
        json_object_set_new(process, "nodeTaint", text(config->node_taint));
        json_object_set_new(process, "podName", text(config->pod_name));
        json_object_set_new(process, "configAnnotations", json_boolean(config->config_annotations));
        json_object_set_new(process, "events", text(events_words[config->events]));
        json_object_set_new(process, "labelsOutput", text(labels_output_words[config->labels_output]));
        json_object_set_new(process, "labelsFile", text(config->labels_file));
        json_object_set_new(process, "logLevel", text(config->log_level));
        json_object_set_new(process, "logFormat", text(config->log_format));
        return process;
}

/* Go's encoder escapes what HTML gives a meaning; outside of strings, JSON has none of it. */
static char *escape_html(const char *json)
{
        struct strbuf escaped = STRBUF_INIT;

        for (; *json; json++)
                if (strchr("<>&", *json))
                        strbuf_printf(&escaped, "\\u%04x", (unsigned int)*json);
                else
                        strbuf_putc(&escaped, *json);
        return strbuf_take(&escaped);
}

char *config_print(const struct config *config)
{
        json_t *json = json_object();
        _free_ char *printed = NULL;

        json_object_set_new(json, "version", text("v1"));
        json_object_set_new(json, "flags", print_flags(config));
        json_object_set_new(json, "resources", print_resources(config));
        json_object_set_new(json, "sharing", print_sharing(&config->sharing));
        json_object_set_new(json, "imex", print_imex(config));
        json_object_set_new(json, "health", print_health(config));
        json_object_set_new(json, "dra", print_dra(&config->dra));
        json_object_set_new(json, "mig", print_mig(&config->mig));
        json_object_set_new(json, "process", print_process(config));
        printed = json_dumps(json, JSON_INDENT(2));
        json_decref(json);
        /* Everything was checked while it was added, so only memory can be short. */
        return printed ? escape_html(printed) : xstrdup("{}");
}
