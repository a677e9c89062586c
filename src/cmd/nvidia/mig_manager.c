// SPDX-License-Identifier: Apache-2.0
/*
 * nvidia-mig-manager: replaces NVIDIA's component of that name in the GPU Operator. It brings the node's GPUs to the
 * MIG configuration that the label nvidia.com/mig.config names (mig/manager.h), beside NVIDIA's device plugin and the
 * Operator's other components:
 *
 *   waiting     their labels nvidia.com/gpu.deploy.… are paused, and their pods of this node are waited for, as long as
 *               WAIT_MS
 *   releasing   with WITH_SHUTDOWN_HOST_GPU_CLIENTS: services of the host that have GPUs opened are stopped
 *   retaking    services and components continue, even if the change failed; the Operator's validation runs again
 *   rebooting   with WITH_REBOOT
 *
 * In the idle state all labels that were paused and services that were stopped are restored, also those of an earlier
 * process.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include <warpshare_commit.h>

#include "base/io/worker.h"
#include "base/file.h"
#include "base/log.h"
#include "cmd/commands.h"
#include "cmd/nvidia/mig_clients.h"
#include "base/io/child.h"
#include "base/io/loop.h"
#include "net/kube/object.h"
#include "mig/run.h"
#include "node/status/mig_labels.h"
#include "node/status/watch.h"

#define PROGRAM "nvidia-mig-manager"
#define POLL_MS UINT64_C(1000)
#define WAIT_MS UINT64_C(300000)
#define RETRY_MS UINT64_C(5000)
#define STATE_FOLDER "/var/lib/warpshare/mig"
#define NAMES_MAX 5U /* of pods, in one text */
#define ARGUMENTS_MAX 16
#define COMPONENT "nvidia-mig-manager"

enum own_option {
        CONFIG_FILE,
        DEFAULT_FILE,
        SCRIPT,
        HOST_ROOT,
        HOST_DIRECTORY,
        HOST_STATE_FILE,
        HOST_KUBELET,
        CLIENTS_FILE,
        REBOOT,
        SHUTDOWN,
        NAMESPACE,
        CDI,
        DRIVER_ROOT,
        DRIVER_ROOT_CTR,
        DEV_ROOT,
        DEV_ROOT_CTR,
        HOOK,
        POD_NAMESPACE,
};

#define PATH_OPTION(name, variable, preset, meaning)                                                                   \
        COMMAND_TEXT(name, preset, "PATH", meaning, .environment = {variable})
#define ACCEPTED "accepted, and not needed"

