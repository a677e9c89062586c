#include "sim/mps/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"

#define TICK_MS 100
#define MAX_WATCHES 512U

/* cuda.h */
#define CUDA_ERROR_MPS_CONNECTION_FAILED 805

int64_t now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- watches ---- */

void watch_add(struct daemon *daemon, struct watch *watch, int fd, void (*on_ready)(struct daemon *, struct watch *))
{
        *watch = (struct watch){.fd = fd, .on_ready = on_ready};
        list_append(&daemon->watches, &watch->link);
}

void watch_remove(struct watch *watch)
{
        list_remove(&watch->link);
        close_pointer(&watch->fd);
        watch->fd = -1;
}

static void wake(struct daemon *daemon, int fd)
{
        LIST_FOR_EACH(link, &daemon->watches) {
                struct watch *watch = container_of(link, struct watch, link);

                if (watch->fd == fd) {
                        watch->on_ready(daemon, watch);
                        return;
                }
        }
}

/* ---- peers ---- */

void peer_drop(struct peer *peer)
{
        if (peer->watch.fd >= 0)
                watch_remove(&peer->watch);
        list_remove(&peer->link);
        free(peer->hello);
        free(peer->command);
        free(peer);
}

void peer_refuse(struct peer *peer, int error)
{
        channel_send(peer->watch.fd, "ERROR %d", error);
        peer_drop(peer);
}

static void answer(struct daemon *daemon, struct peer *peer)
{
        _cleanup_(strbuf_done) struct strbuf out = STRBUF_INIT;
        _free_ char *command = TAKE_PTR(peer->command);

        peer->watch.paused = false;
        if (command_run(daemon, peer, command, &out))
                peer->quits = channel_send(peer->watch.fd, "QUIT");
        else
                channel_send(peer->watch.fd, "TEXT %s", out.data);
}

/* The answer comes at once, or when the scenario lets it. */
static void take_command(struct daemon *daemon, struct peer *peer, const char *line)
{
        _free_ char *name = xstrdup(line + strspn(line, " \t"));
        const struct mps_fault *delay;

        name[strcspn(name, " \t\r")] = '\0';
        journal_line(&daemon->journal, "Cmd:%s", line);
        peer->command = xstrdup(line);
        delay = mps_scenario_fault(&daemon->scenario, name, MPS_FAULT_DELAY);
        if (mps_scenario_fault(&daemon->scenario, name, MPS_FAULT_HANG))
                peer->due_ms = INT64_MAX;
        else
                peer->due_ms = now_ms() + (delay ? (int64_t)delay->delay_ms : 0);
        peer->watch.paused = true;
        if (peer->due_ms <= now_ms())
                answer(daemon, peer);
}

static void take_client(struct daemon *daemon, struct peer *peer, const char *hello)
{
        struct instance *instance = NULL;

        if (!list_is_empty(&daemon->instances))
                instance = container_of(daemon->instances.next, struct instance, link);
        journal_line(&daemon->journal, "NEW CLIENT %d from user %d: %s", (int)peer->who.pid, (int)peer->who.uid,
                instance && instance->ready && !instance->stops ? "Server already exists"
                                                                : "Server is not ready, push client to pending list");
        peer->hello = xstrdup(hello);
        daemon_advance(daemon);
}

static void on_peer(struct daemon *daemon, struct watch *watch)
{
        static struct packet packet;
        struct peer *peer = container_of(watch, struct peer, watch);

        if (peer->command || !channel_receive(watch->fd, &packet)) {
                peer_drop(peer); /* also one whose command hangs: only its end wakes it */
                return;
        }
        if (packet.fd >= 0)
                close(packet.fd);
        if (packet_is(&packet, "UI")) {
                journal_line(&daemon->journal, "NEW UI");
        } else if (packet_is(&packet, "CMD")) {
                take_command(daemon, peer, packet.text + 4);
        } else if (packet_is(&packet, "END") && !peer->quits) {
                journal_line(&daemon->journal, "UI closed");
                peer_drop(peer);
        } else if (packet_is(&packet, "CLIENT") && !peer->hello) {
                take_client(daemon, peer, packet.text + 6);
        } else if (packet_is(&packet, "SERVER")) {
                instance_adopt(daemon, peer);
        }
}

