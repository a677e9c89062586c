// SPDX-License-Identifier: Apache-2.0
#include "net/http/address.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/text.h"

union address {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
};

/* Reads a host. An IPv6 address needs brackets: without them a colon only separates the port. */
static bool address_read_host(const char *host, size_t length, int port, union address *ret)
{
        char text[INET6_ADDRSTRLEN];

        if (length == 0)
                return uv_ip6_addr("::", port, &ret->six) == 0;
        if (length >= sizeof(text))
                return false;
        snprintf(text, sizeof(text), "%.*s", (int)length, host);
        if (text[0] != '[')
                return uv_ip4_addr(text, port, &ret->four) == 0;
        if (text[length - 1] != ']')
                return false;
        text[length - 1] = '\0';
        return uv_ip6_addr(text + 1, port, &ret->six) == 0;
}

static int address_read_address(const char *text, union address *ret, struct error *err)
{
        const char *colon = strrchr(text, ':');
        uint64_t port;

        memset(ret, 0, sizeof(*ret));
        if (!colon || !text_to_uint(colon + 1, 65535, &port) ||
                !address_read_host(text, (size_t)(colon - text), (int)port, ret))
                return error_set(err, ERROR_INVALID,
                        "'%.80s' is no IP address with a port, as 127.0.0.1:9400, [::1]:9400 or, for all, :9400", text);
        return 0;
}

/* Opens a socket; if it is for every address, it serves both IPv4 and IPv6. */
static int address_open_socket(union address *address, bool is_every)
{
        const int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
        const int no = 0;
        int fd = socket(address->any.sa_family, type, 0);

        if (fd < 0 && is_every && errno == EAFNOSUPPORT) { /* a kernel without IPv6 */
                address->four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = address->six.sin6_port};
                return socket(AF_INET, type, 0);
        }
        if (fd >= 0 && is_every)
                setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
        return fd;
}

int http_address_listen(int *ret_fd, const char *text, struct error *err)
{
        const int yes = 1;
        union address address;
        socklen_t size;
        _close_ int fd = -1;

        if (address_read_address(text, &address, err) < 0)
                return -1;
        fd = address_open_socket(&address, text[0] == ':');
        if (fd < 0)
                return error_errno(err, errno, "make a socket");
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
        size = address.any.sa_family == AF_INET ? sizeof(address.four) : sizeof(address.six);
        if (bind(fd, &address.any, size) < 0 || listen(fd, SOMAXCONN) < 0)
                return error_errno(err, errno, "listen at '%s'", text);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

unsigned int http_address_port(int fd)
{
        union address address = {.any.sa_family = AF_UNSPEC};
        socklen_t size = sizeof(address);

        if (getsockname(fd, &address.any, &size) < 0)
                return 0;
        return ntohs(address.any.sa_family == AF_INET ? address.four.sin_port : address.six.sin6_port);
}