static const struct option own[] = {
        [CONFIG_FILE] = PATH_OPTION("config-file", "CONFIG_FILE", "",
                "MIG configurations, in the format of mig-parted; empty: one for each profile of the GPUs"),
        [DEFAULT_FILE] = PATH_OPTION("default-config-file", "DEFAULT_CONFIG_FILE", "",
                "MIG configurations where none is given and the driver lists no profiles"),
        [SCRIPT] = PATH_OPTION("reconfigure-script", "RECONFIGURE_SCRIPT", "", ACCEPTED),
        [HOST_ROOT] = PATH_OPTION("host-root-mount", "HOST_ROOT_MOUNT", "/host",
                "where the host's root is mounted here, for its services, a reboot, and what survives one"),
        [HOST_DIRECTORY] = PATH_OPTION("host-nvidia-dir", "HOST_NVIDIA_DIR", "", ACCEPTED),
        [HOST_STATE_FILE] = PATH_OPTION("host-mig-manager-state-file", "HOST_MIG_MANAGER_STATE_FILE",
                "/etc/systemd/system/nvidia-mig-manager.service.d/override.conf",
                "where it is on the host: NVIDIA's service of the host is told the configuration there"),
        [HOST_KUBELET] = PATH_OPTION("host-kubelet-systemd-service", "HOST_KUBELET_SYSTEMD_SERVICE", "",
                "accepted; kubelet has no GPU opened, and goes on"),
        [CLIENTS_FILE] =
                PATH_OPTION("gpu-clients-file", "GPU_CLIENTS_FILE", "", "services of the host that have GPUs opened"),
        [REBOOT] = COMMAND_FLAG("with-reboot", "reboot the node where the driver needs it to change the MIG mode; once",
                .environment = {"WITH_REBOOT"}),
        [SHUTDOWN] = COMMAND_FLAG("with-shutdown-host-gpu-clients",
                "stop the services of --gpu-clients-file during a change",
                .environment = {"WITH_SHUTDOWN_HOST_GPU_CLIENTS"}),
        [NAMESPACE] = COMMAND_TEXT("default-gpu-clients-namespace", "", "NAME",
                "accepted; pods of the components are looked for in every namespace",
                .environment = {"DEFAULT_GPU_CLIENTS_NAMESPACE"}),
        [CDI] = COMMAND_FLAG("cdi-enabled", "accepted; the specification of management devices is not written",
                .environment = {"CDI_ENABLED"}),
        [DRIVER_ROOT] = PATH_OPTION("driver-root", "NVIDIA_DRIVER_ROOT", "", ACCEPTED),
        [DRIVER_ROOT_CTR] = PATH_OPTION("driver-root-ctr-path", "DRIVER_ROOT_CTR_PATH", "/run/nvidia/driver",
                "where the driver root is mounted in this container"),
        [DEV_ROOT] = PATH_OPTION("dev-root", "NVIDIA_DEV_ROOT", "", ACCEPTED),
        [DEV_ROOT_CTR] = PATH_OPTION("dev-root-ctr-path", "DEV_ROOT_CTR_PATH", "", ACCEPTED),
        [HOOK] = PATH_OPTION("nvidia-cdi-hook-path", "NVIDIA_CDI_HOOK_PATH", "", ACCEPTED),
        [POD_NAMESPACE] = COMMAND_TEXT("namespace", "", "NAME",
                "where the Operator runs: its validation runs again after a change, and a ConfigMap has the "
                "configurations; empty: neither",
                .environment = {"POD_NAMESPACE"}),
};

struct mig_program {
        uv_loop_t loop;
        const char *const *values; /* of |own| */
        const char *node_name;
        const char *mig;            /* the program that plans and makes the change */
        const char *const *reading; /* how it reads NVML */
        struct kube_client *client;
        struct node_watch *watch;
        struct node_listener listener;
        json_t *node; /* the newest; NULL: not known */
        struct mig_labels *labels;
        struct mig_run *run; /* NULL: the node is not known yet */
        struct mig_services *services;
        bool has_looked;         /* for the configurations */
        struct child *generator; /* makes them */
        char *generated;         /* NULL: nothing is */
        struct kube_call *map;   /* writes them */
        struct arena arena;      /* of names that last */
        struct kube_call *call;
        uv_timer_t timer;
        uint64_t waiting_since;
        bool has_started_services; /* in the phase that restores */
        struct complaint trouble;
        struct signals signals;
        bool is_stopping;
        int status;
};

static void mig_program_stop(struct mig_program *program, int status)
{
        if (program->is_stopping)
                return;
        program->is_stopping = true;
        program->status = status;
        signals_close(&program->signals);
        uv_close((uv_handle_t *)&program->timer, NULL);
        if (program->generator)
                child_cancel(program->generator);
        program->map = kube_call_cancel(program->map);
        program->run = mig_run_close(program->run);
        program->services = mig_services_close(program->services);
        program->labels = mig_labels_close(program->labels);
        if (program->listener.on_node)
                node_watch_leave(&program->listener);
        program->watch = node_watch_close(program->watch);
        program->call = kube_call_cancel(program->call);
        program->client = kube_client_close(program->client, NULL, NULL);
}

static enum mig_phase phase_of(const struct mig_program *program)
{
        return mig_run_manager(program->run)->phase;
}

static bool mig_manager_is_on(const struct mig_program *program, enum own_option option)
{
        return strcmp(program->values[option], "true") == 0;
}

static void take_node(const json_t *node, void *data)
{
        struct mig_program *program = data;

        json_decref(program->node);
        program->node = node ? json_deep_copy(node) : NULL;
}

static void again(struct mig_program *program, uint64_t ms, uv_timer_cb then)
{
        uv_timer_start(&program->timer, then, ms, 0);
}

/* ---- components of the Operator ---- */

