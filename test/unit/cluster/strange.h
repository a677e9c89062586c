// SPDX-License-Identifier: Apache-2.0
/*
 * Objects of the API of which a few fields are strange: of another type, of a value that nobody expects, missing, or
 * there twice. And everything of ours that reads them.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "chance.h"

enum strange_kind { STRANGE_POD, STRANGE_NODE, STRANGE_CLAIM, STRANGE_SLICE, STRANGE_KINDS };

/* Anything that JSON has, with members down to |depth|. */
json_t *strange_value(struct chance *chance, unsigned int depth);

/* Its metadata is right: the name, in namespace "team" where the kind has one, and the resourceVersion. */
json_t *strange_object(struct chance *chance, enum strange_kind kind, const char *name, uint64_t version);

/* Fails the test where it is read as what cannot be. |of_node|: the node that pods are explained with, or NULL. */
void strange_read(struct chance *chance, enum strange_kind kind, const json_t *object, const json_t *of_node);
