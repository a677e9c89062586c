/*
 * How libcurl is set up for one transfer: the address, the proxy, TLS and the heads. Between transport.c and easy.c.
 */
#pragma once

#include "kube/library.h"
#include "kube/transport.h"

/* What follows from the credentials. */
struct easy_settings {
        const struct kube_credentials *credentials;
        char *url;        /* that a path is appended to */
        char *host;       /* header; NULL: that of |url| */
        char *connect_to; /* for CURLOPT_CONNECT_TO; NULL: the host of |url| */
        bool is_direct;   /* no proxy of the environment */
};

int easy_prepare(
        struct easy_settings *settings, const struct kube_credentials *credentials, struct error *err) MUST_USE;
void easy_forget(struct easy_settings *settings);

/* The two lists are the caller's to free when |easy| is gone. */
int easy_configure(const struct curl *curl, CURL *easy, const struct easy_settings *settings,
        const struct transfer_request *request, const struct kube_identity *identity, struct curl_slist **ret_headers,
        struct curl_slist **ret_connect_to, struct error *err) MUST_USE;

/* Of the connection that |easy| has, before anything is sent on it: does the server's certificate name any host? */
enum peer { PEER_UNTOLD /* it is not a new connection, or there is none to be asked for */, PEER_NAMED, PEER_NAMELESS };
enum peer easy_peer(const struct curl *curl, CURL *easy);
