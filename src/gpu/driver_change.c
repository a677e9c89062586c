// SPDX-License-Identifier: Apache-2.0
#include "gpu/driver_change.h"

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"

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

        if (library && stat(library, &status) == 0)
                mark.library = file_mark_of(&status);
        mark.library.changed = (struct timespec){0}; /* another mode or link does not make it another library */
        if (!driver_change_read_line(module, mark.version, sizeof(mark.version)))
                (void)driver_change_read_line(proc, mark.version, sizeof(mark.version));
        return mark;
}

bool driver_mark_is_same(const struct driver_mark *a, const struct driver_mark *b)
{
        return file_mark_is_same(&a->library, &b->library) && strcmp(a->version, b->version) == 0;
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

/* ---- uevent ---- */

#define KERNEL_GROUP 1U /* udev repeats them in group 2, in its own format */
#define TURN_MAX 64U    /* datagrams per turn of the loop */

struct uevent_watch {
        uv_poll_t poll;
        int socket;
        void (*on_event)(void *data);
        void *data;
};

/* ---- the messages ---- */

/* The value of |line| if its key is |key|. */
static const char *uevent_value_of(const char *line, const char *key)
{
        size_t length = strlen(key);

        return strncmp(line, key, length) == 0 && line[length] == '=' ? line + length + 1 : NULL;
}

bool uevent_is_about_gpus(const char *data, size_t size)
{
        const char *subsystem = "";
        const char *driver = "";
        const char *path = "";
        const char *pci = "";

        /* Terminates the last line. */
        if (size == 0 || size > UEVENT_MAX || data[size - 1] != '\0' || !memchr(data, '@', strlen(data)))
                return false;
        for (const char *line = data + strlen(data) + 1; line < data + size; line += strlen(line) + 1) {
                const char *value;

                if ((value = uevent_value_of(line, "SUBSYSTEM")))
                        subsystem = value;
                else if ((value = uevent_value_of(line, "DRIVER")))
                        driver = value;
                else if ((value = uevent_value_of(line, "DEVPATH")))
                        path = value;
                else if ((value = uevent_value_of(line, "PCI_ID")))
                        pci = value;
        }
        if (strcmp(subsystem, "pci") == 0)
                return strncasecmp(pci, "10DE:", strlen("10DE:")) == 0 || strcmp(driver, "nvidia") == 0;
        if (strcmp(subsystem, "module") == 0 || strcmp(subsystem, "drivers") == 0)
                return text_starts_with(path, "/module/nvidia") || text_starts_with(path, "/bus/pci/drivers/nvidia");
        return text_starts_with(subsystem, "nvidia");
}

/* ---- the socket ---- */

/* 1: a message about GPUs; 0: another message; -1: no more messages. */
static int receive(int fd)
{
        char data[UEVENT_MAX];
        struct sockaddr_nl sender = {0};
        struct iovec part = {.iov_base = data, .iov_len = sizeof(data)};
        struct msghdr message = {.msg_name = &sender, .msg_namelen = sizeof(sender), .msg_iov = &part, .msg_iovlen = 1};
        ssize_t size = recvmsg(fd, &message, MSG_DONTWAIT);

        /* The socket's buffer overflowed, and any lost message may have been about GPUs. */
        if (size < 0)
                return errno == ENOBUFS ? 1 : -1;
        if (message.msg_flags & MSG_TRUNC || message.msg_namelen != sizeof(sender) || sender.nl_pid != 0)
                return 0;
        return uevent_is_about_gpus(data, (size_t)size);
}

static void on_uevent_readable(uv_poll_t *poll, int status, int events UNUSED)
{
        struct uevent_watch *watch = container_of(poll, struct uevent_watch, poll);
        bool is_news = false;
        int result = 0;

        if (status < 0) {
                uv_poll_stop(poll); /* without it, the comparison at each refresh still works, but later */
                return;
        }
        for (unsigned int i = 0; i < TURN_MAX && result >= 0; i++) {
                result = receive(watch->socket);
                is_news = is_news || result > 0;
        }
        if (is_news)
                watch->on_event(watch->data);
}

static int uevent_open_socket(int *ret, struct error *err)
{
        _close_ int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
        struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP};

        if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
                return error_errno(err, errno, "listen to the kernel's device events");
        *ret = TAKE_FD(fd);
        return 0;
}

int uevent_watch_new(
        struct uevent_watch **ret, uv_loop_t *loop, void (*on_event)(void *data), void *data, struct error *err)
{
        _close_ int fd = -1;
        struct uevent_watch *watch;
        int result;

        if (uevent_open_socket(&fd, err) < 0)
                return -1;
        watch = xcalloc(1, sizeof(*watch));
        watch->on_event = on_event;
        watch->data = data;
        result = uv_poll_init(loop, &watch->poll, fd);
        if (result < 0) {
                free(watch);
                return error_errno(err, -result, "listen to the kernel's device events");
        }
        watch->socket = TAKE_FD(fd);
        uv_poll_start(&watch->poll, UV_READABLE, on_uevent_readable);
        *ret = watch;
        return 0;
}

static void on_uevent_closed(uv_handle_t *handle)
{
        free(container_of((uv_poll_t *)handle, struct uevent_watch, poll));
}

struct uevent_watch *uevent_watch_close(struct uevent_watch *watch)
{
        if (watch) {
                /* The handle first, which releases the descriptor: after close() another one may get its number. */
                uv_close((uv_handle_t *)&watch->poll, on_uevent_closed);
                close(watch->socket);
        }
        return NULL;
}
