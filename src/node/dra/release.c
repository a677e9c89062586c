#include "node/dra/release.h"

#include "net/kube/version.h"

bool dra_release_forgets_shares(const char *git_version)
{
        struct kube_version version;

        if (!git_version || !kube_version_read(&version, git_version))
                return true;
        /* Where the mend was backported, a later minor release before its first patch need not have it. */
        return !kube_version_is_since(&version, 1, version.minor > 36 ? 37 : 36, version.minor > 36 ? 0 : 2);
}
