/* A program that may make no large files (ulimit -f) has connections all the same: whoever exceeds that limit is ended by a
   signal, and files in memory count. */
#include "api.h"
#include <sys/resource.h>

static void limited(void)
{
    struct rlimit limit = {.rlim_cur = 64 * 1024, .rlim_max = 64 * 1024};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

void server(struct place place)
{
    limited();
    int fd = tcp_serve_one(place);
    await(fd);
    tell(fd);
    await_end(fd);
}

void client(struct place place)
{
    limited();
    int fd = tcp_connected(place.address, place.port);
    tell(fd);
    await(fd);
    CHECK(close(fd) == 0);
}
