// SPDX-License-Identifier: Apache-2.0
/*
 * The options of the agent. Names and defaults of those without WARPSHARE_ in the environment are those of NVIDIA's
 * k8s-device-plugin v0.20 (cmd/nvidia-device-plugin/main.go), in the order of its --help.
 */
#include "config/config.h"
#include "config/option.h"
#include "config/word.h"

static const char *const policy_choices[] = {"distributed", "packed", NULL}; /* the first two of placement_words */
static const char *const channel_choices[] = {"0", NULL};
/* In the order of the enums in base/log.h. */
static const char *const level_choices[] = {"debug", "info", "warn", "error", NULL};
static const char *const format_choices[] = {"text", "json", "klog", NULL};

static const unsigned int usage_seconds[] = {0, 1, 5, 15, 30, 60}; /* in the order of usage_words */

/* Rows: flag, member of struct config, default, placeholder and help; the other fields follow by name. */
#define OPTION(name, kind, standard, placeholder, text, ...)                                                           \
        {                                                                                                              \
                .flag = (name), .type = OPTION_##kind, .fallback = (standard), .argument = (placeholder),              \
                .help = (text), __VA_ARGS__                                                                            \
        }
#define INTO(what, to, expected) .member = OPTION_TO_##what, .offset = TYPED_OFFSET(struct config, to, expected)
#define TEXT(name, to, standard, placeholder, text, ...)                                                               \
        OPTION(name, STRING, standard, placeholder, text, INTO(TEXT, to, const char *), __VA_ARGS__)
#define BOOL(name, to, standard, text, ...) OPTION(name, BOOL, standard, NULL, text, INTO(BOOL, to, bool), __VA_ARGS__)
#define BIT(name, to, one, standard, text, ...)                                                                        \
        OPTION(name, BOOL, standard, NULL, text, INTO(BIT, to, unsigned int), .bit = (one), __VA_ARGS__)
#define CHOICE(name, to, words, standard, placeholder, text, ...)                                                      \
        OPTION(name, CHOICE, standard, placeholder, text, .choices = (words), .member = OPTION_TO_NUMBER,              \
                .offset = ENUM_OFFSET(struct config, to), __VA_ARGS__)
#define WORDS(name, to, standard, placeholder, text, ...)                                                              \
        OPTION(name, WORDS, standard, placeholder, text, INTO(WORDS, to, const char *const *), __VA_ARGS__)

