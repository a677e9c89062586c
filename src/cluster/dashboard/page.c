#include "cluster/dashboard/page.h"

#include <string.h>

#include "base/macro.h"

static const struct {
        const char *ending;
        const char *type;
} types[] = {
        {".html", "text/html; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".svg", "image/svg+xml"},
};

const char *dashboard_page_type(const char *name)
{
        const char *ending = strrchr(name, '.');

        for (size_t i = 0; ending && i < ARRAY_SIZE(types); i++)
                if (strcmp(ending, types[i].ending) == 0)
                        return types[i].type;
        return "application/octet-stream";
}

const struct embedded_file *dashboard_page_find(const char *name)
{
        for (const struct embedded_file *file = dashboard_page; file->name; file++)
                if (strcmp(file->name, *name ? name : "index.html") == 0)
                        return file;
        return NULL;
}
