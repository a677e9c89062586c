// SPDX-License-Identifier: Apache-2.0
#include "net/kube/exec_plugin.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/proc.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "net/kube/object.h"

struct exec_plugin {
        struct exec_plugin_spec spec; /* its texts are the owner's */
        json_t *cluster;
        struct kube_identity identity; /* |is_kept| */
        bool is_kept;
        int64_t expires; /* Unix seconds; 0: never */
};

/* ---- what is said ---- */

char *exec_plugin_info(const struct exec_plugin_spec *spec, const json_t *cluster, bool is_interactive)
{
        json_t *info = json_pack("{s:s, s:s, s:{s:b}}", "kind", "ExecCredential", "apiVersion", spec->api_version,
                "spec", "interactive", is_interactive);
        char *text;

        if (spec->wants_cluster && cluster)
                json_object_set_new(json_object_get(info, "spec"), "cluster", json_deep_copy(cluster));
        text = json_dumps(info, JSON_COMPACT);
        json_decref(info);
        return text;
}

static const char *exec_plugin_text_of(const json_t *status, const char *key)
{
        const char *text = json_string_value(json_object_get(status, key));

        return text ? text : "";
}

static int check_status(const json_t *status, int64_t *ret_expires, struct error *err)
{
        const char *token = exec_plugin_text_of(status, "token");
        const char *certificate = exec_plugin_text_of(status, "clientCertificateData");
        const char *key = exec_plugin_text_of(status, "clientKeyData");
        const char *expires = exec_plugin_text_of(status, "expirationTimestamp");

        *ret_expires = 0;
        if (!*token && !*certificate)
                return error_set(err, ERROR_DENIED, "it gave neither a token nor a certificate");
        if (!*certificate != !*key)
                return error_set(err, ERROR_INVALID, "clientCertificateData and clientKeyData: one without the other");
        if (!kube_token_is_plain(token) || strlen(token) > KUBE_TOKEN_LIMIT)
                return error_set(err, ERROR_INVALID, "token: must be one word of plain characters, at most %zu bytes",
                        KUBE_TOKEN_LIMIT);
        if (*expires && !object_read_time(expires, ret_expires))
                return error_set(err, ERROR_INVALID, "expirationTimestamp: '%.40s' is no time, as 2026-11-22T13:00:00Z",
                        expires);
        return 0;
}

int exec_plugin_read(const struct exec_plugin_spec *spec, const char *text, size_t size, struct kube_identity *ret,
        int64_t *ret_expires, struct error *err)
{
        json_error_t problem;
        json_t *root = json_loadb(text, size, 0, &problem);
        const json_t *status = json_object_get(root, "status");
        int rc = -1;

        if (!json_is_object(root) || !text_is_same(json_string_value(json_object_get(root, "kind")), "ExecCredential"))
                error_raise(err, ERROR_INVALID, "what it printed is no ExecCredential");
        else if (!text_is_same(json_string_value(json_object_get(root, "apiVersion")), spec->api_version))
                error_raise(err, ERROR_INVALID, "apiVersion: '%.80s', must be %s as in the kubeconfig",
                        exec_plugin_text_of(root, "apiVersion"), spec->api_version);
        else
                rc = check_status(status, ret_expires, err);
        if (rc == 0)
                *ret = (struct kube_identity){.token = xstrdup(exec_plugin_text_of(status, "token")),
                        .certificate = xstrdup(exec_plugin_text_of(status, "clientCertificateData")),
                        .key = xstrdup(exec_plugin_text_of(status, "clientKeyData"))};
        json_decref(root);
        return rc;
}

/* ---- the program ---- */

/* Ours, with what the kubeconfig adds or replaces; the texts are borrowed, but for |info|. */
static char **exec_plugin_make_environment(const struct exec_plugin_spec *spec, const char *info)
{
        char **environment;
        size_t count = 0;
        size_t n = 0;

        while (environ[n])
                n++;
        environment = xcalloc(n + spec->n_variables + 2, sizeof(*environment));
        for (size_t i = 0; i < n; i++) {
                const size_t length = strcspn(environ[i], "=") + 1;
                bool is_replaced = strncmp(environ[i], "KUBERNETES_EXEC_INFO=", length) == 0;

                for (size_t j = 0; j < spec->n_variables; j++)
                        is_replaced |= strncmp(environ[i], spec->variables[j], length) == 0;
                if (!is_replaced)
                        environment[count++] = environ[i];
        }
        for (size_t j = 0; j < spec->n_variables; j++)
                environment[count++] = (char *)(uintptr_t)spec->variables[j];
        environment[count] = (char *)(uintptr_t)info;
        return environment;
}

static int plugin_start(const struct exec_plugin_spec *spec, char *const *environment, bool is_interactive, int output,
        pid_t *ret, struct error *err)
{
        const char *arguments[EXEC_PLUGIN_ARGUMENTS + 2] = {spec->command};
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        sigset_t none;
        sigset_t all;
        int rc;

        memcpy(arguments + 1, spec->arguments, spec->n_arguments * sizeof(*arguments));
        sigemptyset(&none);
        sigfillset(&all);
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
        if (!is_interactive)
                posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, output, 1);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        rc = posix_spawnp(ret, spec->command, &actions, &attributes, (char *const *)(uintptr_t)arguments, environment);
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
        if (rc != 0 && spec->hint)
                return error_set(err, ERROR_NOT_FOUND, "%s: %.300s", strerror(rc), spec->hint);
        return rc == 0 ? 0 : error_errno(err, rc, "start it");
}

