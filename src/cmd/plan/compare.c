// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/compare.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "node/dra/layout.h"

struct replaying {
        struct replay_view *view;
        const struct replay_wish *wish;
        const struct option_set *set;
        struct arena *arena;
        const struct inventory *inventory;
};

/* ---- a configuration ---- */

static void ignore_warning(const char *text UNUSED, void *data UNUSED)
{
}

static int make_plan_of(
        const struct replaying *replaying, const char *name, const char *text, struct plan **ret, struct error *err)
{
        const struct config_text content = {name, text, strlen(text)};
        const struct config *config;

        if (config_build_text(replaying->set, &content, replaying->arena, &config, ignore_warning, NULL, err) < 0)
                return -1;
        return plan_build(ret, replaying->arena, config, replaying->inventory, ignore_warning, NULL, err);
}

/* Reads from the layout of DRA how much of a GPU claims can have. */
static struct replay_claims compare_claims(const struct replaying *replaying, const struct config *config)
{
        const struct dra_options options = dra_options_from(config, replaying->inventory, replaying->arena);
        const struct dra_layout *layout = dra_layout_build(replaying->arena, replaying->inventory, &options);
        struct replay_claims claims = {0};

        for (size_t i = 0; i < layout->n_devices; i++) {
                const struct dra_device *device = &layout->devices[i];
                const struct dra_capacity *memory = dra_device_capacity(device, DRA_CAPACITY_MEMORY);
                const struct dra_capacity *threads = dra_device_capacity(device, DRA_CAPACITY_THREADS);

                if (device->kind != DRA_DEVICE_SHARED || !memory || !threads || claims.memory_mib > 0)
                        continue;
                claims = (struct replay_claims){.memory_mib = memory->value >> 20,
                        .least_mib = memory->min >> 20,
                        .preset_mib = memory->preset >> 20,
                        .preset_permille = (unsigned int)threads->preset * 10};
        }
        return claims;
}

static int replay_add(struct replaying *replaying, const char *name, const char *text, struct error *err)
{
        struct replay_view *view = replaying->view;
        struct replay_candidate *candidate = &view->candidates[view->n_candidates];
        struct replay_claims claims = {0};
        bool has_claims;
        struct error why;
        struct plan *plan;

        if (view->n_candidates == REPLAY_MAX_CONFIGS)
                return error_set(err, ERROR_INVALID, "more than %zu configurations: give fewer, or fewer --candidates",
                        REPLAY_MAX_CONFIGS);
        view->n_candidates++;
        *candidate = (struct replay_candidate){.name = name, .text = text};
        if (make_plan_of(replaying, name, text, &plan, &why) < 0) {
                candidate->failure = arena_strdup(replaying->arena, why.text);
                return 0;
        }
        has_claims = plan->config->dra.enabled && plan->n_resources == 0;
        if (has_claims)
                claims = compare_claims(replaying, plan->config);
        candidate->result = replay_run(plan, has_claims ? &claims : NULL, &view->requests, view->nodes, view->seed);
        plan_done(plan);
        return 0;
}

/* A file that is given. That it cannot be used is an error, since its user meant it. */
static int replay_add_file(struct replaying *replaying, const char *path, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        const struct replay_candidate *added = &replaying->view->candidates[replaying->view->n_candidates];

        if (file_read(path, CONFIG_FILE_LIMIT, &content, err) < 0)
                return error_prefix(err, "config");
        if (replay_add(replaying, path, arena_strndup(replaying->arena, content.data, content.size), err) < 0)
                return -1;
        return added->failure ? error_set(err, ERROR_INVALID, "%s", added->failure) : 0;
}

/* ---- configurations that are generated ---- */

enum way { WAY_TIME_SLICING, WAY_UNIFORM, WAY_WEIGHTED, WAY_UNRESERVED, WAYS };

static const char *const ways[WAYS] = {"time-slicing", "MPS uniform", "MPS weighted", "MPS weighted without a reserve"};