static void patch_components(struct mig_program *program, json_t *patch, kube_done_fn *done)
{
        _free_ char *path = object_path("/api/v1/nodes", program->node_name);

        program->call = kube_client_send(program->client,
                &(struct kube_request){
                        .method = KUBE_MERGE_PATCH, .path = path, .body = patch, .done = done, .data = program});
        json_decref(patch);
}

static void list_pods(struct mig_program *program, kube_done_fn *done)
{
        _cleanup_(strbuf_done) struct strbuf query = STRBUF_INIT;

        strbuf_printf(&query, "fieldSelector=");
        object_escape(&query, "spec.nodeName=");
        object_escape(&query, program->node_name);
        program->call = kube_client_send(program->client, &(struct kube_request){.method = KUBE_GET,
                                                                  .path = "/api/v1/pods",
                                                                  .query = query.data,
                                                                  .done = done,
                                                                  .data = program});
}

static void wait_for_components(uv_timer_t *timer);

static void on_pods(const struct kube_answer *answer, void *data)
{
        _cleanup_(names_done) struct names names = NAMES_INIT(NAMES_MAX);
        struct mig_program *program = data;

        program->call = NULL;
        if (!answer->error)
                mig_clients_name(&names, program->node, json_object_get(answer->object, "items"));
        if (!answer->error && names.count == 0) {
                mig_run_event(program->run, MIG_EVENT_UNHELD, NULL);
                return;
        }
        if (answer->error)
                strbuf_printf(&names.text, "%s", answer->error->text);
        else
                strbuf_printf(&names.text, " %s not ended yet", names.count == 1 ? "has" : "have");
        if (uv_now(&program->loop) - program->waiting_since >= WAIT_MS) {
                mig_run_event(program->run, MIG_EVENT_FAILED, names.text.data);
                return;
        }
        mig_run_explain(program->run, names.text.data);
        again(program, POLL_MS, wait_for_components);
}

static void on_paused(const struct kube_answer *answer, void *data)
{
        struct mig_program *program = data;

        program->call = NULL;
        if (answer->error) {
                mig_run_event(program->run, MIG_EVENT_FAILED, answer->error->text);
                return;
        }
        take_node(answer->object, program);
        list_pods(program, on_pods);
}

static void wait_for_components(uv_timer_t *timer)
{
        struct mig_program *program = timer->data;
        json_t *patch = mig_clients_patch(program->node, true);

        if (patch)
                patch_components(program, patch, on_paused);
        else
                list_pods(program, on_pods);
}

/* ---- everything continues ---- */

static void restore(uv_timer_t *timer);

static void on_validators(const struct kube_answer *answer, void *data)
{
        struct mig_program *program = data;
        const json_t *pods = answer->error ? NULL : json_object_get(answer->object, "items");

        program->call = NULL;
        for (size_t i = 0; i < json_array_size(pods); i++) {
                const json_t *metadata = json_object_get(json_array_get(pods, i), "metadata");
                const char *app = object_text(metadata, "labels", "app", NULL);
                const char *scope = object_text(metadata, "namespace", NULL);
                _free_ char *collection = NULL;
                _free_ char *path = NULL;

                if (!app || !scope || strcmp(app, "nvidia-operator-validator") != 0 ||
                        strcmp(scope, program->values[POD_NAMESPACE]) != 0)
                        continue;
                collection = object_collection("/api/v1", scope, "pods");
                path = object_path(collection, object_text(metadata, "name", NULL));
                (void)kube_client_send(program->client, &(struct kube_request){.method = KUBE_DELETE, .path = path});
        }
        if (phase_of(program) == MIG_RETAKING)
                mig_run_event(program->run, MIG_EVENT_RETAKEN, NULL);
}

static void on_restored(struct mig_program *program)
{
        complaint_settle(&program->trouble);
        if (phase_of(program) != MIG_RETAKING)
                return;
        if (*program->values[POD_NAMESPACE])
                list_pods(program, on_validators);
        else
                mig_run_event(program->run, MIG_EVENT_RETAKEN, NULL);
}

static void on_unpaused(const struct kube_answer *answer, void *data)
{
        struct mig_program *program = data;

        program->call = NULL;
        if (answer->error) {
                complain(&program->trouble, "the Operator's components cannot go on, will try again", answer->error);
                again(program, RETRY_MS, restore);
                return;
        }
        take_node(answer->object, program);
        on_restored(program);
}

