// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "net/kube/kubeconfig.h"

static char folder[32];

static const char *in(const char *name)
{
        static char paths[4][96];
        static unsigned int next;
        char *path = paths[next++ % ARRAY_SIZE(paths)];

        snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
        return path;
}

static void write_in(const char *name, const char *text)
{
        struct error err;

        assert_ok(file_write(in(name), text, strlen(text), &err), &err);
}

#define ONE                                                                                                                 \
        "current-context: a\n"                                                                                              \
        "contexts: [{name: a, context: {cluster: a, user: a, namespace: na}}, {name: b, context: {cluster: b, user: b}}]\n" \
        "clusters: [{name: a, cluster: {server: 'https://a', certificate-authority: ca.crt}}]\n"                            \
        "users: [{name: a, user: {token: ta}}]\n"
#define TWO                                                                                                            \
        "current-context: b\n"                                                                                         \
        "contexts: [{name: a, context: {cluster: b, user: b}}]\n"                                                      \
        "clusters: [{name: a, cluster: {server: 'https://not-this'}}, {name: b, cluster: {server: 'https://b', "       \
        "certificate-authority: ca.crt}}]\n"                                                                           \
        "users: [{name: b, user: {tokenFile: tb}}]\n"
#define OF_HOME                                                                                                        \
        "contexts: [{name: h, context: {cluster: b, user: b}}]\n"                                                      \
        "clusters: [{name: b, cluster: {server: 'https://b'}}]\n"                                                      \
        "users: [{name: b, user: {tokenFile: tb}}]\n"
#define EXEC                                                                                                           \
        "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"                                  \
        "clusters: [{name: a, cluster: {server: 'https://a'}}]\n"                                                      \
        "users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./make, "               \
        "interactiveMode: Never}}}]\n"

static int set_up(void **state UNUSED)
{
        static const char script[] = "#!/bin/sh\necho '{\"kind\": \"ExecCredential\", \"apiVersion\": "
                                     "\"client.authentication.k8s.io/v1\", \"status\": {\"token\": \"made\"}}'\n";

        strcpy(folder, "/tmp/warpshare-user-XXXXXX");
        if (!mkdtemp(folder))
                return -1;
        mkdir(in("two"), 0755);
        mkdir(in(".kube"), 0755);
        write_in("one.yaml", ONE);
        write_in("two/two.yaml", TWO);
        write_in(".kube/config", OF_HOME);
        write_in("exec.yaml", EXEC);
        write_in("make", script);
        return chmod(in("make"), 0755);
}

static int tear_down(void **state UNUSED)
{
        static const char *const files[] = {"one.yaml", "two/two.yaml", ".kube/config", "exec.yaml", "make"};

        for (size_t i = 0; i < ARRAY_SIZE(files); i++)
                unlink(in(files[i]));
        rmdir(in("two"));
        rmdir(in(".kube"));
        return rmdir(folder);
}

static void test_the_first_file_that_has_an_entry_counts(void **state UNUSED)
{
        static const struct {
                struct user_choice choice;
                const char *server;
                const char *scope;
                const char *token;
                const char *token_path;
                const char *authority;
        } table[] = {
                {{0}, "https://a", "na", "ta", NULL, "ca.crt"},
                {{.context = "b"}, "https://b", "default", NULL, "two/tb", "two/ca.crt"},
                {{.cluster = "b"}, "https://b", "na", "ta", NULL, "two/ca.crt"},
                {{.user = "b"}, "https://a", "na", NULL, "two/tb", "ca.crt"},
        };
        char list[256];

        snprintf(list, sizeof(list), "%s:%s/none::%s", in("one.yaml"), folder, in("two/two.yaml"));
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct kube_credentials found;
                struct error err;

                assert_ok(user_credentials_find(&found, &table[i].choice, "/nonexistent", list, &err), &err);
                assert_string_equal(found.server, table[i].server);
                assert_string_equal(found.scope, table[i].scope);
                assert_string_equal(found.authority.path, in(table[i].authority));
                if (table[i].token)
                        assert_string_equal(found.token, table[i].token);
                else
                        assert_string_equal(found.token_path, in(table[i].token_path));
                kube_credentials_done(&found);
        }
}

static void test_a_flag_wins_over_the_environment_and_that_over_home(void **state UNUSED)
{
        const struct user_choice flag = {.kubeconfig = in("one.yaml")};
        struct kube_credentials found;
        struct error err;

        assert_ok(user_credentials_find(&found, &flag, folder, in("two/two.yaml"), &err), &err);
        assert_string_equal(found.server, "https://a");
        kube_credentials_done(&found);
        assert_ok(user_credentials_find(
                          &found, &(struct user_choice){.context = "a"}, "/nonexistent", in("one.yaml"), &err),
                &err);
        assert_string_equal(found.server, "https://a");
        kube_credentials_done(&found);
        assert_ok(user_credentials_find(&found, &(struct user_choice){0}, folder, "", &err), &err);
        assert_string_equal(found.server, "https://b");
        assert_string_equal(found.token_path, in(".kube/tb"));
        kube_credentials_done(&found);
}

static void test_flags_replace_what_a_file_says(void **state UNUSED)
{
        const struct user_choice choice = {.kubeconfig = in("one.yaml"),
                .server = "https://other:6443/",
                .token = "said",
                .authority = "/other.crt",
                .certificate = "/c.crt",
                .key = "/c.key",
                .server_name = "kubernetes",
                .as = "jane",
                .as_groups = "dev,,ops",
                .insecure = true};
        struct kube_credentials found;
        struct error err;

        assert_ok(user_credentials_find(&found, &choice, NULL, NULL, &err), &err);
        assert_string_equal(found.server, "https://other:6443");
        assert_string_equal(found.token, "said");
        assert_string_equal(found.authority.path, "/other.crt");
        assert_string_equal(found.certificate.path, "/c.crt");
        assert_string_equal(found.key.path, "/c.key");
        assert_string_equal(found.server_name, "kubernetes");
        assert_true(found.insecure);
        assert_string_equal(found.as, "jane");
        assert_int_equal(found.n_as_groups, 2);
        assert_string_equal(found.as_groups[1], "ops");
        kube_credentials_done(&found);
}

