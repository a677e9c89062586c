/*
 * A kubeconfig: named clusters, users and contexts, of which one context is current. Unknown keys (extensions,
 * preferences) are ignored, as in all other clients.
 */
#include <string.h>

#include "base/base64.h"
#include "base/file.h"
#include "base/text.h"
#include "config/yaml.h"
#include "kube/credentials.h"
#include "kube/object.h"

struct reading {
        const struct yaml *yaml;
        const char *folder; /* base of relative paths */
        struct kube_credentials *credentials;
};

/* ---- values ---- */

/* NULL for a missing, null or empty value; client-go treats them the same. */
static int take_text(
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
        if (take_text(reading, object, key, ret, err) < 0)
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
                take_text(reading, object, data_key, &data, err) < 0)
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
static const char *shown(const char *url)
{
        return strchr(url, '@') ? "…@…" : url;
}

/* The entry of that name in a list of {name, <kind>: {…}}; NULL if there is none. */
static const json_t *find_entry(const json_t *root, const char *list, const char *kind, const char *name)
{
        const json_t *entries = json_object_get(root, list);

        for (size_t i = 0; i < json_array_size(entries); i++) {
                const json_t *entry = json_array_get(entries, i);

                if (text_is_same(json_string_value(json_object_get(entry, "name")), name))
                        return json_object_get(entry, kind);
        }
        return NULL;
}

static int missing(const struct reading *reading, const char *what, const char *name, struct error *err)
{
        return yaml_fail(reading->yaml, 0, err, "has no %s '%.80s'", what, name ? name : "");
}

static int read_server(const struct reading *reading, const json_t *cluster, struct error *err)
{
        struct kube_credentials *credentials = reading->credentials;
        int line = yaml_line_of(reading->yaml, cluster, "server");
        const char *server;
        size_t length;

        if (take_text(reading, cluster, "server", &server, err) < 0)
                return -1;
        if (!server)
                return yaml_fail(reading->yaml, yaml_line(reading->yaml, cluster), err, "the cluster has no server");
        length = strlen(server);
        while (length > 0 && server[length - 1] == '/')
                length--;
        credentials->server = arena_strndup(&credentials->arena, server, length);
        if ((!text_starts_with(credentials->server, "https://") && !text_starts_with(credentials->server, "http://")) ||
                credentials->server[strcspn(credentials->server, "?#@ \t\r\n")])
                return yaml_fail(reading->yaml, line, err,
                        "server: '%.80s', must be a URL as https://10.0.0.1:6443, without a user and a query",
                        shown(server));
        return 0;
}

static int read_cluster(const struct reading *reading, const json_t *cluster, struct error *err)
{
        static const char *const schemes[] = {"http://", "https://", "socks5://", "socks5h://"};
        struct kube_credentials *credentials = reading->credentials;
        bool is_known = false;

        if (read_server(reading, cluster, err) < 0 ||
                take_text(reading, cluster, "tls-server-name", &credentials->server_name, err) < 0 ||
                take_text(reading, cluster, "proxy-url", &credentials->proxy, err) < 0 ||
                take_bool(reading, cluster, "insecure-skip-tls-verify", &credentials->insecure, err) < 0 ||
                take_pem(reading, cluster, "certificate-authority", &credentials->authority, err) < 0)
                return -1;
        for (size_t i = 0; credentials->proxy && i < ARRAY_SIZE(schemes); i++)
                is_known |= text_starts_with(credentials->proxy, schemes[i]);
        if (credentials->proxy && !is_known)
                return yaml_fail(reading->yaml, yaml_line_of(reading->yaml, cluster, "proxy-url"), err,
                        "proxy-url: '%.80s', must begin with http://, https://, socks5:// or socks5h://",
                        shown(credentials->proxy));
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

        for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
                const json_t *value = json_object_get(user, refused[i][0]);

                if (value && !json_is_null(value))
                        return yaml_fail(reading->yaml, yaml_line_of(reading->yaml, user, refused[i][0]), err,
                                "%s: %s; use a client certificate, token or tokenFile, or a service account",
                                refused[i][0], refused[i][1]);
        }
        return 0;
}

static int read_user(const struct reading *reading, const json_t *user, struct error *err)
{
        struct kube_credentials *credentials = reading->credentials;

        if (refuse_methods(reading, user, err) < 0 || take_text(reading, user, "token", &credentials->token, err) < 0 ||
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
        if ((credentials->token || credentials->token_path) && !text_starts_with(credentials->server, "https://"))
                return yaml_fail(reading->yaml, yaml_line(reading->yaml, user), err,
                        "a token would go to '%.80s' in clear, the server must be https://…", credentials->server);
        return 0;
}

/* client-go has no default for current-context; with only one context, that one is used. */
static const char *current_context(const json_t *root)
{
        const char *name = json_string_value(json_object_get(root, "current-context"));
        const json_t *contexts = json_object_get(root, "contexts");

        if (name && *name)
                return name;
        return json_array_size(contexts) == 1 ? json_string_value(json_object_get(json_array_get(contexts, 0), "name"))
                                              : NULL;
}

static int read_root(const struct reading *reading, struct error *err)
{
        struct kube_credentials *credentials = reading->credentials;
        const json_t *root = reading->yaml->root;
        const char *name = current_context(root);
        const json_t *context = name ? find_entry(root, "contexts", "context", name) : NULL;
        const char *cluster_name = json_string_value(json_object_get(context, "cluster"));
        const char *user_name = json_string_value(json_object_get(context, "user"));
        const json_t *cluster = cluster_name ? find_entry(root, "clusters", "cluster", cluster_name) : NULL;
        const json_t *user = user_name ? find_entry(root, "users", "user", user_name) : NULL;

        if (!name)
                return yaml_fail(reading->yaml, 0, err, "has no current-context");
        if (!context)
                return missing(reading, "context", name, err);
        if (!cluster)
                return missing(reading, "cluster", cluster_name, err);
        if (user_name && *user_name && !user)
                return missing(reading, "user", user_name, err);
        if (take_text(reading, context, "namespace", &credentials->scope, err) < 0 ||
                read_cluster(reading, cluster, err) < 0 || read_user(reading, user, err) < 0)
                return -1;
        if (!credentials->scope)
                credentials->scope = "default";
        return 0;
}

int kube_credentials_read(
        struct kube_credentials *ret, const char *path, const char *text, size_t size, struct error *err)
{
        _cleanup_(yaml_unloadp) struct yaml *yaml = NULL;
        struct kube_credentials found = {0};
        _free_ char *folder = file_folder(path);

        found.origin = arena_printf(&found.arena, "kubeconfig '%s'", path);
        if (yaml_load(&yaml, found.origin, text, size, NULL, NULL, err) == 0 &&
                read_root(&(struct reading){.yaml = yaml, .folder = folder, .credentials = &found}, err) == 0) {
                *ret = found;
                return 0;
        }
        kube_credentials_done(&found);
        return -1;
}
