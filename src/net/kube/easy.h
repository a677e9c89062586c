/*
 * Sets up libcurl for one transfer: the address, the proxy, TLS and the headers. Private to net/kube.
 */
#pragma once

#include "net/kube/library.h"
#include "net/kube/transport.h"

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

/* Does the certificate of the server that |easy| is connected to contain any name? Asked before anything is sent. */
enum peer { PEER_UNTOLD /* it is a reused connection, or it has no certificate */, PEER_NAMED, PEER_NAMELESS };
enum peer easy_peer(const struct curl *curl, CURL *easy);
