// SPDX-License-Identifier: Apache-2.0
/*
 * config-manager: replaces NVIDIA's component of that name, which runs beside the plugin, the MPS control daemon or
 * feature discovery, as init container (--oneshot) and as sidecar. It keeps one file equal to the configuration that
 * the node's label names, and signals the process that reads it.
 *
 * It follows the label and the content of the folder. It validates the chosen configuration, copies it to its
 * destination (node/config/source.h) and then sends the signal, if the content has changed. After a failure the file at
 * the destination stays as it is.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include <warpshare_commit.h>

#include "base/io/worker.h"
#include "base/log.h"
#include "cmd/commands.h"
#include "cmd/nvidia/process_find.h"
#include "config/config.h"
#include "config/go_value.h"
#include "config/word.h"
#include "base/io/loop.h"
#include "node/status/watch.h"
#include "node/config/choice.h"
#include "node/config/source.h"

#define PROGRAM "config-manager"
#define MAX_SIGNAL 64
/* Wait before a retry: a destination that cannot be written, a process that cannot be signalled. */
#define RETRY_MS UINT64_C(5000)

enum own_option { ONESHOT, LABEL, SOURCE, PLACE, DEFAULT, FALLBACKS, SEND_SIGNAL, SIGNAL, PROCESS };

static const struct option own[] = {
        [ONESHOT] =
                COMMAND_FLAG("oneshot", "choose once and end, as an init container does", .environment = {"ONESHOT"}),
        [LABEL] = COMMAND_TEXT("node-label", "nvidia.com/device-plugin.config", "KEY",
                "label of the node that holds the name of its configuration", .environment = {"NODE_LABEL"}),
        [SOURCE] = COMMAND_TEXT("config-file-srcdir", "", "PATH",
                "folder of the configurations: a mounted ConfigMap; needed", .environment = {"CONFIG_FILE_SRCDIR"}),
        [PLACE] = COMMAND_TEXT("config-file-dst", "", "PATH", "file of the chosen configuration; needed",
                .environment = {"CONFIG_FILE_DST"}),
        [DEFAULT] = COMMAND_TEXT("default-config", "", "NAME",
                "configuration of a node without the label, or with a label that names no existing "
                "configuration",
                .environment = {"DEFAULT_CONFIG"}),
        [FALLBACKS] = {.flag = "fallback-strategies",
                .environment = {"FALLBACK_STRATEGIES"},
                .type = OPTION_WORDS, /* not of config_fallback_words: NVIDIA's reads a word only when it is its turn */
                .fallback = "",
                .argument = "LIST",
                .help = "what is used without a default, the first that applies: named (the one called default), "
                        "single (the only one), empty (none at all); other words are ignored with a warning"},
        [SEND_SIGNAL] = {.flag = "send-signal",
                .environment = {"SEND_SIGNAL"},
                .type = OPTION_BOOL,
                .fallback = "true",
                .help = "signal the process when its configuration changed"},
        [SIGNAL] = COMMAND_TEXT("signal", "1", "NUMBER", "the signal; 1 is SIGHUP", .environment = {"SIGNAL"}),
        [PROCESS] = COMMAND_TEXT("process-to-signal", "nvidia-device-plugin", "NAME",
                "the first argument of that process, with or without its folder", .environment = {"PROCESS_TO_SIGNAL"}),
};

struct manager {
        uv_loop_t loop;
        const char *const *values; /* of |own| */
        struct config_rules rules;
        struct option_set check; /* options with which the chosen configuration is validated */
        bool is_oneshot;
        int signal; /* 0: no signal */

        struct kube_client *client;
        struct node_watch *node;
        struct node_label *label;
        struct config_source *source;
        struct signals signals;
        uv_timer_t retry;

        char *applied; /* name of the configuration at the destination; "" for the empty one; NULL: none yet */
        bool owes_signal;
        struct complaint waiting;
        struct complaint misled;
        struct complaint refused;
        struct complaint unplaced;
        struct complaint unsignalled;
        bool is_stopping;
        int status;
};

