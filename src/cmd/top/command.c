// SPDX-License-Identifier: Apache-2.0
/* warpshare top: shows which pods use what on this node, once, or on a screen until the user quits. */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/strbuf.h"
#include "base/text.h"
#include "base/clock.h"
#include "cmd/cli/command.h"
#include "cmd/commands.h"
#include "cmd/top/screen.h"
#include "cmd/top/top.h"
#include "cmd/top/view.h"
#include "gpu/apart.h"
#include "gpu/hangs.h"
#include "gpu/nvml_read.h"
#include "node/pages/page.h"

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

/* Fetches the page from the agent at |address| (net/metrics/http.h). ERROR_UNAVAILABLE: no agent answers there. */
static int fetch_page(char **ret, const char *address, const struct top_wish *wish, struct error *err)
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

/* Makes the page from the driver itself. Then pods have no names, and the page has no history. */
static int read_local(char **ret, const struct option_set *set, const struct top_wish *wish, struct error *err)
{
        const struct local local = {option_set_value(set, "nvml-library"),
                option_set_value(set, "driver-root-ctr-path"), option_set_value(set, "system-root"), wish};
        struct strbuf page = STRBUF_INIT;

        if (apart_run(read_page, &local, &page, err) != 0)
                return -1;
        *ret = strbuf_take(&page);
        return 0;
}

#define DEFAULT_ADDRESS "127.0.0.1:9400"

enum { ONCE, OUTPUT, SORT, FILTER, PROCESSES, HISTORY, UNITS, INTERVAL };

static const char *const outputs[] = {"table", "json", "csv", NULL};
static const char *const sorts[] = {"memory", "sm", "peak", "pod", NULL}; /* in the order of enum top_sort */
static const char *const units[] = {"auto", "MiB", "GiB", NULL};          /* in the order of enum top_amounts */

static const struct option own[] = {
        [ONCE] = COMMAND_FLAG("once", "print once; also where the output is no terminal, or no table"),
        [OUTPUT] = COMMAND_CHOICE("output", outputs, "table", "table for people, json or csv for programs"),
        [SORT] = COMMAND_CHOICE("sort", sorts, "memory", "order of the pods on a GPU: memory, sm, peak or pod"),
        [FILTER] = COMMAND_TEXT("filter", "", "TEXT", "only pods whose namespace/pod/container contains it"),
        [PROCESSES] = COMMAND_FLAG("processes", "also the processes of each pod; not in csv"),
        [HISTORY] = COMMAND_FLAG("history", "also the last hour, which the screen has anyway; not in csv"),
        [UNITS] = COMMAND_CHOICE("units", units, "auto", "amounts of memory in the table: auto, MiB or GiB"),
        [INTERVAL] = COMMAND_TEXT("interval", "5", "SECONDS", "between two looks, 1 to 3600"),
};

static const char *const shared[] = {"metrics-address", "nvml-library", "driver-root-ctr-path", "system-root", NULL};

/* The driver is asked only if the command line names no agent. */
static int get_text(char **ret, const struct option_set *set, const struct top_wish *wish, struct error *err)
{
        const char *address = option_set_value(set, "metrics-address");
        struct error agent;
        struct error driver;

        if (fetch_page(ret, *address ? address : DEFAULT_ADDRESS, wish, err) == 0)
                return 0;
        agent = *err;
        if (err->kind != ERROR_UNAVAILABLE || *address)
                return -1;
        if (read_local(ret, set, wish, &driver) == 0)
                return 0;
        return error_set(err, driver.kind, "%s; and %s", agent.text, driver.text);
}

static int top_get_page(struct node_page *ret, struct arena *arena, const struct option_set *set,
        const struct top_wish *wish, struct error *err)
{
        _free_ char *text = NULL;

        return get_text(&text, set, wish, err) < 0 ? -1 : node_page_read(ret, arena, text, strlen(text), err);
}

/* ---- once ---- */

