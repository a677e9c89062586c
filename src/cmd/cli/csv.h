/* Comma-separated values (RFC 4180), for the commands that print them. Pure. */
#pragma once

#include "base/strbuf.h"

/* A cell, quoted where it has to be, and |end| after it: ',' or '\n'. NULL: an empty one. */
void csv_put(struct strbuf *text, const char *cell, char end);
/* A cell with a number, in full precision; NaN: an empty one. */
void csv_put_number(struct strbuf *text, double number, char end);
