// SPDX-License-Identifier: Apache-2.0
/*
 * What a registration refuses before it makes a socket, and a real kubelet's plugin watcher, fed whole and cut at every
 * byte.
 */
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "node/dra/registration.h"
#include "base/io/loop.h"

#define PATIENCE_MS 60000

struct rig {
        uv_loop_t loop;
        char folder[40];
        char registry[56];
        char plugins[56];
        struct dra_service *service;
        unsigned int registered;
        unsigned int refused;
};

static void on_status(const char *error, void *data)
{
        struct rig *rig = data;

        if (error)
                rig->refused++;
        else
                rig->registered++;
}

static void rig_init(struct rig *rig)
{
        *rig = (struct rig){0};
        strcpy(rig->folder, "/tmp/dra-watcher-XXXXXX");
        assert_non_null(mkdtemp(rig->folder));
        snprintf(rig->registry, sizeof(rig->registry), "%s/registry", rig->folder);
        snprintf(rig->plugins, sizeof(rig->plugins), "%s/plugins", rig->folder);
        assert_int_equal(mkdir(rig->registry, 0755), 0);
        assert_int_equal(uv_loop_init(&rig->loop), 0);
        rig->service = dra_service_new(&(struct dra_service_options){.loop = &rig->loop});
}

static void rig_done(struct rig *rig)
{
        dra_service_close(rig->service);
        uv_run(&rig->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&rig->loop), 0);
        rmdir(rig->plugins);
        assert_int_equal(rmdir(rig->registry), 0);
        assert_int_equal(rmdir(rig->folder), 0);
}

static int begin(
        struct rig *rig, struct dra_registration **ret, const char *driver, const char *instance, struct error *err)
{
        return dra_registration_new(ret,
                &(struct dra_registration_options){
                        .loop = &rig->loop,
                        .registry = rig->registry,
                        .plugins = rig->plugins,
                        .driver = driver,
                        .instance = instance,
                        .service = rig->service,
                        .on_status = on_status,
                        .data = rig,
                },
                err);
}

static void test_names_that_kubelet_would_not_take_are_refused(void **state UNUSED)
{
        static const char letters[] = ": must be a DNS subdomain in lower case, such as gpu.example.com";
        static const struct {
                const char *driver;
                const char *text; /* after "driver name '<driver>'" */
        } rows[] = {
                {"", ": 0 characters, must be 1 to 63"},
                {"a123456789b123456789c123456789d123456789e123456789f123456789ghij",
                        ": 64 characters, must be 1 to 63"},
                {"GPU.example.com", letters},
                {"gpu/example.com", letters},
                {"-gpu.example.com", letters},
                {"gpu-.example.com", letters},
                {"gpu..example.com", letters},
                {".gpu", letters},
                {"..", letters},
                {"gpu.", ": ends with a dot"},
        };
        struct dra_registration *registration;
        struct rig rig;
        struct error err;
        char text[256];

        rig_init(&rig);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                snprintf(text, sizeof(text), "driver name '%s'%s", rows[i].driver, rows[i].text);
                assert_fails(begin(&rig, &registration, rows[i].driver, NULL, &err), &err, ERROR_INVALID, text);
        }
        assert_fails(begin(&rig, &registration, "gpu.example.com", "../pod", &err), &err, ERROR_INVALID,
                "instance '../pod': must be 1 to 63 letters, digits and '-'");
        rig_done(&rig);
}

static void test_a_path_that_kubelet_could_not_dial_is_refused(void **state UNUSED)
{
        struct dra_registration *registration;
        struct rig rig;
        struct error err;
        char driver[64] = {0};
        char registry[sizeof(rig.registry)];
        char text[400];

        rig_init(&rig);
        rig.plugins[0] = '.';
        snprintf(text, sizeof(text), "socket '%s/gpu.example.com/dra.sock': must be an absolute path", rig.plugins);
        assert_fails(begin(&rig, &registration, "gpu.example.com", NULL, &err), &err, ERROR_INVALID, text);
        rig.plugins[0] = '/';
        memset(driver, 'x', sizeof(driver) - 1);
        memcpy(registry, rig.registry, sizeof(registry));
        memset(rig.registry, 'r', sizeof(rig.registry) - 1);
        rig.registry[0] = '/';
        rig.registry[sizeof(rig.registry) - 1] = '\0';
        snprintf(text, sizeof(text), "socket '%s/%s-pod-1-reg.sock': the path has 134 bytes, at most 107 are possible",
                rig.registry, driver);
        assert_fails(begin(&rig, &registration, driver, "pod-1", &err), &err, ERROR_INVALID, text);
        memcpy(rig.registry, registry, sizeof(registry));
        rig_done(&rig);
}

static bool is_registered(void *data)
{
        return ((struct rig *)data)->registered > 0;
}

static void test_a_recorded_plugin_watcher_is_served_however_it_is_cut(void **state UNUSED)
{
        static const char file[] = DRA_FIXTURES "/registration-kubelet-to-plugin.bin";
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        struct strbuf bytes = STRBUF_INIT;
        struct dra_registration *registration;
        struct rig rig;
        struct error err;
        _free_ char *directory = NULL;

        rig_init(&rig);
        assert_ok(file_read(file, 1 << 20, &bytes, &err), &err);
        assert_ok(begin(&rig, &registration, "gpu.warpshare.dev", "pod-1", &err), &err);
        snprintf(address.sun_path, sizeof(address.sun_path), "%s/gpu.warpshare.dev-pod-1-reg.sock", rig.registry);
        for (size_t cut = 0; cut < bytes.size; cut++) {
                int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

                rig.registered = 0;
                assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
                if (cut > 0)
                        assert_int_equal(write(fd, bytes.data, cut), cut);
                for (unsigned int i = 0; i < 3; i++)
                        uv_run(&rig.loop, UV_RUN_NOWAIT);
                assert_int_equal(write(fd, bytes.data + cut, bytes.size - cut), bytes.size - cut);
                assert_true(loop_run_until(&rig.loop, is_registered, &rig, PATIENCE_MS));
                assert_int_equal(rig.registered, 1);
                close(fd);
        }
        assert_int_equal(rig.refused, 0);
        dra_registration_close(registration, 0, NULL, NULL);
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        directory = dra_sockets_directory(rig.plugins, "gpu.warpshare.dev");
        assert_int_equal(rmdir(directory), 0);
        strbuf_done(&bytes);
        rig_done(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names_that_kubelet_would_not_take_are_refused),
                cmocka_unit_test(test_a_path_that_kubelet_could_not_dial_is_refused),
                cmocka_unit_test(test_a_recorded_plugin_watcher_is_served_however_it_is_cut),
        };

        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
