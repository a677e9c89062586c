// SPDX-License-Identifier: Apache-2.0
/*
 * libcurl, and its settings for one transfer: the address, the proxy, TLS and the headers. It also checks what libcurl
 * does not: that the server's certificate has names. Private to net/kube.
 *
 * libcurl is loaded when it is first needed: in Debian it needs 23 MB of libraries, which an agent without a cluster
 * does not have to load.
 */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "net/kube/credentials.h"

#define CURL_FUNCTIONS(CALL)                                                                                           \
        CALL(easy_cleanup)                                                                                             \
        CALL(easy_getinfo)                                                                                             \
        CALL(easy_init)                                                                                                \
        CALL(easy_setopt)                                                                                              \
        CALL(easy_strerror)                                                                                            \
        CALL(global_init)                                                                                              \
        CALL(multi_add_handle)                                                                                         \
        CALL(multi_assign)                                                                                             \
        CALL(multi_cleanup)                                                                                            \
        CALL(multi_info_read)                                                                                          \
        CALL(multi_init)                                                                                               \
        CALL(multi_remove_handle)                                                                                      \
        CALL(multi_setopt)                                                                                             \
        CALL(multi_socket_action)                                                                                      \
        CALL(multi_timeout)                                                                                            \
        CALL(slist_append)                                                                                             \
        CALL(slist_free_all)                                                                                           \
        CALL(version_info)

#define CURL_MEMBER(name) __typeof__(curl_##name) *name;
struct curl {
        CURL_FUNCTIONS(CURL_MEMBER)
};
#undef CURL_MEMBER

/* The library stays loaded. ERROR_NOT_FOUND if it is not installed. */
int curl_load(struct curl *ret, struct error *err) MUST_USE;

/* ---- the settings of a transfer ---- */

struct transfer_request;

/* Settings that follow from the credentials. */
struct easy_settings {
        const struct kube_credentials *credentials;
        char *url;        /* base URL, to which a path is appended */
        char *host;       /* the Host header; NULL: that of |url| */
        char *connect_to; /* for CURLOPT_CONNECT_TO; NULL: the host of |url| */
        bool is_direct;   /* ignore the environment's proxy */
};

int easy_prepare(
        struct easy_settings *settings, const struct kube_credentials *credentials, struct error *err) MUST_USE;
void easy_forget(struct easy_settings *settings);

/* The caller frees the two lists after |easy| is freed. */
int easy_configure(const struct curl *curl, CURL *easy, const struct easy_settings *settings,
        const struct transfer_request *request, const struct kube_identity *identity, struct curl_slist **ret_headers,
        struct curl_slist **ret_connect_to, struct error *err) MUST_USE;

/* ---- the server's certificate ---- */

#define CERTIFICATE_LIMIT ((size_t)64 << 10) /* bytes of PEM; a larger text counts as one without names */

/* Does the certificate of the server that |easy| is connected to contain any name? Asked before anything is sent. */
enum peer { PEER_UNTOLD /* it is a reused connection, or it has no certificate */, PEER_NAMED, PEER_NAMELESS };
enum peer easy_peer(const struct curl *curl, CURL *easy);

/*
 * True if the first certificate of a PEM text has a host or an address among its subject alternative names. Pure;
 * accepts any bytes.
 *
 * libcurl uses the common name of a certificate that has no subject alternative names. Go, and so all other clients of
 * the cluster, has not done so since Go 1.15 (2020): a common name is free text, while a certificate authority checks
 * the alternative names before it signs.
 */
bool certificate_names_host(const char *pem);
