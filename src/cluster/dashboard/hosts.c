// SPDX-License-Identifier: Apache-2.0
#include "cluster/dashboard/hosts.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

#include "base/text.h"

#define NAME_MAX_BYTES ((size_t)253)

static char *hosts_lower(char *text)
{
        for (char *c = text; *c; c++)
                *c = (char)tolower((unsigned char)*c);
        return text;
}

int dashboard_hosts_read(struct dashboard_hosts *ret, const char *text, struct arena *arena, struct error *err)
{
        struct dashboard_hosts hosts = {.n_names = 0};
        char *save = NULL;

        for (char *name = strtok_r(hosts_lower(arena_strdup(arena, text)), ", ", &save); name;
                name = strtok_r(NULL, ", ", &save)) {
                if (strlen(name) > NAME_MAX_BYTES || !text_is_subdomain(name))
                        return error_set(err, ERROR_INVALID,
                                "'%.80s' is no name of a host, without scheme and port, as gpus.example.com", name);
                if (hosts.n_names == DASHBOARD_HOSTS_MAX)
                        return error_set(err, ERROR_INVALID, "more than %zu names", DASHBOARD_HOSTS_MAX);
                hosts.names[hosts.n_names++] = name;
        }
        *ret = hosts;
        return 0;
}

/* Reads a host without its port, brackets and last dot, in lower case. False: it is not a host. */
static bool hosts_read_host(const char *host, char *ret, size_t size, bool *ret_is_six)
{
        const char *begin = host + (*host == '[');
        const char *end = *host == '[' ? strchr(begin, ']') : begin + strcspn(begin, ":");
        const char *port = end && *host == '[' ? end + 1 : end;
        size_t length;

        if (!end || (*port && (*port != ':' || port[1 + strspn(port + 1, "0123456789")])))
                return false;
        length = (size_t)(end - begin);
        if (length > 1 && *host != '[' && end[-1] == '.')
                length--;
        if (length == 0 || length >= size)
                return false;
        memcpy(ret, begin, length);
        ret[length] = '\0';
        hosts_lower(ret);
        *ret_is_six = *host == '[';
        return true;
}

bool dashboard_hosts_allow(const struct dashboard_hosts *hosts, const char *host)
{
        char name[NAME_MAX_BYTES + 1];
        uint8_t address[16];
        bool is_six;

        if (!host || !hosts_read_host(host, name, sizeof(name), &is_six))
                return false;
        if (is_six)
                return inet_pton(AF_INET6, name, address) == 1;
        if (strcmp(name, "localhost") == 0 || inet_pton(AF_INET, name, address) == 1)
                return true;
        for (size_t i = 0; i < hosts->n_names; i++)
                if (strcmp(hosts->names[i], name) == 0)
                        return true;
        return false;
}
