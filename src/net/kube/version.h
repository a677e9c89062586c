/*
 * The release of an API server, from `gitVersion` of /version: "v1.36.2", "v1.36.2+k3s1" (k3s), "v1.36.1-gke.100" (GKE),
 * "v1.37.0-rc.0". What vendors append says nothing; alpha, beta and rc come before the release that they name: 1.36.2-rc.0
 * is made as soon as 1.36.1 is out. Pure.
 */
#pragma once

#include <stdbool.h>

struct kube_version {
        unsigned int major;
        unsigned int minor;
        unsigned int patch;
        bool is_before; /* that release: an alpha, beta or rc of it */
};

/* False: it is none, or of a build without a release ("v0.0.0-master+8e16b12f"), and |ret| is zero. */
bool kube_version_read(struct kube_version *ret, const char *text);

bool kube_version_is_since(
        const struct kube_version *version, unsigned int major, unsigned int minor, unsigned int patch);
