// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "node/cdi/libraries.h"

#if defined(__x86_64__)
#define FLAGS 0x0303U
#else
#define FLAGS 0x0a03U
#endif

struct entry {
        uint32_t flags, key, value, os_version;
        uint64_t hwcap;
};

struct cache {
        char magic[20];
        uint32_t count, strings_size, flags, extensions, unused[3];
        struct entry entries[3];
        char strings[96];
};

#define CUDA_PATH "/opt/nvidia/lib/libcuda.so.1"

static struct cache new_cache(void)
{
        struct cache cache = {.count = 3, .strings_size = sizeof(cache.strings), .flags = 2};
        uint32_t strings = offsetof(struct cache, strings);

        memcpy(cache.magic, "glibc-ld.so.cache1.1", sizeof(cache.magic));
        memcpy(cache.strings, "libcuda.so.1\0/lib32/libcuda.so.1\0" CUDA_PATH, 33 + sizeof(CUDA_PATH));
        cache.entries[0] = (struct entry){.flags = 3, .key = strings, .value = strings + 13};
        cache.entries[1] = (struct entry){.flags = FLAGS, .key = strings, .value = strings + 33};
        cache.entries[2] = (struct entry){.flags = FLAGS, .key = strings + 3, .value = strings + 33};
        return cache;
}

/* In memory of exactly that size, for the address sanitizer. */
static const char *find(const void *bytes, size_t size, char *ret, size_t ret_size)
{
        _free_ char *copy = xmalloc(size ? size : 1);
        const char *found;

        memcpy(copy, bytes, size);
        found = ldcache_find(copy, size, "libcuda.so.1");
        if (!found)
                return NULL;
        snprintf(ret, ret_size, "%s", found);
        return ret;
}

static void test_a_library_of_our_architecture_is_found(void **state UNUSED)
{
        struct cache cache = new_cache();
        char path[256];

        assert_string_equal(find(&cache, sizeof(cache), path, sizeof(path)), CUDA_PATH);
        assert_null(ldcache_find((const char *)&cache, sizeof(cache), "libcuda.so"));
        assert_string_equal(ldcache_find((const char *)&cache, sizeof(cache), "cuda.so.1"), CUDA_PATH);
}

static void test_the_older_format_before_it_is_skipped(void **state UNUSED)
{
        static const uint32_t counts[] = {0, 1, 3, 6};

        for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
                _cleanup_(strbuf_done) struct strbuf bytes = STRBUF_INIT;
                struct cache cache = new_cache();
                char path[256];

                strbuf_append(&bytes, "ld.so-1.7.0\0", 12);
                strbuf_append(&bytes, &counts[i], 4);
                for (size_t left = counts[i] * 12; left % 8 || left; left--)
                        strbuf_putc(&bytes, 'x');
                while (bytes.size % 8)
                        strbuf_putc(&bytes, '\0');
                strbuf_append(&bytes, &cache, sizeof(cache));
                assert_string_equal(find(bytes.data, bytes.size, path, sizeof(path)), CUDA_PATH);
        }
}

static void test_the_cache_of_this_machine_is_read(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf bytes = STRBUF_INIT;
        struct error err;
        const char *found;

        if (file_read("/etc/ld.so.cache", LDCACHE_LIMIT, &bytes, &err) < 0) {
                print_message("skipped: %s\n", err.text);
                skip();
        }
        found = ldcache_find(bytes.data, bytes.size, "libc.so.6");
        assert_non_null(found);
        assert_int_equal(access(found, R_OK), 0);
}

static void test_a_cache_that_is_cut_has_less_in_it(void **state UNUSED)
{
        struct cache cache = new_cache();
        size_t needed = offsetof(struct cache, strings) + 33 + sizeof(CUDA_PATH);
        char path[256];

        for (size_t size = 0; size < sizeof(cache); size++)
                assert_int_equal(find(&cache, size, path, sizeof(path)) != NULL, size >= needed);
}

static void test_a_cache_that_lies_has_nothing_in_it(void **state UNUSED)
{
        for (int i = 0;; i++) {
                struct cache cache = new_cache();
                uint32_t huge = UINT32_MAX;
                char path[256];

                switch (i) {
                case 0:
                        cache.magic[0] = 'X';
                        break;
                case 1:
                        cache.count = UINT32_MAX;
                        break;
                case 2:
                        cache.entries[1].key = UINT32_MAX;
                        break;
                case 3:
                        cache.entries[1].value = UINT32_MAX;
                        break;
                case 4:
                        cache.entries[1].value = sizeof(cache);
                        break;
                case 5:
                        memset(cache.strings + 33, 'x', sizeof(cache.strings) - 33); /* no end */
                        break;
                case 6:
                        cache.entries[1].flags = 0x0503;
                        break;
                case 7: /* an older format that is longer than the file */
                        memcpy(&cache, "ld.so-1.7.0", 12);
                        memcpy((char *)&cache + 12, &huge, 4);
                        break;
                default:
                        return;
                }
                if (find(&cache, sizeof(cache), path, sizeof(path)))
                        fail_msg("case %d finds '%s'", i, path);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_library_of_our_architecture_is_found),
                cmocka_unit_test(test_the_older_format_before_it_is_skipped),
                cmocka_unit_test(test_the_cache_of_this_machine_is_read),
                cmocka_unit_test(test_a_cache_that_is_cut_has_less_in_it),
                cmocka_unit_test(test_a_cache_that_lies_has_nothing_in_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
