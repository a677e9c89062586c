/*
 * A kubeconfig: named clusters, users and contexts, of which one context is current. Unknown keys (extensions,
 * preferences) are ignored, as in all other clients.
 */
#include "net/kube/kubeconfig.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "net/kube/exec_plugin.h"
#include "net/kube/object.h"

struct reading {
        const struct yaml *yaml;
        const char *folder; /* base of relative paths */
        struct kube_credentials *credentials;
        bool may_exec;
};

/* ---- values ---- */

/* NULL for a missing, null or empty value; client-go treats them the same. */
static int kubeconfig_take_text(
        const struct reading *reading, const json_t *object, const char *key, const char **ret, struct error *err)
{
        const json_t *value = json_object_get(object, key);

        *ret = NULL;
        if (!value || json_is_null(value))
                return 0;
        if (!json_is_string(value))
                return yaml_fail(
                        reading->yaml, yaml_line_of(reading->yaml, object, key), err, "%s: must be a string", key);
        if (*json_string_value(value))
                *ret = arena_strdup(&reading->credentials->arena, json_string_value(value));
        return 0;
}

static int take_path(
        const struct reading *reading, const json_t *object, const char *key, const char **ret, struct error *err)
{
        if (kubeconfig_take_text(reading, object, key, ret, err) < 0)
                return -1;
        if (*ret && **ret != '/')
                *ret = arena_printf(&reading->credentials->arena, "%s/%s", reading->folder, *ret);
        return 0;
}

static int take_bool(const struct reading *reading, const json_t *object, const char *key, bool *ret, struct error *err)
{
        const json_t *value = json_object_get(object, key);

        *ret = json_is_true(value);
        if (!value || json_is_null(value) || json_is_boolean(value))
                return 0;
        return yaml_fail(
                reading->yaml, yaml_line_of(reading->yaml, object, key), err, "%s: must be true or false", key);
}

/* "<key>-data" as base64, or the file whose name "<key>" has. */
static int take_pem(
        const struct reading *reading, const json_t *object, const char *key, struct kube_pem *ret, struct error *err)
{
        struct arena *arena = &reading->credentials->arena;
        const char *data_key = arena_printf(arena, "%s-data", key);
        const char *data;
        char *text;
        size_t size;

        if (take_path(reading, object, key, &ret->path, err) < 0 ||
                kubeconfig_take_text(reading, object, data_key, &data, err) < 0)
                return -1;
        if (!data)
                return 0;
        text = arena_alloc(arena, strlen(data) + 1, 1);
        if (!base64_decode(data, strlen(data), (unsigned char *)text, &size) || size == 0 || memchr(text, '\0', size))
                return yaml_fail(reading->yaml, yaml_line_of(reading->yaml, object, data_key), err,
                        "%s: must be PEM in base64", data_key);
        text[size] = '\0';
        *ret = (struct kube_pem){.text = text};
        return 0;
}

/* ---- sections ---- */

/* For messages, which are logged: removes a password from the URL. */
static const char *without_password(const char *url)
{
        return strchr(url, '@') ? "…@…" : url;
}

/* The entry of that name in a list of {name, <kind>: {…}} of the first file that has one; NULL if none has. */
static const json_t *kubeconfig_find_entry(const struct kubeconfig_file *files, size_t n_files, const char *kind,
        const char *name, const struct kubeconfig_file **ret_file)
{
        _free_ char *list = xasprintf("%ss", kind);

        for (size_t k = 0; name && k < n_files; k++) {
                const json_t *entries = json_object_get(files[k].yaml->root, list);

                for (size_t i = 0; i < json_array_size(entries); i++) {
                        const json_t *entry = json_array_get(entries, i);

                        *ret_file = &files[k];
                        if (text_is_same(json_string_value(json_object_get(entry, "name")), name))
                                return json_object_get(entry, kind);
                }
        }
        return NULL;
}

static int fail_missing(const struct kubeconfig_file *files, const char *what, const char *name, struct error *err)
{
        return yaml_fail(files[0].yaml, 0, err, "has no %s '%.80s'", what, name ? name : "");
}

bool kubeconfig_set_server(struct kube_credentials *credentials, const char *server)
{
        size_t length = strlen(server);

        while (length > 0 && server[length - 1] == '/')
                length--;
        credentials->server = arena_strndup(&credentials->arena, server, length);
        return (text_starts_with(credentials->server, "https://") ||
                       text_starts_with(credentials->server, "http://")) &&
               !credentials->server[strcspn(credentials->server, "?#@ \t\r\n")];
}

