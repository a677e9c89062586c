// SPDX-License-Identifier: Apache-2.0
/*
 * A claim from the caller is checked in the same way as one from the file, so nothing is written that could not be read
 * again.
 */
#include "node/dra/prepared_record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "base/data/json_fields.h"

#define VERSION 1
#define REMOVED "removed"
#define APPENDED_MAX ((off_t)128 * 1024) /* bytes of changes, until the file is replaced by what is left of them */

struct entry {
        struct arena arena;
        struct dra_claim claim;
        char *text; /* the claim's text in the file */
};

struct entries {
        struct entry **all;
        size_t count;
};

struct dra_record {
        char *path;
        char *boot_id;
        struct entries entries;
        bool has_read; /* the entries were read from the file |seen| */
        struct stat seen;
        bool has_changes; /* in the file, after its first line */
        off_t appendable; /* changes may be appended as long as the file has no more bytes; 0: it has to be replaced */
};

static struct entry *entry_free(struct entry *entry)
{
        if (!entry)
                return NULL;
        arena_done(&entry->arena);
        free(entry->text);
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

/* Replaces the entry at |at|; the count: appends it. NULL: removes the one there. Takes ownership of |entry|. */
static void entries_set(struct entries *entries, size_t at, struct entry *entry)
{
        if (at == entries->count) {
                entries->all = xrealloc(entries->all, (at + 1) * sizeof(struct entry *));
                entries->all[entries->count++] = entry;
                return;
        }
        entry_free(entries->all[at]);
        entries->all[at] = entry;
        if (entry)
                return;
        entries->count--;
        memmove(&entries->all[at], &entries->all[at + 1], (entries->count - at) * sizeof(*entries->all));
}

/* The index of the claim, or the count if there is none. */
static size_t entries_find(const struct entries *entries, const char *uid)
{
        size_t i = 0;

        while (i < entries->count && strcmp(entries->all[i]->claim.uid, uid) != 0)
                i++;
        return i;
}

/* ---- JSON ---- */

static bool is_some(const char *text)
{
        return *text;
}

static bool is_variable(const char *text)
{
        return strchr(text, '=');
}

static const struct json_text some_text = {is_some, DRA_RECORD_TEXT_MAX, "a text of 1 to ", false};
static const struct json_text variable_text = {is_variable, DRA_RECORD_TEXT_MAX, "NAME=value of at most ", false};

static const char *prepared_record_state_word(unsigned int position)
{
        return position == DRA_CLAIM_PREPARED ? "prepared" : "started";
}

static const struct json_field node_fields[] = {
        JSON_TEXT("path", struct dra_edit_node, path, some_text, .is_needed = true),
        JSON_TEXT("hostPath", struct dra_edit_node, host_path, some_text, .is_needed = true),
        JSON_UINT("mode", struct dra_edit_node, mode, 0, 0777, .is_needed = true),
        JSON_UINT("gid", struct dra_edit_node, gid, 0, UINT32_MAX, .is_needed = true),
};
static const struct json_shape node_shape = JSON_SHAPE(struct dra_edit_node, node_fields);

static const struct json_field mount_fields[] = {
        JSON_TEXT("hostPath", struct dra_edit_mount, host_path, some_text, .is_needed = true),
        JSON_TEXT("path", struct dra_edit_mount, path, some_text, .is_needed = true),
        JSON_BOOL("writable", struct dra_edit_mount, is_writable),
};
static const struct json_shape mount_shape = JSON_SHAPE(struct dra_edit_mount, mount_fields);

static const char *instance_word(unsigned int position)
{
        static const char *const words[] = {
                [DRA_INSTANCE_NONE] = "none", [DRA_INSTANCE_MAKING] = "making", [DRA_INSTANCE_MADE] = "made"};

        return words[position];
}

static const struct json_field instance_fields[] = {
        JSON_TEXT("gpu", struct dra_instance, gpu, some_text, .is_needed = true),
        JSON_UINT("profile", struct dra_instance, profile_id, 0, UINT32_MAX, .is_needed = true),
        JSON_UINT("start", struct dra_instance, start, 0, UINT32_MAX, .is_needed = true),
        JSON_WORD("state", struct dra_instance, state, instance_word, 3, .is_needed = true),
        JSON_TEXT("uuid", struct dra_instance, uuid, some_text),
};
static const struct json_shape instance_shape = JSON_SHAPE(struct dra_instance, instance_fields);

static const struct json_field result_fields[] = {
        JSON_TEXT("pool", struct dra_result, pool, some_text, .is_needed = true),
        JSON_TEXT("request", struct dra_result, request, some_text, .is_needed = true),
        JSON_TEXT("device", struct dra_result, device, some_text, .is_needed = true),
        JSON_TEXT("unit", struct dra_result, unit, some_text, .is_needed = true),
        JSON_MEMBER("instance", struct dra_result, instance, instance_shape,
                .has = offsetof(struct dra_result, has_instance)),
        JSON_TEXT("shareID", struct dra_result, share_id, some_text),
        JSON_BOOL("adminAccess", struct dra_result, is_admin),
        JSON_UINT("memoryBytes", struct dra_result, memory_bytes, 0, INT64_MAX, .is_needed = true),
        JSON_UINT("threadPercentage", struct dra_result, thread_percentage, 0, 100, .is_needed = true),
        JSON_TEXT("tier", struct dra_result, tier, some_text),
        JSON_TEXT("daemon", struct dra_result, daemon, some_text),
        JSON_TEXT("allocation", struct dra_result, allocation, some_text),
        JSON_TEXT("cdiID", struct dra_result, cdi_id, some_text, .is_needed = true),
        JSON_TEXT("unitCDIID", struct dra_result, unit_cdi_id, some_text),
        JSON_TEXT("attributes", struct dra_result, attributes, some_text),
        JSON_TEXTS("env", struct dra_result, edits.env, edits.n_env, variable_text, 0, DRA_RECORD_EDITS_MAX,
                .is_needed = true),
        JSON_ITEMS("nodes", struct dra_result, edits.nodes, edits.n_nodes, node_shape, 0, DRA_RECORD_EDITS_MAX,
                .is_needed = true),
        JSON_ITEMS("mounts", struct dra_result, edits.mounts, edits.n_mounts, mount_shape, 0, DRA_RECORD_EDITS_MAX,
                .is_needed = true),
};
static const struct json_shape result_shape = JSON_SHAPE(struct dra_result, result_fields);

static const struct json_field claim_fields[] = {
        JSON_TEXT("uid", struct dra_claim, uid, some_text, .is_needed = true),
        JSON_TEXT("namespace", struct dra_claim, namespace, some_text, .is_needed = true),
        JSON_TEXT("name", struct dra_claim, name, some_text, .is_needed = true),
        JSON_TEXT("podClaimName", struct dra_claim, pod_claim_name, some_text),
        JSON_WORD("state", struct dra_claim, state, prepared_record_state_word, 2, .is_needed = true),
        JSON_ITEMS("results", struct dra_claim, results, n_results, result_shape, 0, DRA_CLAIM_RESULTS_MAX,
                .is_needed = true),
};
static const struct json_shape claim_shape = JSON_SHAPE(struct dra_claim, claim_fields);

/* The members before the claims. */
struct document {
        unsigned int version;
        const char *boot_id;
};

static const struct json_field document_fields[] = {
        JSON_UINT("version", struct document, version, VERSION, VERSION),
        JSON_TEXT("nodeBootID", struct document, boot_id, some_text, .is_needed = true),
};
static const struct json_shape document_shape = JSON_SHAPE(struct document, document_fields);

static json_t *claim_write(const struct dra_claim *claim)
{
        json_t *json = json_object();

        json_fields_put(json, &claim_shape, claim);
        return json;
}

static int entry_read(struct entry **ret, const json_t *json, struct error *err)
{
        struct entry *entry = xcalloc(1, sizeof(*entry));
        struct json_in in = {.arena = &entry->arena, .err = err};

        json_fields_take(&in, json, &claim_shape, &entry->claim);
        if (!in.is_bad && !dra_name_is_uid(entry->claim.uid))
                json_fields_bad(&in, "uid: must be of letters, digits and '-', at most %zu", DRA_NAME_MAX);
        for (size_t i = 0; i < entry->claim.n_results && !in.is_bad; i++) {
                const struct dra_result *result = &entry->claim.results[i];

                if (result->has_instance && (result->instance.state == DRA_INSTANCE_MADE) != !!result->instance.uuid)
                        json_fields_bad(&in, "results[%zu].instance: has a uuid if it is made, and only then", i);
        }
        if (in.is_bad) {
                entry_free(entry);
                return -1;
        }
        entry->text = json_dumps(json, JSON_COMPACT);
        *ret = entry;
        return 0;
}

/* Adds the claim, or replaces the one with its UID. */
static int entries_put(struct entries *entries, const json_t *json, struct error *err)
{
        struct entry *entry;
        size_t at;

        if (entry_read(&entry, json, err) < 0)
                return -1;
        at = entries_find(entries, entry->claim.uid);
        if (at == DRA_RECORD_CLAIMS_MAX) {
                entry_free(entry);
                return error_set(err, ERROR_INVALID, "claims: must be a list of at most %zu", DRA_RECORD_CLAIMS_MAX);
        }
        entries_set(entries, at, entry);
        return 0;
}

static int entries_read(struct entries *entries, const json_t *list, struct error *err)
{
        if (!json_is_array(list) || json_array_size(list) > DRA_RECORD_CLAIMS_MAX)
                return error_set(err, ERROR_INVALID, "claims: must be a list of at most %zu", DRA_RECORD_CLAIMS_MAX);
        for (size_t i = 0; i < json_array_size(list); i++) {
                if (entries_put(entries, json_array_get(list, i), err) < 0)
                        return error_prefix(err, "claims[%zu]", i);
                if (entries->count == i)
                        return error_set(err, ERROR_INVALID, "claims[%zu]: its uid is there twice", i);
        }
        return 0;
}

/* A claim that was added or changed, or the UID of one that was removed. */
static int change_apply(struct entries *entries, const json_t *change, struct error *err)
{
        const json_t *removed = json_object_get(change, REMOVED);
        size_t at;

        if (!removed)
                return entries_put(entries, change, err);
        at = json_is_string(removed) ? entries_find(entries, json_string_value(removed)) : entries->count;
        if (at == entries->count)
                return error_set(err, ERROR_INVALID, REMOVED ": must be the uid of a claim");
        entries_set(entries, at, NULL);
        return 0;
}

/* Whole lines. */
static int changes_read(struct entries *entries, const char *text, size_t size, struct error *err)
{
        size_t length;

        for (size_t i = 1; size > 0; i++, text += length + 1, size -= length + 1) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                struct json_in in = {.arena = &arena, .err = err};
                json_t *change;
                int result;

                length = (size_t)((const char *)memchr(text, '\n', size) - text);
                change = json_fields_load(&in, text, length);
                result = change ? change_apply(entries, change, err) : -1;
                json_decref(change);
                if (result < 0)
                        return error_prefix(err, "change %zu", i);
        }
        return 0;
}

