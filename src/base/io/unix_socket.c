// SPDX-License-Identifier: Apache-2.0
#include "base/io/unix_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"

int unix_socket_address(struct sockaddr_un *ret, const char *path, struct error *err)
{
        const size_t most = sizeof(ret->sun_path) - 1;

        if (path[0] == '\0')
                return error_set(err, ERROR_INVALID, "the path of the socket is empty");
        if (strlen(path) > most)
                return error_set(err, ERROR_INVALID, "socket '%s': the path has %zu bytes, at most %zu are possible",
                        path, strlen(path), most);
        *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
        memcpy(ret->sun_path, path, strlen(path));
        return 0;
}

/* bind() gives the mode of the descriptor to the file. */
int unix_socket_bind(int *ret_fd, const char *path, mode_t mode, struct error *err)
{
        struct sockaddr_un address;
        _close_ int fd = -1;

        if (unix_socket_address(&address, path, err) < 0)
                return -1;
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return error_errno(err, errno, "make a socket");
        if (mode && fchmod(fd, mode) < 0)
                return error_errno(err, errno, "set the mode of a socket");
        if (unlink(path) < 0 && errno != ENOENT)
                return error_errno(err, errno, "remove what is at '%s'", path);
        if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                return error_errno(err, errno, "bind '%s'", path);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* ---- reach ---- */

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
