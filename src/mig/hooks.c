// SPDX-License-Identifier: Apache-2.0
#include "mig/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/data/tree.h"

/* "apply-start", … */
static const char *hook_point_name(enum mig_hook_point point)
{
        static const char *const names[MIG_HOOK_POINTS] = {[MIG_HOOK_START] = "apply-start",
                [MIG_HOOK_BEFORE_MODE] = "pre-apply-mode",
                [MIG_HOOK_BEFORE_CONFIG] = "pre-apply-config",
                [MIG_HOOK_EXIT] = "apply-exit"};

        return names[point];
}

/* ---- the file ---- */

static int read_argv(const struct tree *tree, const struct tree_node *node, struct mig_hook *hook, struct error *err)
{
        struct tree_node command;
        struct tree_node args;
        size_t count = 0;

        if (!tree_member(tree, node, "command", &command))
                return tree_fail(tree, node, err, "'command' is missing, name a program");
        if (tree_member(tree, node, "args", &args) && tree_array(tree, &args, MIG_HOOKS_MAX_WORDS, &count, err) < 0)
                return -1;
        hook->argv = ARENA_ARRAY(tree->arena, char *, count + 2);
        for (size_t i = 0; i <= count; i++) {
                struct tree_node word = command;
                const char *text = "";

                if (i > 0)
                        tree_item(tree, &args, i - 1, &word);
                if (tree_string(tree, &word, &text, err) < 0)
                        return -1;
                hook->argv[i] = arena_strdup(tree->arena, text);
        }
        return *hook->argv[0] ? 0 : tree_fail(tree, &command, err, "is empty, name a program");
}

static int read_environment(
        const struct tree *tree, const struct tree_node *node, struct mig_hook *hook, struct error *err)
{
        struct tree_node envs = {0};
        const char *key;
        json_t *value;
        size_t count = 0;

        if (tree_member(tree, node, "envs", &envs) && tree_object(tree, &envs, err) < 0)
                return -1;
        if (json_object_size(envs.json) > MIG_HOOKS_MAX_WORDS)
                return tree_fail(tree, &envs, err, "%zu variables, at most %zu", json_object_size(envs.json),
                        MIG_HOOKS_MAX_WORDS);
        hook->environment = ARENA_ARRAY(tree->arena, char *, json_object_size(envs.json) + 1);
        json_object_foreach((json_t *)(uintptr_t)envs.json, key, value)
        {
                struct tree_node member;
                const char *text = "";

                if (tree_member(tree, &envs, key, &member) && tree_string(tree, &member, &text, err) < 0)
                        return -1;
                if (!*key || strchr(key, '='))
                        return tree_fail(tree, &envs, err, "'%.40s' is no name of a variable", key);
                hook->environment[count++] = arena_printf(tree->arena, "%s=%s", key, text);
        }
        return 0;
}

static int read_hook(const struct tree *tree, const struct tree_node *node, struct mig_hook *hook, struct error *err)
{
        static const char *const keys[] = {"command", "args", "envs", "workdir"};
        struct tree_node folder;

        hook->folder = "";
        if (tree_object(tree, node, err) < 0)
                return -1;
        tree_check_keys(tree, node, keys, ARRAY_SIZE(keys));
        if (tree_member(tree, node, "workdir", &folder) && tree_string(tree, &folder, &hook->folder, err) < 0)
                return -1;
        if (read_argv(tree, node, hook, err) < 0)
                return -1;
        return read_environment(tree, node, hook, err);
}

static int read_list(const struct tree *tree, const struct tree_node *lists, enum mig_hook_point point,
        struct mig_hooks *hooks, struct error *err)
{
        struct tree_node list;

        if (!tree_member(tree, lists, hook_point_name(point), &list))
                return 0;
        if (tree_array(tree, &list, MIG_HOOKS_MAX, &hooks->n_hooks[point], err) < 0)
                return -1;
        hooks->hooks[point] = ARENA_ARRAY(tree->arena, struct mig_hook, hooks->n_hooks[point]);
        for (size_t i = 0; i < hooks->n_hooks[point]; i++) {
                struct tree_node item;

                tree_item(tree, &list, i, &item);
                if (read_hook(tree, &item, &hooks->hooks[point][i], err) < 0)
                        return -1;
        }
        return 0;
}

