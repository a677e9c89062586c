#include "cmd/doctor/doctor.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/strbuf.h"
#include "base/text.h"
#include "base/io/worker.h"

const struct doctor_check doctor_checks[] = {
        {"driver", doctor_check_driver},
        {"device-nodes", doctor_check_device_nodes},
        {"gpus", doctor_check_gpus},
        {"plan", doctor_check_plan},
        {"tiers", doctor_check_tiers},
        {"compute-mode", doctor_check_compute_mode},
        {"kubelet", doctor_check_kubelet},
        {"pod-resources", doctor_check_pod_resources},
        {"agent", doctor_check_agent},
        {"other-plugins", doctor_check_other_plugins},
        {"containers", doctor_check_containers},
        {"cdi", doctor_check_cdi},
        {"toolkit", doctor_check_toolkit},
        {"declared", doctor_check_declared},
        {"dra", doctor_check_dra},
        {"mig", doctor_check_mig},
        {"mps-control", doctor_check_control_program},
        {"mps-root", doctor_check_mps_root},
        {"mps-parents", doctor_check_mps_parents},
        {"selinux", doctor_check_selinux},
        {"shm", doctor_check_shm},
        {"mps-daemons", doctor_check_daemons},
        {"automatic-mount", doctor_check_automatic_mount},
        {"host-pid", doctor_check_host_pid},
        {"open-files", doctor_check_open_files},
        {"cgroup", doctor_check_cgroup},
};
const size_t doctor_check_count = ARRAY_SIZE(doctor_checks);

const char *doctor_verdict_name(enum verdict verdict)
{
        static const char *const names[] = {
                [DOCTOR_OK] = "ok",
                [DOCTOR_NOTE] = "note",
                [DOCTOR_WRONG] = "wrong",
                [DOCTOR_SKIPPED] = "skipped",
        };

        return names[verdict];
}

static void set_text(json_t *json, const char *name, const char *text)
{
        _free_ char *copy = NULL;

        if (!text)
                return;
        copy = xstrdup(text);
        text_clean(copy);
        json_object_set_new(json, name, json_string(copy));
}

void doctor_report(struct doctor *doctor UNUSED, enum verdict verdict, const char *means, const char *todo,
        const char *format, ...)
{
        struct strbuf found = STRBUF_INIT;
        json_t *json = json_object();
        va_list args;
        char *line;

        va_start(args, format);
        strbuf_vprintf(&found, format, args);
        va_end(args);
        set_text(json, "verdict", doctor_verdict_name(verdict));
        set_text(json, "found", found.data);
        set_text(json, "means", means);
        set_text(json, "todo", todo);
        line = json_dumps(json, JSON_COMPACT);
        strbuf_clear(&found);
        strbuf_printf(&found, "%s\n", line);
        worker_send_news(found.data, found.size);
        free(line);
        json_decref(json);
        strbuf_done(&found);
}
