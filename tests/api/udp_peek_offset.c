/* SO_PEEK_OFF on datagrams: MSG_PEEK goes on within a datagram and then with the next, what is read moves its place
 * back. */
#include "api.h"

static char text[16];
static int flags_of_last;

static int place_of(int fd)
{
    return option(fd, SOL_SOCKET, SO_PEEK_OFF);
}

static void set(int fd, int place)
{
    CHECK(setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &place, sizeof place) == 0);
}

static ssize_t look(int fd, size_t room, int flags)
{
    struct iovec piece = {text, room};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    memset(text, '.', sizeof text);
    ssize_t got = recvmsg(fd, &message, MSG_PEEK | flags);
    flags_of_last = message.msg_flags & MSG_TRUNC;
    return got;
}

#define SHOWN(bytes, truncated) (memcmp(text, bytes, strlen(bytes)) == 0 && flags_of_last == ((truncated) ? MSG_TRUNC : 0))

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port);
    ready();
    CHECK(place_of(fd) == -1);
    /* "0123456789", "abc", "", "xy", and then a last one to know that all are there. */
    struct pollfd one = {.fd = fd, .events = POLLIN};
    CHECK(poll(&one, 1, PATIENCE_MS) == 1);
    usleep(100000);
    CHECK(look(fd, 4, 0) == 4 && SHOWN("0123", 1));
    CHECK(look(fd, 4, 0) == 4 && SHOWN("0123", 1));
    set(fd, 0);
    CHECK(look(fd, 4, 0) == 4 && SHOWN("0123", 1) && place_of(fd) == 4);
    CHECK(look(fd, 3, 0) == 3 && SHOWN("456", 1) && place_of(fd) == 7);
    CHECK(look(fd, 3, 0) == 3 && SHOWN("789", 1) && place_of(fd) == 10);
    CHECK(look(fd, 8, 0) == 3 && SHOWN("abc", 0) && place_of(fd) == 13);
    /* The empty one is shown once. */
    CHECK(look(fd, 8, 0) == 0 && place_of(fd) == 13);
    CHECK(look(fd, 8, 0) == 2 && SHOWN("xy", 0) && place_of(fd) == 15);
    CHECK_ERRNO(look(fd, 8, MSG_DONTWAIT), EAGAIN);
    CHECK(polled(fd, POLLIN) == POLLIN);
    set(fd, 2);
    CHECK(look(fd, 16, 0) == 8 && SHOWN("23456789", 0) && place_of(fd) == 10);
    /* Whoever asks for the length is told the whole, and moves by it. */
    set(fd, 2);
    CHECK(look(fd, 1, MSG_TRUNC) == 10 && SHOWN("2", 1) && place_of(fd) == 12);
    CHECK(look(fd, 8, 0) == 1 && SHOWN("c", 0) && place_of(fd) == 13);
    CHECK(recv(fd, text, 4, 0) == 4 && memcmp(text, "0123", 4) == 0);
    CHECK(place_of(fd) == 9);
    set(fd, 1);
    CHECK(look(fd, 8, 0) == 2 && SHOWN("bc", 0) && place_of(fd) == 3);
    CHECK(recv(fd, text, 8, 0) == 3 && place_of(fd) == 0);
    CHECK(recv(fd, text, 8, 0) == 0 && place_of(fd) == 0);
    CHECK(look(fd, 8, 0) == 2 && place_of(fd) == 2);
    /* Waits for what it did not show. */
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    CHECK(recvfrom(fd, text, 1, MSG_PEEK | MSG_DONTWAIT, NULL, NULL) == -1 && errno == EAGAIN);
    set(fd, -1);
    CHECK(recvfrom(fd, text, 1, MSG_PEEK, (struct sockaddr *)&peer, &length) == 1);
    set(fd, 2);
    CHECK(sendto(fd, "!", 1, 0, NAME(peer)) == 1);
    CHECK(look(fd, 8, 0) == 4 && SHOWN("last", 0) && place_of(fd) == 6);
    CHECK(recv(fd, text, 8, 0) == 2 && recv(fd, text, 8, 0) == 4 && place_of(fd) == 0);
}

void client(struct place place)
{
    int fd = udp_connected(place.address, place.port);
    CHECK(send(fd, "0123456789", 10, 0) == 10);
    CHECK(send(fd, "abc", 3, 0) == 3);
    CHECK(send(fd, "", 0, 0) == 0);
    CHECK(send(fd, "xy", 2, 0) == 2);
    await(fd);
    CHECK(send(fd, "last", 4, 0) == 4);
}
