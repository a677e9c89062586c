// SPDX-License-Identifier: Apache-2.0
/* Removes what is left in the API: the state of the MIG configuration, the Node object, and ResourceSlices. */
#include "cmd/uninstall/uninstall.h"

#include <string.h>

#include "base/text.h"
#include "node/status/api.h"
#include "net/kube/list.h"
#include "net/kube/object.h"
#include "node/dra/slices.h"
#include "node/status/mig_labels.h"
#include "node/status/state.h"

#define ANNOTATION_PREFIX "warpshare.dev/"

/* False: no API server can be asked, which is added to the list. */
static bool has_client(struct removals *removals, const struct api_visit *visit, const char *what, const char *where)
{
        if (!visit->client)
                removals_add(removals, visit->is_outside ? REMOVAL_UNSEEN : REMOVAL_LEFT, what, where, "%s",
                        visit->why.text);
        return visit->client;
}

/* The object itself may be missing: then nothing of it is left. */
static void api_report_failure(
        struct removals *removals, const char *what, const char *where, const struct api_answer *answer)
{
        removals_add(
                removals, answer->status == 404 ? REMOVAL_ABSENT : REMOVAL_LEFT, what, where, "%s", answer->error.text);
}

/* By server-side apply: what is not in |body| any more is removed. */
static void apply_removal(struct removals *removals, struct api_visit *visit, const char *what, const char *node,
        const char *path, json_t *body, const char *manager)
{
        _cleanup_(api_answer_done) struct api_answer answer = {0};

        if (!removals->is_dry)
                api_ask(visit,
                        (struct kube_request){.method = KUBE_APPLY,
                                .path = path,
                                .body = body,
                                .field_manager = manager,
                                .force = true},
                        &answer);
        removals_end(removals, what, node, answer.error.kind == ERROR_NONE ? NULL : &answer.error);
        json_decref(body);
}

/* ---- the label of the MIG configuration ---- */

static bool is_label_of_ours(const json_t *node)
{
        const json_t *managers = object_find(node, "metadata", "managedFields", NULL);

        for (size_t i = 0; i < json_array_size(managers); i++)
                if (text_is_same(object_text(json_array_get(managers, i), "manager", NULL), MIG_LABELS_MANAGER))
                        return true;
        return false;
}

void uninstall_mig_state(struct removals *removals, struct api_visit *visit, const char *node)
{
        static const char what[] = "label " MIG_STATE_LABEL;
        _cleanup_(api_answer_done) struct api_answer answer = {0};
        _free_ char *path = object_path("/api/v1/nodes", node);

        if (!has_client(removals, visit, what, node))
                return;
        api_ask(visit, (struct kube_request){.method = KUBE_GET, .path = path}, &answer);
        if (answer.error.kind != ERROR_NONE)
                api_report_failure(removals, what, node, &answer);
        else if (!object_text(answer.object, "metadata", "labels", MIG_STATE_LABEL, NULL))
                removals_add(removals, REMOVAL_ABSENT, what, node, "%s", "");
        else if (!is_label_of_ours(answer.object))
                removals_add(removals, REMOVAL_ABSENT, what, node, "another MIG manager has set it");
        else
                apply_removal(removals, visit, what, node, path, object_node(node), MIG_LABELS_MANAGER);
}

/* ---- the Node object ---- */

struct node_edit {
        struct api_answer answer;
        bool is_dry;
        struct arena arena;
        const char *taint;       /* our taint, or NULL */
        const char *annotations; /* "a, b": our keys except the taint's; or NULL */
        bool has_taint;          /* the taint was really removed */
};

static const char *list_annotations(const json_t *annotations, struct arena *arena)
{
        const char *list = NULL;
        const char *key;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)annotations, key,
                value) if (text_starts_with(key, ANNOTATION_PREFIX) && strcmp(key, NODE_TAINT_ANNOTATION) != 0) list =
                list ? arena_printf(arena, "%s, %s", list, key) : arena_strdup(arena, key);
        return list;
}

static void api_drop_annotations(json_t *annotations)
{
        const char *key;
        json_t *value;
        void *next;

        json_object_foreach_safe(annotations, next, key, value) if (text_starts_with(key, ANNOTATION_PREFIX))
                json_object_del(annotations, key);
}

static size_t count_taints(const json_t *node)
{
        return json_array_size(object_find(node, "spec", "taints", NULL));
}

/* It is called again if another client changes the object meanwhile. */
static bool edit_node(json_t *node, void *data)
{
        struct node_edit *edit = data;
        json_t *annotations = object_find(node, "metadata", "annotations", NULL);
        const char *taint = node_taint_of(node);
        size_t n_before = count_taints(node);

        edit->annotations = list_annotations(annotations, &edit->arena);
        edit->taint = taint ? arena_strdup(&edit->arena, taint) : NULL;
        node_taint_merge(node, NULL);
        edit->has_taint = count_taints(node) < n_before;
        api_drop_annotations(annotations);
        return !edit->is_dry && (edit->annotations || edit->taint);
}

