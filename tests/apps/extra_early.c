/* Acceleration that is asked for (option 100 of SOL_SOCKET) before a socket is connected, or while it is: the connection is on
 * the wire. Answers to a peer that echoes streams (started first):
 *
 *     extra_early OWN-ADDRESS PEER-ADDRESS PEER-PORT
 */
#include "check.h"

#include "../../include/mellanox/vma_extra.h"

#include <poll.h>

int main(int argc, char **argv)
{
    struct vma_api_t *api = vma_get_api();
    struct sockaddr_in peer = {.sin_family = AF_INET};
    char buffer[16];

    CHECK(argc == 4 && api && inet_pton(AF_INET, argv[2], &peer.sin_addr) == 1);
    peer.sin_port = htons((unsigned short)atoi(argv[3]));
    alarm(60);
    for (int connecting = 0; connecting < 2; connecting++) {
        int one = 1, fd = socket(AF_INET, SOCK_STREAM | (connecting ? SOCK_NONBLOCK : 0), 0);
        struct pollfd polled = {fd, POLLOUT, 0};
        if (connecting)
            CHECK(connect(fd, (struct sockaddr *)&peer, sizeof(peer)) == 0 || errno == EINPROGRESS);
        CHECK(setsockopt(fd, SOL_SOCKET, 100, &one, sizeof(one)) == 0);
        if (!connecting)
            CHECK(connect(fd, (struct sockaddr *)&peer, sizeof(peer)) == 0);
        CHECK(poll(&polled, 1, 30000) == 1 && polled.revents == POLLOUT);
        CHECK(send(fd, "early", 5, 0) == 5);
        polled.events = POLLIN;
        CHECK(poll(&polled, 1, 30000) == 1 && recv(fd, buffer, sizeof(buffer), 0) == 5);
        CHECK(api->get_socket_rings_num(fd) == 1);
        close(fd);
    }
    puts("passed");
    return 0;
}
