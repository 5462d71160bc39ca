/* Another program on the receiver's host is in the group too, one that is never accelerated: both hear everything. */
#include "api.h"

#define GROUP "239.77.0.3"
#define COUNT 50

static int joined(struct place place)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
    struct sockaddr_in name = at("0.0.0.0", place.port);
    struct ip_mreqn join = {.imr_multiaddr = at(GROUP, 0).sin_addr, .imr_address = at(place.address, 0).sin_addr};
    CHECK(fd >= 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(fd, NAME(name)) == 0);
    CHECK(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join) == 0);
    return fd;
}

/* Reads what comes until it has heard one that says so. */
static void hears(int fd, char what)
{
    char byte = 0;
    while (byte != what)
        CHECK(recv(fd, &byte, 1, 0) == 1);
}

static void hears_all(int fd)
{
    char byte;
    hears(fd, 'm');
    for (int i = 1; i < COUNT; i++)
        CHECK(recv(fd, &byte, 1, 0) == 1 && byte == 'm');
}

static void other_member(struct place place)
{
    int fd = joined(place);
    char word = 'r';
    CHECK(write(3, &word, 1) == 1);
    hears(fd, 'p');
    CHECK(write(3, &word, 1) == 1);
    hears_all(fd);
    exit(0);
}

void server(struct place place)
{
    if (getenv("API_MEMBER"))
        other_member(place);
    int pipes[2], status;
    char port[16], word;
    int fd = joined(place); /* alone in the group at first */
    CHECK(pipe(pipes) == 0);
    snprintf(port, sizeof port, "%d", place.port);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        unsetenv("LD_PRELOAD");
        setenv("API_MEMBER", "1", 1);
        dup2(pipes[1], 3);
        execl("/proc/self/exe", "member", "server", place.address, port, place.client, NULL);
        _exit(9);
    }
    CHECK(read(pipes[0], &word, 1) == 1);
    int listener = tcp_listening(place.address, place.port + 1);
    ready();
    int control = accept(listener, NULL, NULL);
    CHECK(control >= 0);
    /* Who joins beside a member is noticed after a while: from the first that both hear, both hear all. */
    CHECK(read(pipes[0], &word, 1) == 1);
    hears(fd, 'p');
    tell(control);
    hears_all(fd);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    tell(control);
}

void client(struct place place)
{
    int fd = udp_bound(place.client, 0), control = tcp_connected(place.address, place.port + 1);
    struct ip_mreqn out = {.imr_address = at(place.client, 0).sin_addr};
    struct sockaddr_in group = at(GROUP, place.port);
    struct pollfd heard = {.fd = control, .events = POLLIN};
    CHECK(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &out, sizeof out) == 0);
    do
        CHECK(sendto(fd, "p", 1, 0, NAME(group)) == 1);
    while (poll(&heard, 1, 50) == 0);
    await(control);
    for (int i = 0; i < COUNT; i++)
        CHECK(sendto(fd, "m", 1, 0, NAME(group)) == 1);
    await(control);
}
