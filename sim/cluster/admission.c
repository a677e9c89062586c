// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster/admission.h"

#include <ctype.h>
#include <string.h>

#include "base/text.h"

#define NAMESPACE "default" /* the only one that there is */
#define ANNOTATIONS_MAX ((size_t)256 * 1024)
#define MERGE_PATCH "application/merge-patch+json"
#define APPLY_PATCH "application/apply-patch+yaml"

static unsigned int refuse(unsigned int status, int raised)
{
        return raised < 0 ? status : 0;
}

bool admission_has_query(const struct store_request *request, const char *wanted)
{
        const char *found = strstr(request->query, wanted);

        return found && (found == request->query || found[-1] == '&');
}

bool admission_is_apply(const struct store_request *request)
{
        return strcmp(request->method, "PATCH") == 0 && strcmp(request->content_type, APPLY_PATCH) == 0;
}

static const char *text_of(const json_t *object, const char *key)
{
        return json_string_value(json_object_get(object, key));
}

/* ---- a request ---- */

/* What is there has to be what the path says. */
static bool agrees(const json_t *object, const char *key, const char *wanted)
{
        const json_t *value = json_object_get(object, key);

        return !value || (json_is_string(value) && strcmp(json_string_value(value), wanted) == 0);
}

static unsigned int check_method(const struct address *address, const char *method, struct error *err)
{
        const bool is_create = strcmp(method, "POST") == 0;
        const bool is_known = is_create || strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0 ||
                              strcmp(method, "DELETE") == 0;
        const bool has_place = is_create ? !address->resource->is_namespaced || address->namespace[0] : true;

        if (is_known && has_place && is_create == !address->name[0])
                return 0;
        return refuse(
                405, error_set(err, ERROR_INVALID, "the server does not allow this method on the requested resource"));
}

static unsigned int check_type(const struct store_request *request, struct error *err)
{
        const char *type = request->content_type;
        const bool is_patch = strcmp(request->method, "PATCH") == 0;

        if (is_patch ? strcmp(type, MERGE_PATCH) == 0 || strcmp(type, APPLY_PATCH) == 0
                     : strcmp(type, "application/json") == 0)
                return 0;
        return refuse(
                415, error_set(err, ERROR_INVALID,
                             "the body of the request was in an unknown format - accepted media types include: %s",
                             is_patch ? MERGE_PATCH ", " APPLY_PATCH : "application/json"));
}

static unsigned int check_body(const struct address *address, const struct store_request *request, struct error *err)
{
        const json_t *body = request->body;
        const json_t *metadata = json_object_get(body, "metadata");

        if (!json_is_object(body) || (metadata && !json_is_object(metadata)))
                return refuse(400, error_set(err, ERROR_INVALID, "the body is no object with metadata"));
        if (!agrees(body, "apiVersion", address->resource->api_version) ||
                !agrees(body, "kind", address->resource->kind))
                return refuse(400, error_set(err, ERROR_INVALID,
                                           "apiVersion and kind of the data do not match the expected %s, %s",
                                           address->resource->api_version, address->resource->kind));
        if (address->name[0] && !agrees(metadata, "name", address->name))
                return refuse(400,
                        error_set(err, ERROR_INVALID, "the name of the object does not match the name on the URL"));
        if (!agrees(metadata, "namespace", address->namespace))
                return refuse(
                        400, error_set(err, ERROR_INVALID,
                                     "the namespace of the provided object does not match the namespace sent on the "
                                     "request"));
        if (!address->name[0] && !text_of(metadata, "name") && !text_of(metadata, "generateName"))
                return refuse(422, error_set(err, ERROR_INVALID,
                                           "metadata.name: Required value: name or generateName is required"));
        return 0;
}

static unsigned int check_apply(const struct store_request *request, struct error *err)
{
        if (!admission_is_apply(request))
                return refuse(
                        422, admission_has_query(request, "force=")
                                     ? error_set(err, ERROR_INVALID, "force: may not be specified for non-apply patch")
                                     : 0);
        if (!admission_has_query(request, "fieldManager="))
                return refuse(422, error_set(err, ERROR_INVALID, "fieldManager: is required for apply patch"));
        if (!text_of(request->body, "apiVersion") || !text_of(request->body, "kind"))
                return refuse(400, error_set(err, ERROR_INVALID, "apiVersion and kind must be set for apply patch"));
        if (json_object_get(json_object_get(request->body, "metadata"), "managedFields"))
                return refuse(400, error_set(err, ERROR_INVALID, "metadata.managedFields must be nil"));
        return 0;
}