static void config_manager_stop(struct manager *manager, int status)
{
        if (manager->is_stopping)
                return;
        manager->is_stopping = true;
        manager->status = status;
        signals_close(&manager->signals);
        uv_close((uv_handle_t *)&manager->retry, NULL);
        manager->label = node_label_close(manager->label);
        manager->node = node_watch_close(manager->node);
        manager->source = config_source_close(manager->source);
        manager->client = kube_client_close(manager->client, NULL, NULL);
}

/* ---- validation, before the file is copied ---- */

/*
 * Validates as the plugin will load it, plus the options that the plugin has on its own command line: above all the
 * host's MPS root, without which sharing by MPS is refused.
 */
static int validate(const struct manager *manager, const char *name, const struct strbuf *content, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct config_text text = {.name = name, .text = content->data, .size = content->size};
        const struct config *config;

        return config_build_text(&manager->check, &text, &arena, &config, NULL, NULL, err);
}

static bool place_is_good(const struct manager *manager)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        const char *place = manager->values[PLACE];
        struct error ignored;

        return config_place_read(place, &content, &ignored) == 0 && validate(manager, place, &content, &ignored) == 0;
}

/* An init container without a new configuration lets the pod start with the present file; without one it fails. */
static void end_oneshot(struct manager *manager)
{
        if (!manager->is_oneshot || manager->is_stopping)
                return;
        if (!place_is_good(manager)) {
                config_manager_stop(manager, EXIT_FAILED);
                return;
        }
        log_warn("the previous configuration stays", LOG_STR("file", manager->values[PLACE]));
        config_manager_stop(manager, 0);
}

/* ---- the signal ---- */

static void on_config_manager_retry(uv_timer_t *timer);

/* If the process does not run, it reads the new file when it starts. */
static int send_signal(const struct manager *manager, struct error *err)
{
        const char *name = manager->values[PROCESS];

        for (unsigned int tries = 0; tries < 2; tries++) {
                pid_t pid;
                int rc = process_find(&pid, "", name, err);

                if (rc < 0)
                        return -1;
                if (rc == PROCESS_FIND_NONE)
                        break;
                log_text(LOG_INFO, "Sending signal '%s' to '%s'", strsignal(manager->signal), name);
                if (kill(pid, manager->signal) == 0) {
                        log_info("Successfully sent signal", LOG_INT("pid", pid));
                        return 0;
                }
                if (errno != ESRCH)
                        return error_errno(err, errno, "signal process %d, '%s'", (int)pid, name);
        }
        log_warn("there is no process to signal; it will start with the new configuration", LOG_STR("process", name));
        return 0;
}

static void pay_signal(struct manager *manager)
{
        struct error err;

        if (!manager->owes_signal)
                return;
        if (send_signal(manager, &err) < 0) {
                complain(&manager->unsignalled, "cannot signal the process, will try again", &err);
                uv_timer_start(&manager->retry, on_config_manager_retry, RETRY_MS, 0);
                return;
        }
        manager->owes_signal = false;
        complaint_settle(&manager->unsignalled);
}

/* ---- the choice ---- */

static void config_manager_report(struct complaint *complaint, const char *what, const char *text)
{
        struct error err;

        error_raise(&err, ERROR_NOT_FOUND, "%s", text);
        complain(complaint, what, &err);
}

/* False: it could not be written and must be tried again. */
static bool config_manager_put(struct manager *manager, const char *name, const struct strbuf *content)
{
        _cleanup_(strbuf_done) struct strbuf before = STRBUF_INIT;
        const char *place = manager->values[PLACE];
        struct error err;
        bool is_same;

        is_same = config_place_read(place, &before, &err) == 0 && before.size == content->size &&
                  memcmp(before.data, content->data, content->size) == 0;
        if (is_same && manager->applied && strcmp(manager->applied, name ? name : "") == 0)
                return true;
        if (config_place_put(place, name, content, &err) < 0) {
                complain(&manager->unplaced, "the configuration cannot be put in its place, the previous one stays",
                        &err);
                return false;
        }
        complaint_settle(&manager->unplaced);
        free(manager->applied);
        manager->applied = xstrdup(name ? name : "");
        if (is_same) {
                log_info("Already configured. Skipping update...", LOG_STR("config", name ? name : "(empty)"));
                return true;
        }
        log_text(LOG_INFO, "Successfully updated to config: %s", name ? name : "(empty)");
        manager->owes_signal = manager->signal != 0;
        return true;
}