/* |*ret_counts|: it is of this boot. */
static int document_read(const struct dra_record *record, struct entries *entries, const char *text, size_t size,
        bool *ret_counts, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct json_in in = {.arena = &arena, .err = err};
        struct document document = {0};
        json_t *root = json_fields_load(&in, text, size);
        int result = 0;

        json_fields_take(&in, root, &document_shape, &document);
        if (in.is_bad)
                result = -1;
        else if ((*ret_counts = strcmp(document.boot_id, record->boot_id) == 0))
                result = entries_read(entries, json_object_get(root, "claims"), err);
        json_decref(root);
        return result;
}

/*
 * |*ret_is_clean|: changes may be appended. A last line without its end is ignored: the process was killed while it
 * wrote that change, before it acted on it.
 */
static int file_parse(const struct dra_record *record, struct entries *entries, const struct strbuf *text,
        bool *ret_is_clean, struct error *err)
{
        const char *head_end = memchr(text->data, '\n', text->size);
        const char *end = memrchr(text->data, '\n', text->size);
        bool counts = false;

        if (document_read(record, entries, text->data, head_end ? (size_t)(head_end - text->data) : text->size, &counts,
                    err) < 0)
                return -1;
        *ret_is_clean = counts && end && (size_t)(end + 1 - text->data) == text->size;
        return counts && head_end ? changes_read(entries, head_end + 1, (size_t)(end - head_end), err) : 0;
}

