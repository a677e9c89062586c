// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "gpu/vgpu.h"

#define SIZE ((size_t)256)

/* A configuration space: the status says that there are capabilities, and |at| is the first. */
static void begin(unsigned char config[SIZE], unsigned char at)
{
        memset(config, 0, SIZE);
        config[0] = 0xde;
        config[1] = 0x10;
        config[0x06] = 0x10;
        config[0x34] = at;
}

static void put(unsigned char *config, size_t at, const void *bytes, size_t size)
{
        memcpy(config + at, bytes, size);
}

/* Power management at 0x60, then the vendor's at 0x80: a record of another kind before that of the driver. */
static void make_vgpu(unsigned char config[SIZE])
{
        static const unsigned char power[] = {0x01, 0x80, 0x03};
        static const unsigned char vendor[] = {0x09, 0x00, 0x23, 'V', 'F', 0x02, 0x04, 0xaa, 0xbb, 0x00, 0x16};

        begin(config, 0x60);
        put(config, 0x60, power, sizeof(power));
        put(config, 0x80, vendor, sizeof(vendor));
        put(config, 0x8b, "460.16", 6);
        put(config, 0x95, "r460_00", 7);
}

static void test_a_vgpu_reports_the_driver_of_its_host(void **state UNUSED)
{
        unsigned char config[SIZE];
        struct vgpu vgpu;

        make_vgpu(config);
        vgpu_parse(&vgpu, config, SIZE);
        assert_int_equal(vgpu.state, VGPU_PRESENT);
        assert_string_equal(vgpu.host_driver_version, "460.16");
        assert_string_equal(vgpu.host_driver_branch, "r460_00");
}

static void test_what_a_user_without_rights_sees_says_nothing(void **state UNUSED)
{
        unsigned char config[SIZE];
        struct vgpu vgpu;

        make_vgpu(config);
        vgpu_parse(&vgpu, config, 64);
        assert_int_equal(vgpu.state, VGPU_UNKNOWN);
}

static void test_other_devices_are_no_vgpus(void **state UNUSED)
{
        unsigned char config[SIZE];
        struct vgpu vgpu;

        make_vgpu(config);
        config[0x06] = 0; /* no list of capabilities */
        vgpu_parse(&vgpu, config, SIZE);
        assert_int_equal(vgpu.state, VGPU_ABSENT);
        make_vgpu(config);
        config[0x84] = 'X';
        vgpu_parse(&vgpu, config, SIZE);
        assert_int_equal(vgpu.state, VGPU_ABSENT);
        make_vgpu(config);
        config[0x80] = 0x10; /* another capability */
        vgpu_parse(&vgpu, config, SIZE);
        assert_int_equal(vgpu.state, VGPU_ABSENT);
}

static void test_a_list_in_a_circle_ends(void **state UNUSED)
{
        unsigned char config[SIZE];
        struct vgpu vgpu;

        begin(config, 0x60);
        config[0x60] = 0x01;
        config[0x61] = 0x60;
        vgpu_parse(&vgpu, config, SIZE);
        assert_int_equal(vgpu.state, VGPU_ABSENT);
}

/* NVIDIA's program ends on these. */
static void test_a_vgpu_without_a_sound_record_has_no_host_driver(void **state UNUSED)
{
        static const struct {
                unsigned char length; /* of the capability */
                unsigned char record; /* length of the first */
        } table[] = {{0x23, 0}, {0x23, 1}, {0x23, 0xff}, {0x07, 4}, {0x05, 4}, {0x22, 4}};

        for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
                unsigned char config[SIZE];
                struct vgpu vgpu;

                make_vgpu(config);
                config[0x82] = table[i].length;
                config[0x86] = table[i].record;
                vgpu_parse(&vgpu, config, SIZE);
                assert_int_equal(vgpu.state, VGPU_PRESENT);
                if (table[i].length != 0x22)
                        assert_string_equal(vgpu.host_driver_version, "");
        }
}

static void test_any_bytes_will_do(void **state UNUSED)
{
        unsigned char config[SIZE];
        struct vgpu vgpu;
        unsigned int random = 7;

        for (size_t round = 0; round < 20000; round++) {
                for (size_t i = 0; i < SIZE; i++) {
                        random = random * 1103515245U + 12345U;
                        config[i] = (unsigned char)(random >> 16);
                }
                config[0x06] |= 0x10;
                if (round % 2) { /* far enough to meet the records */
                        config[config[0x34]] = 0x09;
                        put(config, MIN((size_t)config[0x34] + 3, SIZE - 2), "VF", 2);
                }
                vgpu_parse(&vgpu, config, SIZE);
                assert_true(strlen(vgpu.host_driver_version) < VGPU_TEXT_SIZE);
        }
}

static void add_device(const char *root, const char *address, const char *vendor, const void *config, size_t size)
{
        _free_ char *make = xasprintf("mkdir -p %s/sys/bus/pci/devices/%s", root, address);
        _free_ char *vendor_path = xasprintf("%s/sys/bus/pci/devices/%s/vendor", root, address);
        _free_ char *config_path = xasprintf("%s/sys/bus/pci/devices/%s/config", root, address);
        struct error err;

        assert_int_equal(system(make), 0);
        assert_ok(file_write(vendor_path, vendor, strlen(vendor), &err), &err);
        if (config)
                assert_ok(file_write(config_path, config, size, &err), &err);
}

static void test_the_machine_is_asked_device_by_device(void **state UNUSED)
{
        char root[] = "/tmp/warpshare-vgpu-XXXXXX";
        _free_ char *clear = NULL;
        unsigned char plain[SIZE];
        unsigned char config[SIZE];
        struct vgpu vgpu;

        assert_non_null(mkdtemp(root));
        clear = xasprintf("rm -r %s", root);
        vgpu_read(&vgpu, root);
        assert_int_equal(vgpu.state, VGPU_UNKNOWN); /* no such folder */
        begin(plain, 0);
        make_vgpu(config);
        add_device(root, "0000:01:00.0", "0x8086\n", config, SIZE); /* not NVIDIA's */
        vgpu_read(&vgpu, root);
        assert_int_equal(vgpu.state, VGPU_ABSENT);
        add_device(root, "0000:02:00.0", "0x10de\n", config, SIZE);
        add_device(root, "0000:03:00.0", "0x10de\n", plain, SIZE);
        vgpu_read(&vgpu, root);
        assert_int_equal(vgpu.state, VGPU_PRESENT);
        assert_string_equal(vgpu.host_driver_version, "460.16");
        add_device(root, "0000:04:00.0", "0x10de\n", plain, 64);
        vgpu_read(&vgpu, root);
        assert_int_equal(vgpu.state, VGPU_UNKNOWN);
        assert_string_equal(vgpu.host_driver_version, "");
        assert_int_equal(system(clear), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_vgpu_reports_the_driver_of_its_host),
                cmocka_unit_test(test_what_a_user_without_rights_sees_says_nothing),
                cmocka_unit_test(test_other_devices_are_no_vgpus),
                cmocka_unit_test(test_a_list_in_a_circle_ends),
                cmocka_unit_test(test_a_vgpu_without_a_sound_record_has_no_host_driver),
                cmocka_unit_test(test_any_bytes_will_do),
                cmocka_unit_test(test_the_machine_is_asked_device_by_device),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