static void restore(uv_timer_t *timer)
{
        struct mig_program *program = timer->data;
        json_t *patch;

        if (!program->has_started_services) {
                mig_services_start(program->services);
                return;
        }
        patch = mig_clients_patch(program->node, false);
        if (patch)
                patch_components(program, patch, on_unpaused);
        else
                on_restored(program);
}

/* ---- services of the host ---- */

static void on_services(const struct error *err, void *data)
{
        struct mig_program *program = data;

        switch (phase_of(program)) {
        case MIG_RELEASING:
                mig_run_event(program->run, err ? MIG_EVENT_FAILED : MIG_EVENT_RELEASED, err ? err->text : NULL);
                return;
        case MIG_REBOOTING:
                if (err)
                        mig_run_event(program->run, MIG_EVENT_FAILED, err->text);
                return;
        default:
                program->has_started_services = !err;
                if (err)
                        complain(&program->trouble, "services of the host cannot go on, will try again", err);
                again(program, err ? RETRY_MS : 0, restore);
                return;
        }
}

/* ---- phases ---- */

/* NVIDIA's own service of the host, which applies a configuration at boot. */
static void tell_host(const struct mig_program *program)
{
        _free_ char *path = xasprintf("%s%s", program->values[HOST_ROOT], program->values[HOST_STATE_FILE]);
        _free_ char *text = xasprintf(
                "[Service]\nEnvironment=\"MIG_PARTED_SELECTED_CONFIG=%s\"\n", mig_run_manager(program->run)->config);
        struct error err;

        if (access(path, F_OK) == 0 && file_write(path, text, strlen(text), &err) < 0)
                log_warn("the MIG service of the host keeps its configuration", LOG_ERR(&err));
}

static void mig_manager_on_run_changed(bool has_begun, void *data)
{
        struct mig_program *program = data;
        const struct mig_manager *manager = mig_run_manager(program->run);

        mig_labels_put(program->labels, manager->state, manager->reason);
        if (!has_begun)
                return;
        uv_timer_stop(&program->timer);
        program->call = kube_call_cancel(program->call);
        switch (manager->phase) {
        case MIG_WAITING:
                tell_host(program);
                program->waiting_since = uv_now(&program->loop);
                again(program, 0, wait_for_components);
                break;
        case MIG_RELEASING:
                if (mig_manager_is_on(program, SHUTDOWN))
                        mig_services_stop(program->services);
                else
                        mig_run_event(program->run, MIG_EVENT_RELEASED, NULL);
                break;
        case MIG_RETAKING:
        case MIG_IDLE:
        case MIG_FAILED:
                program->has_started_services = false;
                again(program, 0, restore);
                break;
        case MIG_REBOOTING:
                log_warn("rebooting the node to change the MIG mode");
                mig_services_reboot(program->services);
                break;
        default:
                break;
        }
}

static void on_program_labels(void *data)
{
        struct mig_program *program = data;

        if (program->run && mig_labels_value(program->labels)->is_known)
                mig_run_want(program->run, mig_labels_value(program->labels)->config);
}

/* ---- configurations ---- */

/*
 * The file is the one that is given; else none, since `warpshare mig` generates one configuration for each profile of
 * the GPUs; else, where the driver lists no profiles, the default one. What is generated is written to the ConfigMap
 * <node>-mig-config, as NVIDIA's component does it, for people to read.
 */

static void on_map_replaced(const struct kube_answer *answer, void *data)
{
        struct mig_program *program = data;

        program->map = NULL;
        if (answer->error)
                log_warn("the ConfigMap of generated configurations cannot be written", LOG_ERR(answer->error));
}

static void write_map(struct mig_program *program, enum kube_method method, kube_done_fn *done)
{
        _free_ char *collection = object_collection("/api/v1", program->values[POD_NAMESPACE], "configmaps");
        _free_ char *name = xasprintf("%s-mig-config", program->node_name);
        _free_ char *path = object_path(collection, name);
        json_t *map = json_pack("{s:s, s:s, s:{s:s, s:{s:s, s:s}}, s:{s:s}}", "apiVersion", "v1", "kind", "ConfigMap",
                "metadata", "name", name, "labels", "app.kubernetes.io/component", COMPONENT, "nvidia.com/node-name",
                program->node_name, "data", "config.yaml", program->generated);

        program->map = kube_client_send(program->client, &(struct kube_request){.method = method,
                                                                 .path = method == KUBE_CREATE ? collection : path,
                                                                 .body = map,
                                                                 .done = done,
                                                                 .data = program});
        json_decref(map);
}

