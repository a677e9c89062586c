#include "net/kube/edit.h"

#include <string.h>

#include "base/alloc.h"
#include "net/kube/object.h"

struct call_edit {
        struct kube_edit options; /* |path| and |status_path| are owned */
        char *query;
        unsigned int tries; /* begun */
        bool is_sent_back;  /* the change is being sent; false: the object is being read */
};

struct call_edit *edit_free(struct call_edit *edit)
{
        if (!edit)
                return NULL;
        free((void *)(uintptr_t)edit->options.path);
        free((void *)(uintptr_t)edit->options.status_path);
        free(edit->query);
        free(edit);
        return NULL;
}

static struct call_step edit_ask(struct call_edit *edit)
{
        edit->is_sent_back = false;
        edit->tries++;
        return (struct call_step){.method = KUBE_GET, .path = edit->options.path};
}

/* The body that changes |before| into |after|; NULL if they are equal. */
static char *make_body(const struct call_edit *edit, json_t *before, json_t *after)
{
        const char *version = object_text(before, "metadata", "resourceVersion", NULL);
        json_t *body = edit->options.replace ? json_incref(after) : object_difference(before, after);
        char *text = NULL;

        if (edit->options.replace ? !json_equal(before, after) : json_object_size(body) > 0) {
                if (version)
                        json_object_set_new(
                                object_make(body, "metadata", NULL), "resourceVersion", json_string(version));
                text = json_dumps(body, JSON_COMPACT);
        }
        json_decref(body);
        return text;
}

/* The object was read. The callback may change it in place, so the original is kept. */
static bool send_back(struct call_edit *edit, const struct kube_answer *answer, struct call_step *ret_next,
        struct kube_answer *ret_answer)
{
        const struct kube_edit *options = &edit->options;
        json_t *after = json_deep_copy(answer->object);
        char *body = options->edit(after, options->data) ? make_body(edit, answer->object, after) : NULL;

        json_decref(after);
        if (!body) {
                *ret_answer = *answer;
                json_incref(ret_answer->object);
                return false;
        }
        edit->is_sent_back = true;
        *ret_next = (struct call_step){.method = options->replace ? KUBE_REPLACE : KUBE_MERGE_PATCH,
                .path = options->status_path ? options->status_path : options->path,
                .query = edit->query,
                .body = body};
        return true;
}

bool edit_step(struct call_edit *edit, const struct kube_answer *answer, struct call_step *ret_next,
        struct kube_answer *ret_answer)
{
        if (!edit->is_sent_back)
                return !answer->error && send_back(edit, answer, ret_next, ret_answer);
        if (answer->status != 409 || edit->tries >= KUBE_EDIT_TRIES)
                return false;
        *ret_next = edit_ask(edit);
        return true;
}

struct call_edit *edit_new(const struct kube_edit *options, char *query, struct call_step *ret_first)
{
        struct call_edit *edit = xcalloc(1, sizeof(*edit));

        edit->options = *options;
        edit->options.path = xstrdup(options->path);
        edit->options.status_path = xstrdup(options->status_path);
        edit->query = query;
        *ret_first = edit_ask(edit);
        return edit;
}
