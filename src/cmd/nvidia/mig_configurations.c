#include "cmd/nvidia/mig_configurations.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/io/child.h"
#include "net/kube/object.h"
#include "mig/run.h"

#define COMPONENT "nvidia-mig-manager"
#define ARGUMENTS_MAX 16

struct mig_configurations {
        struct mig_configurations_options options;
        struct child *generator;
        char *generated; /* NULL: nothing is */
        struct kube_call *call;
};

/* ---- the ConfigMap ---- */

static void on_map_replaced(const struct kube_answer *answer, void *data)
{
        struct mig_configurations *configurations = data;

        configurations->call = NULL;
        if (answer->error)
                log_warn("the ConfigMap of generated configurations cannot be written", LOG_ERR(answer->error));
}

static void write_map(struct mig_configurations *configurations, enum kube_method method, kube_done_fn *done)
{
        const struct mig_configurations_options *options = &configurations->options;
        _free_ char *collection = object_collection("/api/v1", options->config_namespace, "configmaps");
        _free_ char *name = xasprintf("%s-mig-config", options->node_name);
        _free_ char *path = object_path(collection, name);
        json_t *map = json_pack("{s:s, s:s, s:{s:s, s:{s:s, s:s}}, s:{s:s}}", "apiVersion", "v1", "kind", "ConfigMap",
                "metadata", "name", name, "labels", "app.kubernetes.io/component", COMPONENT, "nvidia.com/node-name",
                options->node_name, "data", "config.yaml", configurations->generated);

        configurations->call =
                kube_client_send(options->client, &(struct kube_request){.method = method,
                                                          .path = method == KUBE_CREATE ? collection : path,
                                                          .body = map,
                                                          .done = done,
                                                          .data = configurations});
        json_decref(map);
}

static void on_map_created(const struct kube_answer *answer, void *data)
{
        struct mig_configurations *configurations = data;

        configurations->call = NULL;
        if (answer->status == 409)
                write_map(configurations, KUBE_REPLACE, on_map_replaced);
        else
                on_map_replaced(answer, configurations);
}

/* ---- which they are ---- */

/* Drivers before R550 list no profiles while MIG is off. */
static void on_generated(const struct child_result *result, void *data)
{
        struct mig_configurations *configurations = data;
        const struct mig_configurations_options *options = &configurations->options;
        const char *file = "";

        configurations->generator = NULL;
        if (result->status == 0 && strstr(result->output, "all-1g."))
                configurations->generated = xstrdup(result->output);
        else
                file = options->fallback;
        log_info("MIG configurations", LOG_STR("file", *file ? file : "(generated)"));
        if (configurations->generated && *options->config_namespace)
                write_map(configurations, KUBE_CREATE, on_map_created);
        options->found(file, options->data);
}

static int begin_generator(struct mig_configurations *configurations, struct error *err)
{
        const struct mig_configurations_options *options = &configurations->options;
        const char *argv[ARGUMENTS_MAX] = {options->program, "mig", "generate"};
        const struct child_options child = {.argv = argv,
                .environment = (const char *const *)environ,
                .timeout_ms = MIG_PLAN_TIMEOUT_MS,
                .on_end = on_generated,
                .data = configurations};
        size_t count = 3;

        for (size_t i = 0; options->reading[i] && count < ARGUMENTS_MAX - 1; i++)
                argv[count++] = options->reading[i];
        return child_run(&configurations->generator, options->loop, &child, err);
}

int mig_configurations_find(
        struct mig_configurations **ret, const struct mig_configurations_options *options, struct error *err)
{
        struct mig_configurations *configurations = xcalloc(1, sizeof(*configurations));

        configurations->options = *options;
        if (!*options->file && begin_generator(configurations, err) < 0) {
                free(configurations);
                return -1;
        }
        *ret = configurations;
        if (*options->file)
                options->found(options->file, options->data);
        return 0;
}

struct mig_configurations *mig_configurations_close(struct mig_configurations *configurations)
{
        if (!configurations)
                return NULL;
        if (configurations->generator)
                child_cancel(configurations->generator);
        kube_call_cancel(configurations->call);
        free(configurations->generated);
        free(configurations);
        return NULL;
}