static void on_door(struct daemon *daemon, struct watch *watch)
{
        int fd = channel_accept(watch->fd);
        struct peer *peer;

        if (fd < 0)
                return;
        journal_line(&daemon->journal, "Accepting connection...");
        peer = xcalloc(1, sizeof(*peer));
        peer->who = channel_peer(fd);
        list_append(&daemon->peers, &peer->link);
        watch_add(daemon, &peer->watch, fd, on_peer);
}

/* Commands whose delay is over, one at a time, as each may remove others. */
static void answer_due(struct daemon *daemon)
{
        LIST_FOR_EACH(link, &daemon->peers) {
                struct peer *peer = container_of(link, struct peer, link);

                if (peer->command && peer->due_ms <= now_ms()) {
                        answer(daemon, peer);
                        return;
                }
        }
}

/* ---- files ---- */

static char *in_pipe(const struct daemon *daemon, const char *name)
{
        return xasprintf("%s/%s", daemon->pipe_directory, name);
}

static void make_file(const char *path, mode_t mode, int fd)
{
        if (fd < 0 || fchmod(fd, mode) < 0)
                fprintf(stderr, "cannot create %s\n", path);
}

/* POSIX locks, as the real one: a server that outlives us does not hold it. */
static int take_lock(const struct daemon *daemon, struct error *err)
{
        _free_ char *path = in_pipe(daemon, "control_lock");
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666); /* held until the process ends */

        if (fd < 0)
                return error_set(err, ERROR_DENIED, "Cannot access CUDA_MPS_PIPE_DIRECTORY=%s", daemon->pipe_directory);
        if (fcntl(fd, F_SETLK, &lock) < 0) {
                close(fd);
                return error_set(err, ERROR_UNAVAILABLE, "An instance of this daemon is already running");
        }
        make_file(path, 0666, fd);
        return 0; /* NOLINT(clang-analyzer-unix.Malloc) */
}

static void write_pid(const struct daemon *daemon)
{
        _free_ char *path = in_pipe(daemon, "nvidia-cuda-mps-control.pid");
        _close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

        make_file(path, 0666, fd);
        if (fd >= 0)
                dprintf(fd, "%d\n", (int)getpid());
}