/* |devices|: how many GPUs of the node are shared, under a name of their own; 0: all. |most|: of one request. */
static const char *config_of(
        struct arena *arena, enum way way, unsigned int replicas, size_t devices, unsigned int most)
{
        const char *entry = arena_printf(arena, "    - {name: nvidia.com/gpu, replicas: %u}\n", replicas);
        const char *settings = "";

        if (devices)
                entry = arena_printf(arena,
                        "    - {name: nvidia.com/gpu, rename: nvidia.com/gpu.shared, devices: %zu, replicas: %u}\n",
                        devices, replicas);
        if (way >= WAY_WEIGHTED)
                settings = arena_printf(arena,
                        "    provisioning: weighted\n    failRequestsGreaterThanOne: false\n    maxPerRequest: %u\n%s",
                        most, way == WAY_UNRESERVED ? "    reserve: none\n" : "");
        return arena_printf(arena, "version: v1\nsharing:\n  %s:\n%s    resources:\n%s",
                way == WAY_TIME_SLICING ? "timeSlicing" : "mps", settings, entry);
}

/* The most replicas that a request needs if it may have all of a unit: more need not be kept free for one. */
static unsigned int largest_request(const struct replaying *replaying, const char *text)
{
        const struct trace *trace = &replaying->view->requests;
        unsigned int largest = 1;
        struct error err;
        struct plan *plan;

        if (make_plan_of(replaying, "generated", text, &plan, &err) < 0)
                return 1;
        for (size_t i = 0; i < trace->n_requests; i++)
                for (size_t r = 0; r < plan->n_resources; r++)
                        if (plan->resources[r].strategy == SHARING_MPS)
                                largest = MAX(largest, replay_replicas(&plan->resources[r], &trace->requests[i]));
        plan_done(plan);
        return largest;
}

/* The divisions are known only for a simulated node. */
static int replay_add_divisions(struct replaying *replaying, struct error *err)
{
        const struct replay_wish *wish = replaying->wish;
        const struct inventory *whole = replaying->inventory;
        int rc = 0;

        for (size_t i = 0; rc == 0 && i < wish->n_divisions; i++) {
                const struct replay_division *division = &wish->divisions[i];

                replaying->inventory = division->inventory;
                rc = replay_add(replaying,
                        arena_printf(replaying->arena, "MIG, %u of %s", division->count, division->profile),
                        "version: v1\nflags:\n  migStrategy: mixed\n", err);
        }
        replaying->inventory = whole;
        return rc;
}

static int replay_add_way(
        struct replaying *replaying, enum way way, unsigned int replicas, size_t devices, struct error *err)
{
        struct arena *arena = replaying->arena;
        const char *name = arena_printf(arena, "%s, %u replicas", ways[way], replicas);
        const char *text = config_of(arena, way, replicas, devices, replicas);

        if (way >= WAY_WEIGHTED)
                text = config_of(arena, way, replicas, devices, largest_request(replaying, text));
        if (devices)
                name = arena_printf(arena, "%s, on %zu of %zu GPUs", name, devices, replaying->inventory->n_gpus);
        return replay_add(replaying, name, text, err);
}

static bool has_whole_requests(const struct trace *trace)
{
        for (size_t i = 0; i < trace->n_requests; i++)
                if (trace->requests[i].gpus > 0)
                        return true;
        return false;
}

static int replay_generate(struct replaying *replaying, struct error *err)
{
        char *list = arena_strdup(replaying->arena, replaying->wish->replicas);
        size_t half = has_whole_requests(&replaying->view->requests) ? replaying->inventory->n_gpus / 2 : 0;
        char *rest;

        if (!*list)
                return 0;
        if (replay_add(replaying, "whole GPUs", "version: v1\n", err) < 0 || replay_add_divisions(replaying, err) < 0 ||
                replay_add(replaying, "DRA", "version: v1\ndra:\n  enabled: true\n", err) < 0)
                return -1;
        for (char *word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
                uint64_t replicas;

                if (!text_to_uint(word, CONFIG_MAX_REPLICAS, &replicas) || replicas < 2)
                        return error_set(err, ERROR_INVALID,
                                "candidates: '%.40s' is not a number of replicas from 2 to %u", word,
                                CONFIG_MAX_REPLICAS);
                for (enum way way = 0; way < WAYS; way++)
                        if (replay_add_way(replaying, way, (unsigned int)replicas, 0, err) < 0 ||
                                (half && replay_add_way(replaying, way, (unsigned int)replicas, half, err) < 0))
                                return -1;
        }
        return 0;
}