static int hooks_read_root(const struct tree *tree, struct mig_hooks *hooks, struct error *err)
{
        static const char *const keys[] = {"version", "hooks"};
        const struct tree_node root = {.json = tree->yaml->root, .path = "", .line = 1};
        const char *points[MIG_HOOK_POINTS];
        struct tree_node lists;
        struct tree_node version;
        const char *text = "v1";

        if (json_is_null(root.json))
                return 0;
        if (tree_object(tree, &root, err) < 0)
                return -1;
        tree_check_keys(tree, &root, keys, ARRAY_SIZE(keys));
        if (tree_member(tree, &root, "version", &version) && tree_string(tree, &version, &text, err) < 0)
                return -1;
        if (strcmp(text, "v1") != 0)
                return tree_fail(tree, &version, err, "'%.100s' is not a known version, use v1", text);
        if (!tree_member(tree, &root, "hooks", &lists))
                return 0;
        if (tree_object(tree, &lists, err) < 0)
                return -1;
        for (enum mig_hook_point point = 0; point < MIG_HOOK_POINTS; point++)
                points[point] = hook_point_name(point);
        tree_check_keys(tree, &lists, points, ARRAY_SIZE(points));
        for (enum mig_hook_point point = 0; point < MIG_HOOK_POINTS; point++)
                if (read_list(tree, &lists, point, hooks, err) < 0)
                        return -1;
        return 0;
}

int mig_hooks_parse(struct mig_hooks *ret, struct arena *arena, const char *name, const char *text, size_t size,
        yaml_warn_fn *warn, void *warn_data, struct error *err)
{
        _cleanup_(yaml_unloadp) struct yaml *yaml = NULL;
        struct mig_hooks hooks = {0};
        struct tree tree = {.arena = arena, .warn = warn, .warn_data = warn_data};

        if (yaml_load(&yaml, name, text, size, warn, warn_data, err) < 0)
                return -1;
        tree.yaml = yaml;
        if (hooks_read_root(&tree, &hooks, err) < 0)
                return -1;
        *ret = hooks;
        return 0;
}

int mig_hooks_read(struct mig_hooks *ret, struct arena *arena, const char *path, yaml_warn_fn *warn, void *warn_data,
        struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (file_read(path, MIG_HOOKS_FILE_LIMIT, &text, err) < 0)
                return -1;
        return mig_hooks_parse(
                ret, arena, arena_printf(arena, "hooks '%.200s'", path), text.data, text.size, warn, warn_data, err);
}

/* ---- running ---- */

static bool hooks_is_in(char *const *environment, const char *variable)
{
        const size_t length = strcspn(variable, "=") + 1;

        for (size_t i = 0; environment[i]; i++)
                if (strncmp(environment[i], variable, length) == 0)
                        return true;
        return false;
}

/* |environment|, and what |own| has besides. */
static char **join_environment(char *const *environment, char *const *own)
{
        size_t count = 0;
        size_t n = 0;
        char **joined;

        while (environment[count])
                count++;
        while (own[n])
                n++;
        joined = xcalloc(count + n + 1, sizeof(*joined));
        memcpy(joined, environment, count * sizeof(*joined));
        for (size_t i = 0; i < n; i++)
                if (!hooks_is_in(environment, own[i]))
                        joined[count++] = own[i];
        return joined;
}

/* 0, or an errno. */
static int hook_start(pid_t *ret, const struct mig_hook *hook, char *const *environment, bool shows_output)
{
        _free_ char **joined = join_environment(environment, hook->environment);
        posix_spawn_file_actions_t actions;
        int code = posix_spawn_file_actions_init(&actions);

        if (code != 0)
                return code;
        code = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO && code == 0 && !shows_output; fd++)
                code = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_WRONLY, 0);
        if (code == 0 && *hook->folder)
                code = posix_spawn_file_actions_addchdir_np(&actions, hook->folder);
        if (code == 0)
                code = posix_spawnp(ret, hook->argv[0], &actions, NULL, hook->argv, joined);
        posix_spawn_file_actions_destroy(&actions);
        return code;
}

static int run_hook(const struct mig_hook *hook, char *const *environment, bool shows_output, struct error *err)
{
        int status = 0;
        pid_t pid;
        int code = hook_start(&pid, hook, environment, shows_output);

        if (code != 0)
                return error_errno(
                        err, code, "run '%.200s'%s%.200s", hook->argv[0], *hook->folder ? " in " : "", hook->folder);
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return error_errno(err, errno, "wait for '%.200s'", hook->argv[0]);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        if (WIFSIGNALED(status))
                return error_set(err, ERROR_UNAVAILABLE, "'%.200s' was ended by signal %d (%s)", hook->argv[0],
                        WTERMSIG(status), strsignal(WTERMSIG(status)));
        return error_set(err, ERROR_UNAVAILABLE, "'%.200s' ended with status %d%s", hook->argv[0], WEXITSTATUS(status),
                shows_output ? "" : "; --debug shows what it prints");
}

int mig_hooks_run(const struct mig_hooks *hooks, enum mig_hook_point point, char *const *environment, bool shows_output,
        struct error *err)
{
        for (size_t i = 0; i < hooks->n_hooks[point]; i++)
                if (run_hook(&hooks->hooks[point][i], environment, shows_output, err) < 0)
                        return error_prefix(err, "hook %zu of %s", i, hook_point_name(point));
        return 0;
}
