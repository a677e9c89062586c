// SPDX-License-Identifier: Apache-2.0
/* doctor's checks of MPS: programs, folders, daemons. */
#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <uv.h>

#include "base/file.h"
#include "cmd/doctor/doctor.h"
#include "cmd/doctor/facts.h"
#include "cmd/run/shares.h"
#include "base/io/loop.h"
#include "base/io/unix_socket.h"
#include "mps/client/ask.h"
#include "mps/control/control.h"
#include "mps/supervisor/shm.h"
#include "mps/wire/message.h"
#include "plan/mps_wanted.h"

#define COMMAND_MS UINT64_C(2000)
#define UUID_LENGTH ((size_t)40) /* "GPU-" and a UUID */
#define PROC_FILE_MAX ((size_t)4 * 1024 * 1024)
#define SHM_LEAST ((uint64_t)64 * 1024 * 1024)
#define SHM_SPARE 10U /* the least free space: one part of this many */

static bool has_supervisor(const struct doctor *doctor)
{
        _free_ char *socket = xasprintf("%s/" MPS_SOCKET, doctor->mps_root);

        return reach_socket(socket) == 0;
}

bool doctor_is_at_supervisor(const struct doctor *doctor)
{
        return !*doctor->config->path && !doctor->config->sharing.mps && has_supervisor(doctor);
}

/* True if there is something to check for these checks. */
static bool mps_is_wanted(struct doctor *doctor)
{
        const struct config_dra *dra = &doctor->config->dra;

        if (doctor->config->sharing.mps || (dra->enabled && dra->mps) || doctor_is_at_supervisor(doctor))
                return true;
        doctor_skip(doctor, "nothing is shared by MPS");
        return false;
}

static bool mps_has_root(struct doctor *doctor)
{
        if (!mps_is_wanted(doctor))
                return false;
        if (access(doctor->mps_root, F_OK) == 0)
                return true;
        doctor_skip(doctor, "the MPS root is not there");
        return false;
}

/* ---- programs ---- */

static int mps_find_program(const struct doctor *doctor, char **ret, struct error *err)
{
        const char *root = doctor->config->driver.mounted_root;

        return mps_control_find(ret, doctor->config->mps.control, NULL, strcmp(root, "/") == 0 ? "" : root, err);
}

void doctor_check_control_program(struct doctor *doctor)
{
        _free_ char *program = NULL;
        struct error err;

        if (!mps_is_wanted(doctor))
                return;
        if (mps_find_program(doctor, &program, &err) == 0)
                doctor_ok(doctor, "'%s', and the server is there, too", program);
        else if (has_supervisor(doctor) && !doctor_is_at_supervisor(doctor))
                doctor_ok(doctor, "not in this container, and not needed here: the supervisor answers");
        else
                doctor_report(doctor, DOCTOR_WRONG,
                        "'warpshare mps' cannot start a daemon in a container like this one",
                        "run the doctor in the container of 'warpshare mps'; mount the driver there, or start it with the "
                        "NVIDIA runtime and capability compute",
                        "%s", err.text);
}

/* ---- folders ---- */

static size_t longest_name(const struct sharing_section *section)
{
        size_t longest = UUID_LENGTH;

        if (!section || section->daemon_scope != DAEMON_SCOPE_RESOURCE)
                return longest;
        for (size_t i = 0; i < section->n_resources; i++) {
                const struct shared_resource *resource = &section->resources[i];

                longest = MAX(longest, strlen(resource->rename ? resource->rename : resource->name));
        }
        return longest;
}

void doctor_check_mps_root(struct doctor *doctor)
{
        const char *root = doctor->mps_root;
        struct stat status;
        size_t length;

        if (!mps_is_wanted(doctor))
                return;
        length = strlen(root) + 1 + longest_name(doctor->config->sharing.mps) + strlen("/pipe");
        if (length > MPS_PIPE_PATH_MAX)
                doctor_report(doctor, DOCTOR_WRONG,
                        "the control daemon takes no pipe directory that long, and does not say why",
                        "choose a shorter mpsRoot, such as /run/nvidia/mps",
                        "a pipe directory below '%s' has %zu bytes; %zu fit", root, length, MPS_PIPE_PATH_MAX);
        if (stat(root, &status) < 0)
                doctor_report(doctor, DOCTOR_WRONG, "daemons have nowhere to serve, and containers nothing to mount",
                        "create the folder on the host, and mount it into the containers of the agent and of "
                        "'warpshare mps' (--mps-directory)",
                        "'%s': %s", root, strerror(errno));
        else if (!S_ISDIR(status.st_mode))
                doctor_report(
                        doctor, DOCTOR_WRONG, "daemons have nowhere to serve", "remove it", "'%s' is no folder", root);
        else
                doctor_ok(doctor, "'%s'", root);
}

