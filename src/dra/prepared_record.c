/*
 * A claim is kept as its JSON, and as a struct whose texts are those of the JSON. What comes from the caller takes the same way as what
 * comes from the file, so nothing is ever written that could not be read.
 */
#include "dra/prepared_record.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "dra/name.h"

#define VERSION 1
#define BOOT_ID_MAX ((size_t)64)

struct entry {
        json_t *json;
        struct arena arena;
        struct dra_prepared_claim claim;
};

struct entries {
        struct entry **all;
        size_t count;
};

struct dra_record {
        char *path;
        char *boot_id;
        struct entries entries;
        bool has_read; /* |seen| is the file that the entries are of */
        struct stat seen;
};

static struct entry *entry_free(struct entry *entry)
{
        if (!entry)
                return NULL;
        arena_done(&entry->arena);
        json_decref(entry->json);
        free(entry);
        return NULL;
}

static void entries_done(struct entries *entries)
{
        for (size_t i = 0; i < entries->count; i++)
                entry_free(entries->all[i]);
        free(entries->all);
        *entries = (struct entries){0};
}

static void entries_append(struct entries *entries, struct entry *entry)
{
        entries->all = xrealloc(entries->all, (entries->count + 1) * sizeof(struct entry *));
        entries->all[entries->count++] = entry;
}

/* Its index, or the count. */
static size_t entries_find(const struct entries *entries, const char *uid)
{
        size_t i = 0;

        while (i < entries->count && strcmp(entries->all[i]->claim.uid, uid) != 0)
                i++;
        return i;
}

/* ---- to JSON ---- */

/* What could not be made, since a text is not UTF-8, is null there, and then the whole cannot be read. */
static void record_append(json_t *list, json_t *value)
{
        json_array_append_new(list, value ? value : json_null());
}

static json_t *write_edits(json_t *json, const struct dra_edits *edits)
{
        json_t *env = json_array(), *nodes = json_array(), *mounts = json_array();

        for (size_t i = 0; i < edits->n_env; i++)
                record_append(env, json_string(edits->env[i]));
        for (size_t i = 0; i < edits->n_nodes; i++) {
                const struct dra_edit_node *node = &edits->nodes[i];

                record_append(nodes, json_pack("{s:s, s:s, s:i, s:I}", "path", node->path, "hostPath", node->host_path,
                                             "mode", (int)(node->mode & 0777), "gid", (json_int_t)node->gid));
        }
        for (size_t i = 0; i < edits->n_mounts; i++) {
                const struct dra_edit_mount *mount = &edits->mounts[i];

                record_append(mounts, json_pack("{s:s, s:s, s:b}", "hostPath", mount->host_path, "path", mount->path,
                                              "writable", mount->is_writable));
        }
        json_object_set_new(json, "env", env);
        json_object_set_new(json, "nodes", nodes);
        json_object_set_new(json, "mounts", mounts);
        return json;
}

/* NULL: a text is not UTF-8. */
static json_t *write_result(const struct dra_prepared_result *result)
{
        json_t *json = json_pack("{s:s, s:s, s:s, s:s*, s:b, s:I, s:I, s:s*, s:s*, s:s, s:s*}", "request",
                result->request, "device", result->device, "unit", result->unit, "shareID", result->share_id,
                "adminAccess", result->is_admin, "memoryBytes", (json_int_t)result->memory_bytes, "threadPercentage",
                (json_int_t)result->thread_percentage, "tier", result->tier, "daemon", result->daemon, "cdiID",
                result->cdi_id, "unitCDIID", result->unit_cdi_id);

        return json ? write_edits(json, &result->edits) : NULL;
}

static json_t *write_claim(const struct dra_prepared_claim *claim)
{
        json_t *results = json_array();

        for (size_t i = 0; i < claim->n_results; i++)
                record_append(results, write_result(&claim->results[i]));
        return json_pack("{s:s, s:s, s:s, s:s, s:o}", "uid", claim->uid, "namespace", claim->namespace, "name",
                claim->name, "state", claim->state == DRA_PREPARED_DONE ? "prepared" : "started", "results", results);
}