static bool is_utf8(void)
{
        return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static char *top_print_table(
        const struct node_page *page, const struct top *top, const struct top_wish *wish, struct arena *arena)
{
        struct top_lines lines = {.arena = arena};
        struct strbuf text = STRBUF_INIT;

        if (top->n_units == 0)
                return xstrdup(*wish->filter ? "no such pod\n" : "no GPU is known here\n");
        top_draw(&lines, top, wish, command_width(), is_utf8());
        top_lines_print(&text, &lines, command_wants_colours());
        if (page->owners_unknown)
                strbuf_printf(&text, "\n%s\n", page->owners_unknown);
        return strbuf_take(&text);
}

static int show_once(const struct option_set *set, const char *output, const struct top_wish *wish, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _free_ char *text = NULL;
        struct node_page page;
        struct top top;

        if (top_get_page(&page, &arena, set, wish, err) < 0)
                return -1;
        top_make(&top, &arena, &page, wish);
        if (strcmp(output, "json") == 0)
                text = top_print_json(&top, wish);
        else
                text = strcmp(output, "csv") == 0 ? top_print_csv(&top) : top_print_table(&page, &top, wish, &arena);
        fputs(text, stdout);
        fflush(stdout);
        return 0;
}

/* ---- on a screen ---- */

/* The newest page that could be had, and why there is none newer. */
struct look {
        struct arena arena;
        struct node_page page;
        bool has_page;
        struct error trouble;
        bool has_trouble;
        uint64_t at_ms;
};

static void look_again(struct look *look, const struct option_set *set, const struct top_wish *wish)
{
        struct arena arena = ARENA_INIT;
        struct node_page page;

        look->has_trouble = top_get_page(&page, &arena, set, wish, &look->trouble) < 0;
        if (look->has_trouble) {
                arena_done(&arena);
        } else {
                arena_done(&look->arena);
                look->arena = arena;
                look->page = page;
                look->has_page = true;
        }
        look->at_ms = clock_now_ms();
}

static void draw(const struct top_screen *screen, struct top_view *view, const struct look *look)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct top_lines lines = {.arena = &arena};
        unsigned int width;
        unsigned int height;

        top_screen_size(screen, &width, &height);
        top_view_draw(view, &lines, look->has_page ? &look->page : NULL, look->has_trouble ? look->trouble.text : NULL,
                width, height, is_utf8());
        top_screen_show(screen, &lines);
}

static void watch(const struct top_screen *screen, const struct option_set *set, const struct top_wish *wish,
        uint64_t interval_ms)
{
        struct look look = {0};
        struct top_view view;

        top_view_init(&view, wish);
        view.wants_page = true;
        while (!view.is_over) {
                uint64_t passed_ms = clock_now_ms() - look.at_ms;

                if (view.wants_page || passed_ms >= interval_ms) {
                        look_again(&look, set, &view.wish);
                        view.wants_page = false;
                        passed_ms = clock_now_ms() - look.at_ms;
                }
                draw(screen, &view, &look);
                top_view_key(
                        &view, top_screen_key(screen, (unsigned int)(interval_ms - MIN(passed_ms, interval_ms) + 1)));
        }
        arena_done(&look.arena);
}

static bool wants_screen(const struct command_call *call)
{
        const char *type = getenv("TERM");

        return !command_is_set(call, ONCE) && command_has(call, OUTPUT, "table") && isatty(STDOUT_FILENO) &&
               isatty(STDIN_FILENO) && type && *type && strcmp(type, "dumb") != 0;
}

static int top_run(struct command_call *call, struct error *err)
{
        const char *const *values = call->values;
        struct top_wish wish = {.sort = (enum top_sort)option_position(&own[SORT], values[SORT]),
                .filter = values[FILTER],
                .amounts = (enum top_amounts)option_position(&own[UNITS], values[UNITS]),
                .has_processes = command_is_set(call, PROCESSES),
                .has_history = command_is_set(call, HISTORY)};
        struct top_screen *screen = NULL;
        uint64_t seconds;

        if (command_number(call, INTERVAL, " of seconds", 1, 3600, &seconds, err) < 0)
                return COMMAND_REFUSED;
        setlocale(LC_CTYPE, "");
        if (!wants_screen(call))
                return show_once(&call->set, values[OUTPUT], &wish, err);
        if (top_screen_new(&screen, command_wants_colours(), err) < 0)
                return COMMAND_FAILED;
        wish.has_history = true;
        watch(screen, &call->set, &wish, seconds * 1000);
        top_screen_free(screen);
        return 0;
}

const struct command command_top = {
        .name = "top",
        .summary = "show who uses what of this node's GPUs",
        .run = top_run,
        .shared = shared,
        COMMAND_OWN(own),
        .program = "warpshare top",
        .help = "usage: warpshare top [OPTION...]\n"
                "\n"
                "Shows the GPUs and MIG devices of this node, with the pods that use them: what they were granted, memory and\n"
                "its peak of the last hour, activity on the SMs and on memory, time on the GPU, and an estimate of energy. In a\n"
                "terminal it goes on until q is pressed; h lists the other keys. It asks the agent for the page of its node (by\n"
                "default at " DEFAULT_ADDRESS
                "). Where no agent answers it asks the driver itself: then pods have no names, and there\n"
                "is no limit and no past. What is not known is \"-\". NO_COLOR turns colours off.\n"
                "\n",
};