static void api_on_edited(const struct kube_answer *answer, void *data)
{
        struct node_edit *edit = data;

        api_answer_take(answer, &edit->answer);
}

static void api_report_node(struct removals *removals, const char *node, const struct node_edit *edit)
{
        if (!edit->taint)
                removals_add(removals, REMOVAL_ABSENT, "taint", node, "%s", "");
        else
                removals_add(removals, edit->has_taint ? REMOVAL_DONE : REMOVAL_ABSENT, "taint", node, "%s%s",
                        edit->taint, edit->has_taint ? "" : ": it was changed or removed by another client");
        removals_add(removals, edit->annotations ? REMOVAL_DONE : REMOVAL_ABSENT, "annotations", node, "%s",
                edit->annotations ? edit->annotations : "");
}

void uninstall_node(struct removals *removals, struct api_visit *visit, const char *node)
{
        struct node_edit edit = {.is_dry = removals->is_dry, .arena = ARENA_INIT};
        _free_ char *path = object_path("/api/v1/nodes", node);
        _free_ char *status_path = xasprintf("%s/status", path);

        if (!has_client(removals, visit, "taint and condition", node))
                return;
        kube_client_edit(visit->client, &(struct kube_edit){.path = path,
                                                .edit = edit_node,
                                                .field_manager = "warpshare",
                                                .done = api_on_edited,
                                                .data = &edit});
        api_visit_wait(visit, &edit.answer.is_over);
        if (edit.answer.error.kind != ERROR_NONE) {
                api_report_failure(removals, "taint and condition", node, &edit.answer);
        } else {
                api_report_node(removals, node, &edit);
                if (node_state_has_condition(edit.answer.object))
                        apply_removal(removals, visit, "condition", node, status_path, node_state_status(node, NULL),
                                NODE_STATE_MANAGER);
                else
                        removals_add(removals, REMOVAL_ABSENT, "condition", node, "%s", "");
        }
        api_answer_done(&edit.answer);
        arena_done(&edit.arena);
}

/* ---- ResourceSlices ---- */

struct slices {
        struct api_answer answer; /* of the list */
        json_t *names;
};

static void on_slice(json_t *object, void *data)
{
        const struct slices *slices = data;
        const char *name = object_text(object, "metadata", "name", NULL);

        if (name)
                json_array_append_new(slices->names, json_string(name));
}

static void on_slices_listed(const struct kube_answer *answer, const char *version UNUSED, void *data)
{
        struct slices *slices = data;

        api_answer_take(answer, &slices->answer);
}

static void api_delete_slice(
        struct removals *removals, struct api_visit *visit, const char *collection, const char *name)
{
        _cleanup_(api_answer_done) struct api_answer answer = {0};
        _free_ char *path = object_path(collection, name);

        if (!removals->is_dry)
                api_ask(visit, (struct kube_request){.method = KUBE_DELETE, .path = path}, &answer);
        removals_end(removals, "ResourceSlice", name,
                answer.error.kind == ERROR_NONE || answer.status == 404 ? NULL : &answer.error);
}

static void delete_slices(
        struct removals *removals, struct api_visit *visit, const struct config *config, const char *collection)
{
        const char *driver = config->dra.driver_name;
        _free_ char *selector = xasprintf("spec.driver=%s,spec.nodeName=%s", driver, config->node.name);
        struct slices slices = {.names = json_array()};
        json_t *name;
        size_t i;

        kube_list_new(visit->client, &(struct kube_list_options){.path = collection,
                                             .field_selector = selector,
                                             .is_metadata = true,
                                             .on_object = on_slice,
                                             .on_end = on_slices_listed,
                                             .data = &slices});
        api_visit_wait(visit, &slices.answer.is_over);
        if (slices.answer.error.kind != ERROR_NONE)
                removals_end(removals, "ResourceSlice", driver, &slices.answer.error);
        else if (json_array_size(slices.names) == 0)
                removals_add(removals, REMOVAL_ABSENT, "ResourceSlice", driver, "%s", "");
        json_array_foreach(slices.names, i, name)
                api_delete_slice(removals, visit, collection, json_string_value(name));
        json_decref(slices.names);
        api_answer_done(&slices.answer);
}

void uninstall_slices(struct removals *removals, struct api_visit *visit, const struct config *config)
{
        _cleanup_(api_answer_done) struct api_answer group = {0};
        _free_ char *collection = NULL;
        enum dra_api api;

        if (!has_client(removals, visit, "ResourceSlice", config->dra.driver_name))
                return;
        api_ask(visit, (struct kube_request){.method = KUBE_GET, .path = DRA_API_GROUP}, &group);
        if (group.error.kind == ERROR_NONE && dra_api_of(&api, group.object)) {
                collection = dra_api_slices(api);
                delete_slices(removals, visit, config, collection);
        } else if (group.error.kind == ERROR_NONE || group.status == 404)
                removals_add(removals, REMOVAL_ABSENT, "ResourceSlice", config->dra.driver_name, "%s", "");
        else
                removals_end(removals, "ResourceSlice", config->dra.driver_name, &group.error);
}