void doctor_check_mps_parents(struct doctor *doctor)
{
        _free_ char *path = NULL;
        size_t closed = 0;

        if (!mps_has_root(doctor))
                return;
        path = xasprintf("%s/", doctor->mps_root);
        for (char *slash = path + 1; *slash; slash++) {
                struct stat status;

                if (*slash != '/')
                        continue;
                *slash = '\0';
                if (stat(path, &status) == 0 && !(status.st_mode & S_IXOTH) && ++closed)
                        doctor_report(doctor, DOCTOR_WRONG,
                                "an MPS server runs as the container's user: it cannot reach its own socket, and exits",
                                "chmod o+x it, on the host too", "'%s' has mode %04o", path, status.st_mode & 07777);
                *slash = '/';
        }
        if (closed == 0)
                doctor_ok(doctor, "every folder above the pipes can be passed by any user");
}

void doctor_check_selinux(struct doctor *doctor)
{
        _free_ char *enforce = xasprintf("%s/sys/fs/selinux/enforce", doctor->config->system_root);
        char label[256];
        ssize_t length;

        if (!mps_has_root(doctor))
                return;
        if (access(enforce, F_OK) < 0) {
                doctor_ok(doctor, "off");
                return;
        }
        length = getxattr(doctor->mps_root, "security.selinux", label, sizeof(label) - 1);
        label[length > 0 ? length : 0] = '\0';
        if (facts_is_container_label(label))
                doctor_ok(doctor, "the MPS root is '%s'", label);
        else
                doctor_report(doctor, DOCTOR_WRONG, "containers may not use the sockets below it",
                        "chcon -R -t container_file_t the MPS root", "on, and the MPS root has type '%s'",
                        *label ? label : "unknown");
}

static size_t count_mounts(const char *path)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        return file_read("/proc/self/mountinfo", PROC_FILE_MAX, &text, &err) == 0 ? facts_count_mounts(text.data, path)
                                                                                  : 0;
}

static void report_full_shm(struct doctor *doctor, const char *path)
{
        _free_ char *text = NULL;
        struct mps_shm shm = {0};
        struct error err;

        if (mps_shm_poll(&shm, path, &err) < 0 || mps_shm_count(&shm, path, &err) < 0)
                text = xstrdup(err.text);
        else
                text = shm.size ? mps_shm_text(&shm) : xstrdup("it is no mount of its own");
        doctor_report(doctor, DOCTOR_WRONG,
                "the containers of all MPS daemons without one of their own share it: when it is full, new clients "
                "of all of them fail",
                "end the pods of the user that has most; files that stay then are to be removed by hand",
                "'%s' is almost full: %s", path, text);
}

