// SPDX-License-Identifier: Apache-2.0
#include "net/rpc/head.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"

enum {
        PSEUDO_METHOD = 1,
        PSEUDO_SCHEME = 2,
        PSEUDO_PATH = 4,
        PSEUDO_AUTHORITY = 8,
        PSEUDO_STATUS = 16,
};

void rpc_head_init(struct rpc_head *head, size_t limit)
{
        *head = (struct rpc_head){.limit = limit, .message = STRBUF_INIT};
}

void rpc_head_done(struct rpc_head *head)
{
        strbuf_done(&head->message);
}

void rpc_head_begin(struct rpc_head *head, enum rpc_head_kind kind)
{
        struct strbuf message = head->message;
        size_t limit = head->limit;

        strbuf_clear(&message);
        *head = (struct rpc_head){.kind = kind, .limit = limit, .message = message};
}

static bool is(const char *text, size_t size, const char *word)
{
        return size == strlen(word) && memcmp(text, word, size) == 0;
}

static bool is_grpc_type(const char *value, size_t size)
{
        static const char type[] = "application/grpc";

        if (size < sizeof(type) - 1 || memcmp(value, type, sizeof(type) - 1) != 0)
                return false;
        return size == sizeof(type) - 1 || value[sizeof(type) - 1] == '+' || value[sizeof(type) - 1] == ';';
}

/* One to three digits. */
static bool head_read_number(const char *value, size_t size, unsigned int *ret)
{
        *ret = 0;
        for (size_t i = 0; i < size; i++) {
                if (size > 3 || value[i] < '0' || value[i] > '9')
                        return false;
                *ret = *ret * 10 + (unsigned int)(value[i] - '0');
        }
        return size > 0;
}

static unsigned int parse_http_status(const char *value, size_t size)
{
        unsigned int status;

        return size == 3 && head_read_number(value, size, &status) ? status : 0;
}

/* A gRPC server writes a number; a number that we do not know counts as UNKNOWN. */
static enum rpc_status parse_grpc_status(const char *value, size_t size)
{
        unsigned int status;

        if (!head_read_number(value, size, &status))
                return RPC_INTERNAL;
        return status > RPC_UNAUTHENTICATED ? RPC_UNKNOWN : (enum rpc_status)status;
}

static void add_pseudo(struct rpc_head *head, const char *name, size_t name_size, const char *value, size_t value_size)
{
        unsigned int which = 0;

        if (head->kind == RPC_HEAD_REQUEST) {
                if (is(name, name_size, ":method")) {
                        which = PSEUDO_METHOD;
                        head->is_post = is(value, value_size, "POST");
                } else if (is(name, name_size, ":scheme")) {
                        which = PSEUDO_SCHEME;
                } else if (is(name, name_size, ":path")) {
                        which = PSEUDO_PATH;
                        snprintf(head->path, sizeof(head->path), "%.*s", (int)MIN(value_size, sizeof(head->path)),
                                value);
                } else if (is(name, name_size, ":authority")) {
                        which = PSEUDO_AUTHORITY;
                }
        } else if (head->kind == RPC_HEAD_RESPONSE && is(name, name_size, ":status")) {
                which = PSEUDO_STATUS;
                head->http_status = parse_http_status(value, value_size);
        }
        if (!which || head->pseudo & which || head->has_regular)
                head->is_malformed = true;
        head->pseudo |= which;
}

static bool is_connection_specific(const char *name, size_t name_size, const char *value, size_t value_size)
{
        static const char *const names[] = {
                "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                if (is(name, name_size, names[i]))
                        return true;
        }
        return is(name, name_size, "te") && !is(value, value_size, "trailers");
}

static void head_add_regular(
        struct rpc_head *head, const char *name, size_t name_size, const char *value, size_t value_size)
{
        head->has_regular = true;
        if (!nghttp2_check_header_name((const uint8_t *)name, name_size) ||
                is_connection_specific(name, name_size, value, value_size)) {
                head->is_malformed = true;
        } else if (is(name, name_size, "content-type")) {
                head->is_grpc = is_grpc_type(value, value_size);
        } else if (is(name, name_size, "grpc-timeout")) {
                head->has_timeout = true;
                head->has_bad_timeout = !rpc_timeout_parse(value, value_size, &head->timeout_ns);
        } else if (is(name, name_size, "grpc-status")) {
                head->has_status = true;
                head->status = parse_grpc_status(value, value_size);
        } else if (is(name, name_size, "grpc-message")) {
                strbuf_clear(&head->message);
                rpc_message_decode(value, value_size, &head->message);
        }
}

void rpc_head_add(struct rpc_head *head, const char *name, size_t name_size, const char *value, size_t value_size)
{
        head->size += name_size + value_size + 32;
        if (rpc_head_is_too_large(head))
                return;
        if (!nghttp2_check_header_value((const uint8_t *)value, value_size))
                head->is_malformed = true;
        if (name_size > 0 && name[0] == ':')
                add_pseudo(head, name, name_size, value, value_size);
        else
                head_add_regular(head, name, name_size, value, value_size);
}

bool rpc_head_is_too_large(const struct rpc_head *head)
{
        return head->size > head->limit;
}

bool rpc_head_is_malformed(const struct rpc_head *head)
{
        const unsigned int needed = PSEUDO_METHOD | PSEUDO_SCHEME | PSEUDO_PATH;

        if (rpc_head_is_too_large(head))
                return false; /* not all of it was looked at */
        if (head->kind == RPC_HEAD_REQUEST && (head->pseudo & needed) != needed)
                return true;
        if (head->kind == RPC_HEAD_RESPONSE && head->http_status < 100)
                return true;
        return head->is_malformed;
}

static bool head_refuse(struct rpc_refusal *ret, const char *http_status, enum rpc_status status, const char *text)
{
        *ret = (struct rpc_refusal){.http_status = http_status, .status = status};
        snprintf(ret->text, sizeof(ret->text), "%s", text);
        return true;
}

bool rpc_head_is_refused(const struct rpc_head *head, struct rpc_refusal *ret_refusal)
{
        char text[96];

        if (rpc_head_is_too_large(head)) {
                snprintf(text, sizeof(text), "header list of %zu bytes, at most %zu are accepted", head->size,
                        head->limit);
                return head_refuse(ret_refusal, "200", RPC_RESOURCE_EXHAUSTED, text);
        }
        if (!head->is_grpc)
                return head_refuse(ret_refusal, "415", RPC_INVALID_ARGUMENT, "content-type is not application/grpc");
        if (!head->is_post)
                return head_refuse(ret_refusal, "405", RPC_INTERNAL, ":method is not POST");
        if (head->has_bad_timeout)
                return head_refuse(ret_refusal, "400", RPC_INTERNAL, "malformed grpc-timeout");
        return false;
}
