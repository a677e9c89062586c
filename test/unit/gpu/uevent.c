// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "gpu/driver_change.h"

/* As the kernel sends them: text, NUL, and so on, the last NUL included. */
#define EVENT(text) text, sizeof(text)

static void test_events_of_gpus_are_distinguished_from_others(void **state UNUSED)
{
        static const struct {
                const char *data;
                size_t size;
                bool is_about_gpus;
        } table[] = {
                {EVENT("add@/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0\0ACTION=add\0"
                       "DEVPATH=/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0\0SUBSYSTEM=pci\0PCI_CLASS=30200\0"
                       "PCI_ID=10DE:20B0\0PCI_SLOT_NAME=0000:3b:00.0\0SEQNUM=4711"),
                        true},
                {EVENT("bind@/devices/x\0ACTION=bind\0DEVPATH=/devices/x\0SUBSYSTEM=pci\0DRIVER=nvidia\0SEQNUM=1"),
                        true},
                {EVENT("remove@/devices/x\0SUBSYSTEM=pci\0PCI_ID=10de:20b0"), true},
                {EVENT("add@/module/nvidia\0ACTION=add\0DEVPATH=/module/nvidia\0SUBSYSTEM=module"), true},
                {EVENT("remove@/module/nvidia_uvm\0DEVPATH=/module/nvidia_uvm\0SUBSYSTEM=module"), true},
                {EVENT("add@/bus/pci/drivers/nvidia\0DEVPATH=/bus/pci/drivers/nvidia\0SUBSYSTEM=drivers"), true},
                {EVENT("add@/devices/virtual/nvidia-caps/x\0SUBSYSTEM=nvidia-caps"), true},
                /* Another vendor's device, other modules, and what containers make all day. */
                {EVENT("add@/devices/x\0SUBSYSTEM=pci\0PCI_ID=8086:1533\0DRIVER=igb"), false},
                {EVENT("add@/module/veth\0DEVPATH=/module/veth\0SUBSYSTEM=module"), false},
                {EVENT("add@/devices/virtual/net/veth0\0DEVPATH=/devices/virtual/net/veth0\0SUBSYSTEM=net"), false},
                {EVENT("add@/devices/nvidia\0SUBSYSTEM=net\0DRIVER=nvidia"), false},
                /* What no kernel sends. */
                {"", 0, false},
                {EVENT(""), false},
                {EVENT("\0\0\0\0"), false},
                {EVENT("libudev\0SUBSYSTEM=pci\0DRIVER=nvidia"), false},
                {"add@/devices/x\0SUBSYSTEM=pci\0DRIVER=nvidia",
                        sizeof("add@/devices/x\0SUBSYSTEM=pci\0DRIVER=nvidia") - 1, false},
                {"add@/devices/x", sizeof("add@/devices/x") - 1, false},
                {EVENT("add@/x\0SUBSYSTEM\0=pci\0DRIVER==nvidia"), false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                /* A copy of just this size: the sanitizer sees a step beyond it. */
                char *copy = malloc(table[i].size + !table[i].size);

                memcpy(copy, table[i].data, table[i].size);
                if (uevent_is_about_gpus(copy, table[i].size) != table[i].is_about_gpus)
                        fail_msg("row %zu", i);
                free(copy);
        }
}

static void test_an_event_that_is_cut_anywhere_is_survived(void **state UNUSED)
{
        static const char event[] = "bind@/devices/x\0ACTION=bind\0SUBSYSTEM=pci\0PCI_ID=10DE:20B0\0DRIVER=nvidia";

        for (size_t size = 0; size < sizeof(event); size++) {
                char *copy = calloc(1, size + !size);

                memcpy(copy, event, size);
                /* All that is needed may be there, but then the line has its end. */
                if (uevent_is_about_gpus(copy, size))
                        assert_true(size > 0 && copy[size - 1] == '\0');
                free(copy);
        }
        assert_true(uevent_is_about_gpus(event, sizeof(event)));
}

static void test_an_event_beyond_the_limit_is_not_read(void **state UNUSED)
{
        static const char event[] = "add@/devices/x\0SUBSYSTEM=nvidia";
        char *data = calloc(1, UEVENT_MAX + 1);

        memcpy(data, event, sizeof(event));
        assert_true(uevent_is_about_gpus(data, UEVENT_MAX));
        assert_false(uevent_is_about_gpus(data, UEVENT_MAX + 1));
        free(data);
}

static void count(void *data)
{
        (*(unsigned int *)data)++;
}

static void on_timer(uv_timer_t *timer)
{
        uv_close((uv_handle_t *)timer, NULL);
        uv_stop(timer->loop);
}

/* From this process, and not the kernel. */
static bool forge(unsigned int port)
{
        static const char event[] = "bind@/devices/x\0SUBSYSTEM=pci\0DRIVER=nvidia";
        struct sockaddr_nl to = {.nl_family = AF_NETLINK, .nl_pid = port, .nl_groups = port ? 0 : 1};
        int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);
        ssize_t sent = -1;

        if (fd >= 0) {
                sent = sendto(fd, event, sizeof(event), 0, (const struct sockaddr *)&to, sizeof(to));
                close(fd);
        }
        return sent >= 0;
}

static void test_only_the_kernel_is_believed(void **state UNUSED)
{
        struct uevent_watch *watch = NULL;
        unsigned int heard = 0;
        struct error err;
        uv_timer_t timer;
        uv_loop_t loop;
        bool was_sent;

        uv_loop_init(&loop);
        if (uevent_watch_new(&watch, &loop, count, &heard, &err) < 0) {
                print_message("# no socket here: %s\n", err.text);
                uv_loop_close(&loop);
                skip();
        }
        /* Its port is this process's number, as it is the first netlink socket; and to the group. Root may. */
        was_sent = forge((unsigned int)getpid());
        was_sent = forge(0) || was_sent;
        uv_timer_init(&loop, &timer);
        uv_timer_start(&timer, on_timer, 100, 0);
        uv_run(&loop, UV_RUN_DEFAULT);
        assert_null(uevent_watch_close(watch));
        uv_run(&loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&loop), 0);
        print_message("# forged events could %sbe sent\n", was_sent ? "" : "not ");
        assert_int_equal(heard, 0);
        assert_null(uevent_watch_close(NULL));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_events_of_gpus_are_distinguished_from_others),
                cmocka_unit_test(test_an_event_that_is_cut_anywhere_is_survived),
                cmocka_unit_test(test_an_event_beyond_the_limit_is_not_read),
                cmocka_unit_test(test_only_the_kernel_is_believed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
