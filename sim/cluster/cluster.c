// SPDX-License-Identifier: Apache-2.0
/*
 * HTTP/1.1 as our own clients use it: requests with Content-Length, one after the other on a connection. The answer to
 * a watch is sent in chunks and does not end.
 */
#include "sim/cluster/cluster.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/strbuf.h"
#include "sim/cluster/store.h"

#define HEAD_MAX ((size_t)64 * 1024)
#define BODY_MAX ((size_t)4 << 20)

struct cluster {
        uv_tcp_t listener;
        struct store store;
        struct list connections;
        size_t n_handles; /* that are not closed yet */
};

struct connection {
        struct list link;
        uv_tcp_t tcp;
        struct cluster *cluster;
        struct strbuf input;
        char piece[16 * 1024];
        char *watched; /* the collection of a watch; NULL: this is no watch */
        size_t seen;   /* how many entries of the log were sent */
};

/* ---- the end ---- */

static void on_handle_closed(struct cluster *cluster)
{
        if (--cluster->n_handles > 0)
                return;
        store_done(&cluster->store);
        free(cluster);
}

static void on_connection_closed(uv_handle_t *handle)
{
        struct connection *connection = container_of(handle, struct connection, tcp);
        struct cluster *cluster = connection->cluster;

        strbuf_done(&connection->input);
        free(connection->watched);
        free(connection);
        on_handle_closed(cluster);
}

static void drop(struct connection *connection)
{
        if (uv_is_closing((uv_handle_t *)&connection->tcp))
                return;
        list_remove(&connection->link);
        uv_close((uv_handle_t *)&connection->tcp, on_connection_closed);
}

/* ---- answers ---- */

struct output {
        uv_write_t request;
        char *text;
};

static void on_written(uv_write_t *request, int status UNUSED)
{
        struct output *output = container_of(request, struct output, request);

        free(output->text);
        free(output);
}

static void send_text(struct connection *connection, struct strbuf *text)
{
        struct output *output = xcalloc(1, sizeof(*output));
        uv_buf_t buffer = uv_buf_init(text->data, (unsigned int)text->size);

        output->text = strbuf_take(text);
        buffer.base = output->text;
        if (uv_write(&output->request, (uv_stream_t *)&connection->tcp, &buffer, 1, on_written) < 0)
                on_written(&output->request, 0);
}

