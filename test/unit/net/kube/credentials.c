// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "net/kube/credentials.h"

#define CONFIG_WITH(cluster, user)                                                                                     \
        "current-context: c\n"                                                                                         \
        "contexts: [{name: other, context: {}}, {name: c, context: {cluster: k, user: u, namespace: gpu}}]\n"          \
        "clusters: [{name: k, cluster: {" cluster "}}]\n"                                                              \
        "users: [{name: u, user: {" user "}}]\n"

#define NONE "no credentials: --kubeconfig, KUBECONFIG, or a service account"

static int read_config(struct kube_credentials *ret, const char *text, struct error *err)
{
        return kube_credentials_read(ret, "/etc/kube/config", text, strlen(text), err);
}

static void test_a_kubeconfig_is_read_as_written(void **state UNUSED)
{
        struct kube_credentials found;
        struct error err;

        assert_ok(read_config(&found,
                          CONFIG_WITH("server: 'https://[fd00::1]:6443/k8s/', certificate-authority: ca.crt, "
                                      "tls-server-name: kubernetes, proxy-url: 'http://10.0.0.9:3128'",
                                  "client-certificate: /pki/c.crt, client-key: keys/c.key, tokenFile: token"),
                          &err),
                &err);
        assert_string_equal(found.origin, "kubeconfig '/etc/kube/config'");
        assert_string_equal(found.server, "https://[fd00::1]:6443/k8s");
        assert_string_equal(found.scope, "gpu");
        assert_string_equal(found.authority.path, "/etc/kube/ca.crt");
        assert_string_equal(found.certificate.path, "/pki/c.crt");
        assert_string_equal(found.key.path, "/etc/kube/keys/c.key");
        assert_string_equal(found.token_path, "/etc/kube/token");
        assert_string_equal(found.server_name, "kubernetes");
        assert_string_equal(found.proxy, "http://10.0.0.9:3128");
        assert_false(found.insecure);
        assert_null(found.token);
        kube_credentials_done(&found);
}

static void test_data_wins_over_files(void **state UNUSED)
{
        struct kube_credentials found;
        struct error err;

        assert_ok(read_config(&found,
                          CONFIG_WITH("server: 'https://a', certificate-authority: ca.crt, "
                                      "certificate-authority-data: UEVNIG9mIGEgQ0E=",
                                  "client-certificate-data: Y2VydA==, client-key-data: a2V5, token: t"),
                          &err),
                &err);
        assert_string_equal(found.authority.text, "PEM of a CA");
        assert_null(found.authority.path);
        assert_string_equal(found.certificate.text, "cert");
        assert_string_equal(found.key.text, "key");
        assert_string_equal(found.token, "t");
        kube_credentials_done(&found);
}

static void test_json_is_read_as_well_and_one_context_needs_no_name(void **state UNUSED)
{
        struct kube_credentials found;
        struct error err;

        assert_ok(read_config(&found,
                          "{\"contexts\": [{\"name\": \"c\", \"context\": {\"cluster\": \"k\"}}], "
                          "\"clusters\": [{\"name\": \"k\", \"cluster\": {\"server\": \"http://127.0.0.1:8001\", "
                          "\"insecure-skip-tls-verify\": true}}]}",
                          &err),
                &err);
        assert_string_equal(found.server, "http://127.0.0.1:8001");
        assert_string_equal(found.scope, "default");
        assert_true(found.insecure);
        kube_credentials_done(&found);
}

#define WHERE "kubeconfig '/etc/kube/config'"
#define OTHERWISE "; use a client certificate, token or tokenFile, or a service account"

