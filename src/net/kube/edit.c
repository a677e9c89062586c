/*
 * kube_client_edit(): one call that reads, changes and sends back an object, and starts again if somebody else changed
 * it first.
 */
#include <string.h>

#include "base/alloc.h"
#include "net/kube/client_parts.h"
#include "net/kube/object.h"

struct call_edit {
        char *path;
        char *status_path;
        char *field_manager;
        bool replace;
        bool (*edit)(json_t *object, void *data);
        unsigned int tries; /* begun */
        bool is_sent_back;  /* the change is being sent; false: the object is being read */
};

struct call_edit *edit_free(struct call_edit *edit)
{
        if (!edit)
                return NULL;
        free(edit->path);
        free(edit->status_path);
        free(edit->field_manager);
        free(edit);
        return NULL;
}

static void edit_ask(struct kube_call *call)
{
        call->edit->is_sent_back = false;
        call->edit->tries++;
        call_set(call, KUBE_GET, call->edit->path, NULL, NULL);
}

/* The body that changes |before| into |after|; NULL if they are equal. */
static char *make_body(const struct call_edit *edit, json_t *before, json_t *after)
{
        const char *version = object_text(before, "metadata", "resourceVersion", NULL);
        json_t *body = edit->replace ? json_incref(after) : object_difference(before, after);
        char *text = NULL;

        if (edit->replace ? !json_equal(before, after) : json_object_size(body) > 0) {
                if (version)
                        json_object_set_new(
                                object_make(body, "metadata", NULL), "resourceVersion", json_string(version));
                text = json_dumps(body, JSON_COMPACT);
        }
        json_decref(body);
        return text;
}

/* The object was read. The callback may change it in place, so the original is kept. */
static bool send_back(struct kube_call *call, const struct kube_answer *answer, struct kube_answer *ret_answer)
{
        struct call_edit *edit = call->edit;
        enum kube_method method = edit->replace ? KUBE_REPLACE : KUBE_MERGE_PATCH;
        json_t *after = json_deep_copy(answer->object);
        char *body = edit->edit(after, call->data) ? make_body(edit, answer->object, after) : NULL;

        json_decref(after);
        if (!body) {
                *ret_answer = *answer;
                json_incref(ret_answer->object);
                return false;
        }
        edit->is_sent_back = true;
        call_set(call, method, edit->status_path ? edit->status_path : edit->path,
                call_query(NULL, method, edit->field_manager, false), body);
        return true;
}

bool edit_step(struct kube_call *call, const struct kube_answer *answer, struct kube_answer *ret_answer)
{
        struct call_edit *edit = call->edit;

        if (!edit->is_sent_back)
                return !answer->error && send_back(call, answer, ret_answer);
        if (answer->status != 409 || edit->tries >= KUBE_EDIT_TRIES)
                return false;
        edit_ask(call);
        return true;
}

struct kube_call *kube_client_edit(struct kube_client *client, const struct kube_edit *edit)
{
        struct kube_call *call = call_new(client, edit->timeout_ms, edit->done, edit->data);

        call->edit = xcalloc(1, sizeof(*call->edit));
        call->edit->path = xstrdup(edit->path);
        call->edit->status_path = xstrdup(edit->status_path);
        call->edit->field_manager = xstrdup(edit->field_manager);
        call->edit->replace = edit->replace;
        call->edit->edit = edit->edit;
        edit_ask(call);
        call_begin(call);
        return call;
}