const struct option option_table[] = {
        CHOICE("mig-strategy", mig_strategy, mig_strategy_words, "none", "WORD",
                "how GPUs with MIG enabled are advertised: none (as whole GPUs), single (MIG devices as "
                "nvidia.com/gpu) or mixed (MIG devices as nvidia.com/mig-<profile>)",
                .environment = {"MIG_STRATEGY"}, .key = "flags.migStrategy"),
        BOOL("fail-on-init-error", fail_on_init_error, "true",
                "exit when no GPU can be used at start, instead of waiting for one",
                .environment = {"FAIL_ON_INIT_ERROR"}, .key = "flags.failOnInitError"),
        TEXT("driver-root", driver.root, "/", "PATH", "root of the driver installation, on the host",
                .environment = {"NVIDIA_DRIVER_ROOT"}, .aliases = {"nvidia-driver-root"},
                .key = "flags.nvidiaDriverRoot", .grants_root = true),
        TEXT("dev-root", driver.dev_root, "", "PATH", "root of the device nodes, on the host; empty: the driver root",
                .environment = {"NVIDIA_DEV_ROOT"}, .aliases = {"nvidia-dev-root"}, .key = "flags.nvidiaDevRoot",
                .grants_root = true),
        BOOL("pass-device-specs", devices.pass_specs, "false",
                "also name the device nodes to kubelet, which its CPU manager needs",
                .environment = {"PASS_DEVICE_SPECS"}, .key = "flags.plugin.passDeviceSpecs"),
        OPTION("device-list-strategy", LIST, "envvar", "LIST",
                "how a container's GPUs reach the container runtime: any of envvar, volume-mounts, "
                "cdi-annotations and cdi-cri",
                INTO(SET, devices.lists, unsigned int), .choices = device_list_words,
                .environment = {"DEVICE_LIST_STRATEGY"}, .key = "flags.plugin.deviceListStrategy"),
        CHOICE("device-id-strategy", devices.id_strategy, id_strategy_words, "uuid", "WORD",
                "what names a GPU to the container runtime: uuid or index", .environment = {"DEVICE_ID_STRATEGY"},
                .key = "flags.plugin.deviceIDStrategy"),
        BIT("gdrcopy-enabled", devices.extras, EXTRA_GDRCOPY, "false", "give containers the device of GDRCopy, too",
                .environment = {"GDRCOPY_ENABLED"}, .key = "flags.gdrcopyEnabled"),
        BIT("gds-enabled", devices.extras, EXTRA_GDS, "false", "give containers the devices of GPUDirect Storage, too",
                .environment = {"GDS_ENABLED"}, .key = "flags.gdsEnabled"),
        BIT("mofed-enabled", devices.extras, EXTRA_MOFED, "false",
                "give containers the InfiniBand devices of MOFED, too", .environment = {"MOFED_ENABLED"},
                .key = "flags.mofedEnabled"),
        TEXT("cdi-annotation-prefix", cdi.annotation_prefix, "cdi.k8s.io/", "TEXT",
                "prefix of the keys of CDI annotations", .environment = {"CDI_ANNOTATION_PREFIX"},
                .key = "flags.plugin.cdiAnnotationPrefix"),
        TEXT("nvidia-cdi-hook-path", cdi.hook_path, "/usr/bin/nvidia-ctk", "PATH",
                "program of the hooks in CDI specifications, on the host",
                .environment = {"NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"}, .aliases = {"nvidia-ctk-path"},
                .key = "flags.plugin.nvidiaCTKPath", .grants_root = true),
        TEXT("driver-root-ctr-path", driver.mounted_root, "/driver-root", "PATH",
                "where the driver root is mounted in this container",
                .environment = {"DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"}, .aliases = {"container-driver-root"},
                .key = "flags.plugin.containerDriverRoot", .grants_root = true),
        TEXT("mps-root", mps.root, "", "PATH", "directory of pipes, logs and shared memory of MPS, on the host",
                .environment = {"MPS_ROOT"}, .key = "flags.mpsRoot", .grants_root = true),
        TEXT("mps-directory", mps.directory, CONFIG_MPS_DIRECTORY, "PATH",
                "where the directory of MPS is mounted in this container", .environment = {"WARPSHARE_MPS_DIRECTORY"}),
        BOOL("mps-pipes-writable", mps.pipes_writable, "false",
                "let containers write in the pipe directory of MPS, which connecting to a daemon does not need",
                .environment = {"WARPSHARE_MPS_PIPES_WRITABLE"}, .key = "flags.mpsPipesWritable", .grants_root = true,
                .is_quiet = true),
        TEXT("mps-control", mps.control, "nvidia-cuda-mps-control", "PROGRAM",
                "NVIDIA's MPS control program: a path, or a name that is looked up, in the driver root too",
                .environment = {"WARPSHARE_MPS_CONTROL"}),
        OPTION("kubelet-root", STRING, CONFIG_KUBELET_ROOT, "PATH",
                "kubelet's --root-dir, the same path here and on the host: the defaults of --pod-resources-socket, --pods-api-socket, "
                "--kubelet-plugins-registry and --kubelet-plugins are below it. Not that of --kubelet-socket: "
                "kubelet has its folder of device plugins in one place, whatever its root is",
                .environment = {"WARPSHARE_KUBELET_ROOT"}),
        TEXT("pod-resources-socket", kubelet.pod_resources, CONFIG_KUBELET_ROOT "/pod-resources/kubelet.sock", "PATH",
                "kubelet's socket that reports which container holds which devices; empty: not used",
                .environment = {"WARPSHARE_POD_RESOURCES_SOCKET"}, .is_below_kubelet = true),
        TEXT("pods-api-socket", kubelet.pods, CONFIG_KUBELET_ROOT "/pods-api/pods-api.sock", "PATH",
                "kubelet's socket that says what a pod declares (Kubernetes 1.37); without it the API server is asked; "
                "empty: not used",
                .environment = {"WARPSHARE_PODS_API_SOCKET"}, .is_below_kubelet = true),
        CHOICE("shared-devices-allocation-policy", placement, policy_choices, "distributed", "WORD",
                "which replicas are preferred: distributed (emptiest GPU) or packed (fullest GPU)",
                .environment = {"SHARED_DEVICES_ALLOCATION_POLICY"},
                .key = "flags.plugin.sharedDevicesAllocationPolicy"),
        CHOICE("device-discovery-strategy", discovery, discovery_words, "auto", "WORD",
                "how GPUs are found: auto, nvml or tegra", .environment = {"DEVICE_DISCOVERY_STRATEGY"},
                .key = "flags.deviceDiscoveryStrategy"),
        BOOL("device-metadata", devices.metadata, "true",
                "containers with a share get a file that says how large it is, in Kubernetes' form of device metadata "
                "(docs/using-a-share.md); by a program of NVIDIA's name: only if set",
                .environment = {"WARPSHARE_DEVICE_METADATA"}, .key = "flags.deviceMetadata"),
        OPTION("imex-channel-ids", NUMBERS, "", "LIST", "IMEX channels that every container gets: none, or 0",
                INTO(BOOL, devices.has_imex_channel, bool), .choices = channel_choices,
                .environment = {"IMEX_CHANNEL_IDS"}, .key = "imex.channelIDs", .is_quiet = true),
        BOOL("imex-required", devices.imex_required, "false",
                "a missing device of an IMEX channel is an error, instead of a warning",
                .environment = {"IMEX_REQUIRED"}, .key = "imex.required", .is_quiet = true),
        BOOL("dra", dra.enabled, "false",
                "offer GPUs by Dynamic Resource Allocation (docs/dra.md): those that dra.devices of the file "
                "selects, by default all; the others stay with the device plugin; read at start only",
                .environment = {"WARPSHARE_DRA"}, .key = "dra.enabled"),
        TEXT("dra-driver-name", dra.driver_name, "gpu.warpshare.dev", "NAME",
                "name of the DRA driver, which DeviceClasses select by: a DNS subdomain in lower case of at most 63 "
                "characters; read at start only",
                .environment = {"WARPSHARE_DRA_DRIVER_NAME"}, .key = "dra.driverName"),
        BOOL("dra-dynamic-mig", dra.dynamic_mig, "false",
                "make MIG devices for DRA claims on GPUs in MIG mode, and destroy them afterwards",
                .environment = {"WARPSHARE_DRA_DYNAMIC_MIG"}, .key = "dra.dynamicMig"),
        TEXT("dra-instance", dra.instance, "", "UID",
                "UID of this pod, so that two pods of a rolling update have DRA sockets of their own; empty: one "
                "at a time",
                .environment = {"POD_UID"}),
        TEXT("kubelet-plugins-registry", dra.registry, CONFIG_KUBELET_ROOT "/plugins_registry", "PATH",
                "kubelet's folder where DRA drivers register", .environment = {"WARPSHARE_KUBELET_PLUGINS_REGISTRY"},
                .is_below_kubelet = true),
        TEXT("kubelet-plugins", dra.plugins, CONFIG_KUBELET_ROOT "/plugins", "PATH",
                "kubelet's folder for the sockets and the state of DRA drivers: the same path here and on the "
                "host",
                .environment = {"WARPSHARE_KUBELET_PLUGINS"}, .is_below_kubelet = true),
        BOOL("mig-manager", mig.manager, "false",
                "give the GPUs the MIG configuration that the node's label nvidia.com/mig.config names "
                "(docs/mig.md). GPUs that can have MIG and that nobody holds are offered when the label is known and "
                "planned, after 5 minutes at the latest; read at start only",
                .environment = {"WARPSHARE_MIG_MANAGER"}, .key = "mig.manager"),
        TEXT("mig-config-file", mig.file, "", "PATH",
                "MIG configurations, in the format of NVIDIA's mig-parted; empty: one for each profile of the "
                "GPUs; read at start only",
                .environment = {"WARPSHARE_MIG_CONFIG_FILE"}, .key = "mig.configFile"),
        TEXT("mig-default", mig.fallback, "", "NAME",
                "MIG configuration of a node without the label; empty: it is left alone; read at start only",
                .environment = {"WARPSHARE_MIG_DEFAULT"}, .key = "mig.default"),
        TEXT("mig-state-directory", mig.state_directory, "/var/lib/warpshare/mig", "PATH",
                "folder on the host's disk where a change of the MIG geometry is recorded, so that it survives this "
                "process and a reboot",
                .environment = {"WARPSHARE_MIG_STATE_DIRECTORY"}),
        TEXT("mig-program", mig.program, "", "PROGRAM",
                "program that plans and makes the change, called as 'PROGRAM mig plan'; empty: this one",
                .environment = {"WARPSHARE_MIG_PROGRAM"}),
        TEXT("kubelet-socket", kubelet.socket, CONFIG_DEVICE_PLUGINS "/kubelet.sock", "PATH",
                "where to register; empty: never register", .environment = {"KUBELET_SOCKET"}),
        TEXT("config-file", path, "", "PATH", "configuration file, YAML or JSON; read again on every reload",
                .environment = {"CONFIG_FILE"}),
        OPTION("config-keys-from-flags-only", BOOL, "false", NULL,
                "refuse a configuration file that sets a key which decides what runs or is mounted as root "
                "on the node: nvidiaDriverRoot, nvidiaDevRoot, nvidiaCTKPath, containerDriverRoot, mpsRoot "
                "and mpsPipesWritable; they then come from flags and environment alone",
                .environment = {"WARPSHARE_CONFIG_KEYS_FROM_FLAGS_ONLY"}),
        WORDS("cdi-feature-flags", cdi.feature_flags, "", "LIST", "features of CDI specifications to switch on",
                .environment = {"CDI_FEATURE_FLAGS"}),
        WORDS("cdi-disable-hooks", cdi.disable_hooks, "", "LIST",
                "hooks to leave out of CDI specifications; all: every one", .environment = {"CDI_DISABLE_HOOKS"}),
        TEXT("cdi-root", cdi.root, "/var/run/cdi", "PATH", "folder for CDI specifications",
                .environment = {"WARPSHARE_CDI_ROOT"}),
        TEXT("system-root", system_root, "", "PATH",
                "folder below which /dev, /proc and /sys are read, and mpsRoot by doctor; empty: the root",
                .environment = {"WARPSHARE_SYSTEM_ROOT"}),
        TEXT("nvml-library", driver.nvml_library, "", "PATH",
                "libnvidia-ml.so.1 to load; empty: found below the driver root",
                .environment = {"WARPSHARE_NVML_LIBRARY"}),
        TEXT("metrics-address", metrics.address, "", "ADDRESS",
                "where /metrics and /healthz are served, as 127.0.0.1:9400, [::1]:9400 or :9400; empty: nowhere",
                .environment = {"WARPSHARE_METRICS_ADDRESS"}),
        BOOL("metrics-dcgm", metrics.dcgm, "false",
                "also write metrics of GPUs under the names and labels of NVIDIA's dcgm-exporter",
                .environment = {"WARPSHARE_METRICS_DCGM"}),
        CHOICE("metrics-authorization", metrics.authorization, metrics_asked_words, "off", "WHOM",
                "who needs a token to read /metrics and /node, and the right to get that path: off, nobody; remote, clients of other "
                "addresses; all, local ones, too",
                .environment = {"WARPSHARE_METRICS_AUTHORIZATION"}),
        CHOICE("metrics-node-page", metrics.node_page, node_page_words, "local", "WHO",
                "who reads /node where nobody needs a token: local, clients of the node's loopback; open, everybody who reaches the port, "
                "but for the names of processes",
                .environment = {"WARPSHARE_METRICS_NODE_PAGE"}),
        BOOL("metrics-tls", metrics.tls, "false", "serve metrics over TLS; local clients may leave it out",
                .environment = {"WARPSHARE_METRICS_TLS"}),
        TEXT("metrics-tls-certificate", metrics.tls_certificate, "", "PATH",
                "certificate for --metrics-tls, PEM, with its chain; empty: one is made, and signed by itself",
                .environment = {"WARPSHARE_METRICS_TLS_CERTIFICATE"}),
        TEXT("metrics-tls-key", metrics.tls_key, "", "PATH", "its key, PEM",
                .environment = {"WARPSHARE_METRICS_TLS_KEY"}),
        WORDS("metrics-pod-labels", metrics.pod_labels, "", "KEYS",
                "labels of pods that metrics repeat, at most 8: team,app.kubernetes.io/name; the agent then reads the pods of its node",
                .environment = {"WARPSHARE_METRICS_POD_LABELS"}),
        CHOICE("usage-interval", metrics.usage_seconds, usage_words, "5s", "TIME",
                "between readings of who uses what, for /metrics: 1s, 5s, 15s, 30s or 60s; off: none",
                .environment = {"WARPSHARE_USAGE_INTERVAL"}, .values = usage_seconds),
        OPTION("log-level", CHOICE, "info", "WORD", "least level that is logged: debug, info, warn or error",
                INTO(TEXT, log.level, const char *), .choices = level_choices, .environment = {"WARPSHARE_LOG_LEVEL"}),
        OPTION("log-format", CHOICE, "text", "WORD",
                "form of log lines: text, json or klog; klog is the default as nvidia-device-plugin",
                INTO(TEXT, log.format, const char *), .choices = format_choices,
                .environment = {"WARPSHARE_LOG_FORMAT"}),
        OPTION("config-dir", STRING, "", "PATH",
                "folder of named configurations, one of which the node's label chooses: a mounted ConfigMap",
                .environment = {"WARPSHARE_CONFIG_DIR", "CONFIG_FILE_SRCDIR"}),
        OPTION("config-map", STRING, "", "NAME",
                "ConfigMap of named configurations, as namespace/name, read from the API server",
                .environment = {"WARPSHARE_CONFIG_MAP"}),
        OPTION("config-label", STRING, "nvidia.com/device-plugin.config", "KEY",
                "label of the node that holds the name of its configuration",
                .environment = {"WARPSHARE_CONFIG_LABEL", "NODE_LABEL"}),
        OPTION("config-default", STRING, "", "NAME",
                "configuration of nodes without the label, and of nodes with a label that names no existing "
                "configuration",
                .environment = {"WARPSHARE_CONFIG_DEFAULT", "DEFAULT_CONFIG"}),
        OPTION("config-fallback-strategies", LIST, "", "LIST",
                "what is used without a default, the first that applies: named (the one called default), "
                "single (the only one), empty (none at all)",
                .environment = {"WARPSHARE_CONFIG_FALLBACK_STRATEGIES", "FALLBACK_STRATEGIES"},
                .choices = config_fallback_words),
        TEXT("node-name", node.name, "", "NAME", "name of this node in the cluster; empty: the API server is not used",
                .environment = {"NODE_NAME"}),
        TEXT("kubeconfig", node.kubeconfig, "", "PATH",
                "how to reach the API server; empty: as the pod's service account", .environment = {"KUBECONFIG"}),
        BOOL("config-annotations", node.config_annotations, "true",
                "report in annotations of the node which configuration is in force",
                .environment = {"WARPSHARE_CONFIG_ANNOTATIONS"}),
        CHOICE("events", node.events, events_words, "pods", "WORD",
                "for which objects Kubernetes events are created (docs/events.md): none, node, or pods (the "
                "node and the pods concerned, which needs the right to create events in every namespace)",
                .environment = {"WARPSHARE_EVENTS"}),
        TEXT("node-condition", node.condition, "", "TYPE",
                "condition of the node that reports whether it can share a GPU, for example GPUSharingReady; "
                "empty: none",
                .environment = {"WARPSHARE_NODE_CONDITION"}),
        TEXT("node-taint", node.taint, "", "TAINT",
                "taint of the node, as key=value:effect, while it has no GPU to share; empty: none",
                .environment = {"WARPSHARE_NODE_TAINT"}),
        CHOICE("labels-output", node.labels_output, labels_output_words, "none", "WORD",
                "where labels of the node go (docs/labels.md): none, file (for node-feature-discovery to read), "
                "nodefeature (the object that it reads) or node (the node itself, where there is none of it)",
                .environment = {"WARPSHARE_LABELS_OUTPUT"}),
        TEXT("labels-file", node.labels_file, "/etc/kubernetes/node-feature-discovery/features.d/gfd", "PATH",
                "file of the labels, with labels-output file", .environment = {"WARPSHARE_LABELS_FILE"}),
        OPTION("restart-after-crash", CHOICE, "auto", "WORD",
                "whether a parent process starts this one again at once when a signal has ended it: auto (where it is "
                "the first of a container), always or never",
                .environment = {"WARPSHARE_RESTART_AFTER_CRASH"}, .choices = restart_words),
        TEXT("pod-name", node.pod_name, "", "NAME",
                "name of this pod: the objects it publishes belong to its DaemonSet and are deleted with it",
                .environment = {"POD_NAME"}),
};

const struct option option_switches[OPTION_SWITCHES] = {
        [OPTION_CHECK] = {.flag = "check",
                .type = OPTION_BOOL,
                .help = "check the configuration, and exit; no GPU is asked, so what depends on them, such as shares without a "
                        "limit since NVML reports no memory, is what 'warpshare plan' says on the node"},
        [OPTION_PRINT_SCHEMA] = {.flag = "print-schema",
                .type = OPTION_BOOL,
                .help = "print the JSON Schema of the configuration file for editors, and exit"},
        [OPTION_HELP] = {.flag = "help", .aliases = {"h"}, .type = OPTION_BOOL, .help = "show this text"},
        [OPTION_VERSION] = {.flag = "version", .aliases = {"v"}, .type = OPTION_BOOL, .help = "show the version"},
};

const size_t option_count = ARRAY_SIZE(option_table);
