#include "sim/cluster/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

/* ---- paths ---- */

/* "/apis/GROUP/VERSION[/namespaces/NAMESPACE]/RESOURCE[/NAME[/SUBRESOURCE]]" */
struct address {
        char collection[512];
        char name[256]; /* "" for none */
};

static size_t skip_parts(const char *path, unsigned int count)
{
        size_t at = 0;

        while (count-- && path[at] == '/')
                at += 1 + strcspn(path + at + 1, "/");
        return at;
}

static bool read_path(struct address *ret, const char *path)
{
        size_t end = skip_parts(path, text_starts_with(path, "/api/") ? 2 : 3);
        const char *rest;

        if (text_starts_with(path + end, "/namespaces/") && path[end + skip_parts(path + end, 2)])
                end += skip_parts(path + end, 2);
        if (!path[end])
                return false;
        end += skip_parts(path + end, 1);
        rest = path + end;
        return snprintf(ret->collection, sizeof(ret->collection), "%.*s", (int)end, path) <
                       (int)sizeof(ret->collection) &&
               snprintf(ret->name, sizeof(ret->name), "%.*s", *rest ? (int)strcspn(rest + 1, "/") : 0,
                       *rest ? rest + 1 : rest) < (int)sizeof(ret->name);
}

static bool has_query(const char *query, const char *wanted)
{
        const char *found = strstr(query, wanted);

        return found && (found == query || found[-1] == '&');
}

bool store_is_watch(const struct store_request *request, char **ret_collection, json_int_t *ret_version)
{
        const char *version = strstr(request->query, "resourceVersion=");
        struct address address;

        if (strcmp(request->method, "GET") != 0 ||
                !(has_query(request->query, "watch=1") || has_query(request->query, "watch=true")) ||
                !read_path(&address, request->path))
                return false;
        *ret_collection = xstrdup(address.collection);
        *ret_version = version ? strtoll(version + strlen("resourceVersion="), NULL, 10) : 0;
        return true;
}

/* ---- objects ---- */

void store_init(struct store *store)
{
        *store = (struct store){json_object(), json_array(), 1};
}

void store_done(struct store *store)
{
        json_decref(store->collections);
        json_decref(store->log);
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
        struct address address;

        snprintf(address.collection, sizeof(address.collection), "%s", collection);
        snprintf(address.name, sizeof(address.name), "%s", name);
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

/* ---- requests ---- */

static unsigned int refuse(json_t **ret_answer, unsigned int code, const char *reason, const char *name)
{
        *ret_answer = json_pack("{s:s, s:s, s:s, s:s, s:o, s:i}", "kind", "Status", "apiVersion", "v1", "status",
                "Failure", "reason", reason, "message", json_sprintf("%s: \"%s\"", reason, name), "code", (int)code);
        return code;
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
                json_decref(object);
                return refuse(ret_answer, 409, "AlreadyExists", address->name);
        }
        if (has_query(request->query, "dryRun=All"))
                *ret_answer = object;
        else
                *ret_answer = json_deep_copy(put_object(store, address, object, NULL));
        return 201;
}

static unsigned int replace(
        struct store *store, const struct address *address, const struct store_request *request, json_t **ret_answer)
{
        json_t *before = find(store, address);
        const json_t *asked = json_object_get(json_object_get(request->body, "metadata"), "resourceVersion");

        if (!before)
                return refuse(ret_answer, 404, "NotFound", address->name);
        if (asked && !json_equal(asked, json_object_get(metadata_of(before), "resourceVersion")))
                return refuse(ret_answer, 409, "Conflict", address->name);
        *ret_answer = json_deep_copy(put_object(store, address, json_deep_copy(request->body), before));
        return 200;
}

/* Server-side apply creates an object that does not exist. */
static unsigned int patch(
        struct store *store, const struct address *address, const struct store_request *request, json_t **ret_answer)
{
        json_t *before = find(store, address);
        json_t *object = before ? json_deep_copy(before) : json_object();

        if (!before && !has_query(request->query, "fieldManager=")) {
                json_decref(object);
                return refuse(ret_answer, 404, "NotFound", address->name);
        }
        merge(object, request->body);
        *ret_answer = json_deep_copy(put_object(store, address, object, before));
        return before ? 200 : 201;
}

static unsigned int delete (struct store *store, const struct address *address, json_t **ret_answer)
{
        json_t *object = find(store, address);

        if (!object)
                return refuse(ret_answer, 404, "NotFound", address->name);
        record(store, address->collection, "DELETED", object);
        json_object_del(json_object_get(store->collections, address->collection), address->name);
        *ret_answer = json_pack("{s:s, s:s}", "kind", "Status", "status", "Success");
        return 200;
}

static json_t *make_discovery(const char *path)
{
        if (strcmp(path, "/version") == 0)
                return json_pack("{s:s, s:s, s:s}", "major", "1", "minor", "36", "gitVersion", "v1.36.0");
        if (strcmp(path, "/apis/resource.k8s.io") == 0)
                return json_pack("{s:s, s:s, s:[{s:s, s:s}]}", "kind", "APIGroup", "name", "resource.k8s.io",
                        "versions", "groupVersion", "resource.k8s.io/v1", "version", "v1");
        return NULL;
}

unsigned int store_serve(struct store *store, const struct store_request *request, json_t **ret_answer)
{
        const bool is_get = strcmp(request->method, "GET") == 0;
        struct address address;

        if (is_get && (*ret_answer = make_discovery(request->path)))
                return 200;
        if (!read_path(&address, request->path))
                return refuse(ret_answer, 404, "NotFound", request->path);
        if (is_get && !address.name[0])
                return list(store, &address, ret_answer);
        if (is_get && find(store, &address)) {
                *ret_answer = json_deep_copy(find(store, &address));
                return 200;
        }
        if (strcmp(request->method, "DELETE") == 0)
                return delete (store, &address, ret_answer);
        if (is_get)
                return refuse(ret_answer, 404, "NotFound", address.name);
        if (!json_is_object(request->body))
                return refuse(ret_answer, 400, "BadRequest", request->path);
        if (strcmp(request->method, "POST") == 0)
                return create(store, &address, request, ret_answer);
        return strcmp(request->method, "PUT") == 0 ? replace(store, &address, request, ret_answer)
                                                   : patch(store, &address, request, ret_answer);
}
