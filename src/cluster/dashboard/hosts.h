/*
 * By which names a browser may know the dashboard. Another site can let its own name point to the dashboard's address
 * (DNS rebinding), and its page then counts as the dashboard's: the browser lets it read everything. But the browser
 * says the name, in the header Host, and cannot be made to say another. Pure.
 *
 * Addresses are no names, so they are good, and "localhost" is nobody else's. All others have to be in the list.
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
