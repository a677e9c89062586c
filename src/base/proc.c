// SPDX-License-Identifier: Apache-2.0
#include "base/proc.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"

/* ---- boot id ---- */

#define BOOT_ID_MAX ((size_t)64)

int boot_id_read(char **ret, const char *path, struct error *err)
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

/* ---- the end of a child ---- */

#define PAUSE_MS 50 /* between two looks where a kernel has no pidfd */

bool child_has_ended(pid_t pid, int *ret_status, uint64_t timeout_ms)
{
        _close_ int fd = (int)syscall(SYS_pidfd_open, pid, 0);
        const uint64_t end = clock_now_ms() + timeout_ms;

        while (waitpid(pid, ret_status, WNOHANG) != pid) {
                struct pollfd ended = {.fd = fd, .events = POLLIN};
                const uint64_t now = clock_now_ms();

                if (now >= end)
                        return false;
                (void)poll(&ended, 1, fd < 0 ? PAUSE_MS : (int)(end - now));
        }
        return true;
}

/* ---- PID namespaces ---- */

/* include/linux/proc_ns.h, PROC_PID_INIT_INO. */
#define HOST_PID_NAMESPACE "pid:[4026531836]"

bool pid_namespace_is_host(const char *link)
{
        return strcmp(link, HOST_PID_NAMESPACE) == 0;
}

bool pid_namespace_is_own(const char *root)
{
        _free_ char *path = xasprintf("%s/proc/self/ns/pid", root);
        char link[64];
        ssize_t length = readlink(path, link, sizeof(link) - 1);

        if (length < 0)
                return false;
        link[length] = '\0';
        return !pid_namespace_is_host(link);
}

/* ---- mountinfo ---- */

enum { DEVICE = 2, POINT = 4, OPTIONS = 5, FIELDS = 6 };

bool mountinfo_next(const char **at, struct mountinfo_line *ret)
{
        while (**at) {
                const char *fields[FIELDS] = {*at};
                const char *end = strchrnul(*at, '\n');
                const char *rest;
                size_t count = 1;

                for (const char *c = *at; c < end && count < FIELDS; c++)
                        if (*c == ' ')
                                fields[count++] = c + 1;
                *at = *end ? end + 1 : end;
                if (count < FIELDS)
                        continue;
                rest = memmem(fields[OPTIONS], (size_t)(end - fields[OPTIONS]), " - ", 3);
                rest = rest ? rest : end;
                ret->device = makedev((unsigned int)strtoul(fields[DEVICE], NULL, 10),
                        (unsigned int)strtoul(fields[DEVICE] + strcspn(fields[DEVICE], ": ") + 1, NULL, 10));
                ret->point = fields[POINT];
                ret->length = (size_t)(fields[OPTIONS] - 1 - fields[POINT]);
                ret->is_shared = memmem(fields[OPTIONS], (size_t)(rest - fields[OPTIONS]), " shared:", 8);
                return true;
        }
        return false;
}

bool mountinfo_is_at(const struct mountinfo_line *mount, const char *path)
{
        return strlen(path) == mount->length && memcmp(mount->point, path, mount->length) == 0;
}

/* ---- cgroup ---- */

static bool is_hex(char c)
{
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/*
 * A pod's UID: 8-4-4-4-12 hexadecimal digits, the groups separated by |dash|; or, of a static pod, 32 digits without a
 * separator. NULL: |text| up to |suffix| is not one.
 */
static const char *read_pod_uid(const char *text, char dash, const char *suffix, struct arena *arena)
{
        static const char *const forms[] = {"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"};

        for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
                const char *form = forms[i];
                size_t length = 0;

                while (form[length] == 'x' ? is_hex(text[length]) : form[length] && text[length] == dash)
                        length++;
                if (!form[length] && strcmp(text + length, suffix) == 0) {
                        char *uid = arena_strdup(arena, form);

                        for (size_t at = 0; at < length; at++)
                                uid[at] = form[at] == 'x' ? text[at] : '-';
                        return uid;
                }
        }
        return NULL;
}

/*
 * The pod in one folder name of the path: "pod<uid>", "kubepods-burstable-pod<uid>.slice", in kind
 * "kubelet-kubepods-…".
 */
static const char *pod_of(const char *name, struct arena *arena)
{
        const char *slice = strstr(name, "kubepods-");

        if (text_starts_with(name, "pod"))
                return read_pod_uid(name + strlen("pod"), '-', "", arena);
        slice = slice ? strstr(slice + strlen("kubepods"), "-pod") : NULL;
        return slice ? read_pod_uid(slice + strlen("-pod"), '_', ".slice", arena) : NULL;
}

/*
 * The container in one folder name: "<id>", "cri-containerd-<id>.scope", "crio-<id>". Not CRI-O's "crio-conmon-<id>".
 */
static const char *container_of_name(const char *name, struct arena *arena)
{
        static const char *const runtimes[] = {"cri-containerd-", "crio-", "docker-", ""};

        for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++) {
                const char *id = name + strlen(runtimes[i]);
                size_t length = 0;

                if (!text_starts_with(name, runtimes[i]))
                        continue;
                while (length < 65 && is_hex(id[length]))
                        length++;
                if (length == 64 && (id[length] == '\0' || id[length] == '.'))
                        return arena_strndup(arena, id, length);
        }
        return NULL;
}

/* Pod and container in one folder name: "kubepods-besteffort-pod<uid>.slice:cri-containerd:<id>". */
static bool read_joined(const char *name, struct arena *arena, struct cgroup_owner *ret)
{
        const char *first = strchr(name, ':');
        const char *last = first ? strrchr(first + 1, ':') : NULL;

        if (!last)
                return false;
        ret->pod_uid = pod_of(arena_strndup(arena, name, (size_t)(first - name)), arena);
        ret->container_id = ret->pod_uid ? container_of_name(last + 1, arena) : NULL;
        return ret->pod_uid;
}

/*
 * Parses one path. The outermost pod counts, with the container directly below it, since a tenant may create and name
 * folders below that. In a nested node (kind) the outermost folder is that of the node itself, but no kubelet runs
 * outside of it.
 */
static bool read_path(const char *path, bool is_v2, struct arena *arena, struct cgroup_owner *ret)
{
        const char *start = path;
        const char *pod = NULL;

        is_v2 = is_v2 && !strstr(path, "/../");
        for (path += strspn(path, "/"); *path; path += strspn(path, "/")) {
                size_t length = strcspn(path, "/");
                const char *name = arena_strndup(arena, path, length);

                if (pod || read_joined(name, arena, ret)) {
                        if (pod)
                                ret->container_id = container_of_name(name, arena);
                        ret->pod_uid = pod ? pod : ret->pod_uid;
                        if (is_v2 && ret->container_id)
                                ret->folder = arena_strndup(arena, start, (size_t)(path - start) + length);
                        return true;
                }
                pod = pod_of(name, arena);
                path += length;
        }
        ret->pod_uid = pod;
        return pod;
}

struct cgroup_owner cgroup_parse(const char *text, struct arena *arena)
{
        struct cgroup_owner owner = {0};

        while (*text) {
                size_t length = strcspn(text, "\n");
                const char *line = arena_strndup(arena, text, length);
                const char *path = strchr(line, ':');

                path = path ? strchr(path + 1, ':') : NULL;
                if (path && read_path(path + 1, text_starts_with(line, "0::"), arena, &owner))
                        break;
                text += length + (text[length] == '\n');
        }
        return owner;
}
