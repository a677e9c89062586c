// SPDX-License-Identifier: Apache-2.0
/*
 * gpu-feature-discovery: makes labels as NVIDIA's program of that name does, with its options, its file and its
 * NodeFeature. It follows changes of the GPUs, and checks what it published at the configured interval.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include <warpshare_commit.h>

#include "node/status/read.h"
#include "node/status/log.h"
#include "base/io/worker.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sweep.h"
#include "cmd/commands.h"
#include "config/go_value.h"
#include "config/word.h"
#include "gpu/monitor.h"
#include "base/io/filewatch.h"
#include "base/io/loop.h"
#include "node/status/api.h"
#include "node/status/node_labels.h"
#include "node/config/settings.h"

#define PROGRAM "gpu-feature-discovery"
#define DEFAULT_FILE "/etc/kubernetes/node-feature-discovery/features.d/gfd"
#define DEFAULT_SLEEP_NS INT64_C(60000000000)
#define LEAST_SLEEP_MS UINT64_C(1000)
#define OLD_FOLDER "gfd-tmp"
#define OLD_FOLDER_MS 1000U

enum {
        MIG_STRATEGY,
        FAIL_ON_INIT_ERROR,
        ONESHOT,
        NO_TIMESTAMP,
        SLEEP_INTERVAL,
        OUTPUT_FILE,
        MACHINE_TYPE_FILE,
        CONFIG_FILE,
        USE_NODE_FEATURE_API,
        KUBE_API_QPS,
        KUBE_API_BURST,
        NAMESPACE,
};

/* A switch without a default, unlike COMMAND_FLAG. */
#define OPEN_FLAG(name, meaning, ...)                                                                                  \
        {                                                                                                              \
                .flag = (name), .type = OPTION_BOOL, .help = (meaning), __VA_ARGS__                                    \
        }

/* No defaults: what is not set here may come from the file. */
static const struct option own[] = {
        [MIG_STRATEGY] = COMMAND_CHOICE("mig-strategy", mig_strategy_words, NULL,
                "how MIG devices are labelled: none, single (as GPUs) or mixed (by profile) (default none)",
                .environment = {"GFD_MIG_STRATEGY", "MIG_STRATEGY"}),
        [FAIL_ON_INIT_ERROR] = OPEN_FLAG("fail-on-init-error",
                "end when NVML cannot be used at start, instead of waiting for it (default true)",
                .environment = {"GFD_FAIL_ON_INIT_ERROR", "FAIL_ON_INIT_ERROR"}),
        [ONESHOT] =
                OPEN_FLAG("oneshot", "publish the labels once and end (default false)", .environment = {"GFD_ONESHOT"}),
        [NO_TIMESTAMP] = OPEN_FLAG("no-timestamp", "leave out the label with the time (default false)",
                .environment = {"GFD_NO_TIMESTAMP"}),
        [SLEEP_INTERVAL] = COMMAND_TEXT("sleep-interval", NULL, "DURATION",
                "how often the published labels are checked: 60s, 1m30s, infinite (default 60s)",
                .environment = {"GFD_SLEEP_INTERVAL"}),
        [OUTPUT_FILE] = COMMAND_TEXT("output-file", NULL, "PATH",
                "file of the labels, without the NodeFeature; empty: standard output (default " DEFAULT_FILE ")",
                .aliases = {"output", "o"}, .environment = {"GFD_OUTPUT_FILE"}),
        [MACHINE_TYPE_FILE] = COMMAND_TEXT("machine-type-file", NULL, "PATH",
                "file with the type of the machine (default " LABELS_MACHINE_FILE ")",
                .environment = {"GFD_MACHINE_TYPE_FILE"}),
        [CONFIG_FILE] = COMMAND_TEXT("config-file", NULL, "PATH",
                "configuration file, YAML or JSON, the same as the device plugin's",
                .environment = {"GFD_CONFIG_FILE", "CONFIG_FILE"}),
        [USE_NODE_FEATURE_API] =
                OPEN_FLAG("use-node-feature-api", "publish the labels as a NodeFeature object (default true)",
                        .environment = {"GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API"}),
        [KUBE_API_QPS] = COMMAND_TEXT("kube-api-qps", NULL, "N", "accepted and ignored: there is one request at a time",
                .environment = {"KUBE_API_QPS"}),
        [KUBE_API_BURST] = COMMAND_TEXT("kube-api-burst", NULL, "N", "the same", .environment = {"KUBE_API_BURST"}),
        [NAMESPACE] = COMMAND_TEXT(
                "namespace", "default", "NAME", "namespace of the NodeFeature", .environment = {"NAMESPACE"}),
};

