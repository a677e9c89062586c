#include "base/io/signals.h"

#include <signal.h>

static const int numbers[] = {SIGHUP, SIGTERM, SIGINT, SIGQUIT};

static void signals_mask(int how)
{
        sigset_t set;

        sigemptyset(&set);
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
                sigaddset(&set, numbers[i]);
        sigprocmask(how, &set, NULL);
}

void signals_hold(void)
{
        signals_mask(SIG_BLOCK);
}

void signals_release(void)
{
        signals_mask(SIG_UNBLOCK);
}

int signals_listen(struct signals *signals, uv_loop_t *loop, uv_signal_cb on_signal, void *data, struct error *err)
{
        for (signals->count = 0; signals->count < ARRAY_SIZE(numbers);) {
                const int number = numbers[signals->count];
                uv_signal_t *handle = &signals->handles[signals->count];
                int rc = uv_signal_init(loop, handle);

                if (rc == 0) {
                        signals->count++;
                        handle->data = data;
                        rc = uv_signal_start(handle, on_signal, number);
                }
                if (rc < 0)
                        return error_errno(err, -rc, "listen to signal %d", number);
        }
        signals_release();
        return 0;
}

void signals_close(struct signals *signals)
{
        for (size_t i = 0; i < signals->count; i++)
                uv_close((uv_handle_t *)&signals->handles[i], NULL);
        signals->count = 0;
}