static void on_map_created(const struct kube_answer *answer, void *data)
{
        struct mig_program *program = data;

        program->map = NULL;
        if (answer->status == 409)
                write_map(program, KUBE_REPLACE, on_map_replaced);
        else
                on_map_replaced(answer, program);
}

/* |file|: "" for those that are generated. */
static void begin_run(struct mig_program *program, const char *file)
{
        const struct mig_run_options options = {
                .loop = &program->loop,
                .program = program->mig,
                .reading = program->reading,
                .file = file,
                .state_directory = arena_printf(&program->arena, "%s" STATE_FOLDER, program->values[HOST_ROOT]),
                .mode_change = mig_manager_is_on(program, REBOOT) ? "reboot" : "reset",
                .may_reboot = mig_manager_is_on(program, REBOOT),
                .changed = mig_manager_on_run_changed,
                .data = program,
        };

        program->run = mig_run_new(&options);
        mig_run_set_first_state(program->run, mig_labels_value(program->labels)->first_state);
        mig_run_begin(program->run);
        on_program_labels(program);
}

/* Drivers before R550 list no profiles while MIG is off. */
static void on_generated(const struct child_result *result, void *data)
{
        struct mig_program *program = data;
        const char *file = "";

        program->generator = NULL;
        if (result->status == 0 && strstr(result->output, "all-1g."))
                program->generated = xstrdup(result->output);
        else
                file = program->values[DEFAULT_FILE];
        log_info("MIG configurations", LOG_STR("file", *file ? file : "(generated)"));
        if (program->generated && *program->values[POD_NAMESPACE])
                write_map(program, KUBE_CREATE, on_map_created);
        begin_run(program, file);
}

static int begin_generator(struct mig_program *program, struct error *err)
{
        const char *argv[ARGUMENTS_MAX] = {program->mig, "mig", "generate"};
        const struct child_options child = {.argv = argv,
                .environment = (const char *const *)environ,
                .timeout_ms = MIG_PLAN_TIMEOUT_MS,
                .on_end = on_generated,
                .data = program};
        size_t count = 3;

        for (size_t i = 0; program->reading[i] && count < ARGUMENTS_MAX - 1; i++)
                argv[count++] = program->reading[i];
        return child_run(&program->generator, &program->loop, &child, err);
}

static void find_configurations(struct mig_program *program)
{
        const char *file = program->values[CONFIG_FILE];
        struct error err;

        program->has_looked = true;
        if (*file) {
                begin_run(program, file);
        } else if (begin_generator(program, &err) < 0) {
                log_error("cannot start", LOG_ERR(&err));
                mig_program_stop(program, EXIT_FAILED);
        }
}

/* ---- start ---- */

/* Registered after |labels|, which know the node by then. */
static void on_program_synced(void *data)
{
        struct mig_program *program = data;

        if (!program->has_looked)
                find_configurations(program);
}

static void on_program_signal(uv_signal_t *handle, int number)
{
        struct mig_program *program = handle->data;

        log_info("signal received", LOG_STR("signal", strsignal(number)));
        if (number == SIGHUP && program->run)
                mig_run_event(program->run, MIG_EVENT_AGAIN, NULL);
        else if (number != SIGHUP)
                mig_program_stop(program, 0);
}

static int open_services(struct mig_program *program, struct error *err)
{
        struct mig_services_options options = {.loop = &program->loop,
                .host_root = program->values[HOST_ROOT],
                .record = arena_printf(
                        &program->arena, "%s" STATE_FOLDER "/stopped-services", program->values[HOST_ROOT]),
                .done = on_services,
                .data = program};

        if (mig_manager_is_on(program, SHUTDOWN) && *program->values[CLIENTS_FILE] &&
                mig_clients_read(
                        &options.names, &options.n_names, &program->arena, program->values[CLIENTS_FILE], err) < 0)
                return -1;
        program->services = mig_services_new(&options);
        return 0;
}

