#include "node/cdi/hook_program.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

#define CHUNK ((size_t)64 * 1024)
#define NAME_BYTES_MAX ((size_t)256)

static int open_program(const char *path)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        struct stat info;

        if (fd >= 0 && (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode) || (size_t)info.st_size > HOOK_PROGRAM_LIMIT)) {
                close(fd);
                return -1;
        }
        return fd;
}

static bool is_script(const char *path)
{
        _close_ int fd = open_program(path);
        char begin[2];

        return fd >= 0 && read(fd, begin, sizeof(begin)) == sizeof(begin) && memcmp(begin, "#!", sizeof(begin)) == 0;
}

static const char *find_here(const struct roots *roots, struct arena *arena, const char *path)
{
        const char *resolved = roots_resolve(roots, arena, path);

        return resolved && S_ISREG(roots_type(roots, resolved)) ? arena_printf(arena, "%s%s", roots->driver, resolved)
                                                                : NULL;
}

const char *hook_program_find(const struct roots *roots, struct arena *arena, const char *host_path)
{
        size_t root = strlen(roots->driver_host);
        const char *found;

        if (!text_starts_with(host_path, roots->driver_host) || host_path[root] != '/')
                return NULL;
        found = find_here(roots, arena, host_path + root);
        if (!found || !is_script(found))
                return found;
        return find_here(roots, arena, arena_printf(arena, "%s.real", host_path + root));
}

bool hook_program_read(const char *path, const char *const *names, size_t n_names, bool *ret_has)
{
        _close_ int fd = open_program(path);
        _free_ char *bytes = NULL;
        size_t kept = 0; /* the end of the last chunk, in which a name may begin */

        if (fd < 0)
                return false;
        memset(ret_has, 0, n_names * sizeof(*ret_has));
        bytes = xcalloc(1, NAME_BYTES_MAX + CHUNK);
        for (;;) {
                ssize_t got = read(fd, bytes + kept, CHUNK);
                size_t size;

                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        return got == 0;
                size = kept + (size_t)got;
                for (size_t i = 0; i < n_names; i++)
                        ret_has[i] = ret_has[i] || memmem(bytes, size, names[i], strlen(names[i]));
                kept = MIN(size, NAME_BYTES_MAX);
                memmove(bytes, bytes + size - kept, kept);
        }
}
