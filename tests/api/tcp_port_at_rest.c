/* A port that the program chose is used again at once while its connection to the same peer rests (TIME-WAIT). */
#include "api.h"

enum { ROUNDS = 5 };

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    ready();
    for (int i = 0; i < ROUNDS; i++) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        await(fd);
        tell(fd);
        await_end(fd);
        CHECK(close(fd) == 0);
    }
}

void client(struct place place)
{
    struct sockaddr_in own = at(place.client, 0), peer = at(place.address, place.port);
    for (int i = 0; i < ROUNDS; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
        socklen_t length = sizeof own;
        CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
        CHECK(bind(fd, NAME(own)) == 0);
        CHECK(getsockname(fd, (struct sockaddr *)&own, &length) == 0);
        CHECK(connect(fd, NAME(peer)) == 0);
        tell(fd);
        await(fd);
        CHECK(close(fd) == 0); /* the first to close: the rest is here */
        usleep(20000); /* its FIN has been answered, too */
    }
}
