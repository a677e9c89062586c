#include "node/dra/status_sender.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/log.h"
#include "node/dra/status.h"
#include "net/kube/object.h"

#define HTTP_NOT_FOUND 404U

struct dra_status_sender {
        struct kube_client *client;
        char *driver;
        char *pool;
        struct list sendings;
        bool is_failing; /* the log says so */
};

struct sending {
        struct list link;
        struct dra_status_sender *sender;
        struct kube_call *call;
        char *uid;
};

static void sending_free(struct sending *sending)
{
        list_remove(&sending->link);
        kube_call_cancel(sending->call);
        free(sending->uid);
        free(sending);
}

static void on_status_sent(const struct kube_answer *answer, void *data)
{
        struct sending *sending = data;
        struct dra_status_sender *sender = sending->sender;

        sending->call = NULL;
        sending_free(sending);
        if (!answer->error) {
                sender->is_failing = false;
        } else if (answer->status == HTTP_NOT_FOUND) {
                log_debug("the DRA claim is gone, so its status is not written", LOG_ERR(answer->error));
        } else if (sender->is_failing) {
                log_debug("the status of another DRA claim could not be written", LOG_ERR(answer->error));
        } else {
                sender->is_failing = true;
                log_warn("the status of a DRA claim could not be written; its devices are not affected",
                        LOG_ERR(answer->error));
        }
}

static struct sending *find_sending(const struct dra_status_sender *sender, const char *uid)
{
        LIST_FOR_EACH(link, &sender->sendings) {
                struct sending *sending = container_of(link, struct sending, link);

                if (strcmp(sending->uid, uid) == 0)
                        return sending;
        }
        return NULL;
}

/* Takes the reference to |body|. */
static void send_status(struct dra_status_sender *sender, enum dra_api api, const char *namespace, const char *name,
        const char *uid, json_t *body)
{
        _free_ char *group = xasprintf("/apis/resource.k8s.io/%s", dra_api_name(api));
        _free_ char *collection = object_collection(group, namespace, "resourceclaims");
        _free_ char *object = object_path(collection, name);
        _free_ char *path = xasprintf("%s/status", object);
        struct sending *sending = find_sending(sender, uid);

        if (sending)
                sending_free(sending);
        sending = xcalloc(1, sizeof(*sending));
        sending->sender = sender;
        sending->uid = xstrdup(uid);
        list_append(&sender->sendings, &sending->link);
        sending->call = kube_client_send(sender->client, &(struct kube_request){.method = KUBE_APPLY,
                                                                 .path = path,
                                                                 .body = body,
                                                                 .field_manager = sender->driver,
                                                                 .force = true,
                                                                 .done = on_status_sent,
                                                                 .data = sending});
        json_decref(body);
}

void dra_status_send_prepared(
        struct dra_status_sender *sender, enum dra_api api, const struct dra_prepared_claim *claim)
{
        _free_ char *now = object_time((int64_t)time(NULL) * 1000000);
        const struct dra_status_options options = {
                .api = api, .driver = sender->driver, .pool = sender->pool, .time = now};

        send_status(sender, api, claim->namespace, claim->name, claim->uid, dra_status_prepared(claim, &options));
}

void dra_status_send_removed(struct dra_status_sender *sender, enum dra_api api, const struct dra_service_claim *claim)
{
        send_status(sender, api, claim->namespace, claim->name, claim->uid,
                dra_status_removed(claim->uid, claim->name, claim->namespace, api));
}

struct dra_status_sender *dra_status_sender_new(struct kube_client *client, const char *driver, const char *pool)
{
        struct dra_status_sender *sender = xcalloc(1, sizeof(*sender));

        sender->client = client;
        sender->driver = xstrdup(driver);
        sender->pool = xstrdup(pool);
        list_init(&sender->sendings);
        return sender;
}

struct dra_status_sender *dra_status_sender_free(struct dra_status_sender *sender)
{
        if (!sender)
                return NULL;
        while (!list_is_empty(&sender->sendings))
                sending_free(container_of(sender->sendings.next, struct sending, link));
        free(sender->driver);
        free(sender->pool);
        free(sender);
        return NULL;
}
