/*
 * An error that comes again and again: logged once for each text, and at level debug when it repeats.
 */
#pragma once

#include "base/error.h"

/* Zero at first. */
struct complaint {
        char text[sizeof(((struct error *)0)->text)];
};

void complain(struct complaint *complaint, const char *what, const struct error *err);
static inline void complaint_settle(struct complaint *complaint)
{
        complaint->text[0] = '\0';
}