static const char *const shared[] = {"device-discovery-strategy", "driver-root-ctr-path", "kubeconfig", "node-name",
        "pod-name", "nvml-library", "system-root", "log-level", "log-format", NULL};

static const char help[] =
        "usage: " PROGRAM " [OPTION...]\n"
        "\n"
        "Warpshare as a drop-in for NVIDIA's GPU feature discovery: labels the node by its GPUs and by how they\n"
        "are shared, as a NodeFeature object or a file for node-feature-discovery. SIGHUP reads the configuration\n"
        "and the GPUs again, and so does a change of the configuration file; SIGTERM ends it and removes the\n"
        "file. Log lines have klog's format.\n"
        "\n";

/* Combined from command line, environment and file. Strings live as long as options and settings. */
struct wishes {
        bool is_once;
        bool has_timestamp;
        uint64_t sleep_ms; /* 0: infinite */
        enum labels_output output;
        const char *file;
        const char *machine_file; /* NULL: the default */
};

struct discovery {
        uv_loop_t loop;
        const struct option_set *options;
        const char *const *values; /* of |own| */
        struct settings *settings;
        struct wishes wishes;
        struct filewatch *config_file; /* NULL: no configuration file */
        struct gpu_monitor *monitor;
        struct kube_client *client; /* NULL: no NodeFeature */
        struct labels_publisher *publisher;
        struct inventory *inventory; /* the newest one; NULL: NVML was not usable yet */
        struct labels_warnings warnings;
        struct complaint bad_config;
        struct complaint bad_plan;
        int64_t loaded; /* when the configuration was read */
        struct signals signals;
        bool is_stopping;
        int status;
};

/* ---- the wanted labels ---- */

static bool wish(const struct discovery *discovery, unsigned int option, const bool *file, bool fallback)
{
        if (discovery->values[option])
                return strcmp(discovery->values[option], "true") == 0;
        return file ? *file : fallback;
}

static const char *wish_text(const struct discovery *discovery, unsigned int option, const char *file)
{
        return discovery->values[option] ? discovery->values[option] : file;
}

static int read_sleep(const struct discovery *discovery, const int64_t *file, uint64_t *ret_ms, struct error *err)
{
        const char *text = discovery->values[SLEEP_INTERVAL];
        int64_t ns = file ? *file : DEFAULT_SLEEP_NS;

        if (text && *text && !go_duration_parse(text, &ns))
                return error_set(err, ERROR_INVALID,
                        "sleep-interval: '%.40s' is not a duration, use 60s, 1m30s or infinite", text);
        *ret_ms = ns == INT64_MAX ? 0 : MAX((uint64_t)MAX(ns, 0) / 1000000, LEAST_SLEEP_MS);
        return 0;
}

static int read_wishes(
        struct wishes *ret, const struct discovery *discovery, const struct config *config, struct error *err)
{
        const struct config_discovery *file = &config->discovery_flags;
        bool has_object = wish(discovery, USE_NODE_FEATURE_API, file->use_node_feature_api, true);
        const char *path = wish_text(discovery, OUTPUT_FILE, file->output_file);

