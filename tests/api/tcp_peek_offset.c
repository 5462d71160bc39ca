/* SO_PEEK_OFF on connections: MSG_PEEK goes on where it ended, what is read moves its place back, and accepted sockets
 * have it from their listener. Without it MSG_PEEK shows the beginning. */
#include "api.h"

static char text[16];

static void set(int fd, int place)
{
    CHECK(setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &place, sizeof place) == 0);
}

static int place_of(int fd)
{
    return option(fd, SOL_SOCKET, SO_PEEK_OFF);
}

static void shows(int fd, int flags, const char *bytes)
{
    ssize_t length = (ssize_t)strlen(bytes);
    CHECK(recv(fd, text, 4, MSG_PEEK | flags) == length && memcmp(text, bytes, (size_t)length) == 0);
}

static void walk(int fd)
{
    CHECK(place_of(fd) == -1);
    shows(fd, 0, "0123");
    shows(fd, 0, "0123");
    CHECK(place_of(fd) == -1);
    set(fd, 0);
    shows(fd, 0, "0123");
    shows(fd, 0, "4567");
    CHECK(place_of(fd) == 8);
    shows(fd, 0, "89");
    CHECK_ERRNO(recv(fd, text, 4, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
    /* poll knows nothing of it */
    CHECK(polled(fd, POLLIN) == POLLIN);
    CHECK(recv(fd, text, 3, 0) == 3 && memcmp(text, "012", 3) == 0);
    CHECK(place_of(fd) == 7);
    CHECK(read(fd, text, 1) == 1 && text[0] == '3' && place_of(fd) == 6);
    set(fd, 1);
    shows(fd, 0, "5678");
    CHECK(place_of(fd) == 5);
    /* Behind what was read there is nothing to move back to. */
    CHECK(recv(fd, NULL, 6, MSG_TRUNC) == 6 && place_of(fd) == 0);
    /* Looked at without a copy: how much there is. */
    tell(fd);
    CHECK(polled(fd, POLLIN) == POLLIN);
    usleep(50000);
    CHECK(recv(fd, NULL, 100, MSG_PEEK | MSG_TRUNC) == 4 && place_of(fd) == 4);
    /* Waits for what it did not show yet, all of it if asked to. */
    tell(fd);
    CHECK(recv(fd, text, 4, MSG_PEEK | MSG_WAITALL) == 4 && memcmp(text, "efgh", 4) == 0);
    CHECK(place_of(fd) == 8);
    struct iovec pieces[2] = {{text, 1}, {text + 1, 1}};
    CHECK(readv(fd, pieces, 2) == 2 && place_of(fd) == 6);
    struct timeval little = {.tv_usec = 20000};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &little, sizeof little) == 0);
    CHECK_ERRNO(recv(fd, text, 4, MSG_PEEK), EAGAIN);
    /* Off: the beginning again. */
    set(fd, -1);
    shows(fd, 0, "cdef");
    CHECK(place_of(fd) == -1);
    set(fd, 2);
    CHECK(recv(fd, text, 0, MSG_PEEK) == 0 && place_of(fd) == 2);
}

static void urgent(int fd)
{
    /* "ab", urgent "c", "de": it stops before the urgent byte, and then passes it over. */
    set(fd, 0);
    tell(fd);
    CHECK(recv(fd, text, 2, MSG_WAITALL) == 2 && place_of(fd) == 0);
    CHECK(polled(fd, POLLPRI) == POLLPRI);
    usleep(50000);
    CHECK(recv(fd, text, 1, MSG_PEEK) == 1 && text[0] == 'a');
    CHECK(recv(fd, text, 4, MSG_PEEK) == 1 && text[0] == 'b' && place_of(fd) == 2);
    CHECK(recv(fd, text, 1, MSG_OOB) == 1 && text[0] == 'c' && place_of(fd) == 2);
    CHECK(recv(fd, text, 4, MSG_PEEK) == 2 && memcmp(text, "de", 2) == 0);
    CHECK(place_of(fd) == 4);
    CHECK(recv(fd, text, 4, 0) == 2 && recv(fd, text, 4, 0) == 2 && place_of(fd) == 0);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    CHECK(place_of(listener) == -1);
    ready();
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    CHECK(recv(fd, text, 10, MSG_PEEK | MSG_WAITALL) == 10);
    walk(fd);
    CHECK(recv(fd, text, 6, 0) == 6);
    set(fd, -1);
    urgent(fd);
    /* The end is shown, wherever one looks. */
    set(fd, 100);
    tell(fd);
    CHECK(recv(fd, text, 4, MSG_PEEK) == 0 && place_of(fd) == 100);
    CHECK(recv(fd, text, 4, 0) == 2 && recv(fd, text, 4, 0) == 0);
    CHECK(place_of(fd) == 98);
    set(listener, 3);
    close(fd);
    fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    CHECK(place_of(fd) == 3);
    CHECK(polled(fd, POLLIN) == POLLIN);
    CHECK(recv(fd, text, 2, MSG_PEEK) == 2 && memcmp(text, "34", 2) == 0);
    CHECK(place_of(fd) == 5 && place_of(listener) == 3);
    recv_all(fd, text, 5);
    tell(fd);
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    send_all(fd, "0123456789", 10);
    await(fd);
    send_all(fd, "abcd", 4);
    await(fd);
    send_all(fd, "ef", 2);
    usleep(30000);
    send_all(fd, "gh", 2);
    await(fd);
    send_all(fd, "##ab", 4);
    CHECK(send(fd, "c", 1, MSG_OOB) == 1);
    send_all(fd, "de", 2);
    await(fd);
    send_all(fd, "yz", 2);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    await_end(fd);
    close(fd);
    fd = tcp_connected(place.address, place.port);
    send_all(fd, "01234", 5);
    await(fd);
}
