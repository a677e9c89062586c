/*
 * Tables (base/data/json_fields.h) of the structs that stand in messages (mps/wire/message.c), in the supervisor's
 * record and in what is printed: which member is which field, and which texts a field may have.
 */
#pragma once

#include "base/data/json_fields.h"
#include "mps/wire/status.h"
#include "plan/mps_wanted.h"

/* The largest number of daemons of a node, of units of a daemon, and of clients and servers of a daemon. */
#define MESSAGE_DAEMONS_MAX ((size_t)1024)
#define MESSAGE_UNITS_MAX ((size_t)1024)
#define MESSAGE_CLIENTS_MAX ((size_t)65536)
#define MESSAGE_SERVERS_MAX ((size_t)4096)

/*
 * Texts: any has no control characters of ASCII, and is cleaned where it is written and read (base/text.h), since some
 * comes from tenants; a path is relative, of letters, digits, '.', '-', '_', without "." and ".." in it; a uuid, of
 * letters, digits, '-' and '/', goes into commands and variables as one word; an allocation is [a-z0-9_]{1,64}.
 */
extern const struct json_text message_any, message_path, message_uuid, message_allocation;

extern const struct json_shape message_daemon; /* struct mps_daemon_wanted */
extern const struct json_shape message_holder; /* struct mps_holder */
extern const struct json_shape message_status; /* struct mps_status; message_put_status() writes it */
void message_put_status(json_t *object, const struct mps_status *status);

const char *message_tier(unsigned int position);
#define MESSAGE_TIERS 4U