        if (has_object && !*config->node.name)
                return error_set(err, ERROR_INVALID,
                        "a NodeFeature needs the name of the node: --node-name, NODE_NAME (or --use-node-feature-api=false "
                        "for a file)");
        ret->is_once = wish(discovery, ONESHOT, file->oneshot, false);
        ret->has_timestamp = !wish(discovery, NO_TIMESTAMP, file->no_timestamp, false);
        ret->output = has_object ? LABELS_NODE_FEATURE : LABELS_FILE;
        ret->file = path ? path : DEFAULT_FILE;
        ret->machine_file = wish_text(discovery, MACHINE_TYPE_FILE, file->machine_type_file);
        return read_sleep(discovery, file->sleep_ns, &ret->sleep_ms, err);
}

/* ---- stop ---- */

/* Cleans up as NVIDIA's program does: removes its file, and a folder beside it that its old versions created. */
static void gpu_feature_discovery_remove_file(const struct wishes *wishes)
{
        _free_ char *folder = file_folder(wishes->file);
        _free_ char *old = xasprintf("%s/" OLD_FOLDER, folder);
        _close_ int above = -1;
        struct error err;

        if (wishes->output != LABELS_FILE || wishes->is_once || !wishes->sleep_ms || !*wishes->file)
                return;
        above = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (above >= 0 && sweep_folder(above, OLD_FOLDER, old, OLD_FOLDER_MS, &err) < 0 && err.kind != ERROR_NOT_FOUND)
                log_warn("cannot remove the folder of an old version", LOG_ERR(&err));
        if (unlink(wishes->file) < 0)
                log_text(LOG_WARN, "cannot remove '%s': %m", wishes->file);
}

static void gpu_feature_discovery_stop(struct discovery *discovery, int status)
{
        if (discovery->is_stopping)
                return;
        discovery->is_stopping = true;
        discovery->status = status;
        signals_close(&discovery->signals);
        discovery->config_file = filewatch_close(discovery->config_file);
        discovery->publisher = labels_publisher_close(discovery->publisher);
        discovery->client = kube_client_close(discovery->client, NULL, NULL);
        gpu_monitor_close(discovery->monitor, NULL, NULL);
        if (status == 0)
                gpu_feature_discovery_remove_file(&discovery->wishes);
        log_info("Exiting");
}

/* ---- labels ---- */

static void on_published_once(const struct error *error, void *data)
{
        if (error)
                log_error("labels cannot be published", LOG_ERR(error));
        gpu_feature_discovery_stop(data, error ? EXIT_FAILED : 0);
}

static void gpu_feature_discovery_put_labels(struct discovery *discovery, const struct plan *plan)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct labels_input input = {
                .config = discovery->settings->config,
                .inventory = discovery->inventory,
                .plan = plan,
                .timestamp = discovery->wishes.has_timestamp ? discovery->loaded : 0,
        };
        struct labels labels;

        labels_make(&labels, &arena, input, discovery->wishes.machine_file, &discovery->warnings);
        if (labels.count <= 1)
                log_warn("No labels generated from any source");
        log_info("Creating Labels", LOG_UINT("count", labels.count));
        labels_publisher_put(discovery->publisher, &labels);
}

/* A refused plan changes no label, because the device plugin also keeps what it advertises. */
static void gpu_feature_discovery_apply(struct discovery *discovery)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct config *config = discovery->settings->config;
        struct plan *plan = NULL;
        struct error err;

        if (plan_build(&plan, &arena, config, discovery->inventory, settings_warn, NULL, &err) == 0) {
                complaint_settle(&discovery->bad_plan);
                gpu_feature_discovery_put_labels(discovery, plan);
                plan_done(plan);
                return;
        }
        complain(&discovery->bad_plan, "no plan can be made", &err);
        if (labels_layout_is_invalid(config, discovery->inventory))
                gpu_feature_discovery_put_labels(discovery, NULL);
        else if (discovery->wishes.is_once)
                gpu_feature_discovery_stop(discovery, EXIT_FAILED);
}

/* ---- callbacks of the monitor ---- */

static void on_gpu_feature_discovery_inventory(struct inventory *inventory, void *data)
{
        struct discovery *discovery = data;

        if (discovery->is_stopping) {
                inventory_free(inventory);
                return;
        }
        if (!discovery->inventory || !inventory_is_same(discovery->inventory, inventory))
                node_log_inventory(inventory);
        inventory_free(discovery->inventory);
        discovery->inventory = inventory;
        gpu_feature_discovery_apply(discovery);
}

