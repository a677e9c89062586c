// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static enum error_kind kind_of_errno(int errnum)
{
        switch (errnum) {
        case ENOENT:
        case ENODEV:
        case ESRCH:
                return ERROR_NOT_FOUND;
        case EACCES:
        case EPERM:
        case EROFS:
                return ERROR_DENIED;
        case EINVAL:
        case ENAMETOOLONG:
        case ENOTDIR:
        case EISDIR:
                return ERROR_INVALID;
        case ETIMEDOUT:
                return ERROR_TIMEOUT;
        case EMFILE:
        case ENFILE:
        case ENOMEM:
                return ERROR_EXHAUSTED;
        case ENOTSUP:
        case ENOSYS:
                return ERROR_UNSUPPORTED;
        default:
                return ERROR_UNAVAILABLE;
        }
}

void error_raise(struct error *err, enum error_kind kind, const char *format, ...)
{
        va_list args;

        err->kind = kind;
        va_start(args, format);
        vsnprintf(err->text, sizeof(err->text), format, args);
        va_end(args);
        text_clean(err->text);
}

void error_raise_errno(struct error *err, int errnum, const char *format, ...)
{
        char what[sizeof(err->text)];
        char reason[128];
        va_list args;

        va_start(args, format);
        vsnprintf(what, sizeof(what), format, args);
        va_end(args);
        error_raise(err, kind_of_errno(errnum), "%s: %s", what, strerror_r(errnum, reason, sizeof(reason)));
}

void error_raise_prefix(struct error *err, const char *format, ...)
{
        char what[sizeof(err->text)];
        char where[sizeof(err->text)];
        va_list args;

        va_start(args, format);
        vsnprintf(where, sizeof(where), format, args);
        va_end(args);
        memcpy(what, err->text, sizeof(what));
        error_raise(err, err->kind, "%s: %s", where, what);
}

const char *error_kind_name(enum error_kind kind)
{
        static const char *const names[] = {
                [ERROR_NONE] = "none",
                [ERROR_INVALID] = "invalid",
                [ERROR_NOT_FOUND] = "not found",
                [ERROR_UNAVAILABLE] = "unavailable",
                [ERROR_EXHAUSTED] = "exhausted",
                [ERROR_DENIED] = "denied",
                [ERROR_TIMEOUT] = "timeout",
                [ERROR_UNSUPPORTED] = "unsupported",
                [ERROR_INTERNAL] = "internal",
        };

        return names[kind];
}
