// SPDX-License-Identifier: Apache-2.0
#include "bench/process.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define CHILDREN_MAX 64

/* The process itself comes first. */
static size_t find_family(pid_t pid, pid_t family[CHILDREN_MAX])
{
        _free_ char *path = xasprintf("/proc/%d/task/%d/children", (int)pid, (int)pid);
        FILE *file = fopen(path, "re");
        size_t n = 1;

        family[0] = pid;
        while (file && n < CHILDREN_MAX && fscanf(file, "%d", &family[n]) == 1)
                n++;
        if (file)
                fclose(file);
        return n;
}

static int read_memory(pid_t pid, const char *mapping, struct process_memory *ret, struct error *err)
{
        _free_ char *path = xasprintf("/proc/%d/%s", (int)pid, mapping ? "smaps" : "smaps_rollup");
        struct process_memory memory = {0};
        FILE *file = fopen(path, "re");
        bool counts = !mapping;
        char line[4096];

        if (!file)
                return error_errno(err, errno, "open '%s'", path);
        while (fgets(line, sizeof(line), file)) {
                char name[64];
                double kib;

                if (sscanf(line, "%63[A-Za-z_]: %lf kB", name, &kib) != 2) {
                        counts = !mapping || strstr(line, mapping); /* a mapping begins */
                        continue;
                }
                if (!counts)
                        continue;
                if (strcmp(name, "Pss") == 0)
                        memory.pss_kib += kib;
                else if (strcmp(name, "Rss") == 0)
                        memory.rss_kib += kib;
                else if (strcmp(name, "Private_Clean") == 0 || strcmp(name, "Private_Dirty") == 0)
                        memory.private_kib += kib;
                else if (strcmp(name, "Anonymous") == 0)
                        memory.anonymous_kib += kib;
        }
        fclose(file);
        *ret = memory;
        return 0;
}

int process_memory(pid_t pid, const char *mapping, struct process_memory *ret, struct error *err)
{
        pid_t family[CHILDREN_MAX];
        const size_t n = find_family(pid, family);

        *ret = (struct process_memory){0};
        for (size_t i = 0; i < n; i++) {
                struct process_memory memory;

                if (read_memory(family[i], mapping, &memory, err) < 0) {
                        if (i == 0)
                                return -1;
                        continue; /* it has ended meanwhile */
                }
                ret->pss_kib += memory.pss_kib;
                ret->rss_kib += memory.rss_kib;
                ret->private_kib += memory.private_kib;
                ret->anonymous_kib += memory.anonymous_kib;
        }
        return 0;
}

static uint64_t thread_cpu(pid_t pid, const char *thread)
{
        _free_ char *path = xasprintf("/proc/%d/task/%s/schedstat", (int)pid, thread);
        FILE *file = fopen(path, "re");
        uint64_t ran = 0;

        if (!file || fscanf(file, "%" SCNu64, &ran) != 1)
                ran = 0; /* it ended meanwhile */
        if (file)
                fclose(file);
        return ran;
}

static uint64_t thread_switches(pid_t pid, const char *thread)
{
        _free_ char *path = xasprintf("/proc/%d/task/%s/status", (int)pid, thread);
        FILE *file = fopen(path, "re");
        uint64_t total = 0;
        uint64_t count;
        char line[256];

        if (!file)
                return 0; /* it ended meanwhile */
        while (fgets(line, sizeof(line), file))
                if (sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &count) == 1)
                        total += count;
        fclose(file);
        return total;
}

/* Of all threads. */
static int add_up(pid_t pid, uint64_t (*of)(pid_t pid, const char *thread), uint64_t *ret, struct error *err)
{
        _free_ char *path = xasprintf("/proc/%d/task", (int)pid);
        DIR *directory = opendir(path);
        const struct dirent *entry;
        uint64_t total = 0;

        if (!directory)
                return error_errno(err, errno, "open '%s'", path);
        while ((entry = readdir(directory)))
                if (entry->d_name[0] != '.')
                        total += of(pid, entry->d_name);
        closedir(directory);
        *ret = total;
        return 0;
}

static int add_up_family(pid_t pid, uint64_t (*of)(pid_t pid, const char *thread), uint64_t *ret, struct error *err)
{
        pid_t family[CHILDREN_MAX];
        const size_t n = find_family(pid, family);

        *ret = 0;
        for (size_t i = 0; i < n; i++) {
                uint64_t own;

                if (add_up(family[i], of, &own, err) == 0)
                        *ret += own;
                else if (i == 0)
                        return -1;
        }
        return 0;
}

int process_cpu(pid_t pid, uint64_t *ret, struct error *err)
{
        return add_up_family(pid, thread_cpu, ret, err);
}

int process_switches(pid_t pid, uint64_t *ret, struct error *err)
{
        return add_up_family(pid, thread_switches, ret, err);
}