static void test_what_cannot_be_used_is_named(void **state UNUSED)
{
        static const struct {
                const char *config;
                const char *text;
        } table[] = {
                {"", WHERE ": has no current-context"},
                {"contexts: [{name: a}, {name: b}]", WHERE ": has no current-context"},
                {"current-context: x\ncontexts: [{name: c, context: {}}]", WHERE ": has no context 'x'"},
                {"current-context: c\ncontexts: [{name: c, context: {cluster: k}}]", WHERE ": has no cluster 'k'"},
                {"current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
                 "clusters: [{name: k, cluster: {server: 'https://a'}}]",
                        WHERE ": has no user 'u'"},
                {CONFIG_WITH("", ""), WHERE " line 3: the cluster has no server"},
                {CONFIG_WITH("server: 7", ""), WHERE " line 3: server: must be a string"},
                {CONFIG_WITH("server: '10.0.0.1:6443'", ""), WHERE
                        " line 3: server: '10.0.0.1:6443', must be a URL as https://10.0.0.1:6443, without a user "
                        "and a query"},
                {CONFIG_WITH("server: 'https://u:p@a'", ""),
                        WHERE " line 3: server: '…@…', must be a URL as https://10.0.0.1:6443, without a user "
                              "and a query"},
                {CONFIG_WITH("server: 'https://a', proxy-url: 'ftp://b'", ""),
                        WHERE " line 3: proxy-url: 'ftp://b', must begin with http://, https://, socks5:// or "
                              "socks5h://"},
                {CONFIG_WITH("server: 'https://a', proxy-url: 'u:p@b:3128'", ""),
                        WHERE " line 3: proxy-url: '…@…', must begin with http://, https://, socks5:// or "
                              "socks5h://"},
                {CONFIG_WITH("server: 'https://a', tls-server-name: 'a b'", ""),
                        WHERE " line 3: tls-server-name: 'a b' is no DNS name"},
                {CONFIG_WITH("server: 'https://a', insecure-skip-tls-verify: 'no'", ""),
                        WHERE " line 3: insecure-skip-tls-verify: must be true or false"},
                {CONFIG_WITH("server: 'https://a', certificate-authority-data: 'Y2V*'", ""),
                        WHERE " line 3: certificate-authority-data: must be PEM in base64"},
                {CONFIG_WITH("server: 'https://a', certificate-authority-data: 'Y2VydA'", ""),
                        WHERE " line 3: certificate-authority-data: must be PEM in base64"},
                {CONFIG_WITH("server: 'https://a', certificate-authority-data: 'AAAA'", ""),
                        WHERE " line 3: certificate-authority-data: must be PEM in base64"},
                {CONFIG_WITH("server: 'https://a'", "exec: {command: aws}"),
                        WHERE " line 4: exec: programs that make tokens are not run here" OTHERWISE},
                {CONFIG_WITH("server: 'https://a'", "auth-provider: {name: gcp}"),
                        WHERE " line 4: auth-provider: it is gone from Kubernetes since 1.26" OTHERWISE},
                {CONFIG_WITH("server: 'https://a'", "username: admin, password: x"),
                        WHERE " line 4: username: passwords are gone from Kubernetes since 1.19" OTHERWISE},
                {CONFIG_WITH("server: 'https://a'", "client-certificate: a"),
                        WHERE " line 4: client-certificate and client-key: one without the other"},
                {CONFIG_WITH("server: 'https://a'", "token: \"a\\r\\nHost: b\""),
                        WHERE " line 4: token: must be one word of plain characters"},
                {CONFIG_WITH("server: 'http://a'", "token: t"),
                        WHERE " line 4: a token would go to 'http://a' in clear, the server must be https://…"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct kube_credentials found;
                struct error err;

                assert_fails(read_config(&found, table[i].config, &err), &err, ERROR_INVALID, table[i].text);
        }
}

/* Good until the next call. */
static const char *in(const char *folder, const char *name)
{
        static char path[64];

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        return path;
}

static void write_in(const char *folder, const char *name, const char *text)
{
        struct error err;

        assert_ok(file_write(in(folder, name), text, strlen(text), &err), &err);
}

static void remove_all(const char *folder)
{
        static const char *const names[] = {"token", "ca.crt", "namespace"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                unlink(in(folder, names[i]));
        rmdir(folder);
}

/* The error is |before|, the folder, |after|. */
static void assert_fails_in(const char *folder, const char *before, const char *after)
{
        struct kube_credentials found;
        char expected[300];
        struct error err;

        snprintf(expected, sizeof(expected), "service account: %s%s%s", before, folder, after);
        assert_int_equal(kube_credentials_of_pod(&found, "a", "443", folder, &err), -1);
        assert_string_equal(err.text, expected);
}

static void test_a_pod_finds_its_server_by_environment(void **state UNUSED)
{
        static const struct {
                const char *host;
                const char *port;
                const char *server;
        } table[] = {
                {"10.96.0.1", "443", "https://10.96.0.1:443"},
                {"fd00:10:96::1", "6443", "https://[fd00:10:96::1]:6443"},
                {"kubernetes.default.svc", "443", "https://kubernetes.default.svc:443"},
        };
        char folder[] = "/tmp/warpshare-kube-XXXXXX";
        struct error err;

        assert_non_null(mkdtemp(folder));
        write_in(folder, "token", "t");
        write_in(folder, "ca.crt", "PEM");
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct kube_credentials found;

                assert_int_equal(kube_credentials_of_pod(&found, table[i].host, table[i].port, folder, &err), 0);
                assert_string_equal(found.server, table[i].server);
                assert_string_equal(found.token_path, in(folder, "token"));
                assert_string_equal(found.authority.path, in(folder, "ca.crt"));
                assert_string_equal(found.scope, "default");
                kube_credentials_done(&found);
        }
        remove_all(folder);
}

/* What kubelet mounts may be there later than its folder; a folder that was not mounted never comes. */
static void test_a_service_account_is_none_without_its_folder_and_an_error_without_its_files(void **state UNUSED)
{
        char folder[] = "/tmp/warpshare-kube-XXXXXX";
        struct kube_credentials found;
        struct error err;

        assert_int_equal(kube_credentials_of_pod(&found, "a", "443", "/nonexistent", &err), KUBE_CREDENTIALS_NONE);
        assert_string_equal(err.text, NONE);
        assert_non_null(mkdtemp(folder));
        assert_fails_in(folder, "token: open '", "/token': No such file or directory");
        write_in(folder, "token", "two words");
        assert_fails_in(folder, "token: '", "/token' holds more than one word of plain characters");
        write_in(folder, "token", "t");
        assert_fails_in(folder, "open '", "/ca.crt': No such file or directory");
        write_in(folder, "ca.crt", "PEM");
        write_in(folder, "namespace", "gpu\n");
        assert_int_equal(kube_credentials_of_pod(&found, "a", "443", folder, &err), 0);
        assert_string_equal(found.scope, "gpu");
        kube_credentials_done(&found);
        remove_all(folder);
}

static void test_outside_of_a_pod_there_are_none(void **state UNUSED)
{
        struct kube_credentials found;
        struct error err;

        unsetenv("KUBERNETES_SERVICE_HOST");
        setenv("KUBERNETES_SERVICE_PORT", "443", 1);
        assert_int_equal(kube_credentials_find(&found, NULL, &err), KUBE_CREDENTIALS_NONE);
        assert_int_equal(kube_credentials_find(&found, "", &err), KUBE_CREDENTIALS_NONE);
        assert_string_equal(err.text, NONE);
        assert_null(found.server);
        assert_fails(kube_credentials_find(&found, "/nonexistent", &err), &err, ERROR_NOT_FOUND,
                "kubeconfig: open '/nonexistent': No such file or directory");
}

static void test_an_environment_that_is_none_is_refused(void **state UNUSED)
{
        static const char *const table[][2] = {{"10.0.0.1", "0"}, {"10.0.0.1", "65536"}, {"10.0.0.1", "https"},
                {"10.0.0.1/x", "443"}, {"u@10.0.0.1", "443"}, {"10.0.0.1\r\n", "443"}};
        struct kube_credentials found;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                assert_int_equal(kube_credentials_of_pod(&found, table[i][0], table[i][1], "/tmp", &err), -1);
                assert_int_equal(err.kind, ERROR_INVALID);
        }
}