/* ---- from JSON ---- */

struct record_reading {
        struct arena *arena;
        struct error *err;
};

static int take_text(
        const struct record_reading *reading, const json_t *object, const char *key, bool is_needed, const char **ret)
{
        const json_t *value = json_object_get(object, key);
        const char *text = json_string_value(value);

        *ret = text;
        if (!value && !is_needed)
                return 0;
        if (!text || !*text || strlen(text) > DRA_RECORD_TEXT_MAX)
                return error_set(
                        reading->err, ERROR_INVALID, "%s: must be a text of 1 to %zu bytes", key, DRA_RECORD_TEXT_MAX);
        return 0;
}

static int take_number(
        const struct record_reading *reading, const json_t *object, const char *key, uint64_t most, uint64_t *ret)
{
        const json_t *value = json_object_get(object, key);
        json_int_t number = json_integer_value(value);

        if (!json_is_integer(value) || number < 0 || (uint64_t)number > most)
                return error_set(reading->err, ERROR_INVALID, "%s: must be a number of 0 to %ju", key, (uintmax_t)most);
        *ret = (uint64_t)number;
        return 0;
}

static int take_list(
        const struct record_reading *reading, const json_t *object, const char *key, size_t most, const json_t **ret)
{
        *ret = json_object_get(object, key);
        if (!json_is_array(*ret) || json_array_size(*ret) > most)
                return error_set(reading->err, ERROR_INVALID, "%s: must be a list of at most %zu", key, most);
        return 0;
}

static int read_env(const struct record_reading *reading, const json_t *json, struct dra_edits *edits)
{
        const json_t *list;
        const char **env;

        if (take_list(reading, json, "env", DRA_RECORD_EDITS_MAX, &list) < 0)
                return -1;
        env = ARENA_ARRAY(reading->arena, const char *, json_array_size(list));
        edits->env = env;
        for (; edits->n_env < json_array_size(list); edits->n_env++) {
                const char *text = json_string_value(json_array_get(list, edits->n_env));

                if (!text || !strchr(text, '=') || strlen(text) > DRA_RECORD_TEXT_MAX)
                        return error_set(reading->err, ERROR_INVALID,
                                "env[%zu]: must be NAME=value of at most %zu bytes", edits->n_env, DRA_RECORD_TEXT_MAX);
                env[edits->n_env] = text;
        }
        return 0;
}

static int read_nodes(const struct record_reading *reading, const json_t *json, struct dra_edits *edits)
{
        const json_t *list;
        struct dra_edit_node *nodes;

        if (take_list(reading, json, "nodes", DRA_RECORD_EDITS_MAX, &list) < 0)
                return -1;
        nodes = ARENA_ARRAY(reading->arena, struct dra_edit_node, json_array_size(list));
        edits->nodes = nodes;
        for (; edits->n_nodes < json_array_size(list); edits->n_nodes++) {
                const json_t *object = json_array_get(list, edits->n_nodes);
                struct dra_edit_node *node = &nodes[edits->n_nodes];
                uint64_t mode, gid;

                if (take_text(reading, object, "path", true, &node->path) < 0 ||
                        take_text(reading, object, "hostPath", true, &node->host_path) < 0 ||
                        take_number(reading, object, "mode", 0777, &mode) < 0 ||
                        take_number(reading, object, "gid", UINT32_MAX, &gid) < 0)
                        return error_prefix(reading->err, "nodes[%zu]", edits->n_nodes);
                node->mode = (unsigned int)mode;
                node->gid = (unsigned int)gid;
        }
        return 0;
}

