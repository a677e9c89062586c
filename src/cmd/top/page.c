/* The page of a node for `warpshare top`: from the agent, or from the driver itself. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "node/pages/page.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "cmd/top/top.h"
#include "gpu/apart.h"
#include "gpu/hangs.h"
#include "gpu/nvml_read.h"

/* ---- from the agent: one GET of /node, blocking, since a command has nothing else to do ---- */

#define PATIENCE_S 5
#define ANSWER_MAX (NODE_PAGE_MAX + (size_t)64 * 1024) /* with its head */

union peer {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
};

/* "127.0.0.1:9400", "[::1]:9400"; where the agent serves every address, ":9400", this node's own is one of them. */
static int page_read_address(const char *address, union peer *ret, struct error *err)
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

static int page_read_answer(int fd, struct strbuf *answer, struct error *err)
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

        if (page_read_address(address, &peer, err) < 0 || open_connection(address, &peer, &fd, err) < 0)
                return -1;
        if (send(fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request))
                return error_errno(err, errno, "ask the agent");
        if (page_read_answer(fd, &answer, err) < 0)
                return -1;
        body = answer.data ? strstr(answer.data, "\r\n\r\n") : NULL;
        if (!body || !text_starts_with(strchr(answer.data, ' ') ? strchr(answer.data, ' ') : "", " 200 "))
                return error_set(err, ERROR_INVALID, "what answers at %s has no page of its node", address);
        *ret = xstrdup(body + strlen("\r\n\r\n"));
        return 0;
}

/* ---- from the driver ---- */

#define WINDOW_MS UINT64_C(2000) /* activity of so long counts */

struct local {
        const char *library;
        const char *driver_root;
        const char *system_root;
        const struct top_wish *wish;
};

static char *write_page(const struct inventory *inventory, const struct usage *usage, const char *system_root,
        const struct top_wish *wish)
{
        const struct gpu_samples *samples = usage_samples(usage);
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct node_usage_view view = {.samples = samples};
        const struct node_facts facts = {.inventory = inventory,
                .usage = &view,
                .has_processes = wish->has_processes,
                .system_root = system_root};
        struct node_page page;

        view.n_shares = usage_shares(usage, &arena, &view.shares);
        view.n_rows = usage_rows(NULL, 0, view.shares, view.n_shares, &arena, &view.rows);
        node_page_make(&page, &arena, &facts);
        return node_page_write(&page, false);
}

static int read_page(const void *data, struct strbuf *answer, struct error *err)
{
        const struct local *local = data;
        const struct gpu_paths paths = {.system_root = local->system_root, .driver_root = local->driver_root};
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        _cleanup_(inventory_freep) struct inventory *inventory = NULL;
        struct gpu_samples *samples;
        struct usage *usage;
        _free_ char *page = NULL;

        if (nvml_open(&nvml, local->library, local->driver_root, err) < 0 ||
                nvml_read(&inventory, nvml, &paths, NULL, err) < 0)
                return -1;
        samples = gpu_samples_new();
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                gpu_call_about(CALL_ON_GPU, inventory->gpus[i].index, inventory->gpus[i].uuid);
                gpu_samples_add(samples, nvml, &inventory->gpus[i], local->system_root, WINDOW_MS);
        }
        usage = usage_new();
        usage_add(usage, samples, NULL, 0);
        page = write_page(inventory, usage, local->system_root, local->wish);
        strbuf_puts(answer, page);
        usage_free(usage);
        return 0;
}

int top_read_local(char **ret, const char *library, const char *driver_root, const char *system_root,
        const struct top_wish *wish, struct error *err)
{
        const struct local local = {library, driver_root, system_root, wish};
        struct strbuf page = STRBUF_INIT;

        if (apart_run(read_page, &local, &page, err) != 0)
                return -1;
        *ret = strbuf_take(&page);
        return 0;
}
