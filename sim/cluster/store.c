// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster/store.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* ---- watches ---- */

bool store_is_watch(const struct store_request *request, char **ret_collection, json_int_t *ret_version)
{
        const char *version = strstr(request->query, "resourceVersion=");
        struct address address;

        if (strcmp(request->method, "GET") != 0 ||
                !(admission_has_query(request, "watch=1") || admission_has_query(request, "watch=true")) ||
                !address_read(&address, request->path))
                return false;
        *ret_collection = xstrdup(address.collection);
        *ret_version = version ? strtoll(version + strlen("resourceVersion="), NULL, 10) : 0;
        return true;
}

/* ---- objects ---- */

void store_init(struct store *store)
{
        *store = (struct store){json_object(), json_array(), json_object(), 1};
}

void store_done(struct store *store)
{
        json_decref(store->collections);
        json_decref(store->log);
        json_decref(store->applied);
}

static json_t *metadata_of(json_t *object)
{
        json_t *metadata = json_object_get(object, "metadata");

        if (!metadata) {
                metadata = json_object();
                json_object_set_new(object, "metadata", metadata);
        }
        return metadata;
}

static json_t *find(const struct store *store, const struct address *address)
{
        return json_object_get(json_object_get(store->collections, address->collection), address->name);
}

static void record(struct store *store, const char *collection, const char *type, json_t *object)
{
        json_object_set_new(metadata_of(object), "resourceVersion", json_sprintf("%lld", (long long)++store->version));
        json_array_append_new(
                store->log, json_pack("{s:s, s:I, s:{s:s, s:o}}", "collection", collection, "version", store->version,
                                    "event", "type", type, "object", json_deep_copy(object)));
}

/* Stores |object| in place of |before|, which may be NULL; takes the reference to |object|. */
static json_t *put_object(struct store *store, const struct address *address, json_t *object, const json_t *before)
{
        static const char *const kept[] = {"uid", "name", "namespace"};
        json_t *collection = json_object_get(store->collections, address->collection);
        json_t *metadata = metadata_of(object);

        if (!collection) {
                collection = json_object();
                json_object_set_new(store->collections, address->collection, collection);
        }
        for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++) {
                json_t *value = json_object_get(json_object_get(before, "metadata"), kept[i]);

                if (value)
                        json_object_set(metadata, kept[i], value);
        }
        if (!before)
                json_object_set_new(metadata, "uid",
                        json_sprintf("00000000-0000-4000-9000-%012lld", (long long)store->version + 1));
        json_object_set_new(metadata, "name", json_string(address->name));
        record(store, address->collection, before ? "MODIFIED" : "ADDED", object);
        json_object_set_new(collection, address->name, object);
        return object;
}

const json_t *store_put(struct store *store, const char *collection, json_t *object)
{
        const char *name = json_string_value(json_object_get(metadata_of(object), "name"));
        _free_ char *path = xasprintf("%s/%s", collection, name);
        struct address address;
        bool is_known = address_read(&address, path);

        assert(is_known);
        return put_object(store, &address, object, find(store, &address));
}

static void merge(json_t *target, const json_t *patch)
{
        const char *key;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)patch, key, value)
        {
                json_t *there = json_object_get(target, key);

                if (json_is_null(value))
                        json_object_del(target, key);
                else if (json_is_object(value) && json_is_object(there))
                        merge(there, value);
                else
                        json_object_set_new(target, key, json_deep_copy(value));
        }
}

/* What the manager applied last and leaves out now is removed. */
static void remove_left_out(json_t *object, const json_t *applied, const json_t *body)
{
        const char *key;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)applied, key, value)
        {
                json_t *there = json_object_get(object, key);
                const json_t *now = json_object_get(body, key);

                if (json_is_object(value) && json_is_object(there))
                        remove_left_out(there, value, now);
                else if (!now)
                        json_object_del(object, key);
        }
}

static char *manager_of(const struct store_request *request)
{
        const char *at = strstr(request->query, "fieldManager=");

        return xasprintf("%.*s", (int)strcspn(at, "&"), at);
}