static void test_a_token_is_read_whenever_it_is_asked_for(void **state UNUSED)
{
        char folder[] = "/tmp/warpshare-kube-XXXXXX";
        char path[64];
        struct kube_credentials credentials = {.token = "never", .token_path = path};
        _free_ char *token = NULL;
        struct error err;

        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof(path), "%s/token", folder);
        write_in(folder, "token", "first\n");
        assert_ok(kube_credentials_token(&credentials, &token, &err), &err);
        assert_string_equal(token, "first");
        free(TAKE_PTR(token));
        write_in(folder, "token", "second");
        assert_ok(kube_credentials_token(&credentials, &token, &err), &err);
        assert_string_equal(token, "second");
        write_in(folder, "token", "two words");
        assert_int_equal(kube_credentials_token(&credentials, &token, &err), -1);
        assert_int_equal(err.kind, ERROR_INVALID);
        write_in(folder, "token", "\n");
        assert_int_equal(kube_credentials_token(&credentials, &token, &err), -1);
        unlink(path);
        assert_int_equal(kube_credentials_token(&credentials, &token, &err), -1);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        rmdir(folder);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_kubeconfig_is_read_as_written),
                cmocka_unit_test(test_data_wins_over_files),
                cmocka_unit_test(test_json_is_read_as_well_and_one_context_needs_no_name),
                cmocka_unit_test(test_what_cannot_be_used_is_named),
                cmocka_unit_test(test_a_pod_finds_its_server_by_environment),
                cmocka_unit_test(test_a_service_account_is_none_without_its_folder_and_an_error_without_its_files),
                cmocka_unit_test(test_outside_of_a_pod_there_are_none),
                cmocka_unit_test(test_an_environment_that_is_none_is_refused),
                cmocka_unit_test(test_a_token_is_read_whenever_it_is_asked_for),
        };

        return cmocka_run_group_tests_name("credentials", tests, NULL, NULL);
}