/* The known GPUs stay; labels do not show health. */
static void on_gpu_feature_discovery_unavailable(const char *reason, void *data)
{
        struct discovery *discovery = data;

        if (discovery->is_stopping)
                return;
        if (!discovery->inventory && discovery->settings->config->fail_on_init_error) {
                log_error("NVML cannot be used (failOnInitError: false would wait)", LOG_STR("reason", reason));
                gpu_feature_discovery_stop(discovery, EXIT_FAILED);
                return;
        }
        log_warn("NVML cannot be used, will try again", LOG_STR("reason", reason));
        if (!discovery->inventory)
                gpu_feature_discovery_put_labels(discovery, NULL);
}

static void on_gpu_feature_discovery_health(
        const char *uuid UNUSED, bool healthy UNUSED, const char *reason UNUSED, uint64_t xid UNUSED, void *data UNUSED)
{
}

/* ---- configuration ---- */

static int make_publisher(struct labels_publisher **ret, struct discovery *discovery, const struct config *config,
        const struct wishes *wishes, struct error *err)
{
        struct labels_publisher_options options = {
                .loop = &discovery->loop,
                .output = wishes->output,
                .file = wishes->file,
                .node = config->node.name,
                .scope = discovery->values[NAMESPACE],
                .pod = config->node.pod_name,
                .refresh_ms = wishes->sleep_ms,
                .done = wishes->is_once ? on_published_once : NULL,
                .data = discovery,
        };

        if (options.output == LABELS_NODE_FEATURE && !discovery->client &&
                agent_api_open(&discovery->client, &discovery->loop, config, err) != 0)
                return error_prefix(
                        err, "a NodeFeature needs the API server (--use-node-feature-api=false makes a file)");
        options.client = discovery->client;
        *ret = labels_publisher_new(&options);
        return 0;
}

/* Either all of the new configuration is used or none of it. */
static int gpu_feature_discovery_load(struct discovery *discovery, struct error *err)
{
        struct settings *settings = NULL;
        struct labels_publisher *publisher = NULL;
        struct wishes before = discovery->wishes;
        struct wishes wishes = {0};

        if (settings_new(&settings, discovery->options, NULL, err) < 0)
                return -1;
        if (read_wishes(&wishes, discovery, settings->config, err) < 0 ||
                make_publisher(&publisher, discovery, settings->config, &wishes, err) < 0) {
                settings_unref(settings);
                return -1;
        }
        node_log_config(settings->config);
        if (discovery->settings && before.output == LABELS_FILE &&
                (wishes.output != LABELS_FILE || strcmp(wishes.file, before.file) != 0))
                gpu_feature_discovery_remove_file(&before);
        settings_unref(discovery->settings);
        discovery->settings = settings;
        discovery->wishes = wishes;
        labels_publisher_close(discovery->publisher);
        discovery->publisher = publisher;
        discovery->loaded = time(NULL);
        return 0;
}

static void gpu_feature_discovery_reload(struct discovery *discovery)
{
        struct error err;

        if (discovery->config_file)
                filewatch_accept(discovery->config_file);
        if (gpu_feature_discovery_load(discovery, &err) < 0) {
                complain(&discovery->bad_config, "configuration refused, the one in force stays", &err);
                return;
        }
        complaint_settle(&discovery->bad_config);
        gpu_monitor_rescan(discovery->monitor); /* its inventory leads to the next labels */
}

static void on_gpu_feature_discovery_file_changed(void *data)
{
        log_info("the configuration file changed");
        gpu_feature_discovery_reload(data);
}

static void on_gpu_feature_discovery_signal(uv_signal_t *signal, int number)
{
        struct discovery *discovery = signal->data;

        if (number == SIGHUP) {
                log_info("Received SIGHUP, restarting.");
                complaint_settle(&discovery->bad_config); /* so that a failure is logged again */
                complaint_settle(&discovery->bad_plan);
                gpu_feature_discovery_reload(discovery);
                return;
        }
        log_text(LOG_INFO, "Received signal %d, shutting down.", number);
        gpu_feature_discovery_stop(discovery, 0);
}

