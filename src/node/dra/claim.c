// SPDX-License-Identifier: Apache-2.0
#include "node/dra/claim.h"

#include <string.h>

#include "base/text.h"
#include "net/kube/object.h"

#define CAPACITY_NAME_MAX ((size_t)(63 + 1 + 32))
#define LOWER_ALNUM "abcdefghijklmnopqrstuvwxyz0123456789"
#define SHOWN 64 /* bytes of a value in an error */

/* ---- names ---- */

bool dra_name_is_uid(const char *text)
{
        const size_t length = strspn(text, LOWER_ALNUM "ABCDEFGHIJKLMNOPQRSTUVWXYZ-");

        return length > 0 && length <= DRA_NAME_MAX && !text[length];
}

bool dra_name_is_label(const char *text, size_t length)
{
        return length > 0 && length <= DRA_NAME_MAX && strspn(text, LOWER_ALNUM "-") >= length && text[0] != '-' &&
               text[length - 1] != '-';
}

/* Whether |text| is a UUID in lower case. */
static bool dra_name_is_uuid(const char *text)
{
        static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

        for (size_t i = 0; i < sizeof(form); i++)
                if (form[i] == 'x' ? !text[i] || !strchr("0123456789abcdef", text[i]) : text[i] != form[i])
                        return false;
        return true;
}

/* ---- lists ---- */

struct reading {
        struct arena *arena;
        const char *driver;
        const char *pool;
        struct error *err;
};

/* The array at |key|; NULL without an error if it is missing. */
static int claim_read_list(
        const struct reading *reading, const json_t *object, const char *key, size_t most, const json_t **ret)
{
        const json_t *list = json_object_get(object, key);

        *ret = NULL;
        if (!list || json_is_null(list))
                return 0;
        if (!json_is_array(list))
                return error_set(reading->err, ERROR_INVALID, "%s: not a list", key);
        if (json_array_size(list) > most)
                return error_set(reading->err, ERROR_INVALID, "%s: %zu entries, at most %zu are allowed", key,
                        json_array_size(list), most);
        *ret = list;
        return 0;
}

/* ---- results ---- */

static int claim_read_request(
        const struct reading *reading, const char *text, const char **ret_name, const char **ret_sub)
{
        const size_t length = text ? strcspn(text, "/") : 0;
        const char *sub = text && text[length] ? text + length + 1 : NULL;

        if (!text || !dra_name_is_label(text, length) || (sub && !dra_name_is_label(sub, strlen(sub))))
                return error_set(reading->err, ERROR_INVALID,
                        "request: '%.*s', must be a DNS label of at most %zu characters, or two with a '/' between",
                        SHOWN, text ? text : "", DRA_NAME_MAX);
        *ret_name = arena_strndup(reading->arena, text, length);
        *ret_sub = arena_strdup(reading->arena, sub);
        return 0;
}

static int read_capacities(const struct reading *reading, const json_t *object, struct dra_result *result)
{
        struct dra_claim_capacity *capacities;
        const char *name;
        json_t *value;

        if (!object || json_is_null(object))
                return 0;
        if (!json_is_object(object) || json_object_size(object) > DRA_CLAIM_CAPACITIES_MAX)
                return error_set(reading->err, ERROR_INVALID,
                        "consumedCapacity: must be an object of at most %zu entries", DRA_CLAIM_CAPACITIES_MAX);
        capacities = ARENA_ARRAY(reading->arena, struct dra_claim_capacity, json_object_size(object));
        json_object_foreach((json_t *)(uintptr_t)object, name, value)
        {
                struct dra_claim_capacity *capacity = &capacities[result->n_capacities++];

                if (strlen(name) > CAPACITY_NAME_MAX)
                        return error_set(reading->err, ERROR_INVALID,
                                "consumedCapacity: name '%.*s…' is longer than %zu characters", SHOWN, name,
                                CAPACITY_NAME_MAX);
                if (!json_is_string(value) || !quantity_value(json_string_value(value), &capacity->value))
                        return error_set(reading->err, ERROR_INVALID,
                                "consumedCapacity %s: '%.*s', must be a quantity from 0 to 2^63-1", name, SHOWN,
                                json_is_string(value) ? json_string_value(value) : "");
                capacity->name = arena_strdup(reading->arena, name);
        }
        result->capacities = capacities;
        return 0;
}

static int read_result(const struct reading *reading, const json_t *object, struct dra_result *ret)
{
        const char *device = object_text(object, "device", NULL);
        const json_t *share = json_object_get(object, "shareID");
        const char *share_id = json_string_value(share);

        if (claim_read_request(reading, object_text(object, "request", NULL), &ret->request, &ret->subrequest) < 0)
                return -1;
        if (!device || !dra_name_is_label(device, strlen(device)))
                return error_set(reading->err, ERROR_INVALID,
                        "device: '%.*s', must be a DNS label of at most %zu characters", SHOWN, device ? device : "",
                        DRA_NAME_MAX);
        if (share && !json_is_null(share) && (!share_id || !dra_name_is_uuid(share_id)))
                return error_set(reading->err, ERROR_INVALID, "shareID: '%.*s', must be a UUID in lower case", SHOWN,
                        share_id ? share_id : "");
        ret->pool = arena_strdup(reading->arena, object_text(object, "pool", NULL));
        ret->device = arena_strdup(reading->arena, device);
        ret->share_id = arena_strdup(reading->arena, share_id);
        ret->is_admin = json_is_true(json_object_get(object, "adminAccess"));
        return read_capacities(reading, json_object_get(object, "consumedCapacity"), ret);
}

