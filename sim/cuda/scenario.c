// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/scenario.h"

#include <string.h>

#include "base/file.h"
#include "base/data/tree.h"

#define TEXT_MAX ((size_t)64 * 1024)

static const char *const keys[] = {"name", "uuid", "devices", "multiprocessors", "computeCapability", "memory",
        "context", "neighbourMemory", "busyMultiprocessors", "neighbours", "mps", "limits", "gflops", "bandwidth",
        "calls"};
static const char *const call_keys[] = {"error", "after", "hang", "crash"};

/* An unknown key is a mistake in a test. */
static void note_warning(const char *text, void *data)
{
        struct error *err = data;

        if (err->kind == ERROR_NONE)
                error_raise(err, ERROR_INVALID, "%s", text);
}

static int read_number(const struct tree *tree, const struct tree_node *root, const char *key, unsigned int least,
        unsigned int *value, struct error *err)
{
        struct tree_node node;

        return tree_member(tree, root, key, &node) ? tree_uint(tree, &node, least, 10000000, value, err) : 0;
}

static int read_text(
        const struct tree *tree, const struct tree_node *root, const char *key, const char **value, struct error *err)
{
        struct tree_node node;

        return tree_member(tree, root, key, &node) ? tree_string(tree, &node, value, err) : 0;
}

static int read_flag(
        const struct tree *tree, const struct tree_node *root, const char *key, bool *value, struct error *err)
{
        struct tree_node node;

        return tree_member(tree, root, key, &node) ? tree_bool(tree, &node, value, err) : 0;
}

/* The position of |*word| in |words|; if the key is missing, |*word| is the default. */
static int read_word(const struct tree *tree, const struct tree_node *root, const char *key, const char *const *words,
        size_t n_words, unsigned int *ret, struct error *err)
{
        const char *word = words[0];

        if (read_text(tree, root, key, &word, err) < 0)
                return -1;
        for (size_t i = 0; i < n_words; i++) {
                if (strcmp(words[i], word) == 0) {
                        *ret = (unsigned int)i;
                        return 0;
                }
        }
        return tree_fail(tree, root, err, "%s: '%s' is no such word", key, word);
}

static int read_calls(
        const struct tree *tree, const struct tree_node *root, struct scenario *scenario, struct error *err)
{
        struct tree_node calls;
        const char *name;
        json_t *ignored;

        if (!tree_member(tree, root, "calls", &calls))
                return 0;
        if (tree_object(tree, &calls, err) < 0)
                return -1;
        json_object_foreach((json_t *)(uintptr_t)calls.json, name, ignored)
        {
                struct scenario_call *call = &scenario->calls[scenario->n_calls];
                struct tree_node node;

                (void)ignored;
                if (scenario->n_calls == SCENARIO_CALLS_MAX)
                        return tree_fail(tree, &calls, err, "more than %u calls", SCENARIO_CALLS_MAX);
                if (!tree_member(tree, &calls, name, &node))
                        continue;
                if (tree_object(tree, &node, err) < 0)
                        return -1;
                tree_check_keys(tree, &node, call_keys, ARRAY_SIZE(call_keys));
                call->name = arena_strdup(tree->arena, name);
                if (read_number(tree, &node, "error", 0, &call->error, err) < 0 ||
                        read_number(tree, &node, "after", 0, &call->after, err) < 0 ||
                        read_flag(tree, &node, "hang", &call->hang, err) < 0 ||
                        read_flag(tree, &node, "crash", &call->crash, err) < 0)
                        return -1;
                scenario->n_calls++;
        }
        return 0;
}

static int read_root(
        const struct tree *tree, const struct tree_node *root, struct scenario *scenario, struct error *err)
{
        static const char *const mps_words[] = {"auto", "always", "never", "unknown"};
        static const char *const limit_words[] = {"kept", "ignored"};
        unsigned int mps = 0;
        unsigned int limits = 0;

        if (tree_object(tree, root, err) < 0)
                return -1;
        tree_check_keys(tree, root, keys, ARRAY_SIZE(keys));
        if (read_text(tree, root, "name", &scenario->name, err) < 0 ||
                read_text(tree, root, "uuid", &scenario->uuid, err) < 0 ||
                read_number(tree, root, "devices", 0, &scenario->devices, err) < 0 ||
                read_number(tree, root, "multiprocessors", 2, &scenario->multiprocessors, err) < 0 ||
                read_number(tree, root, "computeCapability", 1, &scenario->compute_capability, err) < 0 ||
                read_number(tree, root, "memory", 1, &scenario->memory_mib, err) < 0 ||
                read_number(tree, root, "context", 0, &scenario->context_mib, err) < 0 ||
                read_number(tree, root, "neighbourMemory", 0, &scenario->neighbour_mib, err) < 0 ||
                read_number(tree, root, "busyMultiprocessors", 0, &scenario->busy, err) < 0 ||
                read_number(tree, root, "neighbours", 0, &scenario->neighbours, err) < 0 ||
                read_number(tree, root, "gflops", 1, &scenario->gflops, err) < 0 ||
                read_number(tree, root, "bandwidth", 1, &scenario->bandwidth, err) < 0 ||
                read_word(tree, root, "mps", mps_words, ARRAY_SIZE(mps_words), &mps, err) < 0 ||
                read_word(tree, root, "limits", limit_words, ARRAY_SIZE(limit_words), &limits, err) < 0)
                return -1;
        scenario->mps = (enum scenario_mps)mps;
        scenario->ignores_limits = limits == 1;
        return read_calls(tree, root, scenario, err);
}

int scenario_read(struct scenario *ret, const char *path, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _cleanup_(yaml_unloadp) struct yaml *yaml = NULL;
        struct error warning = {.kind = ERROR_NONE};
        struct tree tree = {.arena = &ret->arena, .warn = note_warning, .warn_data = &warning};
        struct tree_node root = {.path = "", .line = 1};

        *ret = (struct scenario){.name = "NVIDIA H100 80GB HBM3",
                .uuid = "GPU-5c89852c-d268-4c3f-9b07-0022ad3fdd14",
                .devices = 1,
                .multiprocessors = 132,
                .compute_capability = 9,
                .memory_mib = 81559,
                .context_mib = 300,
                .gflops = 400,
                .bandwidth = 2000};
        if (file_read(path, TEXT_MAX, &text, err) < 0 ||
                yaml_load(&yaml, path, text.data, text.size, note_warning, &warning, err) < 0)
                return -1;
        tree.yaml = yaml;
        root.json = yaml->root;
        if (read_root(&tree, &root, ret, err) < 0)
                return -1;
        if (warning.kind != ERROR_NONE) {
                *err = warning;
                return -1;
        }
        return 0;
}