/* Server-side apply, without a look at what other managers have applied. */
static void apply(const struct store *store, json_t *object, const struct store_request *request)
{
        const char *uid = json_string_value(json_object_get(metadata_of(object), "uid"));
        _free_ char *manager = manager_of(request);

        remove_left_out(object, json_object_get(json_object_get(store->applied, uid), manager), request->body);
        merge(object, request->body);
}

static void note_applied(struct store *store, const json_t *object, const struct store_request *request)
{
        const char *uid = json_string_value(json_object_get(json_object_get(object, "metadata"), "uid"));
        _free_ char *manager = manager_of(request);
        json_t *managers = json_object_get(store->applied, uid);

        if (!managers) {
                managers = json_object();
                json_object_set_new(store->applied, uid, managers);
        }
        json_object_set_new(managers, manager, json_deep_copy(request->body));
}

/* ---- requests ---- */

static unsigned int answer_refusal(json_t **ret_answer, unsigned int code, const char *message)
{
        static const struct {
                unsigned int code;
                const char *reason;
        } reasons[] = {
                {400, "BadRequest"},
                {404, "NotFound"},
                {405, "MethodNotAllowed"},
                {409, "Conflict"},
                {413, "RequestEntityTooLarge"},
                {415, "UnsupportedMediaType"},
                {422, "Invalid"},
        };
        const char *reason = "";

        for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
                if (reasons[i].code == code)
                        reason = reasons[i].reason;
        *ret_answer = json_pack("{s:s, s:s, s:s, s:s, s:s, s:i}", "kind", "Status", "apiVersion", "v1", "status",
                "Failure", "reason", reason, "message", message, "code", (int)code);
        return code;
}

static unsigned int answer_missing(json_t **ret_answer, const char *what, const char *name)
{
        _free_ char *message = xasprintf("%s \"%s\" not found", what, name);

        return answer_refusal(ret_answer, 404, message);
}

/* Puts |object|, of which this takes the reference, unless it is not to be: then it is released. */
static unsigned int admit(struct store *store, const struct address *address, const struct store_request *request,
        json_t *object, json_t *before, json_t **ret_answer)
{
        struct error err;
        unsigned int status = admission_check_object(address, object, &err);

        if (status) {
                json_decref(object);
                return answer_refusal(ret_answer, status, err.text);
        }
        if (admission_has_query(request, "dryRun=All")) {
                *ret_answer = object;
        } else {
                *ret_answer = json_deep_copy(put_object(store, address, object, before));
                if (admission_is_apply(request))
                        note_applied(store, object, request);
        }
        return before ? 200 : 201;
}

static unsigned int list(const struct store *store, const struct address *address, json_t **ret_answer)
{
        json_t *items = json_array();
        const char *name;
        json_t *object;

        json_object_foreach(json_object_get(store->collections, address->collection), name, object)
        {
                json_array_append_new(items, json_deep_copy(object));
        }
        *ret_answer = json_pack("{s:s, s:s, s:{s:o}, s:o}", "kind", "List", "apiVersion", "v1", "metadata",
                "resourceVersion", json_sprintf("%lld", (long long)store->version), "items", items);
        return 200;
}

static unsigned int create(
        struct store *store, struct address *address, const struct store_request *request, json_t **ret_answer)
{
        json_t *object = json_deep_copy(request->body);
        json_t *metadata = metadata_of(object);
        const char *name = json_string_value(json_object_get(metadata, "name"));
        const char *start = json_string_value(json_object_get(metadata, "generateName"));

        if (name)
                snprintf(address->name, sizeof(address->name), "%s", name);
        else
                snprintf(address->name, sizeof(address->name), "%s%05lld", start ? start : "",
                        (long long)store->version % 100000);
        if (find(store, address)) {
                _free_ char *message = xasprintf("%s \"%s\" already exists", address->resource->name, address->name);

                json_decref(object);
                answer_refusal(ret_answer, 409, message);
                json_object_set_new(*ret_answer, "reason", json_string("AlreadyExists"));
                return 409;
        }
        return admit(store, address, request, object, NULL, ret_answer);
}

