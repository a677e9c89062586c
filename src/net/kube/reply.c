#include "net/kube/reply.h"

#include <string.h>

#include "net/kube/body.h"
#include "net/kube/client.h"
#include "net/kube/object.h"

static enum error_kind reply_kind_of(unsigned int status)
{
        switch (status) {
        case 400:
        case 413:
        case 422:
                return ERROR_INVALID;
        case 401:
        case 403:
                return ERROR_DENIED;
        case 404:
        case 410:
                return ERROR_NOT_FOUND;
        case 405:
        case 406:
        case 415:
                return ERROR_UNSUPPORTED;
        case 408:
        case 504:
                return ERROR_TIMEOUT;
        default:
                return ERROR_UNAVAILABLE;
        }
}

void status_error(struct error *err, unsigned int status, const json_t *object)
{
        const char *reason = json_string_value(json_object_get(object, "reason"));
        const char *message = json_string_value(json_object_get(object, "message"));

        error_raise(err, reply_kind_of(status), "status %u%s%.60s%s%.300s", status, reason && *reason ? " " : "",
                reason ? reason : "", message && *message ? ": " : "", message ? message : "");
}

void reply_read(struct reply *ret, const char *method, const char *path, const struct transfer_end *end)
{
        const char *reason;
        json_error_t problem;

        *ret = (struct reply){.reason = "", .is_too_large = end->is_too_large};
        if (end->error) {
                ret->error = *end->error;
        } else if (body_count(end->body, end->size) > KUBE_ANSWER_VALUES) {
                ret->is_too_large = true;
                error_raise(&ret->error, ERROR_INVALID, "status %u with more than %zu values", end->status,
                        KUBE_ANSWER_VALUES);
        } else {
                ret->object = json_loadb(end->body, end->size, JSON_ALLOW_NUL, &problem);
                if (!json_is_object(ret->object)) {
                        json_decref(ret->object);
                        ret->object = NULL;
                }
                if (end->status / 100 != 2)
                        status_error(&ret->error, end->status, ret->object);
                else if (!ret->object)
                        error_raise(&ret->error, ERROR_INVALID, "status %u with %zu bytes that are no JSON object",
                                end->status, end->size);
        }
        reason = json_string_value(json_object_get(ret->object, "reason"));
        if (end->status / 100 != 2 && reason)
                ret->reason = reason;
        if (ret->error.kind != ERROR_NONE)
                error_prefix(&ret->error, "%s %.200s", method, path);
}

void reply_read_text(struct reply *ret, const char *method, const char *path, const struct transfer_end *end)
{
        if (end->error || end->status / 100 != 2)
                reply_read(ret, method, path, end);
        else
                *ret = (struct reply){.reason = ""};
}

void reply_done(struct reply *reply)
{
        json_decref(reply->object);
        reply->object = NULL;
}