/* ---- the file ---- */

/*
 * With |entry| at |at|, or without the entry there if |entry| is NULL. The texts of the other claims are kept: a change
 * writes all of them, but formats only one.
 */
static void document_write(const struct dra_record *record, size_t at, const struct entry *entry, struct strbuf *ret)
{
        const struct document document = {VERSION, record->boot_id};
        const struct entries *entries = &record->entries;
        json_t *root = json_object();
        _free_ char *head = NULL;
        const char *separator = "";

        json_fields_put(root, &document_shape, &document);
        head = json_dumps(root, JSON_COMPACT);
        json_decref(root);
        strbuf_printf(ret, "%.*s,\"claims\":[", (int)strlen(head) - 1, head);
        for (size_t i = 0; i <= entries->count; i++) {
                const struct entry *one = i == at ? entry : i < entries->count ? entries->all[i] : NULL;

                if (!one)
                        continue;
                strbuf_puts(ret, separator);
                strbuf_puts(ret, one->text);
                separator = ",";
        }
        strbuf_puts(ret, "]}\n");
}

static bool prepared_record_is_seen(const struct dra_record *record, const struct stat *status)
{
        const struct stat *seen = &record->seen;

        return record->has_read && seen->st_dev == status->st_dev && seen->st_ino == status->st_ino &&
               seen->st_size == status->st_size && seen->st_mtim.tv_sec == status->st_mtim.tv_sec &&
               seen->st_mtim.tv_nsec == status->st_mtim.tv_nsec;
}

