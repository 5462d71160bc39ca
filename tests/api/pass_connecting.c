/* A descriptor that another process receives while it connects, as danted's processes do: there it becomes connected, and
 * one that nobody answers is refused there. */
#include "api.h"

enum { ROUNDS = 5 };

static void begin(struct place place, int port, int channel)
{
    struct sockaddr_in name = at(place.address, port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    CHECK(connect(fd, NAME(name)) == 0 || errno == EINPROGRESS);
    pass_fd(channel, fd);
}

static void receiver(int channel)
{
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    for (int i = 0; i < ROUNDS; i++) {
        int fd = passed_fd(channel);
        CHECK(polled(fd, POLLOUT) == POLLOUT);
        CHECK(option(fd, SOL_SOCKET, SO_ERROR) == 0);
        CHECK(getpeername(fd, (struct sockaddr *)&name, &length) == 0);
        CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0);
        pings(fd, ROUNDS);
        CHECK(close(fd) == 0);
        tell(channel);
    }
    int refused = passed_fd(channel);
    CHECK(polled(refused, POLLOUT) & POLLERR);
    CHECK(option(refused, SOL_SOCKET, SO_ERROR) == ECONNREFUSED);
    _exit(0);
}

void client(struct place place)
{
    int channel[2], status;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, channel) == 0);
    pid_t child = fork();
    if (child == 0)
        receiver(channel[1]);
    for (int i = 0; i < ROUNDS; i++) {
        begin(place, place.port, channel[0]);
        await(channel[0]);
    }
    begin(place, place.port + 1, channel[0]);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port);
    ready();
    for (int i = 0; i < ROUNDS; i++) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        answers(fd, ROUNDS);
        await_end(fd);
        CHECK(close(fd) == 0);
    }
}
