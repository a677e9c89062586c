// SPDX-License-Identifier: Apache-2.0
#include "sim/mps/channel.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/alloc.h"

static int make_address(struct sockaddr_un *address, const char *path, struct error *err)
{
        *address = (struct sockaddr_un){.sun_family = AF_UNIX};
        if (strlen(path) >= sizeof(address->sun_path))
                return error_set(err, ERROR_INVALID, "'%s' is too long for a socket", path);
        memcpy(address->sun_path, path, strlen(path) + 1);
        return 0;
}

int channel_listen(const char *path, mode_t mode, struct error *err)
{
        _close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        struct sockaddr_un address;

        if (fd < 0)
                return error_errno(err, errno, "create a socket");
        if (make_address(&address, path, err) < 0)
                return -1;
        unlink(path);
        if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || chmod(path, mode) < 0 || listen(fd, 128) < 0)
                return error_errno(err, errno, "listen on '%s'", path);
        return TAKE_FD(fd);
}

int channel_accept(int listener)
{
        return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

int channel_connect(const char *path, struct error *err)
{
        _close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        struct sockaddr_un address;

        if (fd < 0)
                return error_errno(err, errno, "create a socket");
        if (make_address(&address, path, err) < 0)
                return -1;
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                return error_errno(err, errno, "connect to '%s'", path);
        return TAKE_FD(fd);
}

struct ucred channel_peer(int fd)
{
        struct ucred peer = {.uid = (uid_t)-1};
        socklen_t size = sizeof(peer);

        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
        return peer;
}

static bool __attribute__((format(printf, 4, 0)))
send_text(int fd, int passed, int flags, const char *format, va_list args)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr header;
        } control = {0};
        char text[CHANNEL_MAX];
        int length = vsnprintf(text, sizeof(text), format, args);
        struct iovec part = {.iov_base = text, .iov_len = MIN((size_t)length, sizeof(text) - 1)};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

        if (passed >= 0) {
                message.msg_control = control.bytes;
                message.msg_controllen = sizeof(control.bytes);
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(sizeof(int));
                memcpy(CMSG_DATA(&control.header), &passed, sizeof(int));
        }
        return sendmsg(fd, &message, MSG_NOSIGNAL | flags) >= 0;
}

bool channel_send(int fd, const char *format, ...)
{
        va_list args;
        bool sent;

        va_start(args, format);
        sent = send_text(fd, -1, MSG_DONTWAIT, format, args);
        va_end(args);
        return sent;
}

bool channel_send_patiently(int fd, const char *format, ...)
{
        va_list args;
        bool sent;

        va_start(args, format);
        sent = send_text(fd, -1, 0, format, args);
        va_end(args);
        return sent;
}

bool channel_send_with(int fd, int passed, const char *format, ...)
{
        va_list args;
        bool sent;

        va_start(args, format);
        sent = send_text(fd, passed, MSG_DONTWAIT, format, args);
        va_end(args);
        return sent;
}

bool channel_receive(int fd, struct packet *packet)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr header;
        } control = {0};
        struct iovec part = {.iov_base = packet->text, .iov_len = sizeof(packet->text) - 1};
        struct msghdr message = {.msg_iov = &part,
                .msg_iovlen = 1,
                .msg_control = control.bytes,
                .msg_controllen = sizeof(control.bytes)};
        ssize_t got;

        /*
         * A peer that closes without having read everything resets the connection; what it sent before can still be
         * received.
         */
        do {
                got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
        } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
        packet->fd = -1;
        if (got <= 0)
                return false;
        packet->length = (size_t)got;
        packet->text[got] = '\0';
        for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
                if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
                        memcpy(&packet->fd, CMSG_DATA(header), sizeof(int));
        }
        return true;
}

const char *packet_is(const struct packet *packet, const char *word)
{
        size_t length = strlen(word);

        if (strncmp(packet->text, word, length) != 0)
                return NULL;
        if (packet->text[length] == ' ')
                return packet->text + length + 1;
        return packet->text[length] ? NULL : packet->text + length;
}

bool packet_value(const char *text, const char *key, char *value, size_t size)
{
        _free_ char *name = xasprintf("%s=", key);
        const char *found = text;

        value[0] = '\0';
        while ((found = strstr(found, name)) && found != text && found[-1] != ' ')
                found++;
        if (!found)
                return false;
        found += strlen(name);
        snprintf(value, size, "%.*s", (int)strcspn(found, " "), found);
        return true;
}