static void note_seen(struct dra_record *record, bool is_clean)
{
        const off_t slack = MIN(APPENDED_MAX, (off_t)DRA_RECORD_BYTES_MAX - record->seen.st_size);

        record->has_read = true;
        record->appendable = is_clean ? record->seen.st_size + slack : 0;
}

static int record_write(struct dra_record *record, size_t at, const struct entry *entry, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        document_write(record, at, entry, &text);
        if (text.size > DRA_RECORD_BYTES_MAX)
                return error_set(err, ERROR_EXHAUSTED, "record '%s': would be more than the limit of %zu bytes",
                        record->path, DRA_RECORD_BYTES_MAX);
        if (file_write_private(record->path, text.data, text.size, err) < 0)
                return error_prefix(err, "record");
        record->has_read = false;
        record->has_changes = false;
        if (stat(record->path, &record->seen) == 0)
                note_seen(record, true);
        return 0;
}

/* Appends a line to the file that was seen. 1: it has to be replaced instead. */
static int record_append(struct dra_record *record, const struct strbuf *line, struct error *err)
{
        _close_ int fd = -1;
        struct stat status;
        ssize_t written;

        if (!record->has_read || record->seen.st_size + (off_t)line->size > record->appendable)
                return 1;
        fd = open(record->path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 || fstat(fd, &status) < 0 || !prepared_record_is_seen(record, &status))
                return 1;
        written = write(fd, line->data, line->size);
        record->has_changes |= written > 0;
        if (written == (ssize_t)line->size && fstat(fd, &record->seen) == 0)
                return 0;
        error_raise_errno(err, written < 0 ? errno : ENOSPC, "record: append to '%s'", record->path);
        record->appendable = 0;
        if (written > 0 && ftruncate(fd, status.st_size) < 0)
                return 1;
        return -1;
}

