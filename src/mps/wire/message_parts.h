/*
 * Private to mps/wire/message*.c: the parts of messages that have many members.
 */
#pragma once

#include "mps/wire/message_json.h"
#include "mps/wire/status.h"
#include "share/mps_wanted.h"

/* The largest number of daemons of a node, of units of a daemon, and of clients and servers of a daemon. */
#define MESSAGE_DAEMONS_MAX ((size_t)1024)
#define MESSAGE_UNITS_MAX ((size_t)1024)
#define MESSAGE_CLIENTS_MAX ((size_t)65536)
#define MESSAGE_SERVERS_MAX ((size_t)4096)

json_t *message_of_wanted(const struct mps_wanted *wanted);
void message_to_wanted(struct message_in *in, const json_t *object, struct mps_wanted *ret);

json_t *message_of_status(const struct mps_status *status);
/* Reads into |status->arena|, which is |in->arena|. */
void message_to_status(struct message_in *in, const json_t *object, struct mps_status *status);

const char *message_tier(unsigned int position);
#define MESSAGE_TIERS 4U
