#include "base/io/reach.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/macro.h"

int reach_socket(const char *path)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct stat status;

        if (strlen(path) >= sizeof(address.sun_path))
                return ENAMETOOLONG;
        if (stat(path, &status) < 0)
                return errno;
        if (!S_ISSOCK(status.st_mode))
                return ENOTSOCK;
        memcpy(address.sun_path, path, strlen(path) + 1);
        if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
                return 0;
        return errno == EAGAIN ? 0 : errno; /* the listener's backlog is full */
}