static void test_a_server_alone_needs_no_file(void **state UNUSED)
{
        const struct user_choice choice = {.server = "http://127.0.0.1:8001"};
        struct kube_credentials found;
        struct error err;

        assert_ok(user_credentials_find(&found, &choice, NULL, NULL, &err), &err);
        assert_string_equal(found.server, "http://127.0.0.1:8001");
        assert_string_equal(found.scope, "default");
        kube_credentials_done(&found);
}

static void test_a_program_makes_the_token_unless_a_flag_has_one(void **state UNUSED)
{
        const struct user_choice choice = {.kubeconfig = in("exec.yaml")};
        const struct user_choice with_token = {.kubeconfig = in("exec.yaml"), .token = "said"};
        struct kube_credentials found;
        struct kube_identity identity;
        struct error err;

        assert_ok(user_credentials_find(&found, &choice, NULL, NULL, &err), &err);
        assert_ok(kube_identity_read(&identity, &found, &err), &err);
        assert_string_equal(identity.token, "made");
        kube_identity_done(&identity);
        kube_credentials_done(&found);
        assert_ok(user_credentials_find(&found, &with_token, NULL, NULL, &err), &err);
        assert_ok(kube_identity_read(&identity, &found, &err), &err);
        assert_string_equal(identity.token, "said");
        kube_identity_done(&identity);
        kube_credentials_done(&found);
}

static void test_what_cannot_be_used_is_refused(void **state UNUSED)
{
        const struct {
                struct user_choice choice;
                const char *text; /* before the folder, where it ends with '; all of it, where not */
        } table[] = {
                {{.kubeconfig = "/nonexistent/x"}, "kubeconfig: open '/nonexistent/x': No such file or directory"},
                {{0}, "no kubeconfig: --kubeconfig, KUBECONFIG or ~/.kube/config, or a service account in a pod"},
                {{.server = "10.0.0.1"},
                        "--server: must be a URL as https://10.0.0.1:6443, without a user and a query"},
                {{.server = "http://a", .token = "t"},
                        "a token would go to 'http://a' in clear, the server must be https://…"},
                {{.server = "https://a", .server_name = "a b"}, "--tls-server-name: 'a b' is no DNS name"},
                {{.server = "https://a", .key = "k"}, "--client-certificate and --client-key: one without the other"},
                {{.server = "https://a", .as = "a\r\nX: y"},
                        "--as: has a control character or another that is not seen"},
                {{.server = "https://a", .token = "a\nb"},
                        "--token: has a control character or another that is not seen"},
                {{.server = "https://a", .as_groups = "dev"}, "--as-group: needs --as"},
        };

        unsetenv("KUBERNETES_SERVICE_HOST");
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct kube_credentials found;
                struct error err;

                assert_int_equal(user_credentials_find(&found, &table[i].choice, "/nonexistent", NULL, &err), -1);
                assert_string_equal(err.text, table[i].text);
        }
}

static void test_an_exec_section_that_is_wrong_is_named_with_its_line(void **state UNUSED)
{
        static const struct {
                const char *exec;
                const char *text;
        } table[] = {
                {"{apiVersion: client.authentication.k8s.io/v1}", "exec: has no command"},
                {"{apiVersion: client.authentication.k8s.io/v1alpha1, command: x}",
                        "exec: apiVersion 'client.authentication.k8s.io/v1alpha1', must be client.authentication.k8s.io/v1 "
                        "or …/v1beta1"},
                {"{apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Sometimes}",
                        "interactiveMode: 'Sometimes', must be Never, IfAvailable or Always"},
                {"{apiVersion: client.authentication.k8s.io/v1, command: x, args: [1]}", "args: must be strings"},
                {"{apiVersion: client.authentication.k8s.io/v1, command: x, args: y}", "args: must be a list"},
                {"{apiVersion: client.authentication.k8s.io/v1, command: x, env: [{name: A}]}",
                        "env: must have name and value"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const struct user_choice choice = {.kubeconfig = in("exec.yaml")};
                struct kube_credentials found;
                char expected[400];
                char text[600];
                struct error err;

                snprintf(text, sizeof(text),
                        "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
                        "clusters: [{name: a, cluster: {server: 'https://a'}}]\n"
                        "users: [{name: a, user: {exec: %s}}]\n",
                        table[i].exec);
                write_in("exec.yaml", text);
                snprintf(expected, sizeof(expected), "kubeconfig '%s' line 3: %s", choice.kubeconfig, table[i].text);
                assert_int_equal(user_credentials_find(&found, &choice, NULL, NULL, &err), -1);
                assert_string_equal(err.text, expected);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_first_file_that_has_an_entry_counts),
                cmocka_unit_test(test_a_flag_wins_over_the_environment_and_that_over_home),
                cmocka_unit_test(test_flags_replace_what_a_file_says),
                cmocka_unit_test(test_a_server_alone_needs_no_file),
                cmocka_unit_test(test_a_program_makes_the_token_unless_a_flag_has_one),
                cmocka_unit_test(test_what_cannot_be_used_is_refused),
                cmocka_unit_test(test_an_exec_section_that_is_wrong_is_named_with_its_line),
        };

        return cmocka_run_group_tests_name("user_credentials", tests, set_up, tear_down);
}