static int read_mounts(const struct record_reading *reading, const json_t *json, struct dra_edits *edits)
{
        const json_t *list;
        struct dra_edit_mount *mounts;

        if (take_list(reading, json, "mounts", DRA_RECORD_EDITS_MAX, &list) < 0)
                return -1;
        mounts = ARENA_ARRAY(reading->arena, struct dra_edit_mount, json_array_size(list));
        edits->mounts = mounts;
        for (; edits->n_mounts < json_array_size(list); edits->n_mounts++) {
                const json_t *object = json_array_get(list, edits->n_mounts);
                struct dra_edit_mount *mount = &mounts[edits->n_mounts];

                if (take_text(reading, object, "hostPath", true, &mount->host_path) < 0 ||
                        take_text(reading, object, "path", true, &mount->path) < 0)
                        return error_prefix(reading->err, "mounts[%zu]", edits->n_mounts);
                mount->is_writable = json_is_true(json_object_get(object, "writable"));
        }
        return 0;
}

static int read_prepared_result(
        const struct record_reading *reading, const json_t *json, struct dra_prepared_result *ret)
{
        uint64_t percentage;

        if (take_text(reading, json, "request", true, &ret->request) < 0 ||
                take_text(reading, json, "device", true, &ret->device) < 0 ||
                take_text(reading, json, "unit", true, &ret->unit) < 0 ||
                take_text(reading, json, "shareID", false, &ret->share_id) < 0 ||
                take_number(reading, json, "memoryBytes", INT64_MAX, &ret->memory_bytes) < 0 ||
                take_number(reading, json, "threadPercentage", 100, &percentage) < 0 ||
                take_text(reading, json, "tier", false, &ret->tier) < 0 ||
                take_text(reading, json, "daemon", false, &ret->daemon) < 0 ||
                take_text(reading, json, "cdiID", true, &ret->cdi_id) < 0 ||
                take_text(reading, json, "unitCDIID", false, &ret->unit_cdi_id) < 0 ||
                read_env(reading, json, &ret->edits) < 0 || read_nodes(reading, json, &ret->edits) < 0 ||
                read_mounts(reading, json, &ret->edits) < 0)
                return -1;
        ret->is_admin = json_is_true(json_object_get(json, "adminAccess")); /* absent: from before there was any */
        ret->thread_percentage = (unsigned int)percentage;
        return 0;
}

static int read_prepared_claim(
        const struct record_reading *reading, const json_t *json, struct dra_prepared_claim *claim)
{
        const char *state;
        const json_t *list;
        struct dra_prepared_result *results;

        if (take_text(reading, json, "uid", true, &claim->uid) < 0)
                return -1;
        if (!dra_name_is_uid(claim->uid))
                return error_set(reading->err, ERROR_INVALID, "uid: must be of letters, digits and '-', at most %zu",
                        DRA_NAME_MAX);
        if (take_text(reading, json, "namespace", true, &claim->namespace) < 0 ||
                take_text(reading, json, "name", true, &claim->name) < 0 ||
                take_text(reading, json, "state", true, &state) < 0 ||
                take_list(reading, json, "results", DRA_CLAIM_RESULTS_MAX, &list) < 0)
                return -1;
        claim->state = strcmp(state, "prepared") == 0 ? DRA_PREPARED_DONE : DRA_PREPARED_STARTED;
        if (claim->state == DRA_PREPARED_STARTED && strcmp(state, "started") != 0)
                return error_set(reading->err, ERROR_INVALID, "state: must be started or prepared");
        results = ARENA_ARRAY(reading->arena, struct dra_prepared_result, json_array_size(list));
        claim->results = results;
        for (; claim->n_results < json_array_size(list); claim->n_results++)
                if (read_prepared_result(reading, json_array_get(list, claim->n_results), &results[claim->n_results]) <
                        0)
                        return error_prefix(reading->err, "results[%zu]", claim->n_results);
        return 0;
}

/* Takes |json|, also where it fails. */
static int entry_read(struct entry **ret, json_t *json, struct error *err)
{
        struct entry *entry = xcalloc(1, sizeof(*entry));
        const struct record_reading reading = {.arena = &entry->arena, .err = err};

        entry->json = json;
        if (read_prepared_claim(&reading, json, &entry->claim) < 0) {
                entry_free(entry);
                return -1;
        }
        *ret = entry;
        return 0;
}

