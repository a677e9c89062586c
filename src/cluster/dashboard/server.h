// SPDX-License-Identifier: Apache-2.0
/*
 * The dashboard's port: the page, and what it shows as JSON (overview.h, details.h, search.h). It only reads, and takes
 * GET and HEAD alone.
 *
 *     /, /style.css, …    the page, for everybody: it contains nothing of the cluster
 *     /api/v1/…           the cluster, for whom the API server lets in
 *     /healthz, /livez    probes
 *
 * Who is let in: with DASHBOARD_TOKEN each request to /api has a bearer token of the cluster. Its user has to be
 * allowed to list nodes; the namespaces in which it may list pods decide what it sees of shares (viewer.h). With
 * DASHBOARD_PROXY everybody who reaches the port sees all: a proxy in front has to admit only the right viewers, and
 * the port must not be reachable past it. With DASHBOARD_OWN all of these addresses, probes included, begin with a part
 * that is secret, /0123…/api/v1/…, and who knows it sees all that |client| may see: other users of this machine reach
 * the port of a loopback address, too, and guess no part of 128 bits. The page's own addresses are relative, so it
 * knows nothing of that.
 *
 * It uses no cookie, nor anything else that a browser would send on its own, so that no other site can use a viewer's
 * rights. Even so a request is refused if the browser marks it as another site's, or if its host is not one of the
 * dashboard's own (hosts.h). Probes are not checked for that. The page may load only what comes from this port, and may
 * not be framed.
 */
#pragma once

#include <stddef.h>
#include <uv.h>

#include "base/error.h"
#include "cluster/cluster.h"
#include "cluster/dashboard/hosts.h"
#include "net/kube/access.h"

enum dashboard_access { DASHBOARD_TOKEN, DASHBOARD_PROXY, DASHBOARD_OWN };

#define DASHBOARD_SECRET 32U /* characters */

#define DASHBOARD_CONNECTIONS 64U            /* at a time; all may be a proxy's */
#define DASHBOARD_MEMORY ((size_t)32 * 1024) /* of a request's head: tokens have some KiB */

struct dashboard;

struct dashboard_options {
        uv_loop_t *loop;
        const char *address; /* net/http/address.h */
        enum dashboard_access access;
        struct dashboard_hosts hosts; /* its names are borrowed */
        struct cluster *cluster;      /* borrowed, like |client| */
        struct kube_client *client;   /* of |cluster| */
        struct kube_access *rights;   /* of DASHBOARD_TOKEN; else NULL */
        const char *secret;           /* of DASHBOARD_OWN, DASHBOARD_SECRET characters, copied; else NULL */
        uint64_t boot;                /* overview.h */
};

int dashboard_new(struct dashboard **ret, const struct dashboard_options *options, struct error *err) MUST_USE;

unsigned int dashboard_port(const struct dashboard *dashboard);

/* The memory goes when the loop has closed the handles. Accepts NULL, returns NULL. */
struct dashboard *dashboard_close(struct dashboard *dashboard);

/* ---- the files of the page, which are in the program: src/cluster/dashboard/page, by tools/embed ---- */

struct embedded_file {
        const char *name; /* NULL ends the table */
        const unsigned char *data;
        size_t size;
};

extern const struct embedded_file dashboard_page[];

/* "text/html; charset=utf-8" and so on. */
const char *dashboard_page_type(const char *name);

/* |name| without a slash in front; "" is index.html. NULL: the page has no such file. */
const struct embedded_file *dashboard_page_find(const char *name);
