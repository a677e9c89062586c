// SPDX-License-Identifier: Apache-2.0
#include "node/cdi/libraries.h"

#include <elf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "base/alloc.h"

/* ---- SONAME ---- */

#define MAX_SEGMENTS 128U
#define MAX_DYNAMIC ((size_t)4096)

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OUR_DATA ELFDATA2LSB
#else
#define OUR_DATA ELFDATA2MSB
#endif

static bool read_at(int fd, void *buffer, size_t size, uint64_t offset)
{
        return offset <= INT64_MAX && pread(fd, buffer, size, (off_t)offset) == (ssize_t)size;
}

static bool read_header(int fd, Elf64_Ehdr *header)
{
        return read_at(fd, header, sizeof(*header), 0) && memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
               header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == OUR_DATA &&
               header->e_type == ET_DYN && header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phnum > 0 &&
               header->e_phnum <= MAX_SEGMENTS;
}

/* Reads DT_SONAME (an offset in the string table) and DT_STRTAB (an address in memory). */
static bool read_dynamic(int fd, const Elf64_Phdr *segment, uint64_t *ret_name, uint64_t *ret_table)
{
        bool has_name = false, has_table = false;
        size_t count = segment->p_filesz / sizeof(Elf64_Dyn);

        for (size_t i = 0; i < MIN(count, MAX_DYNAMIC); i++) {
                Elf64_Dyn entry;

                if (!read_at(fd, &entry, sizeof(entry), segment->p_offset + i * sizeof(entry)) ||
                        entry.d_tag == DT_NULL)
                        break;
                if (entry.d_tag == DT_SONAME) {
                        *ret_name = entry.d_un.d_val;
                        has_name = true;
                } else if (entry.d_tag == DT_STRTAB) {
                        *ret_table = entry.d_un.d_ptr;
                        has_table = true;
                }
        }
        return has_name && has_table;
}

/* Finds the offset in the file of the byte that is loaded at |address|, and how many bytes of its segment follow. */
static bool find_offset(
        const Elf64_Phdr *segments, size_t count, uint64_t address, uint64_t *ret_offset, uint64_t *ret_left)
{
        for (size_t i = 0; i < count; i++) {
                const Elf64_Phdr *segment = &segments[i];
                uint64_t into = address - segment->p_vaddr;

                if (segment->p_type != PT_LOAD || address < segment->p_vaddr || into >= segment->p_filesz ||
                        segment->p_offset > INT64_MAX || into > INT64_MAX)
                        continue;
                *ret_offset = segment->p_offset + into;
                *ret_left = segment->p_filesz - into;
                return true;
        }
        return false;
}

/* Reads a file name: it must have no slash, because it becomes part of a path. */
static bool read_name(int fd, uint64_t offset, uint64_t left, char *ret)
{
        char name[SONAME_SIZE] = "";
        ssize_t got;

        if (offset > INT64_MAX)
                return false;
        got = pread(fd, name, MIN(left, sizeof(name)), (off_t)offset);
        if (got <= 0 || !memchr(name, '\0', (size_t)got) || name[0] == '\0' || strchr(name, '/'))
                return false;
        memcpy(ret, name, sizeof(name));
        return true;
}

bool soname_read(int fd, char *ret)
{
        Elf64_Phdr segments[MAX_SEGMENTS];
        Elf64_Ehdr header;
        uint64_t name = 0, table = 0, offset = 0, left = 0;

        if (!read_header(fd, &header) || !read_at(fd, segments, header.e_phnum * sizeof(segments[0]), header.e_phoff))
                return false;
        for (size_t i = 0; i < header.e_phnum; i++) {
                if (segments[i].p_type != PT_DYNAMIC)
                        continue;
                if (segments[i].p_offset > INT64_MAX / 2 || !read_dynamic(fd, &segments[i], &name, &table) ||
                        name > UINT32_MAX)
                        return false;
                return find_offset(segments, header.e_phnum, table, &offset, &left) && name < left &&
                       read_name(fd, offset + name, left - name, ret);
        }
        return false;
}

/* ---- ld.so.cache ---- */

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