/* ---- the files ---- */

static int replay_read_traces(struct replaying *replaying, struct error *err)
{
        char *list = arena_strdup(replaying->arena, replaying->wish->traces);
        char *rest;

        for (char *path = strtok_r(list, ",", &rest); path; path = strtok_r(NULL, ",", &rest)) {
                _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;

                if (file_read(path, TRACE_MAX_TEXT, &content, err) < 0)
                        return error_prefix(err, "trace");
                if (trace_read(&replaying->view->requests, path, content.data, content.size, err) < 0)
                        return -1;
        }
        return trace_end(&replaying->view->requests, err);
}

/* As a ConfigMap, unless the file that was given is kept as it is. */
static int replay_write(const struct replaying *replaying, size_t position, struct error *err)
{
        const struct replay_candidate *candidate = &replaying->view->candidates[position];
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *path = xasprintf("%s/best-%zu.yaml", replaying->wish->folder, position + 1);
        char *copy = arena_strdup(replaying->arena, candidate->text);
        char *rest;

        if (strstr(candidate->text, "kind: ConfigMap"))
                return file_write(path, candidate->text, strlen(candidate->text), err);
        strbuf_printf(&text,
                "# %s\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: warpshare\ndata:\n  config.yaml: |\n",
                candidate->name);
        for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
                strbuf_printf(&text, "    %s\n", line);
        return file_write(path, text.data, text.size, err);
}

static int compare_candidates(const void *a, const void *b)
{
        const struct replay_candidate *first = a;
        const struct replay_candidate *second = b;
        int order = !!first->failure - !!second->failure;

        if (order == 0 && !first->failure)
                order = replay_compare(&first->result, &second->result);
        return order ? order : strcmp(first->name, second->name);
}

static int replay_write_all(const struct replaying *replaying, struct error *err)
{
        const struct replay_view *view = replaying->view;
        const struct replay_wish *wish = replaying->wish;
        _cleanup_(strbuf_done) struct strbuf picture = STRBUF_INIT;

        if (*wish->folder && file_make_folder(wish->folder, err) < 0)
                return -1;
        for (size_t i = 0; *wish->folder && i < MIN(view->n_candidates, REPLAY_BEST); i++)
                if (!view->candidates[i].failure && replay_write(replaying, i, err) < 0)
                        return -1;
        if (!*wish->picture)
                return 0;
        replay_draw(&picture, view);
        return file_write(wish->picture, picture.data, picture.size, err);
}

int replay_compare_all(struct replay_view *view, const struct replay_wish *wish, const struct option_set *set,
        struct arena *arena, const struct inventory *inventory, struct error *err)
{
        struct replaying replaying = {view, wish, set, arena, inventory};

        view->trace = wish->traces;
        if (replay_read_traces(&replaying, err) < 0)
                return -1;
        for (size_t i = 0; i < wish->n_configs; i++)
                if (replay_add_file(&replaying, wish->configs[i], err) < 0)
                        return -1;
        if (replay_generate(&replaying, err) < 0)
                return -1;
        if (view->n_candidates == 0)
                return error_set(err, ERROR_INVALID,
                        "nothing to compare: name a file with a configuration, or numbers of replicas by --candidates");
        qsort(view->candidates, view->n_candidates, sizeof(*view->candidates), compare_candidates);
        return replay_write_all(&replaying, err);
}
