/* pthread_cancel of a thread that is blocked in a hooked call unwinds it, cleanup handlers and all. */
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>

static int pair[2];
static int cleaned;

static void cleanup(void *unused)
{
    cleaned++;
}

static void block(int how)
{
    char bytes[8];
    struct pollfd poll_one = {.fd = pair[0], .events = POLLIN};
    struct epoll_event event;
    struct iovec piece = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    fd_set set;
    switch (how) {
    case 0: read(pair[0], bytes, sizeof bytes); break;
    case 1: recv(pair[0], bytes, sizeof bytes, 0); break;
    case 2: recvmsg(pair[0], &message, 0); break;
    case 3: poll(&poll_one, 1, -1); break;
    case 4: FD_ZERO(&set); FD_SET(pair[0], &set); select(pair[0] + 1, &set, NULL, NULL, NULL); break;
    case 5: epoll_wait(epoll_create1(0), &event, 1, -1); break;
    }
}

static void *thread(void *how)
{
    pthread_cleanup_push(cleanup, NULL);
    block((int)(long)how);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void)
{
    tcp_pair(pair);
    for (long how = 0; how <= 5; how++) {
        pthread_t id;
        void *result;
        CHECK(pthread_create(&id, NULL, thread, (void *)how) == 0);
        usleep(20000);
        CHECK(pthread_cancel(id) == 0 && pthread_join(id, &result) == 0);
        CHECK(result == PTHREAD_CANCELED && cleaned == how + 1);
    }
    CHECK(passes(pair[0], pair[1]));
    return 0;
}
