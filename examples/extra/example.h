/* What the examples share: a bound socket, and the library's table or a word about its absence. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#define _GNU_SOURCE
#include <mellanox/vma_extra.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void stop(const char *what)
{
    perror(what);
    exit(1);
}

static inline struct vma_api_t *api_or_stop(uint64_t needed)
{
    struct vma_api_t *api = vma_get_api();

    if (!api) {
        fprintf(stderr, "start me under the library: LD_PRELOAD=libvma.so ...\n");
        exit(3);
    }
    if ((api->vma_extra_supported_mask & needed) != needed) {
        fprintf(stderr, "this library does not have all that I need\n");
        exit(3);
    }
    return api;
}

static inline int bound_socket(int type, const char *address, const char *port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};
    int fd = socket(AF_INET, type, 0), on = 1;

    if (fd < 0 || inet_pton(AF_INET, address, &name.sin_addr) != 1)
        stop("socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&name, sizeof(name)))
        stop("bind");
    return fd;
}

#endif
