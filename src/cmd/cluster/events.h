/* Events of one object, the oldest first. */
#pragma once

#include <jansson.h>

#include "cmd/cluster/session.h"

/* |namespace| NULL: of a Node. A new reference; NULL where they may not be read. */
json_t *events_of(struct session *session, const char *kind, const char *namespace, const char *name);
