#include "gpu/nodes.h"

#include <string.h>
#include <sys/stat.h>

static const struct {
        unsigned int bit;
        const char *path;
} nodes[] = {
        {NODE_NVIDIACTL, "/dev/nvidiactl"},
        {NODE_UVM, "/dev/nvidia-uvm"},
        {NODE_UVM_TOOLS, "/dev/nvidia-uvm-tools"},
        {NODE_MODESET, "/dev/nvidia-modeset"},
        {NODE_IMEX_CHANNEL, "/dev/nvidia-caps-imex-channels/channel0"},
};

static unsigned int find_below(const char *root)
{
        unsigned int found = 0;

        for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
                _free_ char *path = xasprintf("%s%s", root, nodes[i].path);
                struct stat st;

                if (lstat(path, &st) == 0 && S_ISCHR(st.st_mode))
                        found |= nodes[i].bit;
        }
        return found;
}

unsigned int nodes_find(const struct gpu_paths *paths)
{
        unsigned int found = find_below(paths->system_root);

        if (paths->driver_root && *paths->driver_root && strcmp(paths->driver_root, "/") != 0)
                found |= find_below(paths->driver_root);
        return found;
}