static int kubeconfig_read_server(const struct reading *reading, const json_t *cluster, struct error *err)
{
        const char *server;

        if (kubeconfig_take_text(reading, cluster, "server", &server, err) < 0)
                return -1;
        if (!server)
                return yaml_fail(reading->yaml, yaml_line(reading->yaml, cluster), err, "the cluster has no server");
        if (!kubeconfig_set_server(reading->credentials, server))
                return yaml_fail(reading->yaml, yaml_line_of(reading->yaml, cluster, "server"), err,
                        "server: '%.80s', must be a URL as https://10.0.0.1:6443, without a user and a query",
                        without_password(reading->credentials->server));
        return 0;
}

static int read_cluster(const struct reading *reading, const json_t *cluster, struct error *err)
{
        static const char *const schemes[] = {"http://", "https://", "socks5://", "socks5h://"};
        struct kube_credentials *credentials = reading->credentials;
        bool is_known = false;

        if (kubeconfig_read_server(reading, cluster, err) < 0 ||
                kubeconfig_take_text(reading, cluster, "tls-server-name", &credentials->server_name, err) < 0 ||
                kubeconfig_take_text(reading, cluster, "proxy-url", &credentials->proxy, err) < 0 ||
                take_bool(reading, cluster, "insecure-skip-tls-verify", &credentials->insecure, err) < 0 ||
                take_pem(reading, cluster, "certificate-authority", &credentials->authority, err) < 0)
                return -1;
        for (size_t i = 0; credentials->proxy && i < ARRAY_SIZE(schemes); i++)
                is_known |= text_starts_with(credentials->proxy, schemes[i]);
        if (credentials->proxy && !is_known)
                return yaml_fail(reading->yaml, yaml_line_of(reading->yaml, cluster, "proxy-url"), err,
                        "proxy-url: '%.80s', must begin with http://, https://, socks5:// or socks5h://",
                        without_password(credentials->proxy));
        if (credentials->server_name && !object_is_name(credentials->server_name))
                return yaml_fail(reading->yaml, yaml_line_of(reading->yaml, cluster, "tls-server-name"), err,
                        "tls-server-name: '%.80s' is no DNS name", credentials->server_name);
        return 0;
}

static int refuse_methods(const struct reading *reading, const json_t *user, struct error *err)
{
        static const char *const refused[][2] = {
                {"exec", "programs that make tokens are not run here"},
                {"auth-provider", "it is gone from Kubernetes since 1.26"},
                {"username", "passwords are gone from Kubernetes since 1.19"},
        };

        for (size_t i = reading->may_exec ? 1 : 0; i < ARRAY_SIZE(refused); i++) {
                const json_t *value = json_object_get(user, refused[i][0]);

                if (value && !json_is_null(value))
                        return yaml_fail(reading->yaml, yaml_line_of(reading->yaml, user, refused[i][0]), err,
                                "%s: %s; use a client certificate, token or tokenFile, or a service account",
                                refused[i][0], refused[i][1]);
        }
        return 0;
}

/* ---- a program that makes credentials ---- */

/* A list of at most |most| items, or NULL. */
static int kubeconfig_take_list(const struct reading *reading, const json_t *exec, const char *key, unsigned int most,
        const json_t **ret, struct error *err)
{
        const json_t *list = json_object_get(exec, key);
        const int line = yaml_line_of(reading->yaml, exec, key);

        if (list && !json_is_null(list) && !json_is_array(list))
                return yaml_fail(reading->yaml, line, err, "%s: must be a list", key);
        if (json_array_size(list) > most)
                return yaml_fail(reading->yaml, line, err, "%s: %zu of them, at most %u are taken", key,
                        json_array_size(list), most);
        *ret = list;
        return 0;
}

static int take_arguments(
        const struct reading *reading, const json_t *exec, struct exec_plugin_spec *spec, struct error *err)
{
        const json_t *list = NULL;

        if (kubeconfig_take_list(reading, exec, "args", EXEC_PLUGIN_ARGUMENTS, &list, err) < 0)
                return -1;
        for (size_t i = 0; i < json_array_size(list); i++) {
                const char *text = json_string_value(json_array_get(list, i));

                if (!text)
                        return yaml_fail(
                                reading->yaml, yaml_line_at(reading->yaml, list, i), err, "args: must be strings");
                spec->arguments[spec->n_arguments++] = arena_strdup(&reading->credentials->arena, text);
        }
        return 0;
}

static int take_variables(
        const struct reading *reading, const json_t *exec, struct exec_plugin_spec *spec, struct error *err)
{
        const json_t *list = NULL;

        if (kubeconfig_take_list(reading, exec, "env", EXEC_PLUGIN_VARIABLES, &list, err) < 0)
                return -1;
        for (size_t i = 0; i < json_array_size(list); i++) {
                const char *name = object_text(json_array_get(list, i), "name", NULL);
                const char *value = object_text(json_array_get(list, i), "value", NULL);

                if (!name || !*name || strchr(name, '=') || !value)
                        return yaml_fail(reading->yaml, yaml_line_at(reading->yaml, list, i), err,
                                "env: must have name and value");
                spec->variables[spec->n_variables++] = arena_printf(&reading->credentials->arena, "%s=%s", name, value);
        }
        return 0;
}

