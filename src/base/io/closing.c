#include "base/io/closing.h"

#include <assert.h>

static void on_handle_closed(uv_handle_t *handle)
{
        closing_release(handle->data);
}

void closing_close(struct closing *closing, void *handle)
{
        uv_handle_t *base = handle;

        base->data = closing_hold(closing);
        uv_close(base, on_handle_closed);
}

struct closing *closing_hold(struct closing *closing)
{
        closing->n_open++;
        return closing;
}

void closing_release(void *data)
{
        struct closing *closing = data;

        assert(closing->n_open > 0);
        if (--closing->n_open == 0 && closing->closed)
                closing->closed(closing->data);
}

void closing_end(struct closing *closing, void (*closed)(void *data), void *data)
{
        closing->closed = closed;
        closing->data = data;
        closing_release(closing_hold(closing));
}
