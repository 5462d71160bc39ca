/* recvmmsg(2): what is left of the timeout is written back, and what befalls the socket behind the first message is the
   next call's to tell. MSG_PROBE sends nothing. */
#include "api.h"
#include <pthread.h>

enum { COUNT = 3, PAUSE_US = 30000, PROBE = 0x10 /* MSG_PROBE of the kernel */ };

static int received(int fd, struct timespec *timeout, unsigned most)
{
    static char text[COUNT][16];
    struct iovec parts[COUNT];
    struct mmsghdr messages[COUNT];
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < COUNT; i++) {
        parts[i] = (struct iovec){.iov_base = text[i], .iov_len = sizeof text[i]};
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
    return recvmmsg(fd, messages, most, 0, timeout);
}

static long long nanoseconds(struct timespec time)
{
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

void server(struct place place)
{
    int fd = udp_bound(place.address, place.port), beside = udp_bound(place.address, place.port + 1);
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    char byte;
    ready();
    CHECK(recvfrom(fd, &byte, 1, 0, (struct sockaddr *)&from, &len) == 1);
    for (int i = 0; i < COUNT; i++) {
        usleep(PAUSE_US);
        CHECK(sendto(fd, "a", 1, 0, (struct sockaddr *)&from, len) == 1);
    }
    CHECK(recvfrom(fd, &byte, 1, 0, (struct sockaddr *)&from, &len) == 1);
    CHECK(byte == 'e'); /* and no probe before it */
    CHECK(sendto(fd, "b", 1, 0, (struct sockaddr *)&from, len) == 1);
    CHECK(close(fd) == 0);
    CHECK(recv(beside, &byte, 1, 0) == 1);
    CHECK(byte == 'g');
}

/* A datagram of this thread finds the port closed while the other one waits for its second message. */
static void *refused(void *fd)
{
    usleep(10 * PAUSE_US);
    CHECK(send(*(int *)fd, "f", 1, 0) == 1);
    return NULL;
}

void client(struct place place)
{
    struct timespec timeout = {.tv_sec = 20};
    int fd = udp_connected(place.address, place.port), beside = udp_connected(place.address, place.port + 1);
    pthread_t thread;
    char byte;
    CHECK(send(fd, "x", 1, 0) == 1);
    CHECK(received(fd, &timeout, COUNT) == COUNT);
    CHECK(nanoseconds(timeout) < 20 * 1000000000LL - 2 * PAUSE_US * 1000LL);
    CHECK(nanoseconds(timeout) > 0);

    CHECK(send(fd, "probe", 5, PROBE) == 5);
    CHECK(send(fd, "e", 1, 0) == 1);
    CHECK(pthread_create(&thread, NULL, refused, &fd) == 0);
    CHECK(received(fd, NULL, 2) == 1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_ERRNO(recv(fd, &byte, 1, 0), ECONNREFUSED);
    CHECK(send(beside, "g", 1, 0) == 1);
}
