#include "gpu/uevent.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/text.h"

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
