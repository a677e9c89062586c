#include "cmd/uninstall/uninstall.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io/lock.h"
#include "net/kube/object.h"
#include "mig/record.h"
#include "mig/run.h"
#include "node/status/mig_labels.h"

/* ---- the folder ---- */

static const char what_record[] = "record of a MIG change";

/* |left|: why it stays if it is there; NULL: it does not. */
static void remove_record(struct removals *removals, const char *folder, const char *name, const char *left)
{
        _free_ char *path = xasprintf("%s/%s", folder, name);

        if (access(path, F_OK) < 0)
                removals_add(removals, errno == ENOENT ? REMOVAL_ABSENT : REMOVAL_UNSEEN, what_record, path, "%s",
                        errno == ENOENT ? "" : strerror(errno));
        else if (left)
                removals_add(removals, REMOVAL_LEFT, what_record, path, "%s", left);
        else if (!removals->is_dry && unlink(path) < 0)
                removals_add(removals, REMOVAL_LEFT, what_record, path, "%s", strerror(errno));
        else
                removals_add(removals, REMOVAL_DONE, what_record, path, "%s", "");
}

void uninstall_mig(struct removals *removals, const char *folder, bool is_forced)
{
        struct lock lock = LOCK_INIT;
        struct error err;
        const char *left = is_forced
                                   ? NULL
                                   : "the change is unfinished: 'warpshare mig apply --resume' finishes or undoes it; "
                                     "--force removes the record, and the geometry stays as it is";

        if (access(folder, F_OK) < 0 && errno == ENOENT) {
                removals_add(removals, REMOVAL_ABSENT, what_record, folder, "%s", "");
                return;
        }
        switch (lock_take_within(&lock, folder, LOCK_PATIENCE_MS, &err)) {
        case 0:
                remove_record(removals, folder, MIG_RECORD_NAME, left);
                remove_record(removals, folder, MIG_RUN_RECORD_NAME, NULL);
                /* The folder above it is not ours alone. */
                if (!removals->is_dry)
                        (void)rmdir(folder);
                break;
        case LOCK_BUSY:
                removals_add(removals, REMOVAL_LEFT, what_record, folder,
                        "another process changes the MIG geometry now: wait until it has ended");
                break;
        default:
                removals_add(removals, REMOVAL_UNSEEN, what_record, folder, "%s", err.text);
        }
        lock_release(&lock);
}

/* ---- the label ---- */

struct state_removal {
        struct removals *removals;
        struct kube_client *client;
        const char *node;
        char *path;
        bool is_over;
};

static void end_state(struct state_removal *removal, enum removal_outcome outcome, const char *note)
{
        removals_add(removal->removals, outcome, "label " MIG_STATE_LABEL, removal->node, "%s", note);
        removal->is_over = true;
}

static void on_state_removed(const struct kube_answer *answer, void *data)
{
        end_state(data, answer->error ? REMOVAL_LEFT : REMOVAL_DONE, answer->error ? answer->error->text : "");
}

/* By server-side apply: what is no longer in what we apply goes. */
static void remove_state(struct state_removal *removal)
{
        json_t *body =
                json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "Node", "metadata", "name", removal->node);

        kube_client_send(removal->client, &(struct kube_request){.method = KUBE_APPLY,
                                                  .path = removal->path,
                                                  .body = body,
                                                  .field_manager = MIG_LABELS_MANAGER,
                                                  .force = true,
                                                  .done = on_state_removed,
                                                  .data = removal});
        json_decref(body);
}

static bool is_told_by_us(const json_t *node)
{
        const json_t *managers = object_find(node, "metadata", "managedFields", NULL);

        for (size_t i = 0; i < json_array_size(managers); i++) {
                const char *manager = object_text(json_array_get(managers, i), "manager", NULL);

                if (manager && strcmp(manager, MIG_LABELS_MANAGER) == 0)
                        return true;
        }
        return false;
}

static void on_node_read(const struct kube_answer *answer, void *data)
{
        struct state_removal *removal = data;

        if (answer->error)
                end_state(removal, answer->status == 404 ? REMOVAL_ABSENT : REMOVAL_LEFT, answer->error->text);
        else if (!object_text(answer->object, "metadata", "labels", MIG_STATE_LABEL, NULL))
                end_state(removal, REMOVAL_ABSENT, "");
        else if (!is_told_by_us(answer->object))
                end_state(removal, REMOVAL_ABSENT, "another MIG manager has told it");
        else if (removal->removals->is_dry)
                end_state(removal, REMOVAL_DONE, "");
        else
                remove_state(removal);
}

void uninstall_mig_state(struct removals *removals, struct api_visit *visit, const char *node)
{
        struct state_removal removal = {.removals = removals, .client = visit->client, .node = node};

        if (!visit->client) {
                end_state(&removal, visit->is_outside ? REMOVAL_UNSEEN : REMOVAL_LEFT, visit->why.text);
                return;
        }
        removal.path = object_path("/api/v1/nodes", node);
        kube_client_send(visit->client,
                &(struct kube_request){
                        .method = KUBE_GET, .path = removal.path, .done = on_node_read, .data = &removal});
        api_visit_wait(visit, &removal.is_over);
        free(removal.path);
}
