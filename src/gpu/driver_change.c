#include "gpu/driver_change.h"

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"

#define VERSION_MAX 4096U /* bytes of the file that are read; the kernel's file has two lines */
#define GPUS_MAX 4096U    /* entries of a folder that are read */

/* ---- the driver ---- */

/* The first line, cut if it is too long: it is only compared, never shown. */
static bool driver_change_read_line(const char *path, char *line, size_t size)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error ignored;

        if (file_read(path, VERSION_MAX, &text, &ignored) < 0 || text.size == 0)
                return false;
        snprintf(line, size, "%.*s", (int)strcspn(text.data, "\n"), text.data);
        return true;
}

struct driver_mark driver_mark_take(const char *library, const char *system_root)
{
        _free_ char *module = xasprintf("%s/sys/module/nvidia/version", system_root);
        _free_ char *proc = xasprintf("%s/proc/driver/nvidia/version", system_root);
        struct driver_mark mark = {0};
        struct stat status;

        if (library && stat(library, &status) == 0) {
                mark.device = status.st_dev;
                mark.inode = status.st_ino;
                mark.size = status.st_size;
                mark.modified_ns = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
        }
        if (!driver_change_read_line(module, mark.version, sizeof(mark.version)))
                (void)driver_change_read_line(proc, mark.version, sizeof(mark.version));
        return mark;
}

bool driver_mark_is_same(const struct driver_mark *a, const struct driver_mark *b)
{
        return a->device == b->device && a->inode == b->inode && a->size == b->size &&
               a->modified_ns == b->modified_ns && strcmp(a->version, b->version) == 0;
}

char *driver_library_path(const struct nvml *nvml)
{
        struct link_map *map = NULL;

        if (dlinfo(nvml->library, RTLD_DI_LINKMAP, (void *)&map) < 0 || !map || !*map->l_name)
                return NULL;
        return xstrdup(map->l_name);
}

/* ---- its GPUs ---- */

/* "0000:3b:00.0": the driver's folder contains other files and links, too. */
static bool is_address(const char *name)
{
        size_t domain = strspn(name, "0123456789abcdefABCDEF");
        const char *rest = name + domain;

        return domain >= 4 && rest[0] == ':' && isxdigit((unsigned char)rest[1]) && isxdigit((unsigned char)rest[2]) &&
               rest[3] == ':' && isxdigit((unsigned char)rest[4]) && isxdigit((unsigned char)rest[5]) &&
               rest[6] == '.' && isdigit((unsigned char)rest[7]) && !rest[8];
}

static uint64_t hash(const char *text)
{
        uint64_t value = HASH_INIT;

        hash_add(&value, text, strlen(text));
        return value;
}

static bool read_folder(const char *path, struct driver_gpus *gpus)
{
        const struct dirent *entry;
        DIR *folder = opendir(path);

        if (!folder)
                return false;
        *gpus = (struct driver_gpus){.known = true};
        for (unsigned int i = 0; i < GPUS_MAX && (entry = readdir(folder)); i++) {
                if (!is_address(entry->d_name))
                        continue;
                gpus->count++;
                gpus->digest += hash(entry->d_name); /* a sum, because a folder has no order */
        }
        closedir(folder);
        return true;
}

struct driver_gpus driver_gpus_take(const char *system_root)
{
        _free_ char *bound = xasprintf("%s/sys/bus/pci/drivers/nvidia", system_root);
        _free_ char *proc = xasprintf("%s/proc/driver/nvidia/gpus", system_root);
        struct driver_gpus gpus = {0};

        if (!read_folder(bound, &gpus))
                (void)read_folder(proc, &gpus);
        return gpus;
}

bool driver_gpus_are_same(const struct driver_gpus *a, const struct driver_gpus *b)
{
        return a->known == b->known && a->count == b->count && a->digest == b->digest;
}
