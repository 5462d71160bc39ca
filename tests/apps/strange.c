/* Works whatever the environment says: a datagram to the peer, and a connection to a port of it where nobody listens.
 *
 *     strange PEER-ADDRESS PORT
 */
#include "check.h"

int main(int argc, char **argv)
{
    struct sockaddr_in peer = {.sin_family = AF_INET};

    CHECK(argc == 3 && inet_pton(AF_INET, argv[1], &peer.sin_addr) == 1);
    peer.sin_port = htons((unsigned short)atoi(argv[2]));
    alarm(60);
    int datagrams = socket(AF_INET, SOCK_DGRAM, 0), stream = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(sendto(datagrams, "x", 1, 0, (struct sockaddr *)&peer, sizeof(peer)) == 1);
    CHECK(connect(stream, (struct sockaddr *)&peer, sizeof(peer)) == -1 && errno == ECONNREFUSED);
    puts("worked");
    return 0;
}