void doctor_check_shm(struct doctor *doctor)
{
        static const char means[] =
                "servers and clients have to have the same tmpfs as /dev/shm: clients fail to connect";
        static const char todo[] =
                "run 'warpshare mps mount-shm' in a privileged container whose mount of the MPS root is "
                "Bidirectional";
        _free_ char *path = xasprintf("%s/shm", doctor->mps_root);
        _free_ char *units = xasprintf("%s/" RUN_UNITS_NAME, doctor->mps_root);
        struct statfs status;
        uint64_t size;

        if (!mps_has_root(doctor))
                return;
        if (access(units, F_OK) == 0) {
                doctor_ok(doctor, "daemons and programs have the /dev/shm of this machine (--standalone)");
                return;
        }
        if (statfs(path, &status) < 0) {
                doctor_report(doctor, DOCTOR_WRONG, means, todo, "'%s': %s", path, strerror(errno));
                return;
        }
        if (status.f_type != TMPFS_MAGIC) {
                doctor_report(doctor, DOCTOR_WRONG, means, todo, "'%s' is no tmpfs", path);
                return;
        }
        size = (uint64_t)status.f_blocks * (uint64_t)status.f_bsize;
        if (count_mounts(path) > 1)
                doctor_report(doctor, DOCTOR_WRONG,
                        "running containers still have the one below, and do not share memory with newer ones",
                        "restart the containers that use MPS, and unmount the upper one", "several mounts lie on '%s'",
                        path);
        else if (size < SHM_LEAST)
                doctor_report(doctor, DOCTOR_WRONG,
                        "servers fail to make their segments (\"failed to create/open SHM segment\")",
                        "mount it larger: half of the memory is usual", "'%s' has %llu MiB", path,
                        (unsigned long long)(size >> 20));
        else if (status.f_bavail < status.f_blocks / SHM_SPARE || status.f_ffree < status.f_files / SHM_SPARE)
                report_full_shm(doctor, path);
        else
                doctor_ok(doctor, "'%s' is a tmpfs of %llu MiB", path, (unsigned long long)(size >> 20));
}

/* ---- daemons ---- */

/* Reported once for all daemons, since the driver gives each the same error. */
static void check_container_limits(struct doctor *doctor, const struct mps_daemon_status *daemon)
{
        for (size_t i = 0; i < daemon->n_limits; i++)
                if (daemon->limits[i].problem) {
                        doctor_report(doctor, DOCTOR_NOTE,
                                "each process of a container keeps to the limit, all of them together may have more",
                                "cgroup v2 and a driver that limits the memory of cgroups (615); else nothing",
                                "%s: the memory of a container as a whole is not limited: %s", daemon->name,
                                daemon->limits[i].problem);
                        return;
                }
}

static void check_own_shm(struct doctor *doctor, const struct mps_daemon_status *daemon)
{
        _free_ char *text = mps_shm_text(&daemon->shm);

        if (daemon->has_own_shm && daemon->shm.is_full)
                doctor_report(doctor, DOCTOR_WRONG,
                        "new clients of it fail when it is full; clients of other daemons do not",
                        "end the pods of the user that has most; files they leave are removed when no container uses "
                        "them any more",
                        "the shared memory of %s is almost full: %s", daemon->name, text);
}

static void mps_check_daemon(struct doctor *doctor, const struct mps_daemon_status *daemon)
{
        if (daemon->state != MPS_READY && daemon->state != MPS_DRAINING)
                doctor_report(doctor, DOCTOR_WRONG,
                        "its units are advertised as unhealthy, and claims of them wait, until it is ready",
                        "see control.log and server.log in its folder; it is tried again by itself", "%s is %s: %s",
                        daemon->name, mps_state_name(daemon->state),
                        daemon->reason ? daemon->reason : "no reason known");
        if (daemon->notice)
                doctor_report(doctor, DOCTOR_WRONG, NULL, NULL, "%s: %s", daemon->name, daemon->notice);
        check_container_limits(doctor, daemon);
        check_own_shm(doctor, daemon);
        if (daemon->repairs)
                doctor_report(doctor, DOCTOR_NOTE, "clients that connected meanwhile keep the limits they got",
                        "control.log shows who did it; from driver 550 on a tenant cannot change limits of a daemon "
                        "that runs as root",
                        "%u settings of %s were changed from outside (configuration drift) and restored",
                        daemon->repairs, daemon->name);
        if (daemon->restarts)
                doctor_report(doctor, DOCTOR_NOTE, "each restart cost its clients their work",
                        "see the supervisor's log", "%s was restarted %u times", daemon->name, daemon->restarts);
        if (daemon->max_clients && daemon->n_clients >= daemon->max_clients * MAX(daemon->n_units, (size_t)1))
                doctor_report(doctor, DOCTOR_WRONG,
                        "the next client fails with CUDA_ERROR_MPS_MAX_CLIENTS_REACHED (808)",
                        "fewer replicas, or fewer processes in a container", "%s has %zu clients, and takes no more",
                        daemon->name, daemon->n_clients);
}