static int entries_read(struct entries *entries, const json_t *list, struct error *err)
{
        json_t *json;
        size_t i;

        if (!json_is_array(list) || json_array_size(list) > DRA_RECORD_CLAIMS_MAX)
                return error_set(err, ERROR_INVALID, "claims: must be a list of at most %zu", DRA_RECORD_CLAIMS_MAX);
        json_array_foreach(list, i, json)
        {
                struct entry *entry;

                if (entry_read(&entry, json_incref(json), err) < 0)
                        return error_prefix(err, "claims[%zu]", i);
                if (entries_find(entries, entry->claim.uid) < entries->count) {
                        entry_free(entry);
                        return error_set(err, ERROR_INVALID, "claims[%zu]: its uid is there twice", i);
                }
                entries_append(entries, entry);
        }
        return 0;
}

static int document_read(
        const struct dra_record *record, struct entries *entries, const struct strbuf *text, struct error *err)
{
        json_error_t fault;
        json_t *root = json_loadb(text->data, text->size, JSON_REJECT_DUPLICATES, &fault);
        const char *boot_id = json_string_value(json_object_get(root, "nodeBootID"));
        const json_t *version = json_object_get(root, "version");
        int result = 0;

        if (!json_is_object(root))
                result =
                        error_set(err, ERROR_INVALID, "no JSON object: %s", root ? "it is something else" : fault.text);
        else if (!json_is_integer(version) || json_integer_value(version) != VERSION)
                result = error_set(err, ERROR_INVALID, "version: must be %d", VERSION);
        else if (!boot_id)
                result = error_set(err, ERROR_INVALID, "nodeBootID: must be a text");
        else if (strcmp(boot_id, record->boot_id) == 0)
                result = entries_read(entries, json_object_get(root, "claims"), err);
        json_decref(root);
        return result;
}

/* ---- the file ---- */

static int record_write(struct dra_record *record, const struct entries *entries, struct error *err)
{
        json_t *list = json_array();
        json_t *root;
        _free_ char *text = NULL;
        struct stat status;

        for (size_t i = 0; i < entries->count; i++)
                json_array_append(list, entries->all[i]->json);
        root = json_pack("{s:i, s:s, s:o}", "version", VERSION, "nodeBootID", record->boot_id, "claims", list);
        text = json_dumps(root, JSON_COMPACT);
        json_decref(root);
        if (strlen(text) > DRA_RECORD_BYTES_MAX)
                return error_set(err, ERROR_EXHAUSTED, "record '%s': would be more than the limit of %zu bytes",
                        record->path, DRA_RECORD_BYTES_MAX);
        if (file_write_durable(record->path, text, strlen(text), err) < 0)
                return error_prefix(err, "record");
        record->has_read = stat(record->path, &status) == 0;
        if (record->has_read)
                record->seen = status;
        return 0;
}

static bool is_seen(const struct dra_record *record, const struct stat *status)
{
        const struct stat *seen = &record->seen;

        return record->has_read && seen->st_dev == status->st_dev && seen->st_ino == status->st_ino &&
               seen->st_size == status->st_size && seen->st_mtim.tv_sec == status->st_mtim.tv_sec &&
               seen->st_mtim.tv_nsec == status->st_mtim.tv_nsec;
}

/* |err| says why it is broken. */
static int move_aside(const struct dra_record *record, struct error *err)
{
        _free_ char *broken = xasprintf("%s.broken", record->path);

        if (rename(record->path, broken) < 0)
                return error_errno(err, errno, "move '%s', which cannot be read, to '%s'", record->path, broken);
        error_raise_prefix(err, "record '%s' cannot be read and is now '%s'", record->path, broken);
        return DRA_RECORD_BROKEN;
}