static void answer(struct connection *connection, unsigned int status, json_t *object)
{
        struct strbuf text = STRBUF_INIT;
        _free_ char *body = json_dumps(object, JSON_COMPACT);

        strbuf_printf(&text, "HTTP/1.1 %u Answer\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                status, strlen(body), body);
        send_text(connection, &text);
        json_decref(object);
}

/* Sends the events that are new since the last time. */
static void send_events(struct connection *connection)
{
        const json_t *log = connection->cluster->store.log;
        struct strbuf text = STRBUF_INIT;

        for (; connection->seen < json_array_size(log); connection->seen++) {
                const json_t *entry = json_array_get(log, connection->seen);
                _free_ char *event = NULL;

                if (strcmp(json_string_value(json_object_get(entry, "collection")), connection->watched) != 0)
                        continue;
                event = json_dumps(json_object_get(entry, "event"), JSON_COMPACT);
                strbuf_printf(&text, "%zx\r\n%s\n\r\n", strlen(event) + 1, event);
        }
        if (text.size > 0)
                send_text(connection, &text);
        strbuf_done(&text);
}

static void tell_watchers(struct cluster *cluster)
{
        LIST_FOR_EACH(link, &cluster->connections) {
                struct connection *connection = container_of(link, struct connection, link);

                if (connection->watched)
                        send_events(connection);
        }
}

static void begin_watch(struct connection *connection, json_int_t version)
{
        const json_t *log = connection->cluster->store.log;
        struct strbuf text = STRBUF_INIT;

        while (connection->seen < json_array_size(log) &&
                json_integer_value(json_object_get(json_array_get(log, connection->seen), "version")) <= version)
                connection->seen++;
        strbuf_puts(
                &text, "HTTP/1.1 200 Answer\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
        send_text(connection, &text);
        send_events(connection);
}

/* ---- requests ---- */

static void serve(
        struct connection *connection, const char *method, char *target, const char *content_type, const char *body)
{
        char *query = target + strcspn(target, "?");
        json_t *object = *body ? json_loads(body, 0, NULL) : NULL;
        struct store_request request = {.method = method,
                .path = target,
                .query = "",
                .content_type = content_type,
                .size = strlen(body),
                .body = object};
        json_int_t version = 0;
        json_t *result;
        unsigned int status;

        if (*query) {
                *query = '\0';
                request.query = query + 1;
        }
        if (store_is_watch(&request, &connection->watched, &version)) {
                begin_watch(connection, version);
        } else {
                status = store_serve(&connection->cluster->store, &request, &result);
                answer(connection, status, result);
                tell_watchers(connection->cluster);
        }
        json_decref(object);
}

/* Where its value begins; "" where there is no such header. */
static const char *value_of(const char *head, const char *header)
{
        _free_ char *name = xasprintf("\r\n%s:", header);
        const char *found = strcasestr(head, name);

        return found ? found + strlen(name) + strspn(found + strlen(name), " ") : "";
}

/* Serves one request and removes it from the input; false: it is not complete yet. */
static bool serve_next(struct connection *connection)
{
        struct strbuf *input = &connection->input;
        char *end = strstr(input->data, "\r\n\r\n");
        size_t head = end ? (size_t)(end - input->data) + 4 : 0;
        char method[16];
        char target[2048];
        char type[64] = "";
        size_t body;
        char *text;

        if (!end) {
                if (input->size > HEAD_MAX)
                        drop(connection);
                return false;
        }
        end[2] = '\0'; /* keeps the line break that headers end with */
        body = strtoul(value_of(input->data, "Content-Length"), NULL, 10);
        (void)sscanf(value_of(input->data, "Content-Type"), "%63[^; \r\n]", type);
        if (body > BODY_MAX || sscanf(input->data, "%15s %2047s", method, target) != 2) {
                drop(connection);
                return false;
        }
        end[2] = '\r';
        if (input->size < head + body)
                return false;
        text = xasprintf("%.*s", (int)body, input->data + head);
        strbuf_consume(input, head + body);
        serve(connection, method, target, type, text);
        free(text);
        return true;
}

static void on_alloc(uv_handle_t *handle, size_t size UNUSED, uv_buf_t *buffer)
{
        struct connection *connection = container_of(handle, struct connection, tcp);

        *buffer = uv_buf_init(connection->piece, sizeof(connection->piece));
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
        struct connection *connection = container_of(stream, struct connection, tcp);

        if (size < 0) {
                drop(connection);
                return;
        }
        strbuf_append(&connection->input, buffer->base, (size_t)size);
        while (connection->input.size > 0 && !connection->watched && serve_next(connection))
                ;
}

static void on_connection(uv_stream_t *listener, int status)
{
        struct cluster *cluster = container_of(listener, struct cluster, listener);
        struct connection *connection;

        if (status < 0)
                return;
        connection = xcalloc(1, sizeof(*connection));
        connection->cluster = cluster;
        connection->input = (struct strbuf)STRBUF_INIT;
        uv_tcp_init(listener->loop, &connection->tcp);
        cluster->n_handles++;
        list_append(&cluster->connections, &connection->link);
        if (uv_accept(listener, (uv_stream_t *)&connection->tcp) < 0 ||
                uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read) < 0)
                drop(connection);
        else
                uv_tcp_nodelay(&connection->tcp, 1); /* an event of a watch does not wait for an answer */
}

/* ---- public ---- */

static void on_listener_closed(uv_handle_t *handle)
{
        on_handle_closed(container_of(handle, struct cluster, listener));
}

int cluster_new(struct cluster **ret, uv_loop_t *loop, struct error *err)
{
        struct cluster *cluster = xcalloc(1, sizeof(*cluster));
        struct sockaddr_in address;
        int rc;

        store_init(&cluster->store);
        list_init(&cluster->connections);
        cluster->n_handles = 1;
        uv_ip4_addr("127.0.0.1", 0, &address);
        uv_tcp_init(loop, &cluster->listener);
        rc = uv_tcp_bind(&cluster->listener, (const struct sockaddr *)&address, 0);
        if (rc == 0)
                rc = uv_listen((uv_stream_t *)&cluster->listener, 16, on_connection);
        if (rc < 0) {
                cluster_close(cluster);
                return error_errno(err, -rc, "listen at 127.0.0.1");
        }
        *ret = cluster;
        return 0;
}

char *cluster_kubeconfig(const struct cluster *cluster)
{
        struct sockaddr_in address = {0};
        int size = sizeof(address);

        uv_tcp_getsockname(&cluster->listener, (struct sockaddr *)&address, &size);
        return xasprintf("apiVersion: v1\n"
                         "kind: Config\n"
                         "current-context: demo\n"
                         "contexts:\n"
                         "- {name: demo, context: {cluster: demo, user: demo}}\n"
                         "clusters:\n"
                         "- {name: demo, cluster: {server: 'http://127.0.0.1:%u'}}\n"
                         "users:\n"
                         "- {name: demo, user: {}}\n",
                ntohs(address.sin_port));
}

struct cluster *cluster_close(struct cluster *cluster)
{
        if (!cluster)
                return NULL;
        while (!list_is_empty(&cluster->connections))
                drop(container_of(cluster->connections.next, struct connection, link));
        uv_close((uv_handle_t *)&cluster->listener, on_listener_closed);
        return NULL;
}

json_t *cluster_objects(const struct cluster *cluster, const char *collection)
{
        return json_object_get(cluster->store.collections, collection);
}

const json_t *cluster_put(struct cluster *cluster, const char *collection, json_t *object)
{
        const json_t *written = store_put(&cluster->store, collection, object);

        tell_watchers(cluster);
        return written;
}

void cluster_wipe_slices(struct cluster *cluster, const char *node, const char *driver)
{
        json_t *slices = cluster_objects(cluster, CLUSTER_SLICES);
        const char *name;
        json_t *slice;
        void *next;

        json_object_foreach_safe(slices, next, name, slice)
        {
                const json_t *spec = json_object_get(slice, "spec");
                const char *its_node = json_string_value(json_object_get(spec, "nodeName"));
                const char *its_driver = json_string_value(json_object_get(spec, "driver"));
                _free_ char *path = xasprintf(CLUSTER_SLICES "/%s", name);
                json_t *answer;

                if (!its_node || !its_driver || strcmp(its_node, node) != 0 ||
                        (driver && strcmp(its_driver, driver) != 0))
                        continue;
                (void)store_serve(&cluster->store,
                        &(struct store_request){.method = "DELETE", .path = path, .query = ""}, &answer);
                json_decref(answer);
        }
        tell_watchers(cluster);
}
