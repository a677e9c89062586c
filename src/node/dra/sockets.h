/*
 * The socket files of this instance of the driver and of other instances: their names, whether a process listens, and
 * the removal of leftovers. node/dra/registration.h says what the two sockets are for.
 *
 *     <registry>/<driver>[-<instance>]-reg.sock            the first
 *     <plugins>/<driver>/dra[-<instance>].sock             the second
 *
 * An instance of more than DRA_SOCKETS_TAG_MAX characters, as a pod's UID, is a hash of that length there: paths have
 * 107 bytes at most, kubelet's root may be long, and kubelet dials them.
 *
 * An instance that ends while another one begins hands over to it: its second file becomes a symbolic link to the other
 * one's second socket, and its first file stays. So kubelet, which has registered the instance before, reaches the
 * instance after it until it has registered that one, too.
 *
 *     dra-a.sock ──► dra-b.sock
 *
 * It makes no sockets and knows nothing of what is said through them.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

#define DRA_SOCKETS_TAG_MAX ((size_t)8)
#define DRA_SOCKETS_STALE_S 10       /* a younger file without a listener may be of an instance that is starting */
#define DRA_SOCKETS_HANDED_OVER_S 60 /* kubelet knows the next instance after a second, and a call takes up to 45 s */

/* The files of one instance. |instance| NULL: it has no name of its own, and cannot hand over. Texts are copied. */
struct dra_sockets {
        char *driver;
        char *registry;
        char *directory; /* <plugins>/<driver> */
        char *first;
        char *second;
        bool has_instance;
};

void dra_sockets_init(
        struct dra_sockets *ret, const char *registry, const char *plugins, const char *driver, const char *instance);
void dra_sockets_done(struct dra_sockets *sockets);

/* <plugins>/<driver>, for the caller to free. */
char *dra_sockets_directory(const char *plugins, const char *driver);

/* Whether |name|, without its folder, is that of the first or second socket of an instance of |driver|. */
bool dra_sockets_is_first(const char *driver, const char *name);
bool dra_sockets_is_second(const char *driver, const char *name);

/*
 * Hands over to an instance whose second socket is newer than this one's and accepts connections. False: there is none.
 * The owner still has to end its connections.
 */
bool dra_sockets_hand_over(const struct dra_sockets *sockets);

/* Removes leftover files: sockets without a listener, and those of instances that handed over long ago. */
void dra_sockets_tidy(const struct dra_sockets *sockets);
