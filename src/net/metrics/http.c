// SPDX-License-Identifier: Apache-2.0
#include "net/metrics/http.h"

#include <string.h>

#include "base/alloc.h"
#include "base/macro.h"
#include "base/text.h"
#include "base/io/loop.h"
#include "net/http/server.h"
#include "net/metrics/exposition.h"

enum page {
        PAGE_METRICS,
        PAGE_OPEN_METRICS,
        PAGE_NODE, /* the next three are those with history, with processes, and with both */
        PAGE_HAS_HISTORY = 1,
        PAGE_HAS_PROCESSES = 2,
        PAGES = PAGE_NODE + 4,
};

/* A page is made again after so many times as long as it took. */
#define SHARED_FACTOR 50U

struct shared_page {
        struct http_text *text; /* NULL: none */
        uint64_t until;         /* uv_hrtime() */
};

struct metrics_http {
        struct metrics_http_options options;
        struct http_server *server;
        struct shared_page shared[PAGES];
        uv_timer_t expiry; /* runs while there are shared pages, until all of them are too old */
        struct closing closing;
};

/* ---- pages ---- */

static bool is_trusted(const struct metrics_http *http, const struct http_request *request)
{
        return !http->options.asks_local && http_request_is_local(request);
}

static struct http_text *make_page(struct metrics_http *http, enum page page)
{
        const unsigned int parts = page - PAGE_NODE;
        char *text;

        if (page >= PAGE_NODE)
                text = http->options.node(parts & PAGE_HAS_HISTORY, parts & PAGE_HAS_PROCESSES, http->options.data);
        else
                text = http->options.metrics(http->options.data);
        if (page == PAGE_OPEN_METRICS)
                text = openmetrics_of(text);
        return http_text_new(text, strlen(text));
}

static void on_expiry(uv_timer_t *timer)
{
        struct metrics_http *http = container_of(timer, struct metrics_http, expiry);

        for (size_t i = 0; i < PAGES; i++)
                http->shared[i].text = http_text_unref(http->shared[i].text);
}

static void share_page(struct metrics_http *http, enum page page, struct http_text *text, uint64_t took)
{
        struct shared_page *shared = &http->shared[page];
        const uint64_t most = METRICS_HTTP_SHARED_MS * UINT64_C(1000000);
        const uint64_t duration = took < most / SHARED_FACTOR ? took * SHARED_FACTOR : most;
        const uint64_t milliseconds = duration / 1000000 + 1;

        http_text_unref(shared->text);
        *shared = (struct shared_page){.text = http_text_ref(text), .until = uv_hrtime() + duration};
        if (!uv_is_active((uv_handle_t *)&http->expiry) || uv_timer_get_due_in(&http->expiry) < milliseconds)
                uv_timer_start(&http->expiry, on_expiry, milliseconds, 0);
}

static struct http_text *get_page(struct metrics_http *http, const struct http_request *request, enum page page)
{
        const struct shared_page *shared = &http->shared[page];
        const uint64_t start = uv_hrtime();
        struct http_text *text;

        if (is_trusted(http, request))
                return make_page(http, page);
        if (shared->text && start < shared->until)
                return http_text_ref(shared->text);
        text = make_page(http, page);
        share_page(http, page, text, uv_hrtime() - start);
        return text;
}

static void answer_metrics(struct metrics_http *http, struct http_request *request)
{
        const bool is_open = openmetrics_is_wanted(http_request_header(request, "Accept"));

        http_request_answer(
                request, &(struct http_answer){.status = 200,
                                 .type = is_open ? OPENMETRICS_CONTENT_TYPE : EXPOSITION_CONTENT_TYPE,
                                 .text = get_page(http, request, is_open ? PAGE_OPEN_METRICS : PAGE_METRICS)});
}

static bool asks_for(const struct http_request *request, const char *what)
{
        return text_is_same(http_request_argument(request, what), "1");
}

/* True if the client is on another machine and the API server does not review tokens. */
static bool is_stranger(const struct metrics_http *http, const struct http_request *request)
{
        return !http->options.ask && !http_request_is_local(request);
}

static void answer_node(struct metrics_http *http, struct http_request *request)
{
        const bool has_processes = asks_for(request, "processes") && !is_stranger(http, request);
        const enum page page = PAGE_NODE + (asks_for(request, "history") ? PAGE_HAS_HISTORY : 0) +
                               (has_processes ? PAGE_HAS_PROCESSES : 0);

        if (is_stranger(http, request) && !http->options.node_is_open) {
                http_request_answer_plain(request, 403,
                        "this page is for clients on the node itself: --metrics-node-page=open, in the chart "
                        "metrics.nodePage, opens it\n");
                return;
        }
        http_request_answer(
                request, &(struct http_answer){
                                 .status = 200, .type = "application/json", .text = get_page(http, request, page)});
}