static int mig_program_start(struct mig_program *program, const struct option_set *set, struct error *err)
{
        struct mig_labels_options labels = {.node = program->node_name, .changed = on_program_labels, .data = program};

        if (signals_listen(&program->signals, &program->loop, on_program_signal, program, err) < 0 ||
                open_services(program, err) < 0 ||
                kube_client_open(&program->client, &program->loop, option_set_value(set, "kubeconfig"), err) != 0)
                return -1;
        program->watch = node_watch_new(program->client, program->node_name);
        labels.client = program->client;
        labels.watch = program->watch;
        program->labels = mig_labels_new(&labels);
        program->listener =
                (struct node_listener){.on_node = take_node, .on_synced = on_program_synced, .data = program};
        node_watch_listen(program->watch, &program->listener);
        log_text(LOG_INFO, "Waiting for change to '%s' label", MIG_CONFIG_LABEL);
        return 0;
}

static int mig_manager_run_program(const struct option_set *set, const char *const *values)
{
        struct mig_program program = {.values = values,
                .node_name = option_set_value(set, "node-name"),
                .mig = *option_set_value(set, "mig-program") ? option_set_value(set, "mig-program") : "/proc/self/exe"};
        struct error err;

        program.reading =
                mig_run_reading(&program.arena, values[DRIVER_ROOT_CTR], option_set_value(set, "nvml-library"));
        command_setup_log(set, "klog");
        loop_init(&program.loop);
        uv_timer_init(&program.loop, &program.timer);
        program.timer.data = &program;
        log_info("Starting " PROGRAM, LOG_STR("version", "Warpshare " WARPSHARE_VERSION));
        if (mig_manager_is_on(&program, CDI))
                log_warn("CDI_ENABLED: the specification of management devices is not written");
        if (mig_program_start(&program, set, &err) < 0) {
                log_error("cannot start", LOG_ERR(&err));
                mig_program_stop(&program, EXIT_FAILED);
        }
        worker_close_loop(&program.loop);
        json_decref(program.node);
        free(program.generated);
        arena_done(&program.arena);
        return program.status;
}

/* ---- the command line ---- */

static const char *const shared[] = {
        "kubeconfig", "node-name", "nvml-library", "mig-program", "log-level", "log-format", NULL};

static const char help[] =
        "usage: nvidia-mig-manager [OPTION...]\n"
        "\n"
        "Warpshare as a drop-in for NVIDIA's MIG manager in the GPU Operator: brings this node's GPUs to the MIG\n"
        "configuration that the node's label nvidia.com/mig.config names, and says in nvidia.com/mig.config.state what\n"
        "became of it. The Operator's components are paused meanwhile, and go on afterwards in any case. What fails is\n"
        "undone, and tried again. SIGHUP looks at the configuration again; SIGTERM ends it, and the next one goes on.\n"
        "\n";

static int mig_program_run(struct command_call *call, struct error *err)
{
        const char *const *values = call->values;

        if (!*option_set_value(&call->set, "node-name"))
                return command_refuse(err, "node-name: is needed, use --node-name or NODE_NAME");
        if (*values[CONFIG_FILE] && access(values[CONFIG_FILE], R_OK) < 0)
                return command_refuse(err, "config-file: '%s' cannot be read", values[CONFIG_FILE]);
        return mig_manager_run_program(&call->set, values);
}

static int mig_program_begin(int argc, char **argv)
{
        if (argc > 1 && strcmp(argv[1], "chroot") == 0) /* a child of ours */
                mig_services_enter(argc - 1, argv + 1);
        return -1;
}

const struct command command_nvidia_mig_manager = {
        .name = "nvidia-mig-manager",
        .summary = "the MIG geometry by the node's label, as a drop-in for NVIDIA's MIG manager",
        .run = mig_program_run,
        .begin = mig_program_begin,
        .is_service = true,
        .shared = shared,
        COMMAND_OWN(own),
        .program = PROGRAM,
        .help = help,
        .version = PROGRAM " version " WARPSHARE_VERSION " (Warpshare)\ncommit: " WARPSHARE_COMMIT,
        .passes_words = true,
        .is_drop_in = true,
};
