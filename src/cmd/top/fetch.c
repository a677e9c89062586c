/* One GET of /node, blocking: a command has nothing else to do. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/strbuf.h"
#include "base/text.h"
#include "cmd/top/top.h"

#define PATIENCE_S 5
#define ANSWER_MAX (NODE_PAGE_MAX + (size_t)64 * 1024) /* with its head */

union peer {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
};

/* "127.0.0.1:9400", "[::1]:9400"; where the agent serves every address, ":9400", this node's own is one of them. */
static int read_address(const char *address, union peer *ret, struct error *err)
{
        const char *colon = strrchr(address, ':');
        char host[64] = "127.0.0.1";
        uint64_t port;

        if (!colon || !text_to_uint(colon + 1, UINT16_MAX, &port) || port == 0 ||
                (size_t)(colon - address) >= sizeof(host))
                return error_set(err, ERROR_INVALID, "'%s' is no address and port: 127.0.0.1:9400, [::1]:9400 or :9400",
                        address);
        if (colon > address)
                snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
        if (*host == '[' && host[strlen(host) - 1] == ']') {
                host[strlen(host) - 1] = '\0';
                memmove(host, host + 1, strlen(host));
        }
        if (uv_ip4_addr(host, (int)port, &ret->four) == 0 || uv_ip6_addr(host, (int)port, &ret->six) == 0)
                return 0;
        return error_set(err, ERROR_INVALID, "'%s' is no IP address", host);
}

static int open_connection(const char *address, const union peer *peer, int *ret, struct error *err)
{
        const struct timeval patience = {.tv_sec = PATIENCE_S};
        const socklen_t size = peer->any.sa_family == AF_INET ? sizeof(peer->four) : sizeof(peer->six);
        int fd = socket(peer->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return error_errno(err, errno, "make a socket");
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        if (connect(fd, &peer->any, size) < 0) {
                const int code = errno;

                close(fd);
                return error_set(err, ERROR_UNAVAILABLE, "no agent answers at %s: %s", address, strerror(code));
        }
        *ret = fd;
        return 0;
}

static int read_answer(int fd, struct strbuf *answer, struct error *err)
{
        ssize_t got = 1;

        while (got > 0 && answer->size < ANSWER_MAX) {
                strbuf_reserve(answer, 65536);
                got = recv(fd, answer->data + answer->size, 65536, 0);
                if (got < 0)
                        return error_errno(err, errno, "read the agent's answer");
                answer->size += (size_t)got;
                answer->data[answer->size] = '\0';
        }
        return got == 0 ? 0 : error_set(err, ERROR_INVALID, "the agent's answer is longer than 4 MiB");
}

int top_fetch(char **ret, const char *address, const struct top_wish *wish, struct error *err)
{
        _free_ char *request = xasprintf("GET /node?history=%d&processes=%d HTTP/1.0\r\nHost: localhost\r\n\r\n",
                wish->has_history, wish->has_processes);
        _cleanup_(strbuf_done) struct strbuf answer = STRBUF_INIT;
        _close_ int fd = -1;
        union peer peer = {0};
        const char *body;

        if (read_address(address, &peer, err) < 0 || open_connection(address, &peer, &fd, err) < 0)
                return -1;
        if (send(fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request))
                return error_errno(err, errno, "ask the agent");
        if (read_answer(fd, &answer, err) < 0)
                return -1;
        body = answer.data ? strstr(answer.data, "\r\n\r\n") : NULL;
        if (!body || !text_starts_with(strchr(answer.data, ' ') ? strchr(answer.data, ' ') : "", " 200 "))
                return error_set(err, ERROR_INVALID, "what answers at %s has no page of its node", address);
        *ret = xstrdup(body + strlen("\r\n\r\n"));
        return 0;
}
