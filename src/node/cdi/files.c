// SPDX-License-Identifier: Apache-2.0
#include "node/cdi/files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/list.h"
#include "base/log.h"

struct cdi_file {
        struct list link;
        char *path;
        struct strbuf content;
        struct stat seen; /* when its content was last verified */
};

struct cdi_files {
        struct list all;
};

struct cdi_files *cdi_files_new(void)
{
        struct cdi_files *files = xcalloc(1, sizeof(*files));

        list_init(&files->all);
        return files;
}

static void files_forget(struct cdi_file *file)
{
        list_remove(&file->link);
        strbuf_done(&file->content);
        free(file->path);
        free(file);
}

void cdi_files_forget(struct cdi_files *files)
{
        while (!list_is_empty(&files->all))
                files_forget(container_of(files->all.next, struct cdi_file, link));
}

struct cdi_files *cdi_files_free(struct cdi_files *files)
{
        if (files)
                cdi_files_forget(files);
        free(files);
        return NULL;
}

static struct cdi_file *files_find(const struct cdi_files *files, const char *path)
{
        if (!files)
                return NULL;
        LIST_FOR_EACH(link, &files->all) {
                struct cdi_file *file = container_of(link, struct cdi_file, link);

                if (strcmp(file->path, path) == 0)
                        return file;
        }
        return NULL;
}

const struct strbuf *cdi_files_find(const struct cdi_files *files, const char *path)
{
        const struct cdi_file *file = files_find(files, path);

        return file ? &file->content : NULL;
}

/* ---- what is on the disk ---- */

static bool files_is_same(const struct stat *seen, const struct stat *info)
{
        return seen->st_dev == info->st_dev && seen->st_ino == info->st_ino &&
               seen->st_ctim.tv_sec == info->st_ctim.tv_sec && seen->st_ctim.tv_nsec == info->st_ctim.tv_nsec;
}

static bool files_has_content(const char *path, const struct stat *info, const struct strbuf *content)
{
        _cleanup_(strbuf_done) struct strbuf present = STRBUF_INIT;
        struct error ignored;

        return S_ISREG(info->st_mode) && (info->st_mode & 0444) == 0444 && (size_t)info->st_size == content->size &&
               file_read(path, content->size, &present, &ignored) == 0 && present.size == content->size &&
               memcmp(present.data, content->data, content->size) == 0;
}

/*
 * Returns 1 if the file was written, 0 if it had the content already. |seen| is its identity when it was last verified,
 * and is updated.
 */
static int files_bring_up_to_date(const char *path, const struct strbuf *content, struct stat *seen, struct error *err)
{
        _free_ char *folder = NULL;
        struct stat info;
        bool is_written = false;

        if (lstat(path, &info) == 0 && files_is_same(seen, &info))
                return 0;
        *seen = (struct stat){0};
        if (lstat(path, &info) < 0 || !files_has_content(path, &info, content)) {
                folder = file_folder(path);
                if (file_make_folder(folder, err) < 0 || file_write(path, content->data, content->size, err) < 0)
                        return error_prefix(err, "CDI");
                is_written = true;
                if (lstat(path, &info) < 0)
                        return 1;
        }
        *seen = info;
        return is_written;
}

int cdi_files_write(struct cdi_files *files, const char *path, const struct strbuf *content, struct error *err)
{
        struct stat seen = {0};
        struct cdi_file *file;

        if (files_bring_up_to_date(path, content, &seen, err) < 0)
                return -1;
        if (!files)
                return 0;
        file = files_find(files, path);
        if (!file) {
                file = xcalloc(1, sizeof(*file));
                file->path = xstrdup(path);
                list_append(&files->all, &file->link);
        }
        strbuf_clear(&file->content);
        strbuf_append(&file->content, content->data, content->size);
        file->seen = seen;
        return 0;
}

int cdi_files_remove(struct cdi_files *files, const char *path, struct error *err)
{
        struct cdi_file *file = files_find(files, path);

        if (unlink(path) < 0 && errno != ENOENT)
                return error_errno(err, errno, "CDI: remove '%s'", path);
        if (file)
                files_forget(file);
        return 0;
}

int cdi_files_repair(struct cdi_files *files, struct error *err)
{
        bool has_failed = false;
        int count = 0;

        LIST_FOR_EACH(link, &files->all) {
                struct cdi_file *file = container_of(link, struct cdi_file, link);
                struct error failure;
                int result = files_bring_up_to_date(file->path, &file->content, &file->seen, &failure);

                if (result > 0)
                        log_warn("another program removed or changed a CDI specification; it was written again",
                                LOG_STR("file", file->path));
                if (result < 0 && !has_failed)
                        *err = failure;
                has_failed = has_failed || result < 0;
                count += result > 0;
        }
        return has_failed ? -1 : count;
}
