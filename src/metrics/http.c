#include "metrics/http.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "http/server.h"
#include "metrics/exposition.h"

struct metrics_http {
        struct metrics_http_options options;
        struct http_server *server;
};

static void answer_metrics(struct metrics_http *http, struct http_request *request)
{
        char *page = http->options.metrics(http->options.data);

        http_request_answer(request,
                &(struct http_answer){
                        .status = 200, .type = EXPOSITION_CONTENT_TYPE, .text = http_text_new(page, strlen(page))});
}

static bool asks_for(const struct http_request *request, const char *what)
{
        return text_is_same(http_request_argument(request, what), "1");
}

static void answer_node(struct metrics_http *http, struct http_request *request)
{
        char *page =
                http->options.node(asks_for(request, "history"), asks_for(request, "processes"), http->options.data);

        http_request_answer(
                request, &(struct http_answer){
                                 .status = 200, .type = "application/json", .text = http_text_new(page, strlen(page))});
}

static void answer_health(struct metrics_http *http, struct http_request *request)
{
        _free_ char *ailment = http->options.ailment(http->options.data);
        _free_ char *text = xasprintf("%s\n", ailment ? ailment : "ok");

        http_request_answer_plain(request, ailment ? 503 : 200, text);
}

static void on_metrics_request(struct http_request *request, void *data)
{
        struct metrics_http *http = data;
        const char *path = http_request_path(request);

        if (strcmp(path, "/metrics") == 0)
                answer_metrics(http, request);
        else if (strcmp(path, "/node") == 0 && http->options.node)
                answer_node(http, request);
        else if (strcmp(path, "/healthz") == 0)
                answer_health(http, request);
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
                .on_request = on_metrics_request,
                .data = http,
        };

        http->options = *options;
        if (http_server_new(&http->server, &server, err) < 0) {
                free(http);
                return error_prefix(err, "metrics");
        }
        *ret = http;
        return 0;
}

unsigned int metrics_http_port(const struct metrics_http *http)
{
        return http_server_port(http->server);
}

struct metrics_http *metrics_http_close(struct metrics_http *http)
{
        if (http)
                http_server_close(http->server);
        free(http);
        return NULL;
}
