// SPDX-License-Identifier: Apache-2.0
/*
 * Checks the host name by which a browser calls the dashboard. Another site can let its own name point to the
 * dashboard's address (DNS rebinding), and its page then counts as the dashboard's: the browser lets it read
 * everything. But the browser sends the name in the header Host, and another site cannot change it. Pure.
 *
 * IP addresses are allowed, since they are not names, and "localhost" is, since no other site can have it. All other
 * names have to be in the list.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"

#define DASHBOARD_HOSTS_MAX ((size_t)64)

struct dashboard_hosts {
        const char *names[DASHBOARD_HOSTS_MAX]; /* in lower case */
        size_t n_names;
};

/* "gpus.example.com,dashboard": all in |arena|. "": none. */
int dashboard_hosts_read(
        struct dashboard_hosts *ret, const char *text, struct arena *arena, struct error *err) MUST_USE;

/* |host|: the header, with or without a port; NULL, which no browser sends, is not allowed. */
bool dashboard_hosts_allow(const struct dashboard_hosts *hosts, const char *host);