/* Whether two results are the same share or device. The scheduler gives each only once, except with admin access. */
static bool is_same_part(const struct dra_result *a, const struct dra_result *b)
{
        return !a->is_admin && !b->is_admin && strcmp(a->device, b->device) == 0 &&
               (!a->share_id || !b->share_id || strcmp(a->share_id, b->share_id) == 0);
}

static bool claim_is_ours(const json_t *result, const char *driver, const char *pool)
{
        return text_is_same(object_text(result, "driver", NULL), driver) &&
               text_is_same(object_text(result, "pool", NULL), pool);
}

static int claim_read_results(const struct reading *reading, const json_t *devices, struct dra_claim *claim)
{
        struct dra_result *results;
        const json_t *list;
        json_t *object;
        size_t i;

        if (claim_read_list(reading, devices, "results", DRA_CLAIM_RESULTS_MAX, &list) < 0)
                return -1;
        results = ARENA_ARRAY(reading->arena, struct dra_result, json_array_size(list));
        json_array_foreach(list, i, object)
        {
                struct dra_result *result = &results[claim->n_results];

                if (!claim_is_ours(object, reading->driver, reading->pool))
                        continue;
                if (read_result(reading, object, result) < 0)
                        return error_prefix(reading->err, "results[%zu]", i);
                for (size_t other = 0; other < claim->n_results; other++)
                        if (is_same_part(&results[other], result))
                                return error_set(reading->err, ERROR_INVALID,
                                        "results[%zu]: device '%s' is there twice", i, result->device);
                claim->n_results++;
        }
        claim->results = results;
        if (claim->n_results == 0)
                return error_set(reading->err, ERROR_INVALID, "no result is of driver '%s' and pool '%s'",
                        reading->driver, reading->pool);
        return 0;
}

/* ---- configurations ---- */

static int read_config_requests(const struct reading *reading, const json_t *object, struct dra_claim_config *config)
{
        const char **requests;
        const json_t *list;
        json_t *request;
        size_t i;

        if (claim_read_list(reading, object, "requests", DRA_CLAIM_RESULTS_MAX, &list) < 0)
                return -1;
        requests = ARENA_ARRAY(reading->arena, const char *, json_array_size(list));
        json_array_foreach(list, i, request)
        {
                const char *name;
                const char *sub;

                if (claim_read_request(reading, json_string_value(request), &name, &sub) < 0)
                        return -1;
                requests[config->n_requests++] = arena_strdup(reading->arena, json_string_value(request));
        }
        config->requests = requests;
        return 0;
}

static int claim_read_config(const struct reading *reading, const json_t *object, struct dra_claim_config *ret)
{
        const char *source = object_text(object, "source", NULL);

        *ret = (struct dra_claim_config){.parameters = object_find(object, "opaque", "parameters", NULL)};
        ret->is_of_class = source && strcmp(source, "FromClass") == 0;
        if (!ret->is_of_class && (!source || strcmp(source, "FromClaim") != 0))
                return error_set(reading->err, ERROR_INVALID, "source: '%.*s', must be FromClass or FromClaim", SHOWN,
                        source ? source : "");
        if (!json_is_object(ret->parameters))
                return error_set(reading->err, ERROR_INVALID, "opaque.parameters: not an object");
        return read_config_requests(reading, object, ret);
}

static int claim_read_configs(const struct reading *reading, const json_t *devices, struct dra_claim *claim)
{
        struct dra_claim_config *configs;
        const json_t *list;

        if (claim_read_list(reading, devices, "config", DRA_CLAIM_CONFIGS_MAX, &list) < 0)
                return -1;
        configs = ARENA_ARRAY(reading->arena, struct dra_claim_config, json_array_size(list));
        for (int of_class = 1; of_class >= 0; of_class--)
                for (size_t i = 0; i < json_array_size(list); i++) {
                        const json_t *object = json_array_get(list, i);
                        const char *driver = object_text(object, "opaque", "driver", NULL);
                        struct dra_claim_config config;

                        if (!driver || strcmp(driver, reading->driver) != 0)
                                continue;
                        if (claim_read_config(reading, object, &config) < 0)
                                return error_prefix(reading->err, "config[%zu]", i);
                        if (config.is_of_class == of_class)
                                configs[claim->n_configs++] = config;
                }
        claim->configs = configs;
        return 0;
}

/* ---- the claim ---- */

