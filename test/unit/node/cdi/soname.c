// SPDX-License-Identifier: Apache-2.0
#include "tree.h"

#include <sys/mman.h>

#include "node/cdi/libraries.h"

static bool read_bytes(const void *bytes, size_t size, char *ret)
{
        _close_ int fd = memfd_create("elf", MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, bytes, size), size);
        return soname_read(fd, ret);
}

static void test_the_name_of_a_library_is_read(void **state UNUSED)
{
        struct tree_elf elf = tree_elf("libcuda.so.1");
        char name[SONAME_SIZE];

        assert_true(read_bytes(&elf, sizeof(elf), name));
        assert_string_equal(name, "libcuda.so.1");
}

static void test_the_name_of_a_real_library_is_read(void **state UNUSED)
{
        _close_ int fd = open("/lib/x86_64-linux-gnu/libc.so.6", O_RDONLY | O_CLOEXEC);
        char name[SONAME_SIZE];

        if (fd < 0) {
                print_message("skipped: the C library is not where Debian has it\n");
                skip();
        }
        assert_true(soname_read(fd, name));
        assert_string_equal(name, "libc.so.6");
}

/* Where it is cut, whatever the rest says, there is a name or none, and no read beyond the end. */
static void test_a_library_that_is_cut_has_no_name(void **state UNUSED)
{
        struct tree_elf elf = tree_elf("libcuda.so.1");
        size_t needed = offsetof(struct tree_elf, names) + 1 + sizeof("libcuda.so.1");
        char name[SONAME_SIZE];

        for (size_t size = 0; size < sizeof(elf); size++)
                assert_int_equal(read_bytes(&elf, size, name), size >= needed);
}

static void test_a_library_that_lies_has_no_name(void **state UNUSED)
{
        for (int i = 0;; i++) {
                struct tree_elf elf = tree_elf("libcuda.so.1");
                char name[SONAME_SIZE] = "unchanged";

                switch (i) {
                case 0:
                        elf.header.e_ident[EI_MAG0] = 'X';
                        break;
                case 1:
                        elf.header.e_ident[EI_CLASS] = ELFCLASS32;
                        break;
                case 2:
                        elf.header.e_ident[EI_DATA] = ELFDATA2MSB;
                        break;
                case 3:
                        elf.header.e_type = ET_CORE;
                        break;
                case 4:
                        elf.header.e_phnum = 0;
                        break;
                case 5:
                        elf.header.e_phnum = UINT16_MAX;
                        break;
                case 6:
                        elf.header.e_phoff = UINT64_MAX - 8;
                        break;
                case 7:
                        elf.header.e_phentsize = 8;
                        break;
                case 8:
                        elf.segments[1].p_offset = UINT64_MAX;
                        break;
                case 9:
                        elf.segments[1].p_filesz = 0;
                        break;
                case 10:
                        elf.segments[0].p_filesz = 1;
                        break;
                case 11:
                        elf.segments[0].p_vaddr = UINT64_MAX;
                        break;
                case 12:
                        elf.segments[0].p_offset = INT64_MAX;
                        break;
                case 13:
                        elf.segments[0].p_filesz = UINT64_MAX;
                        elf.dynamic[1].d_un.d_ptr = UINT64_MAX;
                        break;
                case 14:
                        elf.dynamic[0].d_un.d_val = UINT64_MAX;
                        break;
                case 15:
                        elf.dynamic[0].d_un.d_val = sizeof(elf.names) - 1;
                        break;
                case 16:
                        elf.dynamic[1].d_un.d_ptr = 0;
                        break;
                case 17:
                        elf.dynamic[0].d_tag = DT_NULL;
                        break;
                case 18:
                        memset(elf.names, 'x', sizeof(elf.names)); /* no end */
                        break;
                case 19:
                        memcpy(elf.names + 1, "../libc", 8);
                        break;
                case 20:
                        elf.names[1] = '\0';
                        break;
                case 21: /* the name is in the file, but not in what is loaded */
                        elf.segments[0].p_filesz = offsetof(struct tree_elf, names) + 1;
                        elf.dynamic[0].d_un.d_val = 2;
                        break;
                default:
                        return;
                }
                if (read_bytes(&elf, sizeof(elf), name))
                        fail_msg("case %d has the name '%s'", i, name);
                assert_string_equal(name, "unchanged");
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_name_of_a_library_is_read),
                cmocka_unit_test(test_the_name_of_a_real_library_is_read),
                cmocka_unit_test(test_a_library_that_is_cut_has_no_name),
                cmocka_unit_test(test_a_library_that_lies_has_no_name),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
