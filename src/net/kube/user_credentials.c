#include "net/kube/user_credentials.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "net/kube/exec_plugin.h"
#include "net/kube/kubeconfig.h"
#include "net/kube/object.h"

struct files {
        struct kubeconfig_file items[USER_CREDENTIALS_FILES];
        size_t count;
};

static void files_done(struct files *files)
{
        for (size_t i = 0; i < files->count; i++)
                kubeconfig_unload(&files->items[i]);
}

static const char *user_credentials_or_null(const char *text)
{
        return text && *text ? text : NULL;
}

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
        if (kubeconfig_load(&files->items[files->count], path, text.data, text.size, err) < 0)
                return -1;
        files->count++;
        return 0;
}

static int add_files(
        struct files *files, const struct user_choice *choice, const char *home, const char *list, struct error *err)
{
        _free_ char *rest = NULL;
        char *at;
        const char *path;

        if (user_credentials_or_null(choice->kubeconfig))
                return user_credentials_add_file(files, choice->kubeconfig, true, err);
        if (user_credentials_or_null(list))
                rest = xstrdup(list);
        else if (user_credentials_or_null(home))
                rest = xasprintf("%s/.kube/config", home);
        for (at = rest; (path = strsep(&at, ":"));)
                if (*path && user_credentials_add_file(files, path, false, err) < 0)
                        return -1;
        return 0;
}

/* ---- what the flags say instead ---- */

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
        if (user_credentials_or_null(path))
                *pem = (struct kube_pem){.path = arena_strdup(&credentials->arena, path)};
}

static int apply_choice(struct kube_credentials *credentials, const struct user_choice *choice, struct error *err)
{
        struct arena *arena = &credentials->arena;

        if (check_word("token", choice->token, err) < 0 || check_word("as", choice->as, err) < 0 ||
                check_word("as-group", choice->as_groups, err) < 0)
                return -1;
        if (user_credentials_or_null(choice->server) && !kubeconfig_set_server(credentials, choice->server))
                return error_set(err, ERROR_INVALID,
                        "--server: must be a URL as https://10.0.0.1:6443, without a user and a query");
        if (user_credentials_or_null(choice->server_name) && !object_is_name(choice->server_name))
                return error_set(err, ERROR_INVALID, "--tls-server-name: '%.80s' is no DNS name", choice->server_name);
        if (!user_credentials_or_null(choice->certificate) != !user_credentials_or_null(choice->key))
                return error_set(err, ERROR_INVALID, "--client-certificate and --client-key: one without the other");
        if (user_credentials_or_null(choice->token)) {
                credentials->token = arena_strdup(arena, choice->token);
                credentials->token_path = NULL;
        }
        if (user_credentials_or_null(choice->server_name))
                credentials->server_name = arena_strdup(arena, choice->server_name);
        set_path(credentials, &credentials->authority, choice->authority);
        set_path(credentials, &credentials->certificate, choice->certificate);
        set_path(credentials, &credentials->key, choice->key);
        credentials->insecure |= choice->insecure;
        if (user_credentials_or_null(choice->as))
                credentials->as = arena_strdup(arena, choice->as);
        if (user_credentials_or_null(choice->as_groups))
                set_groups(credentials, choice->as_groups);
        if (credentials->n_as_groups > 0 && !credentials->as)
                return error_set(err, ERROR_INVALID, "--as-group: needs --as");
        if ((credentials->token || credentials->token_path || credentials->exec) &&
                !text_starts_with(credentials->server, "https://"))
                return error_set(err, ERROR_INVALID,
                        "a token would go to '%.80s' in clear, the server must be https://…", credentials->server);
        return 0;
}

/* ---- where they come from ---- */

static int user_credentials_fail_none(struct error *err)
{
        return error_set(err, ERROR_NOT_FOUND,
                "no kubeconfig: --kubeconfig, KUBECONFIG or ~/.kube/config, or a service account in a pod");
}

static int user_credentials_find_credentials(
        struct kube_credentials *ret, const struct files *files, const struct user_choice *choice, struct error *err)
{
        const struct kubeconfig_names names = {.context = user_credentials_or_null(choice->context),
                .cluster = user_credentials_or_null(choice->cluster),
                .user = user_credentials_or_null(choice->user),
                .may_exec = true};
        int rc;

        if (files->count > 0)
                return kubeconfig_read(ret, files->items, files->count, &names, err);
        if (user_credentials_or_null(choice->server)) {
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
                rc = user_credentials_find_credentials(&found, &files, choice, err);
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
