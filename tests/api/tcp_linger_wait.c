/* close with SO_LINGER waits until the peer has acknowledged everything, and not for the peer's own end. */
#include "api.h"

void server(struct place place)
{
    static char data[300000];
    int fd = tcp_serve_one(place);
    tell(fd);
    recv_all(fd, data, sizeof data);
    await_end(fd);
    /* By another connection, as the first one stays open here. */
    int other = tcp_connected(place.client, place.port + 1);
    await(other);
    CHECK(close(fd) == 0);
    await_end(other);
}

void client(struct place place)
{
    static char data[300000];
    struct linger linger = {.l_onoff = 1, .l_linger = 600};
    int listener = tcp_listening(place.client, place.port + 1);
    int fd = tcp_connected(place.address, place.port);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    await(fd);
    send_all(fd, data, sizeof data);
    CHECK(close(fd) == 0);
    int other = accept(listener, NULL, NULL);
    CHECK(other >= 0);
    tell(other);
    CHECK(close(other) == 0);
}
