#include "metrics/http.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "http/server.h"
#include "metrics/exposition.h"
#include "metrics/openmetrics.h"

struct metrics_http {
        struct metrics_http_options options;
        struct http_server *server;
};

static void answer_metrics(struct metrics_http *http, struct http_request *request)
{
        const bool is_open = openmetrics_is_wanted(http_request_header(request, "Accept"));
        char *page = http->options.metrics(http->options.data);

        if (is_open)
                page = openmetrics_of(page);
        http_request_answer(request, &(struct http_answer){.status = 200,
                                             .type = is_open ? OPENMETRICS_CONTENT_TYPE : EXPOSITION_CONTENT_TYPE,
                                             .text = http_text_new(page, strlen(page))});
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

/* ---- who may read ---- */

struct reader {
        struct metrics_http *http;
        struct http_request *request;
        void *question; /* NULL: it is being asked */
        void (*answer)(struct metrics_http *http, struct http_request *request);
};

static void refuse(struct http_request *request, enum metrics_permission permission, const char *why)
{
        static const unsigned int statuses[] = {
                [METRICS_NOBODY] = 401, [METRICS_DENIED] = 403, [METRICS_UNDECIDED] = 503};
        static const struct http_header challenge[] = {{"WWW-Authenticate", "Bearer"}, {0}};
        char *text = xasprintf("%s\n", why);

        http_request_answer(request, &(struct http_answer){.status = statuses[permission],
                                             .type = "text/plain; charset=utf-8",
                                             .text = http_text_new(text, strlen(text)),
                                             .headers = permission == METRICS_NOBODY ? challenge : NULL});
}

static void on_permission(enum metrics_permission permission, const char *why, void *waiting)
{
        struct reader *reader = waiting;

        if (permission == METRICS_ALLOWED)
                reader->answer(reader->http, reader->request);
        else
                refuse(reader->request, permission, why);
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
        struct reader *reader;
        void *question;

        if (!http->options.ask || (!http->options.asks_local && http_request_is_local(request))) {
                answer(http, request);
                return;
        }
        reader = xcalloc(1, sizeof(*reader));
        *reader = (struct reader){.http = http, .request = request, .answer = answer};
        question = http->options.ask(
                http_request_header(request, "Authorization"), path, on_permission, reader, http->options.data);
        if (!question)
                return; /* it is answered, and |reader| is gone */
        reader->question = question;
        http_request_on_gone(request, on_reader_gone, reader);
}

static void on_metrics_tls_trouble(const struct error *error, void *data)
{
        struct metrics_http *http = data;

        if (http->options.on_tls_trouble)
                http->options.on_tls_trouble(error, http->options.data);
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
                .tls = options->tls,
                .on_tls_trouble = on_metrics_tls_trouble,
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
