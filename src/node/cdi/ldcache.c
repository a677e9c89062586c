#include "node/cdi/ldcache.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/param.h>

/* ldconfig's flags of a library: an ELF library for glibc (3), and its architecture. */
#if defined(__x86_64__)
#define OUR_FLAGS 0x0303
#elif defined(__aarch64__)
#define OUR_FLAGS 0x0a03
#else
#define OUR_FLAGS 0x0003
#endif

struct old_header {
        char magic[12]; /* "ld.so-1.7.0" */
        uint32_t count;
};
#define OLD_ENTRY_SIZE ((size_t)12)

struct new_header {
        char magic[20]; /* "glibc-ld.so.cache1.1" */
        uint32_t count;
        uint32_t strings_size;
        uint8_t flags; /* the byte order in its lowest two bits: 0 not said, 2 little, 3 big */
        uint8_t padding[3];
        uint32_t extensions;
        uint32_t unused[3];
};

struct new_entry {
        uint32_t flags;
        uint32_t key; /* |key| and |value| are offsets from the header */
        uint32_t value;
        uint32_t os_version;
        uint64_t hwcap;
};

/*
 * Finds the header of the newer format: at the start of the file, or behind the table of the older format, aligned to
 * 8.
 */
static bool find_header(const char *bytes, size_t size, size_t *ret)
{
        struct old_header old;

        *ret = 0;
        if (size < sizeof(old))
                return false;
        memcpy(&old, bytes, sizeof(old));
        if (memcmp(old.magic, "ld.so-1.7.0", 11) != 0)
                return true;
        if (old.count > (size - sizeof(old)) / OLD_ENTRY_SIZE)
                return false;
        *ret = (sizeof(old) + old.count * OLD_ENTRY_SIZE + 7) & ~(size_t)7;
        return true;
}

/* The text at |offset|, or NULL if it does not end within |size| or is longer than a path can be. */
static const char *path_at(const char *bytes, size_t size, uint32_t offset)
{
        return offset < size && memchr(bytes + offset, '\0', MIN(size - offset, PATH_MAX)) ? bytes + offset : NULL;
}

const char *ldcache_find(const char *bytes, size_t size, const char *name)
{
        struct new_header header;
        struct new_entry entry;
        size_t length = strlen(name) + 1;
        size_t start;

        if (!find_header(bytes, size, &start) || start > size || size - start < sizeof(header))
                return NULL;
        bytes += start;
        size -= start;
        memcpy(&header, bytes, sizeof(header));
        if (memcmp(header.magic, "glibc-ld.so.cache1.1", sizeof(header.magic)) != 0 ||
                header.count > (size - sizeof(header)) / sizeof(entry))
                return NULL;
        for (size_t i = 0; i < header.count; i++) {
                memcpy(&entry, bytes + sizeof(header) + i * sizeof(entry), sizeof(entry));
                if (entry.flags == OUR_FLAGS && entry.key < size && size - entry.key >= length &&
                        memcmp(bytes + entry.key, name, length) == 0)
                        return path_at(bytes, size, entry.value);
        }
        return NULL;
}
