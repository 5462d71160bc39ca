/* sendmsg, writev, recvmsg, readv on a stream: pieces join and split; the name of a peer is not filled in. */
#include "api.h"

#define ROUNDS 500

void server(struct place place)
{
    char one[4], two[6];
    struct iovec parts[2] = {{one, sizeof one}, {two, sizeof two}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    int fd = tcp_serve_one(place);
    CHECK(recvmsg(fd, &message, MSG_WAITALL) == 10);
    CHECK(memcmp(one, "0123", 4) == 0 && memcmp(two, "456789", 6) == 0);
    CHECK(message.msg_controllen == 0 && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0);
    /* Small pieces of one call come together, also to a reader that is waiting. */
    for (int i = 0; i < ROUNDS; i++) {
        tell(fd);
        CHECK(recv(fd, two, sizeof two, 0) == 3 && memcmp(two, "xyz", 3) == 0);
    }
    tell(fd);
    ssize_t count = readv(fd, parts, 2);
    CHECK(count > 0 && one[0] == 'a');
    await_end(fd);
}

void client(struct place place)
{
    struct iovec parts[3] = {{"01", 2}, {"2345678", 7}, {"9", 1}}, more[2] = {{"a", 1}, {"b", 1}};
    struct iovec pieces[2] = {{"x", 1}, {"yz", 2}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    int fd = tcp_connected(place.address, place.port);
    CHECK(sendmsg(fd, &message, MSG_NOSIGNAL) == 10);
    for (int i = 0; i < ROUNDS; i++) {
        await(fd);
        CHECK(writev(fd, pieces, 2) == 3);
    }
    await(fd);
    CHECK(writev(fd, more, 2) == 2);
}