static void open_logs(struct daemon *daemon)
{
        _free_ char *control = xasprintf("%s/control.log", daemon->log_directory);
        _free_ char *server = xasprintf("%s/server.log", daemon->log_directory);

        mkdir(daemon->log_directory, 0700);
        if (daemon->foreground) {
                daemon->journal.fd = daemon->server_log = STDOUT_FILENO;
        } else {
                daemon->journal.fd = open(control, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
                daemon->server_log = open(server, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        }
        if (access(daemon->log_directory, W_OK) < 0)
                fprintf(stderr, "Warning: Failed writing log files to directory [%s]. No logs will be available.\n",
                        daemon->log_directory);
}

static int open_doors(struct daemon *daemon, struct error *err)
{
        static const struct {
                const char *name;
                mode_t mode;
        } doors[] = {{"control", 0666}, {"control_privileged", 0755}};

        for (size_t i = 0; i < ARRAY_SIZE(doors); i++) {
                _free_ char *path = in_pipe(daemon, doors[i].name);
                int fd = channel_listen(path, doors[i].mode, err);

                if (fd < 0)
                        return -1;
                watch_add(daemon, &daemon->doors[i], fd, on_door);
                daemon->doors[i].paused = daemon->scenario.daemon == MPS_DAEMON_DEAF;
        }
        return 0;
}

static void read_environment(struct daemon *daemon)
{
        const char *percentage = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
        const char *priority = getenv("CUDA_MPS_CLIENT_PRIORITY");

        if (percentage && !limits_read_percentage(&daemon->limits.percentage, percentage))
                journal_line(&daemon->journal, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE should be between (0.0, 100.0]");
        if (priority && strcmp(priority, "0") != 0 && strcmp(priority, "1") != 0)
                journal_line(&daemon->journal, "CUDA_MPS_CLIENT_PRIORITY should be between [0,1]");
        else
                daemon->limits.priority = priority && priority[0] == '1';
}

int daemon_open(struct daemon *daemon, struct error *err)
{
        _free_ char *fifo = in_pipe(daemon, "log");
        _free_ char *control = in_pipe(daemon, "control");

        list_init(&daemon->watches);
        list_init(&daemon->peers);
        list_init(&daemon->instances);
        daemon->limits = (struct limits)LIMITS_INIT;
        daemon->wanted_uid = -1;
        umask(0);
        if (mkdir(daemon->pipe_directory, 0777) < 0 && errno != EEXIST)
                return error_set(err, ERROR_DENIED, "Cannot access CUDA_MPS_PIPE_DIRECTORY=%s", daemon->pipe_directory);
        open_logs(daemon);
        if (take_lock(daemon, err) < 0)
                return -1;
        unlink(fifo);
        if (mkfifo(fifo, 0777) < 0)
                return error_errno(err, errno, "create '%s'", fifo);
        if (open_doors(daemon, err) < 0) {
                err->text[0] = '\0'; /* the real one says nothing */
                return -1;
        }
        umask(022);
        if (daemon->scenario.version >= 550)
                write_pid(daemon);
        journal_line(&daemon->journal, "Starting control daemon using socket %s", control);
        journal_line(&daemon->journal,
                "To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY=%s",
                daemon->pipe_directory);
        if (daemon->scenario.version >= 580)
                journal_line(&daemon->journal, "CUDA MPS Control binary version: %u000",
                        daemon->scenario.version < 615 ? 13U : 14U);
        read_environment(daemon);
        return 0;
}

/* ---- the loop ---- */

static size_t fill_poll(const struct daemon *daemon, struct pollfd *fds)
{
        size_t count = 0;

        LIST_FOR_EACH(link, &daemon->watches) {
                const struct watch *watch = container_of(link, struct watch, link);

                if (count < MAX_WATCHES)
                        fds[count++] = (struct pollfd){.fd = watch->fd, .events = watch->paused ? 0 : POLLIN};
        }
        return count;
}

static void kill_servers(const struct daemon *daemon)
{
        LIST_FOR_EACH(link, &daemon->instances)
                kill(container_of(link, struct instance, link)->pid, SIGKILL);
}

/* The real one leaves sockets and lock behind. */
static int leave(struct daemon *daemon)
{
        _free_ char *fifo = in_pipe(daemon, "log");
        _free_ char *pid = in_pipe(daemon, "nvidia-cuda-mps-control.pid");

        journal_line(&daemon->journal, "Exit with status %d", daemon->status);
        unlink(fifo);
        unlink(pid);
        while (!list_is_empty(&daemon->peers)) {
                struct peer *peer = container_of(daemon->peers.next, struct peer, link);

                if (peer->quits)
                        channel_send(peer->watch.fd, "EXIT %d", daemon->status);
                peer_drop(peer);
        }
        return daemon->status;
}

int daemon_run(struct daemon *daemon)
{
        static struct pollfd fds[MAX_WATCHES];
        int64_t end = now_ms() + (int64_t)daemon->scenario.lifetime_s * 1000;

        while (!daemon->quits || !list_is_empty(&daemon->instances)) {
                size_t count = fill_poll(daemon, fds);

                if (poll(fds, count, TICK_MS) < 0)
                        continue;
                mps_scenario_refresh(&daemon->scenario);
                for (size_t i = 0; i < count; i++) {
                        if (fds[i].revents)
                                wake(daemon, fds[i].fd);
                }
                answer_due(daemon);
                if (daemon->kill_ms && now_ms() >= daemon->kill_ms)
                        kill_servers(daemon);
                if (now_ms() >= end) {
                        kill_servers(daemon);
                        return 1;
                }
        }
        return leave(daemon);
}
