/* Logs an error that may occur again and again: each new text once, and its repetitions at level debug. */
#pragma once

#include "base/error.h"

/* Zeroed at first. */
struct complaint {
        char text[sizeof(((struct error *)0)->text)];
};

void complain(struct complaint *complaint, const char *what, const struct error *err);
static inline void complaint_settle(struct complaint *complaint)
{
        complaint->text[0] = '\0';
}
