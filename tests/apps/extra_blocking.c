/* Receive callbacks that take their time: another thread uses other sockets meanwhile, asks for the same one, takes the
 * callback away, has an option set that only the kernel can do, or closes the socket; the callback itself does. Answers to a
 * peer that echoes datagrams and streams (started first):
 *
 *     extra_blocking OWN-ADDRESS PEER-ADDRESS PEER-PORT
 */
#include "check.h"

#include "../../include/mellanox/vma_extra.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>

static struct vma_api_t *api;
static struct sockaddr_in own, peer;
static sem_t looks, go_on;
static int blocks, verdict, closes = -1;
static volatile int over;

static vma_recv_callback_retval_t look(int fd, size_t pieces, struct iovec iov[], struct vma_info_t *info, void *context)
{
    (void)pieces, (void)iov, (void)info, (void)context;
    char byte;
    /* Nothing passed yet, and a callback that reads its own socket does not wait for itself. */
    CHECK(recv(fd, &byte, 1, MSG_DONTWAIT) == -1);
    if (closes >= 0)
        close(closes);
    if (blocks) {
        sem_post(&looks);
        sem_wait(&go_on);
    }
    return (vma_recv_callback_retval_t)verdict;
}

static int connected(int type)
{
    struct timeval patience = {0, 200000};
    int fd = socket(AF_INET, type, 0);
    CHECK(connect(fd, (struct sockaddr *)&peer, sizeof(peer)) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
    return fd;
}

static void echo(int fd, const char *text)
{
    char got[64];
    ssize_t len;
    CHECK(send(fd, text, strlen(text), 0) == (ssize_t)strlen(text));
    while ((len = recv(fd, got, strlen(text), 0)) == -1 && errno == EAGAIN)
        ;
    CHECK(len == (ssize_t)strlen(text) && !memcmp(got, text, strlen(text)));
}

static char got[16];
static ssize_t got_len;

/* Waits for what passes. A call on a descriptor that was closed meanwhile ends by its time limit, as in the kernel. */
static void *reads(void *fd)
{
    do
        got_len = recv(*(int *)fd, got, sizeof(got), 0);
    while (got_len == -1 && errno == EAGAIN && !over);
    return NULL;
}

/* A thread is in a callback of this socket, which was sent "first". */
static pthread_t caught(int *fd)
{
    pthread_t thread;
    blocks = 1;
    CHECK(api->register_recv_callback(*fd, look, NULL) == 0);
    CHECK(send(*fd, "first", 5, 0) == 5);
    CHECK(pthread_create(&thread, NULL, reads, fd) == 0);
    CHECK(sem_wait(&looks) == 0);
    return thread;
}

static void others_go_on(int type)
{
    int fd = connected(type), other = connected(SOCK_STREAM), datagrams = connected(SOCK_DGRAM);
    pthread_t second, first = caught(&fd);
    struct pollfd polled = {fd, POLLIN, 0};

    for (int i = 0; i < 100; i++) {
        echo(other, "other");
        echo(datagrams, "others");
    }
    CHECK(poll(&polled, 1, 50) == 0);
    blocks = 0;
    sem_post(&go_on);
    CHECK(pthread_join(first, NULL) == 0 && got_len == 5 && !memcmp(got, "first", 5));
    CHECK(pthread_create(&second, NULL, reads, &fd) == 0);
    CHECK(send(fd, "second", 6, 0) == 6);
    CHECK(pthread_join(second, NULL) == 0 && got_len == 6 && !memcmp(got, "second", 6));
    close(fd);
    close(other);
    close(datagrams);
}

/* Without the callback what it looks at is read first all the same. */
static void taken_away(void)
{
    int fd = connected(SOCK_STREAM);
    pthread_t thread = caught(&fd);
    char more[16];

    CHECK(send(fd, "second", 6, 0) == 6);
    struct pollfd polled = {fd, POLLIN, 0};
    CHECK(api->register_recv_callback(fd, NULL, NULL) == 0);
    CHECK(poll(&polled, 1, 300) == 0);
    CHECK(recv(fd, more, sizeof(more), MSG_DONTWAIT) == -1 && errno == EAGAIN);
    sem_post(&go_on);
    CHECK(pthread_join(thread, NULL) == 0 && got_len >= 5 && !memcmp(got, "first", 5));
    for (size_t read = (size_t)got_len - 5; read < 6;) {
        ssize_t len = recv(fd, more + read, 6 - read, 0);
        CHECK(len > 0 || errno == EAGAIN);
        CHECK(len <= 0 || !memcmp(more + read, &"second"[read], (size_t)len));
        read += len > 0 ? (size_t)len : 0;
    }
    echo(fd, "third");
    close(fd);
}

/* What would move the connection is refused while its next piece is out of it, and the piece is not lost. */
static void moved(void)
{
    int fd = connected(SOCK_STREAM), mark = 7;
    pthread_t thread = caught(&fd);

    CHECK(setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) == -1 && errno == EOPNOTSUPP);
    sem_post(&go_on);
    CHECK(pthread_join(thread, NULL) == 0 && got_len == 5 && !memcmp(got, "first", 5));
    CHECK(setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) == 0);
    echo(fd, "in the kernel");
    close(fd);
}

static void closed(int type, int by_callback)
{
    int fd = connected(type);
    if (by_callback) {
        char byte;
        struct pollfd polled = {fd, POLLIN, 0};
        blocks = 0;
        closes = fd;
        CHECK(api->register_recv_callback(fd, look, NULL) == 0);
        CHECK(send(fd, "first", 5, 0) == 5);
        poll(&polled, 1, 50);
        CHECK(recv(fd, &byte, 1, MSG_DONTWAIT) == -1 && errno == EBADF);
        closes = -1;
        return;
    }
    over = 0;
    pthread_t thread = caught(&fd);
    over = 1;
    close(fd);
    int next = connected(type);
    sem_post(&go_on);
    /* A call that is under way when its descriptor is closed may end with data, an error, or an end. */
    CHECK(shutdown(next, SHUT_RDWR) == 0 || errno == ENOTCONN);
    CHECK(pthread_join(thread, NULL) == 0);
    over = 0;
    close(next);
}

int main(int argc, char **argv)
{
    CHECK(argc == 4 && (api = vma_get_api()));
    own.sin_family = peer.sin_family = AF_INET;
    CHECK(inet_pton(AF_INET, argv[1], &own.sin_addr) == 1 && inet_pton(AF_INET, argv[2], &peer.sin_addr) == 1);
    peer.sin_port = htons((unsigned short)atoi(argv[3]));
    alarm(300);
    CHECK(sem_init(&looks, 0, 0) == 0 && sem_init(&go_on, 0, 0) == 0);

    verdict = VMA_PACKET_RECV;
    others_go_on(SOCK_DGRAM);
    others_go_on(SOCK_STREAM);
    taken_away();
    moved();
    for (int i = 0; i < 6; i++)
        for (int by_callback = 0; by_callback < 2; by_callback++) {
            verdict = i % 3 == 0 ? VMA_PACKET_DROP : i % 3 == 1 ? VMA_PACKET_RECV : VMA_PACKET_HOLD;
            closed(SOCK_DGRAM, by_callback);
            closed(SOCK_STREAM, by_callback);
        }
    puts("passed");
    return 0;
}
