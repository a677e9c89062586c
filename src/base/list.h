// SPDX-License-Identifier: Apache-2.0
/*
 * An intrusive doubly linked list. The link is embedded in the element; container_of() gives the element.
 *
 * LIST_FOR_EACH is only for loops in which no element can be removed. If a callback may remove elements, process the
 * head until the list is empty.
 */
#pragma once

#include <stdbool.h>

#include "base/macro.h"

struct list {
        struct list *next;
        struct list *previous;
};

#define LIST_INIT(list)                                                                                                \
        {                                                                                                              \
                .next = &(list), .previous = &(list)                                                                   \
        }

static inline void list_init(struct list *list)
{
        list->next = list->previous = list;
}

static inline bool list_is_empty(const struct list *list)
{
        return list->next == list;
}

static inline void list_append(struct list *list, struct list *link)
{
        link->previous = list->previous;
        link->next = list;
        list->previous->next = link;
        list->previous = link;
}

/* Safe to call again on a link that was removed. */
static inline void list_remove(struct list *link)
{
        link->previous->next = link->next;
        link->next->previous = link->previous;
        list_init(link);
}

#define LIST_FOR_EACH(element, head)                                                                                   \
        for (struct list *element = (head)->next; element != (head); element = element->next)