/* A write leaves the status alone, and a write of the status leaves the spec. */
static void keep_other_part(const struct address *address, json_t *object, const json_t *before)
{
        const char *part = address->is_status ? "spec" : "status";
        json_t *kept = json_object_get(before, part);

        if (!address->resource->has_status)
                return;
        json_object_del(object, part);
        if (kept)
                json_object_set(object, part, kept);
}

/* PUT and PATCH. Server-side apply creates an object that does not exist. */
static unsigned int change(
        struct store *store, const struct address *address, const struct store_request *request, json_t **ret_answer)
{
        const bool is_apply = admission_is_apply(request);
        json_t *before = find(store, address);
        json_t *object;
        unsigned int status;
        struct error err;

        if (!before)
                return is_apply && !address->is_status
                               ? admit(store, address, request, json_deep_copy(request->body), NULL, ret_answer)
                               : answer_missing(ret_answer, address->resource->name, address->name);
        status = admission_check_version(address, json_object_get(request->body, "metadata"), before, &err);
        if (status)
                return answer_refusal(ret_answer, status, err.text);
        object = json_deep_copy(strcmp(request->method, "PUT") == 0 ? request->body : before);
        if (is_apply)
                apply(store, object, request);
        else if (strcmp(request->method, "PATCH") == 0)
                merge(object, request->body);
        keep_other_part(address, object, before);
        return admit(store, address, request, object, before, ret_answer);
}

static unsigned int delete (
        struct store *store, const struct address *address, const struct store_request *request, json_t **ret_answer)
{
        json_t *object = find(store, address);
        struct error err;
        unsigned int status;

        if (!object)
                return answer_missing(ret_answer, address->resource->name, address->name);
        status = admission_check_version(address, json_object_get(request->body, "preconditions"), object, &err);
        if (status)
                return answer_refusal(ret_answer, status, err.text);
        record(store, address->collection, "DELETED", object);
        json_object_del(json_object_get(store->collections, address->collection), address->name);
        *ret_answer = json_pack("{s:s, s:s}", "kind", "Status", "status", "Success");
        return 200;
}

static json_t *make_discovery(const char *path)
{
        if (strcmp(path, "/version") == 0)
                return json_pack("{s:s, s:s, s:s}", "major", "1", "minor", "36", "gitVersion", "v1.36.2");
        if (strcmp(path, "/apis/resource.k8s.io") == 0)
                return json_pack("{s:s, s:s, s:[{s:s, s:s}]}", "kind", "APIGroup", "name", "resource.k8s.io",
                        "versions", "groupVersion", "resource.k8s.io/v1", "version", "v1");
        return NULL;
}

static unsigned int get(const struct store *store, const struct address *address, json_t **ret_answer)
{
        json_t *object = find(store, address);

        if (!address->name[0])
                return list(store, address, ret_answer);
        if (!object)
                return answer_missing(ret_answer, address->resource->name, address->name);
        *ret_answer = json_deep_copy(object);
        return 200;
}

unsigned int store_serve(struct store *store, const struct store_request *request, json_t **ret_answer)
{
        const bool is_get = strcmp(request->method, "GET") == 0;
        struct address address;
        struct error err;
        unsigned int status;

        if (is_get && (*ret_answer = make_discovery(request->path)))
                return 200;
        if (!address_read(&address, request->path))
                return answer_refusal(ret_answer, 404, "the server could not find the requested resource");
        if (is_get)
                return get(store, &address, ret_answer);
        status = admission_check_request(&address, request, &err);
        if (status)
                return answer_refusal(ret_answer, status, err.text);
        if (strcmp(request->method, "POST") == 0)
                return create(store, &address, request, ret_answer);
        return strcmp(request->method, "DELETE") == 0 ? delete (store, &address, request, ret_answer)
                                                      : change(store, &address, request, ret_answer);
}
