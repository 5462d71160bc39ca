/* Echo over sockets that libc makes and liburing uses. uring server ADDRESS PORT | uring client ADDRESS PORT */
#include <arpa/inet.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct io_uring ring;

/* The result of the request that was prepared. */
static int done(void)
{
    struct io_uring_cqe *completion;
    if (io_uring_submit(&ring) < 0 || io_uring_wait_cqe(&ring, &completion) != 0)
        exit(2);
    int result = completion->res;
    io_uring_cqe_seen(&ring, completion);
    return result;
}

static int sent(int fd, const char *text, int length)
{
    io_uring_prep_send(io_uring_get_sqe(&ring), fd, text, (size_t)length, 0);
    return done() == length;
}

int main(int count, char **words)
{
    char text[64];
    struct sockaddr_in name = {.sin_family = AF_INET};
    if (count != 4 || inet_pton(AF_INET, words[2], &name.sin_addr) != 1)
        return 3;
    name.sin_port = htons((unsigned short)atoi(words[3]));
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (io_uring_queue_init(8, &ring, 0) != 0)
        return 4;
    if (strcmp(words[1], "client") == 0) {
        if (connect(fd, (struct sockaddr *)&name, sizeof name) != 0)
            return 5;
        for (int i = 0; i < 5; i++) {
            if (!sent(fd, "hello", 5))
                return 6;
            io_uring_prep_recv(io_uring_get_sqe(&ring), fd, text, sizeof text, 0);
            if (done() != 5 || memcmp(text, "hello", 5) != 0)
                return 7;
        }
        return 0;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&name, sizeof name) != 0 || listen(fd, 9) != 0)
        return 8;
    io_uring_prep_accept(io_uring_get_sqe(&ring), fd, NULL, NULL, 0);
    if ((fd = done()) < 0)
        return 9;
    for (;;) {
        ssize_t got = read(fd, text, sizeof text);
        if (got <= 0)
            return (int)-got;
        if (!sent(fd, text, (int)got))
            return 10;
    }
}
