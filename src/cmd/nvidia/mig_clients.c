// SPDX-License-Identifier: Apache-2.0
#include "cmd/nvidia/mig_clients.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/data/yaml.h"
#include "base/file.h"
#include "base/io/child.h"
#include "base/log.h"
#include "base/text.h"
#include "net/kube/object.h"

/* ---- components of the Operator, and the file of services ---- */

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

/* ---- services ---- */

#define TIMEOUT_MS UINT64_C(120000)
#define RECORD_MAX ((size_t)64 * 1024)
#define EXIT_ENTER 126 /* as shells have it: it cannot be executed */

struct mig_services {
        struct mig_services_options options;
        struct arena arena; /* of the names that are stopped */
        const char *stopped[MIG_CLIENTS_SERVICES_MAX];
        size_t n_stopped;
        struct child *child;
        const char *what; /* for errors */
};

/* ---- the child ---- */

void mig_services_enter(int argc, char **argv)
{
        if (argc < 3)
                _exit(EXIT_ENTER);
        if (strcmp(argv[1], "/") != 0 && (chroot(argv[1]) < 0 || chdir("/") < 0)) {
                fprintf(stderr, "enter '%s': %s\n", argv[1], strerror(errno));
                _exit(EXIT_ENTER);
        }
        execvp(argv[2], argv + 2);
        fprintf(stderr, "run '%s': %s\n", argv[2], strerror(errno));
        _exit(EXIT_ENTER); /* what would run at the end expects /proc, which the host's root may not have here */
}

static void services_done(struct mig_services *services, const struct error *err)
{
        services->options.done(err, services->options.data);
}

static int run(struct mig_services *services, const char *const *command, const char *const *names, size_t n_names,
        void (*on_end)(const struct child_result *result, void *data), struct error *err)
{
        const char *argv[MIG_CLIENTS_SERVICES_MAX + 8] = {
                "/proc/self/exe", "nvidia-mig-manager", "chroot", services->options.host_root};
        size_t count = 4;
        const struct child_options options = {.argv = argv,
                .environment = (const char *const *)environ,
                .timeout_ms = TIMEOUT_MS,
                .on_end = on_end,
                .data = services};

        for (size_t i = 0; command[i]; i++)
                argv[count++] = command[i];
        for (size_t i = 0; i < n_names; i++)
                argv[count++] = names[i];
        services->what = command[1] ? command[1] : command[0];
        return child_run(&services->child, services->options.loop, &options, err);
}

static void on_services_end(const struct child_result *result, void *data)
{
        struct mig_services *services = data;
        struct error err;

        services->child = NULL;
        if (result->status == 0) {
                services_done(services, NULL);
                return;
        }
        error_raise(&err, ERROR_UNAVAILABLE, "'%s' on the host failed: %.200s", services->what,
                result->timed_out ? "it did not end in time" : result->output);
        services_done(services, &err);
}

static void services_run(struct mig_services *services, const char *const *command, const char *const *names,
        size_t n_names, void (*on_end)(const struct child_result *result, void *data))
{
        struct error err;

        if (run(services, command, names, n_names, on_end, &err) < 0)
                services_done(services, &err);
}

/* ---- what is stopped ---- */

static void add_stopped(struct mig_services *services, const char *name)
{
        for (size_t i = 0; i < services->n_stopped; i++)
                if (strcmp(services->stopped[i], name) == 0)
                        return;
        if (services->n_stopped < MIG_CLIENTS_SERVICES_MAX)
                services->stopped[services->n_stopped++] = arena_strdup(&services->arena, name);
}

/* Only names of the list: the file alone starts nothing. */
static void read_stopped(struct mig_services *services)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;
        char *rest = NULL;

        if (file_read_private(services->options.record, RECORD_MAX, &text, &err) < 0)
                return;
        for (char *name = strtok_r(text.data, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest))
                for (size_t i = 0; i < services->options.n_names; i++)
                        if (strcmp(services->options.names[i], name) == 0)
                                add_stopped(services, name);
}

static int write_stopped(const struct mig_services *services, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *folder = file_folder(services->options.record);

        for (size_t i = 0; i < services->n_stopped; i++)
                strbuf_printf(&text, "%s\n", services->stopped[i]);
        if (file_make_folder(folder, err) < 0)
                return -1;
        return file_write_durable(services->options.record, text.data, text.size, err);
}

/* One line for each name, in its order; the exit status is not 0 if one of them does not run. */
static void on_states(const struct child_result *result, void *data)
{
        static const char *const stop[] = {"systemctl", "stop", NULL};
        struct mig_services *services = data;
        _free_ char *text = xstrdup(result->output);
        char *rest = NULL;
        size_t position = 0;
        struct error err;

        services->child = NULL;
        if (result->status < 0 || result->status == EXIT_ENTER) {
                on_services_end(result, services);
                return;
        }
        for (char *state = strtok_r(text, "\n", &rest); state && position < services->options.n_names;
                state = strtok_r(NULL, "\n", &rest), position++)
                if (strcmp(state, "active") == 0)
                        add_stopped(services, services->options.names[position]);
        if (services->n_stopped == 0) {
                services_done(services, NULL);
                return;
        }
        for (size_t i = 0; i < services->n_stopped; i++)
                log_info("stopping a service of the host", LOG_STR("service", services->stopped[i]));
        if (write_stopped(services, &err) < 0)
                services_done(services, &err);
        else
                services_run(services, stop, services->stopped, services->n_stopped, on_services_end);
}

void mig_services_stop(struct mig_services *services)
{
        static const char *const ask[] = {"systemctl", "is-active", NULL};

        if (services->child)
                child_cancel(TAKE_PTR(services->child));
        if (services->options.n_names == 0)
                services_done(services, NULL);
        else
                services_run(services, ask, services->options.names, services->options.n_names, on_states);
}

static void on_services_started(const struct child_result *result, void *data)
{
        struct mig_services *services = data;

        if (result->status == 0) {
                services->n_stopped = 0;
                arena_done(&services->arena);
                (void)unlink(services->options.record);
        }
        on_services_end(result, services);
}

void mig_services_start(struct mig_services *services)
{
        static const char *const start[] = {"systemctl", "start", NULL};

        if (services->child)
                child_cancel(TAKE_PTR(services->child));
        if (services->n_stopped == 0)
                services_done(services, NULL);
        else
                services_run(services, start, services->stopped, services->n_stopped, on_services_started);
}

void mig_services_reboot(struct mig_services *services)
{
        static const char *const reboot[] = {"reboot", NULL};

        if (services->child)
                child_cancel(TAKE_PTR(services->child));
        services_run(services, reboot, NULL, 0, on_services_end);
}

struct mig_services *mig_services_new(const struct mig_services_options *options)
{
        struct mig_services *services = xcalloc(1, sizeof(*services));

        services->options = *options;
        read_stopped(services);
        return services;
}

struct mig_services *mig_services_close(struct mig_services *services)
{
        if (!services)
                return NULL;
        if (services->child)
                child_cancel(services->child);
        arena_done(&services->arena);
        free(services);
        return NULL;
}
