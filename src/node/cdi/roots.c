#include "node/cdi/roots.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/text.h"

#define MAX_LINKS 40

static const char *without_slash(const char *path, struct arena *arena)
{
        size_t length = strlen(path);

        while (length && path[length - 1] == '/')
                length--;
        return arena_strndup(arena, path, length);
}

struct roots roots_of(const struct config *config, struct arena *arena)
{
        return (struct roots){
                .driver = without_slash(config->driver.mounted_root, arena),
                .driver_host = without_slash(config->driver.root, arena),
                .dev_host =
                        without_slash(*config->driver.dev_root ? config->driver.dev_root : config->driver.root, arena),
                .system = without_slash(config->system_root, arena),
        };
}

bool roots_is_plain(const char *name)
{
        for (const char *c = name; *c; c++)
                if (!isalnum((unsigned char)*c) && !strchr("._+-@~", *c))
                        return false;
        return *name;
}

void roots_note(const struct roots *roots, const struct error *err)
{
        if (roots->unseen && roots->unseen->kind == ERROR_NONE &&
                (err->kind == ERROR_EXHAUSTED || err->kind == ERROR_UNAVAILABLE))
                *roots->unseen = *err;
}

void roots_note_errno(const struct roots *roots, const char *path)
{
        struct error err;

        if (errno == ELOOP)
                return; /* links in a circle lead to nothing */
        error_raise_errno(&err, errno, "look at '%s'", path);
        roots_note(roots, &err);
}

bool roots_look(const struct roots *roots, const char *path, struct stat *ret)
{
        if (lstat(path, ret) == 0)
                return true;
        roots_note_errno(roots, path);
        return false;
}

/* ---- links ---- */

struct walk {
        const struct roots *roots;
        struct strbuf done; /* "/usr/lib": no link in it */
        struct strbuf rest; /* "x/../y": components that are still to be resolved */
        unsigned int links;
};

/* Removes the first component from the rest; false if there is none. */
static bool roots_take_component(struct walk *walk, char *ret)
{
        size_t start = strspn(walk->rest.data, "/");
        size_t length = strcspn(walk->rest.data + start, "/");

        if (length == 0 || length > NAME_MAX)
                return false;
        memcpy(ret, walk->rest.data + start, length);
        ret[length] = '\0';
        strbuf_consume(&walk->rest, start + length);
        return true;
}

static void go_up(struct walk *walk)
{
        const char *slash = strrchr(walk->done.data, '/');

        if (slash) {
                walk->done.size = (size_t)(slash - walk->done.data);
                walk->done.data[walk->done.size] = '\0';
        }
}

/* Puts the content of the link in front of the rest. */
static bool roots_follow(struct walk *walk, const char *link)
{
        char target[PATH_MAX];
        ssize_t length = readlink(link, target, sizeof(target) - 1);
        _free_ char *rest = NULL;

        if (length < 0)
                roots_note_errno(walk->roots, link);
        if (length <= 0 || ++walk->links > MAX_LINKS || walk->rest.size + (size_t)length >= PATH_MAX)
                return false;
        target[length] = '\0';
        if (target[0] == '/')
                strbuf_clear(&walk->done);
        rest = strbuf_take(&walk->rest);
        strbuf_printf(&walk->rest, "%s/%s", target, rest);
        return true;
}

static bool roots_step(struct walk *walk, const char *name)
{
        char path[PATH_MAX];
        struct stat info;

        if (strcmp(name, ".") == 0)
                return true;
        if (strcmp(name, "..") == 0) {
                go_up(walk);
                return true;
        }
        if (!roots_is_plain(name) ||
                snprintf(path, sizeof(path), "%s%s/%s", walk->roots->driver, walk->done.data, name) >=
                        (int)sizeof(path) ||
                !roots_look(walk->roots, path, &info))
                return false;
        if (S_ISLNK(info.st_mode))
                return roots_follow(walk, path);
        strbuf_printf(&walk->done, "/%s", name);
        return true;
}

const char *roots_resolve(const struct roots *roots, struct arena *arena, const char *path)
{
        struct walk walk = {.roots = roots, .done = STRBUF_INIT, .rest = STRBUF_INIT};
        const char *resolved = NULL;
        char name[NAME_MAX + 1];

        strbuf_puts(&walk.rest, path);
        while (roots_take_component(&walk, name))
                if (!roots_step(&walk, name))
                        goto out;
        if (walk.rest.data[strspn(walk.rest.data, "/")] == '\0')
                resolved = arena_strdup(arena, walk.done.size ? walk.done.data : "/");
out:
        strbuf_done(&walk.done);
        strbuf_done(&walk.rest);
        return resolved;
}

unsigned int roots_type(const struct roots *roots, const char *path)
{
        char whole[PATH_MAX];
        struct stat info;

        if (snprintf(whole, sizeof(whole), "%s%s", roots->driver, path) >= (int)sizeof(whole) ||
                !roots_look(roots, whole, &info))
                return 0;
        return info.st_mode & S_IFMT;
}

/* ---- folders ---- */

size_t roots_list(const struct roots *roots, const char *root, const char *path, struct arena *arena,
        const char *const **ret, roots_filter_fn *is_wanted, const void *data)
{
        _free_ char *folder = xasprintf("%s%s", root, path);
        DIR *handle = opendir(folder);
        const char **names;
        const struct dirent *entry;
        size_t count = 0;

        *ret = NULL;
        if (!handle) {
                roots_note_errno(roots, folder);
                return 0;
        }
        names = ARENA_ARRAY(arena, const char *, ROOTS_MAX_NAMES);
        while (count < ROOTS_MAX_NAMES && (entry = readdir(handle)))
                if (roots_is_plain(entry->d_name) && is_wanted(entry->d_name, data))
                        names[count++] = arena_strdup(arena, entry->d_name);
        closedir(handle);
        qsort(names, count, sizeof(*names), text_compare);
        *ret = names;
        return count;
}

const char *roots_to_host(const struct roots *roots, struct arena *arena, const char *path)
{
        size_t length = strlen(roots->driver);

        if (length == 0 || strncmp(path, roots->driver, length) != 0 || path[length] != '/')
                return path;
        return arena_printf(arena, "%s%s", roots->driver_host, path + length);
}
