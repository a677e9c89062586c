#include "gpu/mig_caps.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

#define ACCESS_MAX_SIZE ((size_t)4096)

/* Steps over |word| and the number behind it. */
static bool mig_caps_take_number(const char **text, const char *word, unsigned int *ret)
{
        const char *digits = *text + strlen(word);
        char number[16];
        size_t length;
        uint64_t value;

        if (!text_starts_with(*text, word))
                return false;
        length = strspn(digits, "0123456789");
        if (length >= sizeof(number))
                return false;
        snprintf(number, sizeof(number), "%.*s", (int)length, digits);
        if (!text_to_uint(number, INT32_MAX, &value))
                return false;
        *text = digits + length;
        *ret = (unsigned int)value;
        return true;
}

/* Readers get a const pointer; here the inventory is still being built. */
static struct mig_device *devices_of(const struct gpu *gpu)
{
        return (struct mig_device *)(uintptr_t)gpu->mig_devices;
}

static void set_cap(const struct gpu *gpu, unsigned int gi, const unsigned int *ci, int cap)
{
        for (size_t i = 0; i < gpu->n_mig_devices; i++) {
                struct mig_device *mig = &devices_of(gpu)[i];

                if (mig->gpu_instance != gi)
                        continue;
                if (!ci)
                        mig->gpu_instance_cap = cap;
                else if (mig->compute_instance == *ci)
                        mig->compute_instance_cap = cap;
        }
}

/*
 * "gpu0/gi9/access 83" or "gpu0/gi9/ci0/access 84"; other lines ("config 1", "monitor 2") do not belong to an instance.
 */
static void mig_caps_read_line(const struct inventory *inventory, const char *line)
{
        unsigned int minor;
        unsigned int gi;
        unsigned int ci;
        unsigned int cap;
        bool has_ci;

        if (!mig_caps_take_number(&line, "gpu", &minor) || !mig_caps_take_number(&line, "/gi", &gi))
                return;
        has_ci = mig_caps_take_number(&line, "/ci", &ci);
        if (!mig_caps_take_number(&line, "/access ", &cap) || *line)
                return;
        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (inventory->gpus[i].minor == (int)minor)
                        set_cap(&inventory->gpus[i], gi, has_ci ? &ci : NULL, (int)cap);
}

static void read_minors(const struct inventory *inventory, const char *system_root)
{
        _free_ char *path = xasprintf("%s/proc/driver/nvidia-caps/mig-minors", system_root);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error ignored;
        char *rest;

        if (file_read(path, MIG_CAPS_MAX_SIZE, &text, &ignored) < 0)
                return;
        rest = text.data;
        for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
                mig_caps_read_line(inventory, line);
}

/* The minor in the capability's own file, or unknown. */
static int read_access(const char *path)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error ignored;
        char *rest;

        if (file_read(path, ACCESS_MAX_SIZE, &text, &ignored) < 0)
                return GPU_UNKNOWN_INT;
        rest = text.data;
        for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
                const char *position = line;
                unsigned int cap;

                if (mig_caps_take_number(&position, "DeviceFileMinor: ", &cap) && !*position)
                        return (int)cap;
        }
        return GPU_UNKNOWN_INT;
}

static void read_missing(const char *system_root, const struct gpu *gpu, struct mig_device *mig)
{
        _free_ char *folder = xasprintf(
                "%s/proc/driver/nvidia/capabilities/gpu%d/mig/gi%u", system_root, gpu->minor, mig->gpu_instance);
        _free_ char *gi = xasprintf("%s/access", folder);
        _free_ char *ci = xasprintf("%s/ci%u/access", folder, mig->compute_instance);

        if (mig->gpu_instance_cap < 0)
                mig->gpu_instance_cap = read_access(gi);
        if (mig->compute_instance_cap < 0)
                mig->compute_instance_cap = read_access(ci);
}

void mig_caps_read(struct inventory *inventory, const char *system_root)
{
        bool any = false;

        for (size_t g = 0; g < inventory->n_gpus; g++)
                any = any || inventory->gpus[g].n_mig_devices;
        if (!any)
                return;
        read_minors(inventory, system_root);
        for (size_t g = 0; g < inventory->n_gpus; g++) {
                const struct gpu *gpu = &inventory->gpus[g];

                for (size_t i = 0; i < gpu->n_mig_devices && gpu->minor >= 0; i++)
                        read_missing(system_root, gpu, &devices_of(gpu)[i]);
        }
}