struct question {
        struct doctor *doctor;
        const char *pipe;
        struct mps_control *control;
};

static void on_mps_answer(const struct error *err, const char *answer UNUSED, void *data)
{
        struct question *question = data;

        if (!err)
                doctor_ok(question->doctor, "a control daemon answers in '%s'", question->pipe);
        else if (err->kind == ERROR_NOT_FOUND)
                doctor_report(question->doctor, DOCTOR_NOTE, "its socket is left over from an earlier daemon", NULL,
                        "no control daemon is in '%s'", question->pipe);
        else
                doctor_report(question->doctor, DOCTOR_WRONG, "clients of it hang",
                        "kill it, and start 'warpshare mps'", "the control daemon in '%s': %s", question->pipe,
                        err->text);
        mps_control_close(question->control, NULL, NULL);
}

/* Asks with NVIDIA's own program. */
static void ask_daemon(struct doctor *doctor, const char *program, const char *pipe)
{
        struct question question = {.doctor = doctor, .pipe = pipe};
        struct mps_control_options options = {
                .program = program, .pipe_directory = pipe, .log_directory = "/tmp", .timeout_ms = COMMAND_MS};
        uv_loop_t loop;
        struct error err;

        loop_init(&loop);
        options.loop = &loop;
        if (mps_control_new(&question.control, &options, &err) == 0)
                mps_control_ask(question.control, "get_default_active_thread_percentage", on_mps_answer, &question);
        uv_run(&loop, UV_RUN_DEFAULT);
        uv_loop_close(&loop);
}

/* Checks each folder below the root that has a control socket. */
static void find_daemons(struct doctor *doctor, const char *root)
{
        _free_ char *program = NULL;
        const struct dirent *entry;
        struct error err;
        DIR *directory;

        if (mps_find_program(doctor, &program, &err) < 0)
                return; /* the check of the program reports that */
        directory = opendir(root);
        while (directory && (entry = readdir(directory))) {
                _free_ char *pipe = xasprintf("%s/%s/pipe", root, entry->d_name);
                _free_ char *control = xasprintf("%s/control", pipe);

                if (access(control, F_OK) == 0)
                        ask_daemon(doctor, program, pipe);
        }
        if (directory)
                closedir(directory);
}

void doctor_check_daemons(struct doctor *doctor)
{
        const char *root = doctor->mps_root;
        struct mps_status *status;
        struct error err;

        if (!mps_has_root(doctor))
                return;
        status = mps_ask(root, &err);
        if (!status) {
                doctor_report(doctor, DOCTOR_WRONG,
                        "no supervisor starts MPS daemons here, so units shared by MPS are unhealthy, and claims of them fail",
                        "start 'warpshare mps' with this MPS root, and see its log",
                        "no supervisor answers in '%s': %s", root, err.text);
                find_daemons(doctor, root);
                return;
        }
        for (size_t i = 0; i < status->n_daemons; i++)
                mps_check_daemon(doctor, &status->daemons[i]);
        doctor_ok(doctor, "the supervisor answers; daemons: %zu", status->n_daemons);
        mps_status_free(status);
}

/* ---- the automatic mount ---- */

static bool check_default_pipe(struct doctor *doctor, const char *root)
{
        _free_ char *path = xasprintf("%s/tmp/nvidia-mps", strcmp(root, "/") == 0 ? "" : root);

        if (access(path, F_OK) < 0)
                return false;
        doctor_report(doctor, DOCTOR_WRONG,
                "NVIDIA's container toolkit mounts it into every GPU container: they become clients of a daemon there, "
                "without its /dev/shm",
                "stop the MPS daemon of the host and remove the folder, or generate the CDI specification with the feature "
                "flag disable-ipc-discoverer",
                "'%s' is there", path);
        return true;
}

void doctor_check_automatic_mount(struct doctor *doctor)
{
        const char *driver = doctor->config->driver.mounted_root;
        bool has_trap = check_default_pipe(doctor, doctor->config->system_root);

        if (strcmp(driver, "/") != 0 && *driver)
                has_trap = check_default_pipe(doctor, driver) || has_trap;
        if (!has_trap)
                doctor_ok(doctor, "there is no /tmp/nvidia-mps, which every GPU container would get");
}
