/* Sockets of several threads on one port (SO_REUSEPORT: DNS servers, QUIC, TURN): all that one client sends is heard by
 * one of them, however long they are in use. */
#include "api.h"

enum { CLIENTS = 12, ROUNDS = 120, SOCKETS = 2 };

void server(struct place place)
{
    struct pollfd fds[SOCKETS];
    for (int i = 0; i < SOCKETS; i++)
        fds[i] = (struct pollfd){.fd = udp_sharing(place.address, place.port, SO_REUSEPORT), .events = POLLIN};
    ready();
    for (int left = CLIENTS * ROUNDS; left > 0;) {
        CHECK(poll(fds, SOCKETS, PATIENCE_MS) > 0);
        for (int i = 0; i < SOCKETS; i++) {
            struct sockaddr_in from;
            socklen_t length = sizeof from;
            char byte, who = (char)('0' + i);
            if (recvfrom(fds[i].fd, &byte, 1, MSG_DONTWAIT, (struct sockaddr *)&from, &length) != 1)
                continue;
            CHECK(sendto(fds[i].fd, &who, 1, 0, (struct sockaddr *)&from, length) == 1);
            left--;
        }
    }
}

void client(struct place place)
{
    int fds[CLIENTS];
    char by[CLIENTS], answer;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            if (round == 0)
                fds[i] = udp_connected(place.address, place.port);
            CHECK(send(fds[i], "x", 1, 0) == 1);
            CHECK(polled(fds[i], POLLIN) & POLLIN);
            CHECK(recv(fds[i], &answer, 1, 0) == 1);
            if (round == 0)
                by[i] = answer;
            CHECK(answer == by[i]);
        }
        usleep(1000); /* an interface may be opened beside the server */
    }
}
