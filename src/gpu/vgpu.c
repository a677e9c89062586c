// SPDX-License-Identifier: Apache-2.0
#include "gpu/vgpu.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

#define CONFIG_SIZE ((size_t)256)
#define CONFIG_LIMIT ((size_t)4096) /* the size of a PCI Express configuration space */
#define MAX_DEVICES 4096

/* Offsets in the configuration space, and the vendor-specific capability's id. */
#define STATUS 0x06U
#define STATUS_HAS_CAPABILITIES 0x10U
#define CAPABILITIES 0x34U
#define CAPABILITY_VENDOR 0x09U
/* Offsets in that capability. */
#define CAPABILITY_NEXT 1U
#define CAPABILITY_LENGTH 2U
#define SIGNATURE 3U
#define RECORDS 5U

#define RECORD_DRIVER 0U
#define RECORD_HEAD ((size_t)2)
#define RECORD_TEXT ((size_t)(VGPU_TEXT_SIZE - 1))

/* The position of the first vendor-specific capability; 0: none. A circular list ends the search, too. */
static size_t find_capability(const unsigned char *config)
{
        size_t at = config[CAPABILITIES];

        if (!(config[STATUS] & STATUS_HAS_CAPABILITIES))
                return 0;
        for (size_t seen = 0; seen < CONFIG_SIZE && at && at + CAPABILITY_LENGTH < CONFIG_SIZE; seen++) {
                if (config[at] == CAPABILITY_VENDOR)
                        return at;
                at = config[at + CAPABILITY_NEXT];
        }
        return 0;
}

static void vgpu_take_text(char *to, const unsigned char *from)
{
        size_t first = 0;

        while (first < RECORD_TEXT && !from[first])
                first++;
        memcpy(to, from + first, RECORD_TEXT - first);
        to[RECORD_TEXT - first] = '\0';
}

static void read_driver(struct vgpu *ret, const unsigned char *capability, size_t size)
{
        size_t at = RECORDS;

        while (at + RECORD_HEAD <= size && capability[at] != RECORD_DRIVER) {
                size_t length = capability[at + 1];

                if (length < RECORD_HEAD)
                        return;
                at += length;
        }
        if (at + RECORD_HEAD + 2 * RECORD_TEXT > size)
                return;
        vgpu_take_text(ret->host_driver_version, capability + at + RECORD_HEAD);
        vgpu_take_text(ret->host_driver_branch, capability + at + RECORD_HEAD + RECORD_TEXT);
}

void vgpu_parse(struct vgpu *ret, const unsigned char *config, size_t size)
{
        size_t at;
        size_t length;

        *ret = (struct vgpu){.state = size < CONFIG_SIZE ? VGPU_UNKNOWN : VGPU_ABSENT};
        at = ret->state == VGPU_ABSENT ? find_capability(config) : 0;
        if (!at)
                return;
        length = config[at + CAPABILITY_LENGTH];
        if (length > CONFIG_SIZE - at)
                length = CONFIG_SIZE - at;
        if (length < RECORDS || config[at + SIGNATURE] != 'V' || config[at + SIGNATURE + 1] != 'F')
                return;
        ret->state = VGPU_PRESENT;
        read_driver(ret, config + at, length);
}

static bool is_nvidia(const char *folder, const char *device)
{
        _free_ char *path = xasprintf("%s/%s/vendor", folder, device);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error ignored;

        return file_read(path, 64, &text, &ignored) == 0 && strncmp(text.data, "0x10de", 6) == 0;
}

static void vgpu_read_device(struct vgpu *ret, const char *folder, const char *device)
{
        _free_ char *path = xasprintf("%s/%s/config", folder, device);
        _cleanup_(strbuf_done) struct strbuf bytes = STRBUF_INIT;
        struct error ignored;

        if (file_read(path, CONFIG_LIMIT, &bytes, &ignored) < 0)
                *ret = (struct vgpu){.state = VGPU_UNKNOWN};
        else
                vgpu_parse(ret, (const unsigned char *)bytes.data, bytes.size);
}

void vgpu_read(struct vgpu *ret, const char *system_root)
{
        _free_ char *folder = xasprintf("%s/sys/bus/pci/devices", system_root);
        struct dirent **entries = NULL;
        bool is_unknown = false;
        int count;

        *ret = (struct vgpu){.state = VGPU_ABSENT};
        count = scandir(folder, &entries, NULL, alphasort);
        if (count < 0) {
                ret->state = VGPU_UNKNOWN;
                return;
        }
        for (int i = 0; i < count; i++) {
                const char *name = entries[i]->d_name;

                if (i < MAX_DEVICES && *name != '.' && is_nvidia(folder, name)) {
                        struct vgpu one;

                        vgpu_read_device(&one, folder, name);
                        is_unknown = is_unknown || one.state == VGPU_UNKNOWN;
                        if (one.state == VGPU_PRESENT)
                                *ret = one;
                }
                free(entries[i]);
        }
        free(entries);
        if (is_unknown)
                *ret = (struct vgpu){.state = VGPU_UNKNOWN};
}
