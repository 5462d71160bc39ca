/* getsockname and getpeername before bind, after it, and when connected; names are cut to the caller's buffer. */
#include "api.h"

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    await_end(fd);
}

void client(struct place place)
{
    struct sockaddr_in name, to = at(place.address, place.port), any = {.sin_family = AF_INET};
    socklen_t length = sizeof name;
    for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
        int fd = socket(AF_INET, type, 0);
        CHECK(fd >= 0);
        length = sizeof name;
        CHECK(getsockname(fd, (struct sockaddr *)&name, &length) == 0);
        CHECK(length == sizeof name && name.sin_family == AF_INET && name.sin_port == 0);
        CHECK(name.sin_addr.s_addr == INADDR_ANY);
        CHECK_ERRNO(getpeername(fd, (struct sockaddr *)&name, &length), ENOTCONN);
        CHECK(bind(fd, NAME(any)) == 0);
        CHECK(getsockname(fd, (struct sockaddr *)&name, &length) == 0 && name.sin_port != 0);
        in_port_t port = name.sin_port;
        CHECK(connect(fd, NAME(to)) == 0);
        CHECK(getsockname(fd, (struct sockaddr *)&name, &length) == 0);
        CHECK(name.sin_port == port && name.sin_addr.s_addr == at(place.client, 0).sin_addr.s_addr);
        CHECK(getpeername(fd, (struct sockaddr *)&name, &length) == 0);
        CHECK(name.sin_port == to.sin_port && name.sin_addr.s_addr == to.sin_addr.s_addr);
        memset(&name, 0xee, sizeof name);
        length = 4;
        CHECK(getpeername(fd, (struct sockaddr *)&name, &length) == 0);
        CHECK(length == sizeof name && name.sin_port == to.sin_port && name.sin_addr.s_addr == 0xeeeeeeee);
        CHECK(option(fd, SOL_SOCKET, SO_TYPE) == type);
        CHECK(option(fd, SOL_SOCKET, SO_DOMAIN) == AF_INET);
        CHECK(option(fd, SOL_SOCKET, SO_PROTOCOL) == (type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP));
    }
}