static void http_answer_health(struct metrics_http *http, struct http_request *request)
{
        _free_ char *reason = http->options.unhealthy_reason(http->options.data);
        _free_ char *text = xasprintf("%s\n", reason ? reason : "ok");

        http_request_answer_plain(request, reason ? 503 : 200, text);
}

/* ---- who may read ---- */

struct reader {
        struct metrics_http *http;
        struct http_request *request;
        void *question; /* NULL: it is being asked */
        void (*answer)(struct metrics_http *http, struct http_request *request);
};

static void on_permission(enum metrics_permission permission, const char *why, void *waiting)
{
        struct reader *reader = waiting;
        _free_ char *text = NULL;

        if (permission == METRICS_ALLOWED) {
                http_request_trust(reader->request);
                reader->answer(reader->http, reader->request);
        } else {
                if (permission != METRICS_UNDECIDED && http_request_header(reader->request, "Authorization"))
                        http_request_distrust(reader->request);
                text = xasprintf("%s\n", why);
                http_request_answer_plain(reader->request, permission, text);
        }
        free(reader);
}

static void on_reader_gone(void *data)
{
        struct reader *reader = data;

        reader->http->options.cancel(reader->question, reader->http->options.data);
        free(reader);
}

/* Answers by |answer| if the client may read |path|. */
static void answer_if_allowed(struct metrics_http *http, struct http_request *request, const char *path,
        void (*answer)(struct metrics_http *http, struct http_request *request))
{
        const struct metrics_asker asker = {.authorization = http_request_header(request, "Authorization"),
                .path = path,
                .is_suspect = http_request_is_suspect(request)};
        struct reader *reader;
        void *question;

        if (!http->options.ask || is_trusted(http, request)) {
                answer(http, request);
                return;
        }
        reader = xcalloc(1, sizeof(*reader));
        *reader = (struct reader){.http = http, .request = request, .answer = answer};
        question = http->options.ask(&asker, on_permission, reader, http->options.data);
        if (!question)
                return; /* it is answered, and |reader| is gone */
        reader->question = question;
        http_request_on_gone(request, on_reader_gone, reader);
}

static void on_metrics_request(struct http_request *request, void *data)
{
        struct metrics_http *http = data;
        const char *path = http_request_path(request);

        if (strcmp(path, "/metrics") == 0)
                answer_if_allowed(http, request, path, answer_metrics);
        else if (strcmp(path, "/node") == 0 && http->options.node)
                answer_if_allowed(http, request, path, answer_node);
        else if (strcmp(path, "/healthz") == 0)
                http_answer_health(http, request);
        else if (strcmp(path, "/livez") == 0)
                http_request_answer_plain(request, 200, "ok\n");
        else
                http_request_answer_plain(request, 404,
                        http->options.node ? "there are /metrics, /node, /healthz and /livez\n"
                                           : "there are /metrics, /healthz and /livez\n");
}

int metrics_http_new(struct metrics_http **ret, const struct metrics_http_options *options, struct error *err)
{
        struct metrics_http *http = xcalloc(1, sizeof(*http));
        const struct http_server_options server = {
                .loop = options->loop,
                .address = options->address,
                .connections = METRICS_HTTP_CONNECTIONS,
                .per_peer = METRICS_HTTP_PER_PEER,
                .deadline_ms = options->deadline_ms,
                .tls = options->tls,
                .on_tls_trouble = options->on_tls_trouble,
                .trouble_data = options->data,
                .on_request = on_metrics_request,
                .data = http,
        };

        http->options = *options;
        if (http_server_new(&http->server, &server, err) < 0) {
                free(http);
                return error_prefix(err, "metrics");
        }
        uv_timer_init(options->loop, &http->expiry);
        uv_unref((uv_handle_t *)&http->expiry);
        *ret = http;
        return 0;
}

unsigned int metrics_http_port(const struct metrics_http *http)
{
        return http_server_port(http->server);
}

struct metrics_http *metrics_http_close(struct metrics_http *http)
{
        if (!http)
                return NULL;
        http_server_close(http->server);
        on_expiry(&http->expiry);
        closing_close(&http->closing, &http->expiry);
        closing_end(&http->closing, free, http);
        return NULL;
}