/* False: the destination does not have the chosen configuration. */
static bool config_manager_follow(struct manager *manager, const struct config_choice *choice)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        struct error err;

        if (choice->kind == CONFIG_CHOICE_NAMED &&
                (config_source_read(manager->source, choice->name, &content, &err) < 0 ||
                        validate(manager, choice->name, &content, &err) < 0)) {
                complain(&manager->refused, "configuration refused, the previous one stays", &err);
                return false;
        }
        complaint_settle(&manager->refused);
        if (config_manager_put(manager, choice->name, &content))
                return true;
        uv_timer_start(&manager->retry, on_config_manager_retry, RETRY_MS, 0);
        return false;
}

/* Called after any change: applies the configuration that is chosen now. */
static void decide(void *data)
{
        struct manager *manager = data;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct config_known known = {.has_label = node_label_is_known(manager->label)};
        struct config_names names;
        struct config_choice choice;
        struct error err;

        if (config_source_list(manager->source, &names, &arena, &err) < 0) {
                complain(&manager->waiting, "waiting for configurations", &err);
                end_oneshot(manager);
                return;
        }
        known.has_names = true;
        known.names = names.names;
        known.n_names = names.count;
        known.label = node_label_value(manager->label);
        choice = config_choose(&manager->rules, &known, &arena);
        if (choice.kind == CONFIG_CHOICE_NONE) {
                if (!known.has_label)
                        return; /* it was logged at the start, and trouble is reported */
                config_manager_report(
                        &manager->waiting, "no configuration can be chosen, the previous one stays", choice.why);
                end_oneshot(manager);
                return;
        }
        complaint_settle(&manager->waiting);
        if (choice.misled)
                config_manager_report(&manager->misled, "falling back", choice.misled);
        else
                complaint_settle(&manager->misled);
        if (!config_manager_follow(manager, &choice)) {
                end_oneshot(manager);
                return;
        }
        pay_signal(manager);
        if (manager->is_oneshot && !manager->owes_signal)
                config_manager_stop(manager, 0);
}

/* ---- events ---- */

static void on_label(void *data)
{
        struct manager *manager = data;
        const char *value = node_label_value(manager->label);

        log_info("label", LOG_STR("key", manager->values[LABEL]), LOG_STR("value", *value ? value : NULL));
        decide(manager);
}

static void on_config_manager_trouble(const struct error *error, void *data)
{
        struct manager *manager = data;

        log_warn("the node's label cannot be read, will try again", LOG_ERR(error));
        if (manager->is_oneshot && place_is_good(manager))
                end_oneshot(manager);
}

static void on_config_manager_retry(uv_timer_t *timer)
{
        struct manager *manager = timer->data;

        pay_signal(manager);
        decide(manager);
}

static void on_config_manager_signal(uv_signal_t *handle, int number)
{
        struct manager *manager = handle->data;

        log_info("signal received", LOG_STR("signal", strsignal(number)));
        if (number == SIGHUP)
                decide(manager);
        else
                config_manager_stop(manager, 0);
}

/* ---- start ---- */

static int config_manager_start(struct manager *manager, const struct option_set *set, struct error *err)
{
        struct node_label_options label = {
                .key = manager->values[LABEL],
                .changed = on_label,
                .trouble = on_config_manager_trouble,
                .data = manager,
        };
        const struct config_source_options source = {
                .loop = &manager->loop, .folder = manager->values[SOURCE], .changed = decide, .data = manager};

        /* Without credentials it exits, as NVIDIA's does, and kubelet restarts the container. */
        if (signals_listen(&manager->signals, &manager->loop, on_config_manager_signal, manager, err) < 0 ||
                kube_client_open(&manager->client, &manager->loop, option_set_value(set, "kubeconfig"), err) != 0 ||
                config_source_new(&manager->source, &source, err) < 0)
                return -1;
        manager->node = node_watch_new(manager->client, option_set_value(set, "node-name"));
        label.watch = manager->node;
        manager->label = node_label_new(&label);
        log_text(LOG_INFO, "Waiting for change to '%s' label", label.key);
        return 0;
}

