#include "io/signals.h"

#include <signal.h>

static void change(int how)
{
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, SIGHUP);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGQUIT);
        sigprocmask(how, &set, NULL);
}

void signals_hold(void)
{
        change(SIG_BLOCK);
}

void signals_release(void)
{
        change(SIG_UNBLOCK);
}
