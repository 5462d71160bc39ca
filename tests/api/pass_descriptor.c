/* A descriptor that another process receives in a message (SCM_RIGHTS) is the same socket there: a connection with what was
 * not read yet, a listener, and a UDP socket. The sender may close its own. */
#include "api.h"

static void echo(int fd)
{
    char word[8];
    struct sockaddr_in name;
    socklen_t length = sizeof name;
    CHECK(getpeername(fd, (struct sockaddr *)&name, &length) == 0);
    recv_all(fd, word, sizeof word);
    send_all(fd, word, sizeof word);
    await_end(fd);
    CHECK(close(fd) == 0);
}

static void receiver(int channel)
{
    echo(passed_fd(channel));
    int listener = passed_fd(channel);
    echo(accept(listener, NULL, NULL));
    int udp = passed_fd(channel);
    char word[8];
    struct sockaddr_in from;
    socklen_t length = sizeof from;
    CHECK(recvfrom(udp, word, sizeof word, 0, (struct sockaddr *)&from, &length) == sizeof word);
    CHECK(sendto(udp, word, sizeof word, 0, (struct sockaddr *)&from, length) == sizeof word);
    _exit(0);
}

void server(struct place place)
{
    int channel[2], status;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, channel) == 0);
    pid_t child = fork();
    if (child == 0)
        receiver(channel[1]);
    int listener = tcp_listening(place.address, place.port), udp = udp_bound(place.address, place.port + 1);
    int told = tcp_listening(place.address, place.port + 2);
    ready();
    int fd = accept(listener, NULL, NULL), control = accept(told, NULL, NULL);
    CHECK(fd >= 0 && control >= 0);
    await(control); /* the word is here, and was not read */
    pass_fd(channel[0], fd);
    pass_fd(channel[0], listener);
    pass_fd(channel[0], udp);
    tell(control);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    tell(control);
}

static void ask(int fd, const char *word)
{
    char answer[8];
    send_all(fd, word, 8);
    recv_all(fd, answer, sizeof answer);
    CHECK(memcmp(answer, word, sizeof answer) == 0);
    CHECK(close(fd) == 0);
}

void client(struct place place)
{
    char answer[8];
    int fd = tcp_connected(place.address, place.port), control = tcp_connected(place.address, place.port + 2);
    send_all(fd, "before..", 8);
    tell(control);
    recv_all(fd, answer, sizeof answer);
    CHECK(memcmp(answer, "before..", sizeof answer) == 0);
    CHECK(close(fd) == 0);
    await(control);
    ask(tcp_connected(place.address, place.port), "listener");
    int udp = udp_connected(place.address, place.port + 1);
    ask(udp, "datagram");
    await(control);
}