unsigned int admission_check_request(
        const struct address *address, const struct store_request *request, struct error *err)
{
        unsigned int status = check_method(address, request->method, err);

        if (status)
                return status;
        if (request->size > ADMISSION_BODY_MAX)
                return refuse(413,
                        error_set(err, ERROR_INVALID, "Request entity too large: limit is %zu", ADMISSION_BODY_MAX));
        if (address->namespace[0] && strcmp(address->namespace, NAMESPACE) != 0)
                return refuse(404, error_set(err, ERROR_NOT_FOUND, "namespaces \"%s\" not found", address->namespace));
        if (strcmp(request->method, "DELETE") == 0)
                return 0;
        status = check_type(request, err);
        if (status == 0)
                status = check_body(address, request, err);
        return status ? status : check_apply(request, err);
}

/* ---- an object ---- */

static bool is_word(const char *text, size_t most)
{
        size_t length = strlen(text);

        for (const char *at = text; *at; at++)
                if (!isalnum((unsigned char)*at) && !strchr("-_.", *at))
                        return false;
        return length > 0 && length <= most && isalnum((unsigned char)text[0]) &&
               isalnum((unsigned char)text[length - 1]);
}

static bool is_subdomain(const char *text)
{
        return text && strlen(text) <= 253 && text_is_subdomain(text);
}

/* "[PREFIX/]NAME" */
static bool is_qualified(const char *key)
{
        const char *slash = strchr(key, '/');
        char prefix[254] = "";

        if (slash && (size_t)(slash - key) < sizeof(prefix))
                memcpy(prefix, key, (size_t)(slash - key));
        return slash ? is_subdomain(prefix) && is_word(slash + 1, 63) : is_word(key, 63);
}

static unsigned int check_pairs(const json_t *pairs, const char *what, bool are_labels, struct error *err)
{
        size_t total = 0;
        const char *key;
        json_t *value;

        if (pairs && !json_is_object(pairs) && !json_is_null(pairs))
                return refuse(400, error_set(err, ERROR_INVALID, "metadata.%s: must be an object", what));
        json_object_foreach((json_t *)(uintptr_t)pairs, key, value)
        {
                if (!json_is_string(value))
                        return refuse(400, error_set(err, ERROR_INVALID, "metadata.%s: '%s' is no text", what, key));
                if (!is_qualified(key))
                        return refuse(422, error_set(err, ERROR_INVALID,
                                                   "metadata.%s: Invalid value: '%s': no qualified name", what, key));
                if (are_labels && json_string_length(value) > 0 && !is_word(json_string_value(value), 63))
                        return refuse(
                                422, error_set(err, ERROR_INVALID,
                                             "metadata.%s: Invalid value: '%s': a label has up to 63 letters, digits, "
                                             "'-', '_' and '.', the first and the last one a letter or digit",
                                             what, json_string_value(value)));
                total += strlen(key) + json_string_length(value);
        }
        if (!are_labels && total > ANNOTATIONS_MAX)
                return refuse(
                        422, error_set(err, ERROR_INVALID, "metadata.%s: Too long: may not be more than %zu bytes",
                                     what, ANNOTATIONS_MAX));
        return 0;
}

/* An event is in the namespace of its object; in "default" if the object has none. */
static unsigned int check_event(const struct address *address, const json_t *object, struct error *err)
{
        const char *of = text_of(json_object_get(object, "involvedObject"), "namespace");

        if (strcmp(address->namespace, of && *of ? of : "default") == 0)
                return 0;
        return refuse(
                422, error_set(err, ERROR_INVALID, "involvedObject.namespace: Invalid value: '%s': does not match '%s'",
                             of ? of : "", address->namespace));
}

unsigned int admission_check_object(const struct address *address, const json_t *object, struct error *err)
{
        const json_t *metadata = json_object_get(object, "metadata");
        unsigned int status;

        if (!is_subdomain(address->name))
                return refuse(422, error_set(err, ERROR_INVALID,
                                           "metadata.name: Invalid value: '%s': no RFC 1123 subdomain", address->name));
        status = check_pairs(json_object_get(metadata, "labels"), "labels", true, err);
        if (status == 0)
                status = check_pairs(json_object_get(metadata, "annotations"), "annotations", false, err);
        if (status == 0 && strcmp(address->resource->kind, "Event") == 0)
                status = check_event(address, object, err);
        return status;
}

/* ---- versions ---- */

unsigned int admission_check_version(
        const struct address *address, const json_t *wanted, const json_t *object, struct error *err)
{
        static const char *const keys[] = {"resourceVersion", "uid"};
        const json_t *metadata = json_object_get(object, "metadata");

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
                const json_t *value = json_object_get(wanted, keys[i]);

                if (json_string_length(value) > 0 && !json_equal(value, json_object_get(metadata, keys[i])))
                        return refuse(409,
                                error_set(err, ERROR_INVALID,
                                        "Operation cannot be fulfilled on %s \"%s\": the object has been modified: %s",
                                        address->resource->name, address->name, keys[i]));
        }
        return 0;
}