static void warn_of_fallbacks(const char *list)
{
        while (*list) {
                const size_t length = strcspn(list, ",");
                struct error err;
                size_t position;

                if (length > 0 && word_check(list, length, config_fallback_words, &position, &err) < 0)
                        log_warn("fallback strategy ignored", LOG_ERR(&err));
                list += length;
                list += *list == ',';
        }
}

static int run_manager(struct command_call *call, int number)
{
        const char *const *values = call->values;
        struct manager manager = {
                .values = values,
                .rules = config_rules_of(values[DEFAULT], values[FALLBACKS]),
                .is_oneshot = command_is_set(call, ONESHOT),
                .signal = command_is_set(call, SEND_SIGNAL) ? number : 0,
        };
        struct error err;

        command_setup_log(&call->set, "klog");
        warn_of_fallbacks(values[FALLBACKS]);
        option_set_init(&manager.check, &call->arena);
        /* A value that the plugin takes from its own flags is not required here. */
        manager.check.values[option_find("mps-root")] = "/run/nvidia/mps";
        manager.check.drop_in = true;
        loop_init(&manager.loop);
        uv_timer_init(&manager.loop, &manager.retry);
        manager.retry.data = &manager;
        log_info("Starting config-manager", LOG_STR("version", "Warpshare " WARPSHARE_VERSION));
        if (config_manager_start(&manager, &call->set, &err) < 0) {
                log_error("cannot start", LOG_ERR(&err));
                config_manager_stop(&manager, EXIT_FAILED);
        }
        worker_close_loop(&manager.loop);
        free(manager.applied);
        return manager.status;
}

/* ---- the command line ---- */

static const char *const shared[] = {"kubeconfig", "node-name", "log-level", "log-format", NULL};

static const char help[] =
        "usage: config-manager [OPTION...]\n"
        "\n"
        "Warpshare as a drop-in for the config manager of NVIDIA's k8s-device-plugin: chooses one of a folder of\n"
        "named configurations by the node's label, puts it in one file, and signals the process that reads the\n"
        "file. It watches the label and the folder, validates a configuration before it replaces the file, and\n"
        "keeps the file if that fails. SIGHUP checks label and folder again; SIGTERM ends it. Log lines have\n"
        "klog's format.\n"
        "\n";

static int config_manager_check_values(const struct command_call *call, int64_t *number, struct error *err)
{
        const char *const *values = call->values;
        static const enum own_option needed[] = {LABEL, SOURCE, PLACE};
        const char *text = *values[SIGNAL] ? values[SIGNAL] : own[SIGNAL].fallback; /* charts set it empty */

        if (!*option_set_value(&call->set, "node-name"))
                return error_set(err, ERROR_INVALID, "node-name: is needed, use --node-name or NODE_NAME");
        for (size_t i = 0; i < ARRAY_SIZE(needed); i++)
                if (!*values[needed[i]])
                        return error_set(err, ERROR_INVALID, "%s: is needed, use --%s or %s", own[needed[i]].flag,
                                own[needed[i]].flag, own[needed[i]].environment[0]);
        if (!go_int_parse(text, strlen(text), number) || *number < 1 || *number > MAX_SIGNAL)
                return error_set(err, ERROR_INVALID, "signal: '%.100s' is not a number from 1 to %d", text, MAX_SIGNAL);
        return 0;
}

static int config_manager_run(struct command_call *call, struct error *err)
{
        int64_t number;

        if (config_manager_check_values(call, &number, err) < 0)
                return COMMAND_REFUSED;
        return run_manager(call, (int)number);
}

const struct command command_config_manager = {
        .name = "config-manager",
        .summary = "choose a configuration by the node's label, as a drop-in for NVIDIA's config manager",
        .run = config_manager_run,
        .is_service = true,
        .shared = shared,
        COMMAND_OWN(own),
        .program = PROGRAM,
        .help = help,
        .version = "Config Manager version " WARPSHARE_VERSION "\ncommit: " WARPSHARE_COMMIT,
        .is_drop_in = true,
};
