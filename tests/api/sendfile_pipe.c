/* sendfile(2) of a connection into a pipe is a splice, into another connection it is refused; preadv2(2) and pwritev2(2)
   take flags that mean something to files only. */
#include "api.h"
#include <sys/sendfile.h>
#include <sys/uio.h>

enum { ROUNDS = 40 };

void server(struct place place)
{
    int fd = tcp_serve_one(place), pipes[2];
    CHECK(pipe(pipes) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        char bytes[8] = {0};
        struct iovec part = {.iov_base = bytes, .iov_len = 4};
        off_t offset = 0;
        CHECK(sendfile(pipes[1], fd, NULL, 4) == 4);
        CHECK(read(pipes[0], bytes, 8) == 4);
        CHECK(memcmp(bytes, "abcd", 4) == 0);
        CHECK_ERRNO(sendfile(pipes[1], fd, &offset, 4), ESPIPE);
        CHECK(preadv2(fd, &part, 1, -1, RWF_HIPRI | RWF_DSYNC | RWF_SYNC) == 4);
        CHECK(memcmp(bytes, "efgh", 4) == 0);
        part.iov_len = 2;
        CHECK(pwritev2(fd, &part, 1, -1, RWF_DSYNC) == 2);
        CHECK_ERRNO(preadv2(fd, &part, 1, -1, RWF_HIPRI | RWF_NOWAIT), EAGAIN);
        CHECK_ERRNO(preadv2(fd, &part, 1, 0, 0), ESPIPE);
        CHECK_ERRNO(sendfile(fd, fd, NULL, 4), EINVAL);
        CHECK(send(fd, "!!", 2, 0) == 2);
    }
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    for (int i = 0; i < ROUNDS; i++) {
        char bytes[4];
        CHECK(send(fd, "abcdefgh", 8, 0) == 8);
        recv_all(fd, bytes, 4);
        CHECK(memcmp(bytes, "ef!!", 4) == 0);
    }
}