static int take_mode(
        const struct reading *reading, const json_t *exec, struct exec_plugin_spec *spec, struct error *err)
{
        static const char *const modes[] = {
                [EXEC_PLUGIN_NEVER] = "Never",
                [EXEC_PLUGIN_IF_AVAILABLE] = "IfAvailable",
                [EXEC_PLUGIN_ALWAYS] = "Always",
        };
        const char *mode;

        if (kubeconfig_take_text(reading, exec, "interactiveMode", &mode, err) < 0)
                return -1;
        spec->mode = EXEC_PLUGIN_IF_AVAILABLE;
        for (size_t i = 0; mode && i < ARRAY_SIZE(modes); i++)
                if (strcmp(mode, modes[i]) == 0) {
                        spec->mode = (enum exec_plugin_mode)i;
                        return 0;
                }
        if (mode)
                return yaml_fail(reading->yaml, yaml_line_of(reading->yaml, exec, "interactiveMode"), err,
                        "interactiveMode: '%.40s', must be Never, IfAvailable or Always", mode);
        return 0;
}

/*
 * The description of the cluster that the program gets:
 * https://kubernetes.io/docs/reference/config-api/client-authentication.v1/#Cluster
 */
static json_t *describe_cluster(const struct kube_credentials *credentials, const json_t *cluster)
{
        static const char *const copied[] = {
                "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url"};
        const json_t *extensions = json_object_get(cluster, "extensions");
        json_t *described = json_pack("{s:s}", "server", credentials->server);

        for (size_t i = 0; i < ARRAY_SIZE(copied); i++)
                if (json_object_get(cluster, copied[i]))
                        json_object_set(described, copied[i], json_object_get(cluster, copied[i]));
        for (size_t i = 0; i < json_array_size(extensions); i++) {
                const json_t *extension = json_array_get(extensions, i);

                if (text_is_same(object_text(extension, "name", NULL), "client.authentication.k8s.io/exec"))
                        json_object_set(described, "config", json_object_get(extension, "extension"));
        }
        return described;
}

static int read_exec(const struct reading *reading, const json_t *user, const json_t *cluster, struct error *err)
{
        struct kube_credentials *credentials = reading->credentials;
        const json_t *exec = json_object_get(user, "exec");
        const int line = yaml_line_of(reading->yaml, user, "exec");
        struct exec_plugin_spec spec = {0};

        if (!exec || json_is_null(exec))
                return 0;
        if (kubeconfig_take_text(reading, exec, "apiVersion", &spec.api_version, err) < 0 ||
                kubeconfig_take_text(reading, exec, "command", &spec.command, err) < 0 ||
                kubeconfig_take_text(reading, exec, "installHint", &spec.hint, err) < 0 ||
                take_bool(reading, exec, "provideClusterInfo", &spec.wants_cluster, err) < 0 ||
                take_arguments(reading, exec, &spec, err) < 0 || take_variables(reading, exec, &spec, err) < 0 ||
                take_mode(reading, exec, &spec, err) < 0)
                return -1;
        if (!spec.command)
                return yaml_fail(reading->yaml, line, err, "exec: has no command");
        if (!text_is_same(spec.api_version, "client.authentication.k8s.io/v1") &&
                !text_is_same(spec.api_version, "client.authentication.k8s.io/v1beta1"))
                return yaml_fail(reading->yaml, line, err,
                        "exec: apiVersion '%.80s', must be client.authentication.k8s.io/v1 or …/v1beta1",
                        spec.api_version ? spec.api_version : "");
        if (*spec.command != '/' && strchr(spec.command, '/')) /* a name alone is looked up in PATH */
                spec.command = arena_printf(&credentials->arena, "%s/%s", reading->folder, spec.command);
        credentials->exec = exec_plugin_new(&spec, describe_cluster(credentials, cluster));
        return 0;
}

static int read_user(const struct reading *reading, const json_t *user, const json_t *cluster, struct error *err)
{
        struct kube_credentials *credentials = reading->credentials;

        if (refuse_methods(reading, user, err) < 0 || read_exec(reading, user, cluster, err) < 0 ||
                kubeconfig_take_text(reading, user, "token", &credentials->token, err) < 0 ||
                take_path(reading, user, "tokenFile", &credentials->token_path, err) < 0 ||
                take_pem(reading, user, "client-certificate", &credentials->certificate, err) < 0 ||
                take_pem(reading, user, "client-key", &credentials->key, err) < 0)
                return -1;
        for (const char *c = credentials->token ? credentials->token : ""; *c; c++)
                if (*c <= ' ' || *c > '~')
                        return yaml_fail(reading->yaml, yaml_line_of(reading->yaml, user, "token"), err,
                                "token: must be one word of plain characters");
        if ((credentials->certificate.text || credentials->certificate.path) !=
                (credentials->key.text || credentials->key.path))
                return yaml_fail(reading->yaml, yaml_line(reading->yaml, user), err,
                        "client-certificate and client-key: one without the other");
        if ((credentials->token || credentials->token_path || credentials->exec) &&
                !text_starts_with(credentials->server, "https://"))
                return yaml_fail(reading->yaml, yaml_line(reading->yaml, user), err,
                        "a token would go to '%.80s' in clear, the server must be https://…", credentials->server);
        return 0;
}

