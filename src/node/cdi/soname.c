#include "node/cdi/soname.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

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