int dra_record_refresh(struct dra_record *record, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct entries entries = {0};
        struct stat status;
        int result = 0;

        if (stat(record->path, &status) < 0) {
                if (errno != ENOENT)
                        return error_errno(err, errno, "record: read '%s'", record->path);
                record->has_read = false;
                entries_done(&record->entries);
                return 0;
        }
        if (is_seen(record, &status))
                return 0;
        if (status.st_size > (off_t)DRA_RECORD_BYTES_MAX)
                result = error_set(err, ERROR_INVALID, "%jd bytes are more than the limit of %zu",
                        (intmax_t)status.st_size, DRA_RECORD_BYTES_MAX);
        else if (file_read_private(record->path, DRA_RECORD_BYTES_MAX, &text, err) < 0)
                return error_prefix(err, "record");
        else
                result = document_read(record, &entries, &text, err);
        if (result < 0) {
                entries_done(&entries);
                result = move_aside(record, err);
                if (result < 0)
                        return -1;
        }
        record->has_read = result == 0;
        record->seen = status;
        entries_done(&record->entries);
        record->entries = entries;
        return result;
}

int dra_record_boot_id(char **ret, const char *path, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (file_read(path, BOOT_ID_MAX, &text, err) < 0)
                return error_prefix(err, "boot id");
        text.data[strcspn(text.data, "\n")] = '\0';
        if (!*text.data)
                return error_set(err, ERROR_INVALID, "boot id: '%s' is empty", path);
        *ret = xstrdup(text.data);
        return 0;
}

/* ---- the record ---- */

struct dra_record *dra_record_new(const char *path, const char *boot_id)
{
        struct dra_record *record = xcalloc(1, sizeof(*record));

        record->path = xstrdup(path);
        record->boot_id = xstrdup(boot_id);
        return record;
}

struct dra_record *dra_record_free(struct dra_record *record)
{
        if (!record)
                return NULL;
        entries_done(&record->entries);
        free(record->path);
        free(record->boot_id);
        free(record);
        return NULL;
}

size_t dra_record_count(const struct dra_record *record)
{
        return record->entries.count;
}

const struct dra_prepared_claim *dra_record_at(const struct dra_record *record, size_t i)
{
        return &record->entries.all[i]->claim;
}

const struct dra_prepared_claim *dra_record_find(const struct dra_record *record, const char *uid)
{
        size_t i = entries_find(&record->entries, uid);

        return i < record->entries.count ? &record->entries.all[i]->claim : NULL;
}

/* Writes the record with |entry| at |at|, or, where it is NULL, without what is there; then it is so in memory, too. Takes |entry|. */
static int record_change(struct dra_record *record, size_t at, struct entry *entry, struct error *err)
{
        const struct entries *old = &record->entries;
        struct entries changed = {0};

        for (size_t i = 0; i < old->count; i++)
                if (i != at)
                        entries_append(&changed, old->all[i]);
                else if (entry)
                        entries_append(&changed, entry);
        if (entry && at == old->count)
                entries_append(&changed, entry);
        if (record_write(record, &changed, err) < 0) {
                free(changed.all);
                entry_free(entry);
                return -1;
        }
        if (at < old->count)
                entry_free(old->all[at]);
        free(old->all);
        record->entries = changed;
        return 0;
}

int dra_record_put(struct dra_record *record, const struct dra_prepared_claim *claim, struct error *err)
{
        size_t at = entries_find(&record->entries, claim->uid);
        struct entry *entry;

        if (at == DRA_RECORD_CLAIMS_MAX)
                return error_set(err, ERROR_EXHAUSTED, "record '%s': has %zu claims, which is the limit", record->path,
                        DRA_RECORD_CLAIMS_MAX);
        if (entry_read(&entry, write_claim(claim), err) < 0)
                return error_prefix(err, "record of claim %s", claim->uid);
        return record_change(record, at, entry, err);
}

int dra_record_remove(struct dra_record *record, const char *uid, struct error *err)
{
        size_t at = entries_find(&record->entries, uid);

        return at < record->entries.count ? record_change(record, at, NULL, err) : 0;
}