/* ---- start ---- */

static int gpu_feature_discovery_watch_file(struct discovery *discovery, struct error *err)
{
        const struct filewatch_options options = {
                .path = option_set_get(discovery->options, "config-file"),
                .limit = CONFIG_FILE_LIMIT,
                .changed = on_gpu_feature_discovery_file_changed,
                .data = discovery,
        };

        if (!options.path || !*options.path)
                return 0;
        return filewatch_new(&discovery->config_file, &discovery->loop, &options, err);
}

static void on_gpu_feature_discovery_hang(const struct gpu_hang *hang, bool has_returned, void *data)
{
        const struct discovery *discovery = data;

        if (!discovery->is_stopping)
                node_hangs_report(hang, has_returned, NULL);
}

static int gpu_feature_discovery_start(struct discovery *discovery, struct error *err)
{
        const struct config *config;
        struct gpu_monitor_options monitor = {
                .on_inventory = on_gpu_feature_discovery_inventory,
                .on_unavailable = on_gpu_feature_discovery_unavailable,
                .on_health = on_gpu_feature_discovery_health,
                .on_hang = on_gpu_feature_discovery_hang,
                .data = discovery,
        };

        if (signals_listen(&discovery->signals, &discovery->loop, on_gpu_feature_discovery_signal, discovery, err) <
                        0 ||
                gpu_feature_discovery_watch_file(discovery, err) < 0 || gpu_feature_discovery_load(discovery, err) < 0)
                return -1;
        config = discovery->settings->config;
        monitor.library = config->driver.nvml_library;
        monitor.paths =
                (struct gpu_paths){.system_root = config->system_root, .driver_root = config->driver.mounted_root};
        monitor.discovery = node_platform_choice(config);
        monitor.policy = &discovery->settings->policy;
        discovery->monitor = gpu_monitor_new(&discovery->loop, &monitor);
        return 0;
}

/*
 * Options that the agent's table also has, but with other names in the environment. No container gets MPS mounts from
 * here, so the host's MPS root does not matter.
 */
static void discovery_settle_shared(struct option_set *set, const char *const *values)
{
        static const unsigned int positions[] = {MIG_STRATEGY, FAIL_ON_INIT_ERROR, CONFIG_FILE};

        for (size_t i = 0; i < ARRAY_SIZE(positions); i++)
                if (values[positions[i]])
                        set->values[option_find(own[positions[i]].flag)] = values[positions[i]];
        set->values[option_find("mps-root")] = "/run/nvidia/mps";
}

static int gpu_feature_discovery_run(struct command_call *call, struct error *err)
{
        struct discovery discovery = {.options = &call->set, .values = call->values};

        discovery_settle_shared(&call->set, call->values);
        command_setup_log(&call->set, "klog");
        loop_init(&discovery.loop);
        log_info("Starting GPU Feature Discovery.", LOG_STR("version", "Warpshare " WARPSHARE_VERSION));
        if (gpu_feature_discovery_start(&discovery, err) < 0) {
                log_error("cannot start", LOG_ERR(err));
                _exit(EXIT_FAILED); /* nothing is published yet */
        }
        uv_run(&discovery.loop, UV_RUN_DEFAULT);
        inventory_free(discovery.inventory);
        settings_unref(discovery.settings);
        labels_warnings_done(&discovery.warnings);
        worker_close_loop(&discovery.loop);
        return discovery.status;
}

const struct command command_gpu_feature_discovery = {
        .name = "gpu-feature-discovery",
        .summary = "label the node, as a drop-in for NVIDIA's GPU feature discovery",
        .run = gpu_feature_discovery_run,
        .is_service = true,
        .shared = shared,
        COMMAND_OWN(own),
        .program = PROGRAM,
        .help = help,
        .version = "GPU Feature Discovery version " WARPSHARE_VERSION "\ncommit: " WARPSHARE_COMMIT,
        .is_drop_in = true,
};
