/* exec(2) with a listener whose queue holds a connection: the new program accepts it. */
#include "api.h"

void server(struct place place)
{
    char program[256] = {0}, port[16], word[16];
    int listener = getenv("LISTENER") != NULL ? atoi(getenv("LISTENER")) : -1;
    if (listener < 0) {
        listener = tcp_listening(place.address, place.port);
        ready();
        CHECK(polled(listener, POLLIN) == POLLIN);
        snprintf(word, sizeof word, "%d", listener);
        snprintf(port, sizeof port, "%d", place.port);
        CHECK(setenv("LISTENER", word, 1) == 0);
        CHECK(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
        execl(program, program, "server", place.address, port, place.client, NULL);
        CHECK(!"exec");
    }
    CHECK(polled(listener, POLLIN) == POLLIN);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    await(fd);
    await_end(fd);
}

void client(struct place place)
{
    tell(tcp_connected(place.address, place.port));
}