/* ---- all of it ---- */

/* client-go has no default for current-context; if there is only one context, that one is used. */
static const char *current_context(const struct kubeconfig_file *files, size_t n_files)
{
        const char *only = NULL;
        size_t n_contexts = 0;

        for (size_t k = 0; k < n_files; k++) {
                const char *name = json_string_value(json_object_get(files[k].yaml->root, "current-context"));
                const json_t *contexts = json_object_get(files[k].yaml->root, "contexts");

                if (name && *name)
                        return name;
                n_contexts += json_array_size(contexts);
                if (json_array_size(contexts) == 1)
                        only = json_string_value(json_object_get(json_array_get(contexts, 0), "name"));
        }
        return n_contexts == 1 ? only : NULL;
}

static int kubeconfig_read_all(struct kube_credentials *credentials, const struct kubeconfig_file *files,
        size_t n_files, const struct kubeconfig_names *names, struct error *err)
{
        const char *name = names->context ? names->context : current_context(files, n_files);
        const struct kubeconfig_file *context_file = files;
        const struct kubeconfig_file *cluster_file = files;
        const struct kubeconfig_file *user_file = files;
        const json_t *context = kubeconfig_find_entry(files, n_files, "context", name, &context_file);
        const char *cluster_name = names->cluster ? names->cluster : object_text(context, "cluster", NULL);
        const char *user_name = names->user ? names->user : object_text(context, "user", NULL);
        const json_t *cluster = kubeconfig_find_entry(files, n_files, "cluster", cluster_name, &cluster_file);
        const json_t *user = kubeconfig_find_entry(files, n_files, "user", user_name, &user_file);
        const struct reading of_context = {context_file->yaml, context_file->folder, credentials, false};
        const struct reading of_cluster = {cluster_file->yaml, cluster_file->folder, credentials, false};
        const struct reading of_user = {user_file->yaml, user_file->folder, credentials, names->may_exec};

        credentials->origin = arena_strdup(&credentials->arena, cluster_file->yaml->name);
        if (!name && !names->cluster)
                return yaml_fail(files[0].yaml, 0, err, "has no current-context");
        if (!context && name)
                return fail_missing(files, "context", name, err);
        if (!cluster)
                return fail_missing(files, "cluster", cluster_name, err);
        if (user_name && *user_name && !user)
                return fail_missing(files, "user", user_name, err);
        if (kubeconfig_take_text(&of_context, context, "namespace", &credentials->scope, err) < 0 ||
                read_cluster(&of_cluster, cluster, err) < 0 || read_user(&of_user, user, cluster, err) < 0)
                return -1;
        if (!credentials->scope)
                credentials->scope = "default";
        return 0;
}

int kubeconfig_read(struct kube_credentials *ret, const struct kubeconfig_file *files, size_t n_files,
        const struct kubeconfig_names *names, struct error *err)
{
        struct kube_credentials found = {0};

        if (kubeconfig_read_all(&found, files, n_files, names, err) < 0) {
                kube_credentials_done(&found);
                return -1;
        }
        *ret = found;
        return 0;
}

int kubeconfig_load(struct kubeconfig_file *ret, const char *path, const char *text, size_t size, struct error *err)
{
        _free_ char *name = xasprintf("kubeconfig '%s'", path);
        struct yaml *yaml = NULL;

        if (yaml_load(&yaml, name, text, size, NULL, NULL, err) < 0)
                return -1;
        *ret = (struct kubeconfig_file){.yaml = yaml, .folder = file_folder(path)};
        return 0;
}

void kubeconfig_unload(struct kubeconfig_file *file)
{
        file->yaml = yaml_unload(file->yaml);
        free(file->folder);
        file->folder = NULL;
}

int kube_credentials_read(
        struct kube_credentials *ret, const char *path, const char *text, size_t size, struct error *err)
{
        struct kubeconfig_file file;
        int rc;

        if (kubeconfig_load(&file, path, text, size, err) < 0)
                return -1;
        rc = kubeconfig_read(ret, &file, 1, &(struct kubeconfig_names){0}, err);
        kubeconfig_unload(&file);
        return rc;
}