/* Moves a broken file aside; |err| says why it is broken. */
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
        bool is_clean = false;
        bool has_changes;
        struct stat status;
        int result = 0;

        if (stat(record->path, &status) < 0) {
                if (errno != ENOENT)
                        return error_errno(err, errno, "record: read '%s'", record->path);
                record->has_read = false;
                entries_done(&record->entries);
                return 0;
        }
        if (prepared_record_is_seen(record, &status))
                return 0;
        if (status.st_size > (off_t)DRA_RECORD_BYTES_MAX)
                result = error_set(err, ERROR_INVALID, "%jd bytes are more than the limit of %zu",
                        (intmax_t)status.st_size, DRA_RECORD_BYTES_MAX);
        else if (file_read_private(record->path, DRA_RECORD_BYTES_MAX, &text, err) < 0)
                return error_prefix(err, "record");
        else if (text.size > 0) /* a power cut may leave an empty file; after the reboot nothing is prepared any more */
                result = file_parse(record, &entries, &text, &is_clean, err);
        has_changes = memchr(text.data, '\n', text.size) != memrchr(text.data, '\n', text.size);
        if (result < 0) {
                entries_done(&entries);
                result = move_aside(record, err);
                if (result < 0)
                        return -1;
        }
        record->seen = status;
        note_seen(record, is_clean);
        record->has_read = result == 0;
        record->has_changes = result == 0 && has_changes;
        entries_done(&record->entries);
        record->entries = entries;
        return result;
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

const struct dra_claim *dra_record_at(const struct dra_record *record, size_t i)
{
        return &record->entries.all[i]->claim;
}

const struct dra_claim *dra_record_find(const struct dra_record *record, const char *uid)
{
        size_t i = entries_find(&record->entries, uid);

        return i < record->entries.count ? &record->entries.all[i]->claim : NULL;
}

/*
 * Writes the change, for which |line| may be appended, then makes it in memory, too: as entries_set(). Takes ownership
 * of |entry|.
 */
static int record_change(
        struct dra_record *record, size_t at, struct entry *entry, const struct strbuf *line, struct error *err)
{
        int result = record_append(record, line, err);

        if (result > 0)
                result = record_write(record, at, entry, err);
        if (result < 0) {
                entry_free(entry);
                return -1;
        }
        entries_set(&record->entries, at, entry);
        return 0;
}

int dra_record_put(struct dra_record *record, const struct dra_claim *claim, struct error *err)
{
        size_t at = entries_find(&record->entries, claim->uid);
        _cleanup_(strbuf_done) struct strbuf line = STRBUF_INIT;
        struct entry *entry;
        json_t *json;
        int result;

        if (at == DRA_RECORD_CLAIMS_MAX)
                return error_set(err, ERROR_EXHAUSTED, "record '%s': has %zu claims, which is the limit", record->path,
                        DRA_RECORD_CLAIMS_MAX);
        json = claim_write(claim);
        result = entry_read(&entry, json, err);
        json_decref(json);
        if (result < 0)
                return error_prefix(err, "record of claim %s", claim->uid);
        strbuf_printf(&line, "%s\n", entry->text);
        return record_change(record, at, entry, &line, err);
}

int dra_record_remove(struct dra_record *record, const char *uid, struct error *err)
{
        size_t at = entries_find(&record->entries, uid);

        _cleanup_(strbuf_done) struct strbuf line = STRBUF_INIT;

        if (at == record->entries.count)
                return 0;
        strbuf_printf(&line, "{\"" REMOVED "\":\"%s\"}\n", uid); /* of no character that JSON escapes */
        return record_change(record, at, NULL, &line, err);
}

void dra_record_settle(struct dra_record *record)
{
        struct error ignored;

        if (record->has_changes)
                (void)!record_write(record, record->entries.count, NULL, &ignored);
}
