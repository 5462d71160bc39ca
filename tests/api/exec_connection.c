/* exec(2) with connections: the new program goes on with them, accepted and connected ones, with what was not read yet,
 * what was not sent yet, and the ends of either side. */
#include "api.h"

#define ROUNDS 100
#define UNREAD 30000
#define UNSENT 150000

static char bytes[UNSENT];

static char at_place(size_t i)
{
    return (char)(i * 7 + i / 251);
}

static void check_bytes(int fd, size_t count)
{
    recv_all(fd, bytes, count);
    for (size_t i = 0; i < count; i++)
        CHECK(bytes[i] == at_place(i));
}

static void send_bytes(int fd, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = at_place(i);
    send_all(fd, bytes, count);
}

static void remember(const char *name, int fd)
{
    char word[16];
    snprintf(word, sizeof word, "%d", fd);
    CHECK(setenv(name, word, 1) == 0);
}

static int number(const char *name)
{
    CHECK(getenv(name) != NULL);
    return atoi(getenv(name));
}

/* The new program. */
static void afterwards(struct place place)
{
    int fd = number("TALKING"), copy = number("COPY"), ended = number("ENDED"), quiet = number("QUIET");
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    CHECK(getpeername(fd, (struct sockaddr *)&name, &length) == 0);
    CHECK(name.sin_addr.s_addr == at(place.client, 0).sin_addr.s_addr);
    CHECK(getsockname(fd, (struct sockaddr *)&name, &length) == 0);
    CHECK(ntohs(name.sin_port) == place.port);
    CHECK(option(fd, IPPROTO_TCP, TCP_NODELAY) == 1);
    CHECK((fcntl(quiet, F_GETFL) & O_NONBLOCK) != 0);
    tell(fd); /* behind UNSENT bytes */
    check_bytes(fd, UNREAD);
    await(copy);
    tell(copy);
    /* The client ended its side before; ours is open. */
    CHECK(polled(ended, POLLIN | POLLRDHUP) == (POLLIN | POLLRDHUP));
    check_bytes(ended, 5);
    await_end(ended);
    tell(ended);
    CHECK(close(ended) == 0);
    /* And this side was ended by us. */
    CHECK_ERRNO(recv(quiet, bytes, 1, 0), EAGAIN);
    CHECK_ERRNO(send(quiet, "x", 1, MSG_NOSIGNAL), EPIPE);
    tell(fd);
    CHECK(polled(quiet, POLLIN) & POLLIN);
    await(quiet);
    CHECK(polled(quiet, POLLIN) & POLLIN);
    await_end(quiet);
    await_end(copy);
}

void server(struct place place)
{
    if (getenv("TALKING") != NULL)
        return afterwards(place);
    char program[256] = {0}, port[16];
    int one = 1;
    snprintf(port, sizeof port, "%d", place.port);
    CHECK(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    int listener = tcp_listening(place.address, place.port);
    CHECK(fcntl(listener, F_SETFD, FD_CLOEXEC) == 0);
    ready();
    int fd = accept(listener, NULL, NULL), ended = accept(listener, NULL, NULL), quiet = accept(listener, NULL, NULL);
    CHECK(fd >= 0 && ended >= 0 && quiet >= 0);
    answers(fd, ROUNDS);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    remember("TALKING", fd);
    remember("COPY", dup(fd));
    remember("ENDED", ended);
    remember("QUIET", quiet);
    CHECK(shutdown(quiet, SHUT_WR) == 0);
    set_nonblocking(quiet);
    /* Until all is here that the client sends, and nothing is under way. */
    CHECK(polled(ended, POLLRDHUP) == POLLRDHUP);
    for (int held = 0; held < UNREAD; usleep(10000))
        CHECK(ioctl(fd, FIONREAD, &held) == 0);
    send_bytes(fd, UNSENT);
    char *words[] = {program, "server", (char *)place.address, port, (char *)place.client, NULL};
    execve(program, words, environ);
    CHECK(!"exec");
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port), small = 40000;
    int ended = tcp_connected(place.address, place.port), quiet = tcp_connected(place.address, place.port);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small) == 0);
    pings(fd, ROUNDS);
    await_end(quiet);
    send_bytes(ended, 5);
    CHECK(shutdown(ended, SHUT_WR) == 0);
    send_bytes(fd, UNREAD);
    usleep(300000); /* the server has sent what the window takes, and is another program */
    check_bytes(fd, UNSENT);
    await(fd);
    tell(fd);
    await(fd);
    await(ended);
    await_end(ended);
    await(fd);
    tell(quiet);
    close(quiet);
    close(fd);
}