static int read_pods(const struct reading *reading, const json_t *object, struct dra_claim *claim)
{
        struct ledger_claim_pod *pods;
        const json_t *list;
        json_t *consumer;
        size_t i;

        if (claim_read_list(reading, object_find(object, "status", NULL), "reservedFor", DRA_CLAIM_PODS_MAX, &list) < 0)
                return -1;
        pods = ARENA_ARRAY(reading->arena, struct ledger_claim_pod, json_array_size(list));
        json_array_foreach(list, i, consumer)
        {
                const char *resource = object_text(consumer, "resource", NULL);
                const char *uid = object_text(consumer, "uid", NULL);
                const char *name = object_text(consumer, "name", NULL);

                if (resource && uid && name && strcmp(resource, "pods") == 0)
                        pods[claim->n_pods++] = (struct ledger_claim_pod){
                                .uid = arena_strdup(reading->arena, uid), .name = arena_strdup(reading->arena, name)};
        }
        claim->pods = pods;
        return 0;
}

/* A tenant may write any text here, and it becomes a part of a path: only what can be such a name counts. */
static const char *read_pod_claim_name(const struct reading *reading, const json_t *object)
{
        const char *name =
                object_text(object, "metadata", "annotations", "resource.kubernetes.io/pod-claim-name", NULL);

        return name && dra_name_is_label(name, strlen(name)) ? arena_strdup(reading->arena, name) : NULL;
}

static int read_claim(const struct reading *reading, const json_t *object, struct dra_claim *claim)
{
        const char *uid = object_text(object, "metadata", "uid", NULL);
        const json_t *devices = object_find(object, "status", "allocation", "devices", NULL);

        if (!uid || strcmp(uid, claim->uid) != 0)
                return error_set(reading->err, ERROR_NOT_FOUND,
                        "it is another one now: its UID is '%.*s' instead of '%s'", SHOWN, uid ? uid : "", claim->uid);
        if (!json_is_object(devices))
                return error_set(reading->err, ERROR_UNAVAILABLE, "it is not allocated");
        if (claim_read_results(reading, devices, claim) < 0 || claim_read_configs(reading, devices, claim) < 0)
                return error_prefix(reading->err, "status.allocation.devices");
        if (read_pods(reading, object, claim) < 0)
                return error_prefix(reading->err, "status");
        return 0;
}

int dra_claim_read(struct dra_claim *claim, struct arena *arena, const json_t *object, const char *driver,
        const char *pool, struct error *err)
{
        const struct reading reading = {.arena = arena, .driver = driver, .pool = pool, .err = err};

        if (read_claim(&reading, object, claim) < 0)
                return error_prefix(err, "ResourceClaim %s/%s", claim->namespace, claim->name);
        claim->pod_claim_name = read_pod_claim_name(&reading, object);
        return 0;
}

bool dra_claim_is_allocated(const struct dra_claim *claim, const json_t *object, const char *driver, const char *pool)
{
        const json_t *results = object_find(object, "status", "allocation", "devices", "results", NULL);
        const json_t *result;
        size_t i;

        if (!text_is_same(object_text(object, "metadata", "uid", NULL), claim->uid))
                return false;
        json_array_foreach(results, i, result)
        {
                if (claim_is_ours(result, driver, pool))
                        return true;
        }
        return false;
}

/* ---- what it is ---- */

struct dra_claim dra_claim_copy_names(struct arena *arena, const struct dra_claim *claim)
{
        return (struct dra_claim){.namespace = arena_strdup(arena, claim->namespace),
                .uid = arena_strdup(arena, claim->uid),
                .name = arena_strdup(arena, claim->name)};
}

bool dra_result_has_instance(const struct dra_result *result)
{
        return result->has_instance && result->instance.state != DRA_INSTANCE_NONE;
}

bool dra_claim_has_candidates(const struct dra_claim *claim)
{
        for (size_t i = 0; i < claim->n_results; i++)
                if (claim->results[i].has_instance)
                        return true;
        return false;
}

bool dra_claim_has_instances(const struct dra_claim *claim)
{
        for (size_t i = 0; i < claim->n_results; i++)
                if (dra_result_has_instance(&claim->results[i]))
                        return true;
        return false;
}

bool dra_claim_config_applies(const struct dra_claim_config *config, const struct dra_result *result)
{
        const size_t length = strlen(result->request);

        for (size_t i = 0; i < config->n_requests; i++) {
                const char *request = config->requests[i];

                if (strncmp(request, result->request, length) != 0)
                        continue;
                if (!request[length] || (request[length] == '/' && result->subrequest &&
                                                strcmp(request + length + 1, result->subrequest) == 0))
                        return true;
        }
        return config->n_requests == 0;
}

uint64_t dra_claim_capacity(const struct dra_result *result, const char *name, uint64_t otherwise)
{
        for (size_t i = 0; i < result->n_capacities; i++)
                if (strcmp(result->capacities[i].name, name) == 0)
                        return result->capacities[i].value;
        return otherwise;
}
