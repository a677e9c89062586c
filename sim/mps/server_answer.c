// SPDX-License-Identifier: Apache-2.0
/* Answers to the control daemon: the server's part of each command that is about a server. */
#include "sim/mps/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

void server_log_limits(const struct server *server)
{
        const bool is_old = server->scenario.version < 535;

        if (is_old)
                journal_line(&server->journal, "activeThreadsPercentage set to %f", server->limits.percentage);
        else
                journal_line(&server->journal, "Active Threads Percentage set to %.1f", server->limits.percentage);
        for (unsigned int i = 0; i < server->n_gpus; i++) {
                if (server->limits.memory_mib[i])
                        journal_line(&server->journal, "Device pinned memory limit for device %u set to 0x%llx bytes",
                                i, (unsigned long long)server->limits.memory_mib[i] << 20);
        }
        if (!is_old)
                journal_line(&server->journal, "Server Priority set to %u", server->limits.priority);
}

static void put_clients(const struct server *server, struct strbuf *out, unsigned int gpus)
{
        LIST_FOR_EACH(link, &server->clients) {
                const struct client *client = container_of(link, struct client, link);

                if (client->gpus & gpus)
                        strbuf_printf(out, "%d\n", (int)client->pid);
        }
}

static void put_device_clients(const struct server *server, struct strbuf *out)
{
        for (unsigned int i = 0; i < server->n_gpus; i++) {
                strbuf_printf(out, "%s\n", server_gpu(server, i)->uuid);
                put_clients(server, out, 1U << i);
        }
}

static unsigned long long namespace_of(pid_t pid)
{
        _free_ char *path = xasprintf("/proc/%d/ns/pid", (int)pid);
        struct stat status;

        return stat(path, &status) == 0 ? (unsigned long long)status.st_ino : 0;
}

static void put_command(struct strbuf *out, pid_t pid)
{
        _cleanup_(strbuf_done) struct strbuf line = STRBUF_INIT;
        _free_ char *path = xasprintf("/proc/%d/cmdline", (int)pid);
        struct error ignored;

        if (file_read(path, CHANNEL_MAX, &line, &ignored) == 0)
                strbuf_puts(out, line.data); /* up to the first NUL: the program */
}

static void put_processes(const struct server *server, struct strbuf *out)
{
        LIST_FOR_EACH(link, &server->clients) {
                const struct client *client = container_of(link, struct client, link);

                for (unsigned int i = 0; i < server->n_gpus; i++) {
                        if (!(client->gpus & (1U << i)))
                                continue;
                        strbuf_printf(out, "%-10d%-10u%-15d%-15.12s%-15llu", (int)client->pid, client->context,
                                (int)getpid(), server_gpu(server, i)->uuid, namespace_of(client->pid));
                        put_command(out, client->pid);
                        strbuf_putc(out, '\n');
                }
        }
}

static struct client *find_client(const struct server *server, pid_t pid)
{
        LIST_FOR_EACH(link, &server->clients) {
                struct client *client = container_of(link, struct client, link);

                if (client->pid == pid)
                        return client;
        }
        return NULL;
}

static void terminate(struct server *server, const char *pid, struct strbuf *out)
{
        struct client *client = find_client(server, atoi(pid)); /* NOLINT(cert-err34-c): as the real one reads it */

        if (!client) {
                strbuf_printf(out, "Invalid process %d!\n1\n", atoi(pid)); /* NOLINT(cert-err34-c) */
                return;
        }
        client->polite = true;
        channel_send(client->fd, "TERMINATED");
        client_drop(server, client);
        strbuf_puts(out, "0\n");
}

static bool read_device(const struct server *server, const char *word, unsigned int *ordinal, const char **value)
{
        for (unsigned int i = 0; server->scenario.version >= 615 && i < server->n_gpus; i++) {
                if (strcmp(server_gpu(server, i)->uuid, word) == 0) {
                        *ordinal = i;
                        return true;
                }
        }
        *value = limits_value(word, *value);
        *ordinal = (unsigned int)atoi(word); /* NOLINT(cert-err34-c): as the real one reads it */
        return *ordinal < LIMITS_DEVICES;
}

static void set_limit(struct server *server, const char *device, const char *value)
{
        unsigned int ordinal;

        if (!read_device(server, device, &ordinal, &value))
                return;
        server->limits.memory_mib[ordinal] = limits_read_memory(value);
        server_log_limits(server);
}

static void set_percentage(struct server *server, const char *text)
{
        if (limits_read_percentage(&server->limits.percentage, text))
                server_log_limits(server);
}

void server_answer(struct server *server, char *line, struct strbuf *out)
{
        char *rest = NULL;
        const char *question = strtok_r(line, " ", &rest);
        const char *first = strtok_r(NULL, " ", &rest);
        const char *second = strtok_r(NULL, " ", &rest);
        unsigned int ordinal;

        first = first ? first : "";
        second = second ? second : "";
        if (!question)
                return;
        if (strcmp(question, "clients") == 0)
                put_clients(server, out, UINT32_MAX);
        else if (strcmp(question, "device-clients") == 0)
                put_device_clients(server, out);
        else if (strcmp(question, "ps") == 0)
                put_processes(server, out);
        else if (strcmp(question, "status") == 0)
                strbuf_puts(out, server_is_faulty(server) ? "FAULT\n" : "ACTIVE\n");
        else if (strcmp(question, "percentage") == 0)
                strbuf_printf(out, "%.1f\n", server->limits.percentage);
        else if (strcmp(question, "set-percentage") == 0)
                set_percentage(server, first);
        else if (strcmp(question, "limit") == 0 && read_device(server, first, &ordinal, &second))
                limits_put_memory(out, server->limits.memory_mib[ordinal]);
        else if (strcmp(question, "set-limit") == 0)
                set_limit(server, first, second);
        else if (strcmp(question, "terminate") == 0)
                terminate(server, first, out);
}
