/* MSG_PEEK leaves the bytes, MSG_WAITALL gathers all of them, FIONREAD counts them, MSG_TRUNC throws them away. */
#include "api.h"

void server(struct place place)
{
    char text[16];
    int bytes = -1, fd = tcp_serve_one(place);
    CHECK(recv(fd, text, 5, MSG_PEEK | MSG_WAITALL) == 5);
    CHECK(recv(fd, text, 2, MSG_PEEK) == 2 && memcmp(text, "01", 2) == 0);
    CHECK(ioctl(fd, FIONREAD, &bytes) == 0 && bytes == 5);
    tell(fd); /* the rest comes in two pieces after this */
    CHECK(recv(fd, text, 10, MSG_WAITALL) == 10);
    CHECK(memcmp(text, "0123456789", 10) == 0);
    CHECK(recv(fd, NULL, 3, MSG_TRUNC | MSG_WAITALL) == 3);
    CHECK(recv(fd, text, 16, MSG_WAITALL) == 2); /* the stream ends before 16 */
    CHECK(memcmp(text, "de", 2) == 0);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    send_all(fd, "01234", 5);
    await(fd);
    send_all(fd, "567", 3);
    usleep(30000);
    send_all(fd, "89abcde", 7);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    await_end(fd);
}
