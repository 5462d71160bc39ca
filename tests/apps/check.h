/* For the small programs of this folder: each checks itself, says what failed, and ends with 0 when nothing did. */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            dprintf(2, "%s:%d: failed: %s (errno %d)\n", __FILE__, __LINE__, #what, errno);                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* A connected pair of TCP sockets over loopback. */
static inline void tcp_pair(int pair[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listener >= 0);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &len) == 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(pair[0], (struct sockaddr *)&address, sizeof address) == 0);
    pair[1] = accept(listener, NULL, NULL);
    CHECK(pair[1] >= 0);
    CHECK(close(listener) == 0);
}

/* Whether one byte passes from one socket to the other. */
static inline int passes(int from, int to)
{
    char byte = 0;
    return send(from, "x", 1, 0) == 1 && recv(to, &byte, 1, 0) == 1 && byte == 'x';
}

#endif
