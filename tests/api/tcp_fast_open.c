/* A connect that is part of a send (MSG_FASTOPEN): by sendto, as wget2 does, by sendmsg, and without waiting. The
 * connection goes on as any other. */
#include "api.h"

#define KINDS 3
#define ROUNDS 100

static int opened(int kind, struct place place)
{
    struct sockaddr_in name = at(place.address, place.port);
    char text[] = "first";
    struct iovec piece = {text, 5};
    struct msghdr message = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &piece, .msg_iovlen = 1};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    if (kind == 0)
        CHECK(sendto(fd, text, 5, MSG_FASTOPEN, NAME(name)) == 5);
    if (kind == 1)
        CHECK(sendmsg(fd, &message, MSG_FASTOPEN) == 5);
    if (kind == 2) {
        set_nonblocking(fd);
        if (sendto(fd, text, 5, MSG_FASTOPEN, NAME(name)) != 5) {
            CHECK(errno == EINPROGRESS);
            CHECK(polled(fd, POLLOUT) & POLLOUT);
            CHECK(option(fd, SOL_SOCKET, SO_ERROR) == 0);
            send_all(fd, text, 5);
        }
        CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0);
    }
    return fd;
}

void client(struct place place)
{
    for (int kind = 0; kind < KINDS; kind++) {
        int fd = opened(kind, place);
        char text[6];
        recv_all(fd, text, 6);
        CHECK(memcmp(text, "second", 6) == 0);
        struct sockaddr_in peer;
        socklen_t length = sizeof peer;
        CHECK(getpeername(fd, (struct sockaddr *)&peer, &length) == 0);
        CHECK(ntohs(peer.sin_port) == place.port);
        pings(fd, ROUNDS);
        CHECK(close(fd) == 0);
    }
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    ready();
    for (int kind = 0; kind < KINDS; kind++) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        char text[5];
        recv_all(fd, text, 5);
        CHECK(memcmp(text, "first", 5) == 0);
        send_all(fd, "second", 6);
        answers(fd, ROUNDS);
        await_end(fd);
        CHECK(close(fd) == 0);
    }
}
