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

static void hears_all(int fd)
{
    char byte;
    for (int i = 0; i < COUNT; i++)
        CHECK(recv(fd, &byte, 1, 0) == 1);
}

static void other_member(struct place place)
{
    int fd = joined(place);
    char word = 'r';
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
    usleep(2500000); /* it is noticed within a second or two */
    ready();
    hears_all(fd);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

void client(struct place place)
{
    int fd = udp_bound(place.client, 0);
    struct ip_mreqn out = {.imr_address = at(place.client, 0).sin_addr};
    struct sockaddr_in group = at(GROUP, place.port);
    CHECK(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &out, sizeof out) == 0);
    for (int i = 0; i < COUNT; i++)
        CHECK(sendto(fd, "m", 1, 0, NAME(group)) == 1);
    usleep(100000);
}
