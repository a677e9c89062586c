#include "bench/process.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

int process_memory(pid_t pid, const char *mapping, struct process_memory *ret, struct error *err)
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

int process_cpu(pid_t pid, uint64_t *ret, struct error *err)
{
        return add_up(pid, thread_cpu, ret, err);
}

int process_switches(pid_t pid, uint64_t *ret, struct error *err)
{
        return add_up(pid, thread_switches, ret, err);
}
