// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as the header Host of a question to the dashboard. What is allowed is an address, or one of
 * the names, perhaps with a last dot and a port, and nothing else.
 *
 *         tools/fuzz 60 fuzz-dashboard-hosts
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/dashboard/hosts.h"

#define ADDRESS "0123456789abcdefABCDEF.:[]"
#define DIGITS "0123456789"

static const struct dashboard_hosts hosts = {.names = {"gpus.example.com", "a"}, .n_names = 2};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_name(const char *host, const char *name)
{
        const char *rest = host + strlen(name);

        if (strncasecmp(host, name, strlen(name)) != 0)
                return false;
        rest += *rest == '.';
        if (*rest == ':')
                rest += 1 + strspn(rest + 1, DIGITS);
        return !*rest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *host = malloc(size + 1);
        bool is_good;

        if (!host)
                abort();
        if (size)
                memcpy(host, data, size);
        host[size] = '\0';
        is_good = !host[strspn(host, ADDRESS)] && strpbrk(host, DIGITS ":");
        is_good |= is_name(host, "localhost");
        for (size_t i = 0; i < hosts.n_names; i++)
                is_good |= is_name(host, hosts.names[i]);
        if (dashboard_hosts_allow(&hosts, host) && !is_good)
                abort();
        free(host);
        return 0;
}
