/* accept and accept4: addresses, flags, what is inherited, and a listener that does not wait. */
#include "api.h"

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    struct sockaddr_in peer, name;
    socklen_t length = sizeof peer;
    CHECK(option(listener, SOL_SOCKET, SO_ACCEPTCONN) == 1);
    set_nonblocking(listener);
    CHECK_ERRNO(accept(listener, NULL, NULL), EAGAIN);
    ready();

    CHECK(polled(listener, POLLIN) == POLLIN);
    int first = accept(listener, (struct sockaddr *)&peer, &length);
    CHECK(first >= 0 && length == sizeof peer);
    CHECK(peer.sin_family == AF_INET && peer.sin_addr.s_addr == at(place.client, 0).sin_addr.s_addr);
    CHECK((fcntl(first, F_GETFL) & O_NONBLOCK) == 0);
    CHECK((fcntl(first, F_GETFD) & FD_CLOEXEC) == 0);
    CHECK(option(first, SOL_SOCKET, SO_ACCEPTCONN) == 0);
    length = sizeof name;
    CHECK(getsockname(first, (struct sockaddr *)&name, &length) == 0);
    CHECK(name.sin_port == htons((unsigned short)place.port));
    CHECK(name.sin_addr.s_addr == at(place.address, 0).sin_addr.s_addr);
    tell(first);

    CHECK(polled(listener, POLLIN) == POLLIN);
    int second = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK(second >= 0 && second != first);
    CHECK((fcntl(second, F_GETFL) & O_NONBLOCK) != 0);
    CHECK((fcntl(second, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK_ERRNO(accept4(listener, NULL, NULL, 0x40000000), EINVAL);
    tell(second);
    await_end(first);
    CHECK(close(listener) == 0);
}

void client(struct place place)
{
    int first = tcp_connected(place.address, place.port);
    await(first);
    int second = tcp_connected(place.address, place.port);
    await(second);
}
