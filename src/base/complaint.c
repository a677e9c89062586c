#include "base/complaint.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

void complain(struct complaint *complaint, const char *what, const struct error *err)
{
        enum log_level level = strcmp(complaint->text, err->text) == 0 ? LOG_DEBUG : LOG_ERROR;

        snprintf(complaint->text, sizeof(complaint->text), "%s", err->text);
        LOG_AT(level, what, LOG_ERR(err));
}
