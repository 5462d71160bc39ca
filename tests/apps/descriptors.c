/* Making, duplicating, passing and closing descriptors around sockets. */
#include "check.h"
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

static void duplicates(int pair[2])
{
    int copy = dup(pair[0]);
    CHECK(copy >= 0 && passes(copy, pair[1]));
    CHECK(dup2(pair[0], pair[0]) == pair[0]);
    CHECK(dup3(pair[0], pair[0], 0) == -1 && errno == EINVAL);
    CHECK(dup2(copy, 200) == 200 && passes(pair[1], 200));
    CHECK(dup3(copy, 201, O_CLOEXEC) == 201 && fcntl(201, F_GETFD) == FD_CLOEXEC);
    CHECK(close(copy) == 0 && close(200) == 0 && close(201) == 0);
    CHECK(passes(pair[0], pair[1]));
    CHECK(dup(-1) == -1 && errno == EBADF);
    CHECK(dup2(-1, -1) == -1 && errno == EBADF);
    CHECK(close(copy) == -1 && errno == EBADF);
}

/* A socket's number comes back as something else. */
static void recycling(void)
{
    int pair[2], pipes[2];
    char bytes[4];
    tcp_pair(pair);
    int low = pair[0] < pair[1] ? pair[0] : pair[1];
    CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
    CHECK(pipe2(pipes, O_CLOEXEC) == 0 && pipes[0] <= low);
    CHECK(write(pipes[1], "pipe", 4) == 4 && read(pipes[0], bytes, 4) == 4 && memcmp(bytes, "pipe", 4) == 0);
    CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
    uint64_t count = 5;
    int event = eventfd(0, 0);
    CHECK(write(event, &count, 8) == 8 && read(event, &count, 8) == 8 && count == 5 && close(event) == 0);
}

/* A socket travels over a Unix socket and arrives under another number. */
static void passing(int pair[2])
{
    int unix_pair[2];
    char byte = 'p', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, unix_pair) == 0);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(header), &pair[0], sizeof(int));
    CHECK(sendmsg(unix_pair[0], &message, 0) == 1);
    CHECK(recvmsg(unix_pair[1], &message, MSG_CMSG_CLOEXEC) == 1);
    int arrived;
    memcpy(&arrived, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    CHECK(arrived != pair[0] && passes(arrived, pair[1]) && close(arrived) == 0);
    CHECK(close(unix_pair[0]) == 0 && close(unix_pair[1]) == 0);
}

static void copies(int pair[2])
{
    char bytes[16];
    struct iovec pieces[2] = {{bytes, 3}, {bytes + 3, 5}};
    int file = memfd_create("file", 0);
    CHECK(write(file, "0123456789", 10) == 10);
    off_t offset = 2;
    CHECK(sendfile(pair[0], file, &offset, 8) == 8 && offset == 10);
    CHECK(recv(pair[1], bytes, 8, MSG_WAITALL) == 8 && memcmp(bytes, "23456789", 8) == 0);
    CHECK(writev(pair[0], pieces, 2) == 8 && readv(pair[1], pieces, 2) == 8);
    CHECK(pwritev2(pair[0], pieces, 2, -1, 0) == 8 && preadv2(pair[1], pieces, 2, -1, 0) == 8);
    CHECK(preadv(pair[1], pieces, 2, 0) == -1 && errno == ESPIPE);
    CHECK(pread(pair[1], bytes, 1, 0) == -1 && errno == ESPIPE);
    CHECK(read(pair[1], bytes, 0) == 0);
    CHECK(write(pair[0], bytes, 0) == 0);
    CHECK(close(file) == 0);
}

static void closing(int pair[2])
{
    int above[2];
    tcp_pair(above);
    CHECK(dup2(above[0], 300) == 300 && dup2(above[1], 301) == 301);
    CHECK(close_range(300, 300, CLOSE_RANGE_CLOEXEC) == 0 && fcntl(300, F_GETFD) == FD_CLOEXEC);
    CHECK(passes(300, 301));
    CHECK(close_range(300, 301, 0) == 0 && send(300, "x", 1, 0) == -1 && errno == EBADF);
    CHECK(close_range(5, 4, 0) == -1 && errno == EINVAL);
    CHECK(passes(above[0], above[1]));
    int first = (above[0] < above[1] ? above[0] : above[1]);
    closefrom(first > pair[1] && first > pair[0] ? first : 250);
    CHECK(passes(pair[0], pair[1]));
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    int again[2];
    tcp_pair(again);
    CHECK(passes(again[0], again[1]));
}

int main(void)
{
    int pair[2];
    tcp_pair(pair);
    duplicates(pair);
    recycling();
    passing(pair);
    copies(pair);
    closing(pair);
    return 0;
}
