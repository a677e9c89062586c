/*
 * The first process of a container has two duties that no other has: it is the parent of every orphan, and signals for
 * which it has no handler do not reach it. When we are that process, another one does the work, and this one waits: it
 * buries what died, hands signals on, and ends as the other did.
 */
#pragma once

/* Returns in the process that is to do the work: at once where we are not the first one. */
void init_if_first(void);
