#include "cuda/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

/* How long a killed child may take to go: one that hangs in the kernel never does, and is left to init. */
#define KILL_PATIENCE_MS UINT64_C(2000)

static uint64_t now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void worker_begin(struct worker *worker, unsigned int step)
{
        unsigned char byte = (unsigned char)step;

        while (write(worker->report, &byte, 1) < 0 && errno == EINTR)
                ;
}

/* 1: |*ret_byte| came; 0: the child has ended; -1: the deadline passed. */
static int await_byte(int fd, uint64_t deadline, unsigned char *ret_byte)
{
        for (;;) {
                struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
                uint64_t now = now_ms();
                int ready;

                if (now >= deadline)
                        return -1;
                ready = poll(&poll_fd, 1, (int)MIN(deadline - now, (uint64_t)INT32_MAX));
                if (ready > 0) {
                        ssize_t got = read(fd, ret_byte, 1);

                        if (got >= 0)
                                return got > 0;
                }
        }
}

static void watch(struct worker_result *result, const struct worker_options *options, int fd)
{
        uint64_t deadline = now_ms() + options->steps[0].timeout_ms;
        unsigned char step;
        int got;

        while ((got = await_byte(fd, deadline, &step)) > 0) {
                result->step = MIN((unsigned int)step, options->n_steps - 1);
                deadline = now_ms() + options->steps[result->step].timeout_ms;
        }
        result->end = got < 0 ? WORKER_HUNG : WORKER_DONE;
}

/* The end of the child is the end of its pipe, but a moment may lie between them. */
static void worker_reap(struct worker_result *result, pid_t child)
{
        uint64_t deadline = now_ms() + KILL_PATIENCE_MS;
        int status = 0;
        pid_t reaped;

        if (result->end == WORKER_HUNG)
                kill(child, SIGKILL);
        while ((reaped = waitpid(child, &status, WNOHANG)) == 0 && now_ms() < deadline)
                poll(NULL, 0, 5);
        if (result->end == WORKER_DONE && (reaped != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
                result->end = WORKER_DIED;
                result->signal = reaped == child && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        }
}

static void be_child(const struct worker_options *options, int report, void *shared, pid_t parent)
{
        struct worker worker = {.report = report, .shared = shared};

        /* Whoever ends us must not leave a program on the GPU. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
                options->run(&worker, options->data);
        _exit(0); /* without the parent's buffers */
}

int worker_run(struct worker_result *ret, const struct worker_options *options, struct error *err)
{
        struct worker_result result = {.shared_size = options->shared_size};
        _close_ int reader = -1;
        pid_t parent = getpid();
        void *shared;
        int ends[2];
        pid_t child;

        shared = mmap(NULL, options->shared_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED)
                return error_errno(err, errno, "share memory with a child process");
        result.shared = shared;
        if (pipe2(ends, O_CLOEXEC) < 0) {
                error_raise_errno(err, errno, "make a pipe");
                worker_release(&result);
                return -1;
        }
        reader = ends[0];
        child = fork();
        if (child == 0) {
                close(reader);
                be_child(options, ends[1], shared, parent);
        }
        close(ends[1]);
        if (child < 0) {
                error_raise_errno(err, errno, "start a child process");
                worker_release(&result);
                return -1;
        }
        watch(&result, options, reader);
        worker_reap(&result, child);
        *ret = result;
        return 0;
}

void worker_release(struct worker_result *result)
{
        munmap(result->shared, result->shared_size);
        result->shared = NULL;
}
