// SPDX-License-Identifier: Apache-2.0
/*
 * A kubeconfig: named clusters, users and contexts, of which one context is current. Unknown keys (extensions,
 * preferences) are ignored, as in all other clients.
 */
#include "net/kube/kubeconfig.h"

#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/data/yaml.h"
#include "base/file.h"
#include "net/kube/exec_plugin.h"
#include "net/kube/object.h"

struct kubeconfig_file {
        struct yaml *yaml;
        char *folder; /* base of relative paths */
};

struct files {
        struct kubeconfig_file items[USER_CREDENTIALS_FILES];
        size_t count; /* at least 1 where they are read */
};

struct reading {
        const struct yaml *yaml;
        const char *folder; /* base of relative paths */
        struct kube_credentials *credentials;
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
static const json_t *kubeconfig_find_entry(
        const struct files *files, const char *kind, const char *name, const struct kubeconfig_file **ret_file)
{
        _free_ char *list = xasprintf("%ss", kind);

        for (size_t k = 0; name && k < files->count; k++) {
                const json_t *entries = json_object_get(files->items[k].yaml->root, list);

                for (size_t i = 0; i < json_array_size(entries); i++) {
                        const json_t *entry = json_array_get(entries, i);

                        *ret_file = &files->items[k];
                        if (text_is_same(json_string_value(json_object_get(entry, "name")), name))
                                return json_object_get(entry, kind);
                }
        }
        return NULL;
}

static int fail_missing(const struct files *files, const char *what, const char *name, struct error *err)
{
        return yaml_fail(files->items[0].yaml, 0, err, "has no %s '%.80s'", what, name ? name : "");
}

/* Sets the server without slashes at its end. False: it is not a URL, or has a user or a query. */
static bool kubeconfig_set_server(struct kube_credentials *credentials, const char *server)
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

static int refuse_methods(const struct reading *reading, const json_t *user, bool may_exec, struct error *err)
{
        static const char *const refused[][2] = {
                {"exec", "programs that make tokens are not run here"},
                {"auth-provider", "it is gone from Kubernetes since 1.26"},
                {"username", "passwords are gone from Kubernetes since 1.19"},
        };

        for (size_t i = may_exec ? 1 : 0; i < ARRAY_SIZE(refused); i++) {
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

static int read_user(
        const struct reading *reading, const json_t *user, const json_t *cluster, bool may_exec, struct error *err)
{
        struct kube_credentials *credentials = reading->credentials;

        if (refuse_methods(reading, user, may_exec, err) < 0 || read_exec(reading, user, cluster, err) < 0 ||
                kubeconfig_take_text(reading, user, "token", &credentials->token, err) < 0 ||
                take_path(reading, user, "tokenFile", &credentials->token_path, err) < 0 ||
                take_pem(reading, user, "client-certificate", &credentials->certificate, err) < 0 ||
                take_pem(reading, user, "client-key", &credentials->key, err) < 0)
                return -1;
        if (credentials->token && !kube_token_is_plain(credentials->token))
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
static const char *current_context(const struct files *files)
{
        const char *only = NULL;
        size_t n_contexts = 0;

        for (size_t k = 0; k < files->count; k++) {
                const char *name = json_string_value(json_object_get(files->items[k].yaml->root, "current-context"));
                const json_t *contexts = json_object_get(files->items[k].yaml->root, "contexts");

                if (name && *name)
                        return name;
                n_contexts += json_array_size(contexts);
                if (json_array_size(contexts) == 1)
                        only = json_string_value(json_object_get(json_array_get(contexts, 0), "name"));
        }
        return n_contexts == 1 ? only : NULL;
}

static const char *or_null(const char *text)
{
        return text && *text ? text : NULL;
}

static int kubeconfig_read_all(struct kube_credentials *credentials, const struct files *files,
        const struct user_choice *choice, struct error *err)
{
        const char *wanted = choice ? or_null(choice->context) : NULL;
        const char *wanted_cluster = choice ? or_null(choice->cluster) : NULL;
        const char *wanted_user = choice ? or_null(choice->user) : NULL;
        const char *name = wanted ? wanted : current_context(files);
        const struct kubeconfig_file *context_file = files->items;
        const struct kubeconfig_file *cluster_file = files->items;
        const struct kubeconfig_file *user_file = files->items;
        const json_t *context = kubeconfig_find_entry(files, "context", name, &context_file);
        const char *cluster_name = wanted_cluster ? wanted_cluster : object_text(context, "cluster", NULL);
        const char *user_name = wanted_user ? wanted_user : object_text(context, "user", NULL);
        const json_t *cluster = kubeconfig_find_entry(files, "cluster", cluster_name, &cluster_file);
        const json_t *user = kubeconfig_find_entry(files, "user", user_name, &user_file);
        const struct reading of_context = {context_file->yaml, context_file->folder, credentials};
        const struct reading of_cluster = {cluster_file->yaml, cluster_file->folder, credentials};
        const struct reading of_user = {user_file->yaml, user_file->folder, credentials};

        credentials->origin = arena_strdup(&credentials->arena, cluster_file->yaml->name);
        if (!name && !wanted_cluster)
                return yaml_fail(files->items[0].yaml, 0, err, "has no current-context");
        if (!context && name)
                return fail_missing(files, "context", name, err);
        if (!cluster)
                return fail_missing(files, "cluster", cluster_name, err);
        if (user_name && *user_name && !user)
                return fail_missing(files, "user", user_name, err);
        if (kubeconfig_take_text(&of_context, context, "namespace", &credentials->scope, err) < 0 ||
                read_cluster(&of_cluster, cluster, err) < 0 ||
                read_user(&of_user, user, cluster, choice != NULL, err) < 0)
                return -1;
        if (!credentials->scope)
                credentials->scope = "default";
        return 0;
}

/*
 * The credentials of several files: as with kubectl the first that has an entry of a name, or a current context,
 * counts. |choice| NULL: no program may make them. |ret| is empty unless 0 is returned.
 */
static int kubeconfig_read(
        struct kube_credentials *ret, const struct files *files, const struct user_choice *choice, struct error *err)
{
        struct kube_credentials found = {0};

        if (kubeconfig_read_all(&found, files, choice, err) < 0) {
                kube_credentials_done(&found);
                return -1;
        }
        *ret = found;
        return 0;
}

/* Adds a file of that text. */
static int files_load(struct files *files, const char *path, const char *text, size_t size, struct error *err)
{
        _free_ char *name = xasprintf("kubeconfig '%s'", path);
        struct yaml *yaml = NULL;

        if (yaml_load(&yaml, name, text, size, NULL, NULL, err) < 0)
                return -1;
        files->items[files->count++] = (struct kubeconfig_file){.yaml = yaml, .folder = file_folder(path)};
        return 0;
}

static void files_done(struct files *files)
{
        for (size_t i = 0; i < files->count; i++) {
                yaml_unload(files->items[i].yaml);
                free(files->items[i].folder);
        }
}

int kube_credentials_read(
        struct kube_credentials *ret, const char *path, const char *text, size_t size, struct error *err)
{
        struct files files = {.count = 0};
        int rc;

        if (files_load(&files, path, text, size, err) < 0)
                return -1;
        rc = kubeconfig_read(ret, &files, NULL, err);
        files_done(&files);
        return rc;
}

/* ---- of a person: the files ---- */

/* |is_needed|: else it does not matter whether it is there. */
static int user_credentials_add_file(struct files *files, const char *path, bool is_needed, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (!is_needed && access(path, F_OK) < 0)
                return 0;
        if (files->count == USER_CREDENTIALS_FILES)
                return error_set(err, ERROR_INVALID, "KUBECONFIG: more than %u files", USER_CREDENTIALS_FILES);
        if (file_read(path, KUBE_CONFIG_LIMIT, &text, err) < 0)
                return error_prefix(err, "kubeconfig");
        return files_load(files, path, text.data, text.size, err);
}

static int add_files(
        struct files *files, const struct user_choice *choice, const char *home, const char *list, struct error *err)
{
        _free_ char *rest = NULL;
        char *at;
        const char *path;

        if (or_null(choice->kubeconfig))
                return user_credentials_add_file(files, choice->kubeconfig, true, err);
        if (or_null(list))
                rest = xstrdup(list);
        else if (or_null(home))
                rest = xasprintf("%s/.kube/config", home);
        for (at = rest; (path = strsep(&at, ":"));)
                if (*path && user_credentials_add_file(files, path, false, err) < 0)
                        return -1;
        return 0;
}

/* ---- of a person: what the flags say instead ---- */

static void set_groups(struct kube_credentials *credentials, const char *groups)
{
        const char **found = ARENA_ARRAY(&credentials->arena, const char *, USER_CREDENTIALS_GROUPS);
        char *at = arena_strdup(&credentials->arena, groups);
        const char *group;

        while ((group = strsep(&at, ",")))
                if (*group && credentials->n_as_groups < USER_CREDENTIALS_GROUPS)
                        found[credentials->n_as_groups++] = group;
        credentials->as_groups = found;
}

/* A header's value. */
static int check_word(const char *flag, const char *text, struct error *err)
{
        if (text && !text_is_clean(text))
                return error_set(err, ERROR_INVALID, "--%s: has a control character or another that is not seen", flag);
        return 0;
}

static void set_path(struct kube_credentials *credentials, struct kube_pem *pem, const char *path)
{
        if (or_null(path))
                *pem = (struct kube_pem){.path = arena_strdup(&credentials->arena, path)};
}

static int apply_choice(struct kube_credentials *credentials, const struct user_choice *choice, struct error *err)
{
        struct arena *arena = &credentials->arena;

        if (check_word("token", choice->token, err) < 0 || check_word("as", choice->as, err) < 0 ||
                check_word("as-group", choice->as_groups, err) < 0)
                return -1;
        if (or_null(choice->server) && !kubeconfig_set_server(credentials, choice->server))
                return error_set(err, ERROR_INVALID,
                        "--server: must be a URL as https://10.0.0.1:6443, without a user and a query");
        if (or_null(choice->server_name) && !object_is_name(choice->server_name))
                return error_set(err, ERROR_INVALID, "--tls-server-name: '%.80s' is no DNS name", choice->server_name);
        if (!or_null(choice->certificate) != !or_null(choice->key))
                return error_set(err, ERROR_INVALID, "--client-certificate and --client-key: one without the other");
        if (or_null(choice->token)) {
                credentials->token = arena_strdup(arena, choice->token);
                credentials->token_path = NULL;
        }
        if (or_null(choice->server_name))
                credentials->server_name = arena_strdup(arena, choice->server_name);
        set_path(credentials, &credentials->authority, choice->authority);
        set_path(credentials, &credentials->certificate, choice->certificate);
        set_path(credentials, &credentials->key, choice->key);
        credentials->insecure |= choice->insecure;
        if (or_null(choice->as))
                credentials->as = arena_strdup(arena, choice->as);
        if (or_null(choice->as_groups))
                set_groups(credentials, choice->as_groups);
        if (credentials->n_as_groups > 0 && !credentials->as)
                return error_set(err, ERROR_INVALID, "--as-group: needs --as");
        if ((credentials->token || credentials->token_path || credentials->exec) &&
                !text_starts_with(credentials->server, "https://"))
                return error_set(err, ERROR_INVALID,
                        "a token would go to '%.80s' in clear, the server must be https://…", credentials->server);
        return 0;
}

/* ---- of a person: all of it ---- */

static int user_credentials_fail_none(struct error *err)
{
        return error_set(err, ERROR_NOT_FOUND,
                "no kubeconfig: --kubeconfig, KUBECONFIG or ~/.kube/config, or a service account in a pod");
}

static int user_credentials_begin(
        struct kube_credentials *ret, const struct files *files, const struct user_choice *choice, struct error *err)
{
        int rc;

        if (files->count > 0)
                return kubeconfig_read(ret, files, choice, err);
        if (or_null(choice->server)) {
                *ret = (struct kube_credentials){.origin = "--server", .scope = "default"};
                return 0;
        }
        rc = kube_credentials_find(ret, NULL, err);
        return rc == KUBE_CREDENTIALS_NONE ? user_credentials_fail_none(err) : rc;
}

int user_credentials_find(struct kube_credentials *ret, const struct user_choice *choice, const char *home,
        const char *list, struct error *err)
{
        struct kube_credentials found = {0};
        struct files files = {.count = 0};
        int rc = add_files(&files, choice, home, list, err);

        if (rc == 0)
                rc = user_credentials_begin(&found, &files, choice, err);
        files_done(&files);
        if (rc < 0)
                return -1;
        if (apply_choice(&found, choice, err) < 0) {
                kube_credentials_done(&found);
                return -1;
        }
        *ret = found;
        return 0;
}
