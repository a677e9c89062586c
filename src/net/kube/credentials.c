// SPDX-License-Identifier: Apache-2.0
#include "net/kube/credentials.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "net/kube/exec_plugin.h"

bool kube_token_is_plain(const char *text)
{
        while (*text > ' ' && *text <= '~')
                text++;
        return !*text;
}

/* Reads a file, without the newline that editors and secrets put at the end; NULL and an error if it fails. */
static char *credentials_read_word(const char *path, size_t limit, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        char *end;

        if (file_read(path, limit, &text, err) < 0)
                return NULL;
        end = text.data + text.size;
        while (end > text.data && strchr(" \t\r\n", end[-1]))
                *--end = '\0';
        if (!kube_token_is_plain(text.data) || text.data + strlen(text.data) != end) {
                error_raise(err, ERROR_INVALID, "'%s' holds more than one word of plain characters", path);
                return NULL;
        }
        if (end == text.data) {
                error_raise(err, ERROR_INVALID, "'%s' is empty", path);
                return NULL;
        }
        return strbuf_take(&text);
}

int kube_credentials_token(const struct kube_credentials *credentials, char **ret, struct error *err)
{
        char *token;

        if (credentials->token_path)
                token = credentials_read_word(credentials->token_path, KUBE_TOKEN_LIMIT, err);
        else
                token = xstrdup(credentials->token ? credentials->token : "");
        if (!token)
                return error_prefix(err, "token");
        *ret = token;
        return 0;
}

/* ---- the identity ---- */

static char *read_pem(const struct kube_pem *pem, const char *what, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (pem->text || !pem->path)
                return xstrdup(pem->text ? pem->text : "");
        if (file_read(pem->path, KUBE_PEM_LIMIT, &text, err) < 0 ||
                (text.size == 0 && error_set(err, ERROR_INVALID, "'%s' is empty", pem->path) < 0)) {
                error_prefix(err, "%s", what);
                return NULL;
        }
        return xstrdup(text.data);
}

int kube_identity_read(struct kube_identity *ret, const struct kube_credentials *credentials, struct error *err)
{
        struct kube_identity found = {0};
        const bool says_one = credentials->token || credentials->token_path || credentials->certificate.text ||
                              credentials->certificate.path;

        if (credentials->exec && !says_one)
                return exec_plugin_identity(credentials->exec, ret, err);
        if (kube_credentials_token(credentials, &found.token, err) < 0 ||
                !(found.certificate = read_pem(&credentials->certificate, "client certificate", err)) ||
                !(found.key = read_pem(&credentials->key, "client key", err))) {
                kube_identity_done(&found);
                return -1;
        }
        *ret = found;
        return 0;
}

void kube_identity_refused(const struct kube_credentials *credentials, const struct kube_identity *identity)
{
        if (credentials->exec)
                exec_plugin_refused(credentials->exec, identity);
}

/* A certificate is sent only with its key. */
bool kube_identity_is_same(const struct kube_identity *a, const struct kube_identity *b)
{
        return strcmp(a->token, b->token) == 0 && strcmp(a->certificate, b->certificate) == 0;
}

void kube_identity_done(struct kube_identity *identity)
{
        free(identity->token);
        free(identity->certificate);
        free(identity->key);
        *identity = (struct kube_identity){0};
}

/* ---- where they come from ---- */

static int credentials_fail_none(struct error *err)
{
        error_raise(err, ERROR_NOT_FOUND, "no credentials: --kubeconfig, KUBECONFIG, or a service account");
        return KUBE_CREDENTIALS_NONE;
}

/* Reads the files once to find errors before the first request. */
static int credentials_check_account(const struct kube_credentials *credentials, struct error *err)
{
        _free_ char *token = NULL;

        if (kube_credentials_token(credentials, &token, err) < 0)
                return -1;
        if (access(credentials->authority.path, R_OK) < 0)
                return error_errno(err, errno, "open '%s'", credentials->authority.path);
        return 0;
}

int kube_credentials_of_pod(
        struct kube_credentials *ret, const char *host, const char *port, const char *folder, struct error *err)
{
        struct kube_credentials found = {.origin = "service account"};
        struct arena *arena = &found.arena;
        const char *bracket = strchr(host, ':') ? "[" : "";
        _free_ char *scope = NULL;
        struct error ignored;
        uint64_t number;

        if (access(folder, F_OK) < 0)
                return credentials_fail_none(err);
        if (!text_to_uint(port, 65535, &number) || number == 0 || host[strcspn(host, "/@?# \r\n")])
                return error_set(err, ERROR_INVALID,
                        "KUBERNETES_SERVICE_HOST='%.80s' and KUBERNETES_SERVICE_PORT='%.20s' are no host and no port",
                        host, port);
        found.server = arena_printf(arena, "https://%s%s%s:%s", bracket, host, *bracket ? "]" : "", port);
        found.token_path = arena_printf(arena, "%s/token", folder);
        found.authority.path = arena_printf(arena, "%s/ca.crt", folder);
        if (credentials_check_account(&found, err) < 0) {
                kube_credentials_done(&found);
                return error_prefix(err, "service account");
        }
        scope = credentials_read_word(arena_printf(arena, "%s/namespace", folder), 1024, &ignored);
        found.scope = arena_strdup(arena, scope ? scope : "default");
        *ret = found;
        return 0;
}

static int read_file(struct kube_credentials *ret, const char *path, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (file_read(path, KUBE_CONFIG_LIMIT, &text, err) < 0)
                return error_prefix(err, "kubeconfig");
        return kube_credentials_read(ret, path, text.data, text.size, err);
}

int kube_credentials_find(struct kube_credentials *ret, const char *kubeconfig, struct error *err)
{
        const char *host = getenv("KUBERNETES_SERVICE_HOST");
        const char *port = getenv("KUBERNETES_SERVICE_PORT");

        *ret = (struct kube_credentials){0};
        if (kubeconfig && *kubeconfig)
                return read_file(ret, kubeconfig, err);
        if (!host || !*host || !port || !*port)
                return credentials_fail_none(err);
        return kube_credentials_of_pod(ret, host, port, KUBE_SERVICE_ACCOUNT, err);
}

void kube_credentials_done(struct kube_credentials *credentials)
{
        exec_plugin_free(credentials->exec);
        arena_done(&credentials->arena);
        *credentials = (struct kube_credentials){0};
}