static int read_output(int fd, uint64_t deadline_ms, struct strbuf *text, struct error *err)
{
        const uint64_t end = clock_now_ms() + deadline_ms;

        for (;;) {
                const uint64_t now = clock_now_ms();
                struct pollfd ready = {.fd = fd, .events = POLLIN};
                char bytes[4096];
                ssize_t count;

                if (now >= end)
                        return error_set(
                                err, ERROR_TIMEOUT, "it has said nothing for %ju s", (uintmax_t)(deadline_ms / 1000));
                if (text->size > EXEC_PLUGIN_LIMIT)
                        return error_set(err, ERROR_INVALID, "it printed more than %zu bytes", EXEC_PLUGIN_LIMIT);
                if (poll(&ready, 1, (int)(end - now)) <= 0)
                        continue;
                count = read(fd, bytes, sizeof(bytes));
                if (count < 0 && errno == EINTR)
                        continue;
                if (count <= 0)
                        return 0;
                strbuf_append(text, bytes, (size_t)count);
        }
}

/* Runs the program; |text| gets what it printed if it ended with status 0. */
static int plugin_run(const struct exec_plugin_spec *spec, const char *info, bool is_interactive, struct strbuf *text,
        struct error *err)
{
        _free_ char **environment = exec_plugin_make_environment(spec, info);
        _close_ int output = -1;
        int ends[2];
        int status = 0;
        pid_t pid;
        int rc;

        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_errno(err, errno, "make a pipe");
        output = ends[0];
        rc = plugin_start(spec, environment, is_interactive, ends[1], &pid, err);
        close(ends[1]);
        if (rc < 0)
                return -1;
        rc = read_output(output, is_interactive ? 5 * EXEC_PLUGIN_DEADLINE_MS : EXEC_PLUGIN_DEADLINE_MS, text, err);
        if (rc == 0 && !child_has_ended(pid, &status, EXEC_PLUGIN_END_MS))
                rc = error_set(err, ERROR_TIMEOUT, "it has closed its output and not ended within %ju s",
                        (uintmax_t)(EXEC_PLUGIN_END_MS / 1000));
        if (rc < 0) {
                kill(pid, SIGKILL);
                while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                        ;
                return -1;
        }
        if (WIFSIGNALED(status))
                return error_set(err, ERROR_DENIED, "it was ended by signal %d", WTERMSIG(status));
        if (WEXITSTATUS(status) != 0)
                return error_set(err, ERROR_DENIED, "it ended with status %d", WEXITSTATUS(status));
        return 0;
}

static int plugin_renew(struct exec_plugin *plugin, struct error *err)
{
        const bool is_interactive = plugin->spec.mode != EXEC_PLUGIN_NEVER && isatty(STDIN_FILENO);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *info = exec_plugin_info(&plugin->spec, plugin->cluster, is_interactive);
        _free_ char *variable = xasprintf("KUBERNETES_EXEC_INFO=%s", info);

        if (plugin->spec.mode == EXEC_PLUGIN_ALWAYS && !is_interactive)
                return error_set(err, ERROR_DENIED,
                        "it wants to ask somebody (interactiveMode: Always), and standard input "
                        "is no terminal");
        if (plugin_run(&plugin->spec, variable, is_interactive, &text, err) < 0)
                return -1;
        kube_identity_done(&plugin->identity);
        plugin->is_kept =
                exec_plugin_read(&plugin->spec, text.data, text.size, &plugin->identity, &plugin->expires, err) == 0;
        return plugin->is_kept ? 0 : -1;
}

/* ---- the plugin ---- */

struct exec_plugin *exec_plugin_new(const struct exec_plugin_spec *spec, json_t *cluster)
{
        struct exec_plugin *plugin = xcalloc(1, sizeof(*plugin));

        plugin->spec = *spec;
        plugin->cluster = cluster;
        return plugin;
}

struct exec_plugin *exec_plugin_free(struct exec_plugin *plugin)
{
        if (!plugin)
                return NULL;
        json_decref(plugin->cluster);
        kube_identity_done(&plugin->identity);
        free(plugin);
        return NULL;
}

int exec_plugin_identity(struct exec_plugin *plugin, struct kube_identity *ret, struct error *err)
{
        if (plugin->is_kept && plugin->expires && plugin->expires <= (int64_t)time(NULL))
                plugin->is_kept = false;
        if (!plugin->is_kept && plugin_renew(plugin, err) < 0)
                return error_prefix(err, "credentials from '%.100s'", plugin->spec.command);
        *ret = (struct kube_identity){.token = xstrdup(plugin->identity.token),
                .certificate = xstrdup(plugin->identity.certificate),
                .key = xstrdup(plugin->identity.key)};
        return 0;
}

void exec_plugin_refused(struct exec_plugin *plugin, const struct kube_identity *identity)
{
        if (plugin->is_kept && kube_identity_is_same(&plugin->identity, identity))
                plugin->is_kept = false;
}
